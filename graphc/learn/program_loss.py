"""What a program is trained by: its loss as a result, and the labels as one more input.

    func @main(%x, %W) -> (logits)   =>   func @main(%labels, %x, %W) -> (loss: tensor<1x1xf32>)

As a criterion of a network a loss is a sum over the samples, so that rates per sample mean the
same whatever the minibatch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from graphc.driver.program import with_results
from graphc.ir.core import Level
from graphc.ir.traversal import walk
from graphc.ir.types import Dim, DType, Symbol, TensorType
from graphc.learn.losses import LOSSES, OF_CLASSES, Loss, loss_of, measure_of
from graphc.model.program import Program
from graphc.ops.training_forms import RUNNING_STATISTIC
from graphc.support.arguments import kind_of, table, texts
from graphc.support.diagnostics import GraphcError, fail, suggestion
from graphc.support.graphs import reachable
from graphc.tensor import functions
from graphc.tensor.function import run_traced
from graphc.tensor.program import read_type
from graphc.tensor.program_builder import ProgramBuilder
from graphc.tensor.tensor import Tensor, reshape

LABELS = "labels"
LOSS = "loss"

Measures = str | Sequence[str] | Mapping[str, str | Loss]
"""What is measured besides the loss: names of `MEASURES`, or functions by names of one's own."""


@dataclass(frozen=True)
class Objective:
    """What is minimised of a program.

    loss    a name of `LOSSES`, or a function of arrays; None: the output is the loss itself
    output  the result that it is of; None: the only one
    labels  the type of the labels, a text or an array like them; None: that of the output
    train   patterns of the names of parameters that are trained; none: all of floating point
    measures  what is computed besides the loss, by name
    as_inference  dropout does nothing, and normalisation keeps its running statistics
    """

    loss: str | Loss | None = None
    output: str | None = None
    labels: object = None
    train: Sequence[str] = ()
    measures: Mapping[str, str | Loss] = field(default_factory=dict[str, str | Loss])
    as_inference: bool = False

    @property
    def results(self) -> list[str]:
        """What a program with this objective gives. Who only measures needs no loss."""
        is_needed = self.loss is not None or not self.measures
        return [*([LOSS] if is_needed else []), *self.measures]


def read_measures(given: Measures) -> dict[str, str | Loss]:
    """Names by themselves, functions by their names. GraphcError for anything else."""
    if isinstance(given, Mapping):
        found = dict(table(given, "measure", "losses"))
    else:
        found = {name: name for name in texts(given, "measure")}
    if LOSS in found:
        raise fail("duplicate-name", f"a measure requires a name besides `{LOSS}`, the loss has it")
    for measure in found.values():
        measure_of(measure)
    return found  # type: ignore[return-value]  # each is a name or a function


def with_loss(program: Program, objective: Objective) -> Program:
    """The program whose results are the loss and the measures, 1x1 each; its parameters are the
    same arrays.

    Raises GraphcError for an objective that does not fit the program.
    """
    held = with_results(program, [_output_name(program, objective.output)])
    _require_tensors(held)
    (output,) = held.function.returned
    if not output.tensor.dtype.is_float:
        message = f"a loss requires floating-point numbers, `{_only(held)}` is {output.tensor}"
        raise fail("bad-value", message)
    function, builder = held.function, ProgramBuilder(held.precision, held.function.location)
    labels: Tensor | None = None
    if objective.loss is not None or objective.measures:
        type = _labels_type(held, objective)
        if function.argument(LABELS) is not None:
            raise fail("duplicate-name", f"the program has an argument `{LABELS}` already")
        labels = builder.input(LABELS, type.dims, type.dtype.value)
    try:
        with builder.open():
            given = _declared(held, builder)
            if not given:
                raise no_parameters()
            trace = given[0].trace
            (value,) = trace.inline(function, given)
            results = _totals(Tensor(trace, value), labels, objective)
        traced = builder.finish(results)
    finally:
        builder.close()
    return replace(traced, classes=_classes(objective, labels, held.function.returned[0].tensor))


def _classes(objective: Objective, labels: Tensor | None, output: TensorType) -> dict[str, int]:
    """How many classes the labels are numbers of, where a loss or a measure takes them for that."""
    taken = {objective.loss, *objective.measures.values()}
    is_taken = any(isinstance(name, str) and name in OF_CLASSES for name in taken)
    if labels is None or not is_taken or not output.dims or not isinstance(output.dims[-1], int):
        return {}
    dtype = labels.value.tensor.dtype
    is_whole = not dtype.is_float and dtype is not DType.I1
    return {LABELS: output.dims[-1]} if is_whole else {}


def no_parameters() -> GraphcError:
    """The error for a loss that nothing can be done about."""
    return fail("missing-node", "the loss depends on no trainable parameter")


