"""Adaptation that stays near a reference network: labels are mixed with what that one says.

With weight w the target of a sample is (1 - w) · label + w · (output of the reference). For a cross
entropy this adds w times the Kullback-Leibler divergence from the reference to the criterion, up to
what no parameter changes: D. Yu, K. Yao, H. Su, G. Li and F. Seide, "KL-divergence regularized deep
neural network adaptation for improved large vocabulary speech recognition", ICASSP 2013.

The reference does not learn, so its outputs are computed once for data in memory, and once for each
block of a reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.builder import GraphBuilder
from graphc.data.reader import Block, Column, EpochRequest, Reader
from graphc.driver.compile import bind, evaluation_passes, looks_along_time, node_names
from graphc.driver.options import CompileOptions
from graphc.learn.source import Data, is_reader
from graphc.model.model import Model
from graphc.ops.nodes.leaves import InputParams
from graphc.passes.expand_nodes import inputs_of
from graphc.runtime.executable import Executable, needed_inputs
from graphc.support.arguments import kind_error
from graphc.support.diagnostics import fail
from graphc.support.graphs import reachable

Array = np.ndarray
SAMPLES = 1024
"""In a call of the reference network."""


@dataclass(frozen=True)
class Adaptation:
    """Mixes the labels with the outputs of a reference network.

    node       the output to mix in, of as many rows as the labels: class probabilities where the
               labels are classes
    weight     share of it in the target, from 0 to 1
    label      the input that is the target; by default the one tagged `label`
    reference  another network, with the node and the inputs it needs; by default the network itself
               as it is when the training begins
    """

    node: str
    weight: float
    label: str | None = None
    reference: object = None

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1:
            raise fail("bad-value", f"weight requires a share from 0 to 1, got {self.weight}")
        if self.reference is not None and not isinstance(self.reference, GraphBuilder | Model):
            raise kind_error("reference", "a network", self.reference)

    def __str__(self) -> str:
        other = "another network" if self.reference is not None else "the network at the start"
        return f"{self.weight} of {self.node} of {other} in {self.label or 'the labels'}"


@dataclass(frozen=True, eq=False)
class _Mixer:
    """Gives blocks of samples their mixed labels. `units`: samples or sequences in a call."""

    reference: Executable
    node: str
    label: str
    weight: float
    units: int

    def mixed(self, block: Block) -> dict[str, object]:
        name = next((n for n in block if n.lower() == self.label.lower()), None)
        if name is None:
            raise fail("input", f"adaptation requires the input `{self.label}`, the data have none")
        given = needed_inputs(self.reference.signature, block)
        labels: Any = block[name]
        outputs = self._outputs(given, len(labels))
        if isinstance(labels, list | tuple):
            return {**block, name: [self._mix(a, b) for a, b in zip(labels, outputs, strict=True)]}
        return {**block, name: self._mix(labels, np.concatenate(outputs) if outputs else labels)}

    def _outputs(self, given: Mapping[str, Any], count: int) -> list[Array]:
        """For each sequence an array; of samples one for each call."""
        found: list[Array] = []
        for start in range(0, count, self.units):
            part = {n: value[start : start + self.units] for n, value in given.items()}
            output = self.reference(**part)[self.node]
            found.extend(output if isinstance(output, list) else [output])
        return found

    def _mix(self, labels: object, outputs: Array) -> Array:
        array = np.asarray(labels, outputs.dtype)
        if array.shape != outputs.shape:
            message = f"`{self.node}` requires the shape of the labels, {array.shape}"
            raise fail("shape-mismatch", f"{message}, got {outputs.shape}")
        return (1 - self.weight) * array + self.weight * outputs


@dataclass(frozen=True, eq=False)
class AdaptedData:
    """A reader whose labels are mixed."""

    reader: Reader
    mixer: _Mixer

    @staticmethod
    def of(
        model: Model, data: Data, adaptation: Adaptation, criterion: str, options: CompileOptions
    ) -> Data:
        """The data with mixed labels. GraphcError for a node, a label or data that do not fit."""
        given = adaptation.reference
        network = given.model if isinstance(given, GraphBuilder) else given
        reference = (network if isinstance(network, Model) else model).frozen()
        (node,) = node_names(reference, [adaptation.node])
        label = adaptation.label or _label(model, criterion)
        along_time = looks_along_time(reference, [node]) or bool(options.time)
        executable = bind(reference, lambda m, o: evaluation_passes(m, [node], (), o), options)
        mixer = _Mixer(executable, node, label, adaptation.weight, 1 if along_time else SAMPLES)
        if is_reader(data):
            return AdaptedData(data, mixer)
        assert isinstance(data, Mapping)
        return mixer.mixed(data)

    @property
    def schema(self) -> Mapping[str, Column]:
        return self.reader.schema

    @property
    def samples(self) -> int | None:
        return self.reader.samples

    def blocks(self, request: EpochRequest) -> Iterator[Block]:
        return map(self.mixer.mixed, self.reader.blocks(request))


def _label(model: Model, criterion: str) -> str:
    """The only input tagged `label` that the criterion depends on."""
    root = model.find(criterion)
    assert root is not None
    used = reachable([root], inputs_of)
    inputs = {op.result.name or "" for op in used if isinstance(op.params, InputParams)}
    names = [name for name in model.tagged("label") if name in inputs]
    if len(names) != 1:
        found = ", ".join(names) or "none"
        message = f"adaptation without `label` requires one input tagged `label`, got {found}"
        raise fail("missing-node", message)
    return names[0]
