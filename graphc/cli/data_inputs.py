"""The inputs that a file of samples is for: those of a network, or of a program with a loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from graphc.learn.program_loss import LABELS
from graphc.model.model import Model
from graphc.model.program import Program
from graphc.ops.nodes.delays import DELAYS
from graphc.ops.nodes.layout import display_name
from graphc.ops.nodes.leaves import InputParams, input_type
from graphc.support.diagnostics import fail


@dataclass(frozen=True)
class DataInputs:
    """What the columns of a file are for.

    noun      what has the inputs, for messages
    widths    the numbers of a sample, by input
    features  the inputs that feature columns without a name may be for; `labels`: label columns
    """

    noun: str
    widths: Mapping[str, int]
    features: Sequence[str]
    labels: Sequence[str]

    def named(self, name: str) -> str | None:
        """The input of that name, which does not distinguish case."""
        return next((known for known in self.widths if known.lower() == name.lower()), None)


def network_inputs(model: Model) -> DataInputs:
    """GraphcError `not-supported` for a network that needs sequences, which files do not tell."""
    for op in model.graph.block:
        if op.opdef in DELAYS:
            raise fail(
                "not-supported",
                f"{display_name(op.opdef)} `{op.result.name}` looks along time, but lines of a "
                "data file are samples of no sequence: train and measure such a network from "
                "Python, with lists of sequences",
                op.location.span,
            )
    widths: dict[str, int] = {}
    for op in model.graph.block:
        if isinstance(op.params, InputParams) and op.result.name:
            widths[op.result.name] = input_type(op.params).rows or 0
    return DataInputs("network", widths, model.tagged("feature"), model.tagged("label"))


def program_inputs(program: Program) -> DataInputs:
    """Of a program with a loss. GraphcError `not-supported` for sizes of a sample that each call
    decides, which files do not tell."""
    widths: dict[str, int] = {}
    for argument, role in zip(program.function.arguments, program.function.roles, strict=True):
        if role != "input":
            continue
        sizes = [d for d in argument.tensor.dims[1:] if isinstance(d, int)]
        if len(sizes) < len(argument.tensor.dims) - 1:
            message = f"a sample of a file has a known number of columns, `{argument.name}` is "
            advice = "give its sizes, or train and measure from Python"
            raise fail("not-supported", f"{message}{argument.tensor}: {advice}")
        widths[argument.name or ""] = prod(sizes)
    features = [name for name in widths if name != LABELS]
    return DataInputs("program", widths, features, [LABELS] if LABELS in widths else [])