def _totals(output: Tensor, labels: Tensor | None, objective: Objective) -> dict[str, Any]:
    """The sums of what loss and measures give, as criteria of networks are: 1x1 each."""
    chosen = {LOSS: loss_of(objective.loss)} if objective.loss is not None else {}
    chosen |= {name: measure_of(given) for name, given in objective.measures.items()}
    if labels is None:
        _require_number(output)
        return {LOSS: _summed(output, LOSS)}
    found: dict[str, Any] = {}
    for name, function in chosen.items():
        found[name] = _summed(run_traced(partial(function, output, labels)), name)
    return found


def _summed(made: object, name: str) -> Any:
    if not isinstance(made, Tensor) or not made.value.tensor.dtype.is_float:
        came = made.value.tensor if isinstance(made, Tensor) else kind_of(made)
        message = f"`{name}` requires an array of floating point, got {came}"
        raise fail("argument-type", message)
    return reshape(functions.sum(made), (1, 1))


def _require_number(output: Tensor) -> None:
    if output.value.tensor.dims not in ((), (1,), (1, 1)):
        message = (
            f"a loss, loss= or --loss, is required: one of {', '.join(LOSSES)}, or a function of "
            f"output and labels; without one the output is the loss, a number, got "
            f"{output.value.tensor}"
        )
        raise fail("shape-mismatch", message)


def _declared(program: Program, builder: ProgramBuilder) -> list[Tensor]:
    """The arguments of the program, in its order, declared anew."""
    function = program.function
    inputs = {
        a: builder.input(a.name or "", a.tensor.dims, a.tensor.dtype.value)
        for a, role in zip(function.arguments, function.roles, strict=True)
        if role != "parameter"
    }
    for argument in function.arguments:
        name = argument.name or ""
        if argument not in inputs and name not in program.values:
            raise fail(
                "missing-node",
                f"the parameter `{name}` requires a value, got none: --parameters gives them to IR",
            )
    return [
        inputs[a] if a in inputs else builder.parameter(a.name or "", program.values[a.name or ""])
        for a in function.arguments
    ]


def _output_name(program: Program, output: str | None) -> str:
    names = [r.name for r in program.function.results]
    if output is not None:
        return output
    if len(names) != 1:
        known = ", ".join(names)
        message = f"an output, output= or --of, is required, one of the program's results: {known}"
        raise fail("missing-node", message)
    return names[0]


def _only(program: Program) -> str:
    return program.function.results[0].name


def _require_tensors(program: Program) -> None:
    if any(op.opdef.level is Level.KERNEL for op in walk(program.function)):
        message = "training requires tensor operations, this program is at the level of kernels"
        raise fail("not-supported", message)


def _labels_type(program: Program, objective: Objective) -> TensorType:
    """The type of the labels. GraphcError for one whose samples are not those of the output."""
    (output,) = program.function.returned
    if objective.labels is None:
        return output.tensor
    bounds = {d.name: d.bound for d in program.module.dims if not d.factors}
    type = read_type(LABELS, objective.labels, bounds)
    if type.dims[:1] != output.tensor.dims[:1]:
        message = f"labels require the samples of the output, {output.tensor}, got {type}"
        raise fail("shape-mismatch", message)
    return type


def sample_dim(program: Program) -> Dim:
    """What counts the samples of a program with a loss: the first axis of its labels, or of its
    first input; 1 without one."""
    inputs = zip(program.function.arguments, program.function.roles, strict=True)
    first = next((a.tensor.dims for a, role in inputs if role == "input"), ())
    size = first[0] if first else 1
    return size.factors[0] if isinstance(size, Symbol) and size.factors else size


# --- parameters ----------------------------------------------------------------------------------


def trained_parameters(program: Program, patterns: Sequence[str]) -> list[str]:
    """Those of floating point that the loss depends on, and that some pattern fits, if there are
    any; running statistics are not trained. GraphcError for a pattern that fits none of them."""
    function = program.function
    statistics = {op.operands[0] for op in walk(function) if op.opdef is RUNNING_STATISTIC}
    used = reachable(list(function.returned), lambda v: v.op.operands if v.op is not None else ())
    roles = zip(function.arguments, function.roles, strict=True)
    given = [a for a, role in roles if role == "parameter" and a not in statistics]
    found = {a.name or "": a.tensor.dtype for a in given if a in used}
    floats = [name for name, dtype in found.items() if _is_trained(dtype)]
    for pattern in patterns:
        fitting = [name for name in found if fnmatchcase(name, pattern)]
        if not fitting:
            known = ", ".join(floats) or "none"
            message = f"train: `{pattern}` fits no parameter that the loss depends on"
            raise fail("missing-node", f"{message}: {known}{suggestion(pattern, floats)}")
        wrong = next((name for name in fitting if not _is_trained(found[name])), None)
        if wrong is not None:
            message = f"train: parameters of f32 or f64 are required, `{wrong}` is of"
            raise fail("bad-value", f"{message} {found[wrong].value}")
    chosen = [n for n in floats if not patterns or any(fnmatchcase(n, p) for p in patterns)]
    if not chosen:
        raise no_parameters()
    return chosen


def _is_trained(dtype: DType) -> bool:
    """Learners compute with parameters where they lie."""
    return dtype in (DType.F32, DType.F64)
