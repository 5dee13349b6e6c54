"""What is something else while a function is trained: dropout, and statistics of a minibatch.

Both give an operand as it is. `expand-training`, before a function is differentiated for its
training, puts in their place what they are then; elsewhere `simplify` takes them away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphc.ir.codegen import Elementwise
from graphc.ir.core import Array, IRBuilder, OpDef, Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import Type, TypeRuleError
from graphc.ops.constant import full_like
from graphc.ops.elementwise import identity_rule
from graphc.ops.rules import FLOATS, diagonal_jvp, same_types


@dataclass(frozen=True)
class DropParams(Params):
    """`rate`: the share of elements that training sets to zero, 0 to 1."""

    rate: float


@dataclass(frozen=True)
class RunningStatisticParams(Params):
    """`momentum`: what the running value keeps of itself in a step of training, 0 to 1."""

    momentum: float


def _share(number: float, what: str) -> None:
    if not 0 <= number <= 1:
        raise TypeRuleError(f"requires a {what} from 0 to 1, got {number:g}", slug="bad-value")


def _infer_drop(types: Sequence[Type], params: DropParams) -> Sequence[Type]:
    _share(params.rate, "rate")
    return same_types(FLOATS)(types, params)


def _infer_statistic(types: Sequence[Type], params: RunningStatisticParams) -> Sequence[Type]:
    _share(params.momentum, "momentum")
    if len(types) > 3:
        raise TypeRuleError(f"requires one mean or none, got {len(types) - 2}")
    return same_types(FLOATS)(types, params)


def _drop_reference(_p: DropParams, x: Array) -> Array:
    return x


def _statistic_reference(_p: RunningStatisticParams, running: Array, *_seen: Array) -> Array:
    return running


def _drop_vjp(_b: IRBuilder, _op: Operation, dy: Value) -> list[Value | None]:
    return [dy]


def _statistic_vjp(b: IRBuilder, op: Operation, dy: Value) -> list[Value | None]:
    return [dy, *(full_like(b, 0.0, dy) for _ in op.operands[1:])]


DROP = OpDef(
    name="drop",
    summary="x; in training each element is 0 with this probability, else divided by what is left",
    operands=("x",),
    params=DropParams,
    infer=_infer_drop,
    reference=_drop_reference,
    codegen=Elementwise(identity_rule),
    vjp=_drop_vjp,
    jvp=diagonal_jvp,
    equation="y = x; in training y = keep ∘ x / (1 - rate)",
    source="Srivastava et al., Dropout, 2014",
)

RUNNING_STATISTIC = OpDef(
    name="running_statistic",
    summary="what has been seen so far; in training what a minibatch shows, which moves the former",
    operands=("running", "seen", "mean*"),
    params=RunningStatisticParams,
    infer=_infer_statistic,
    reference=_statistic_reference,
    codegen=Elementwise(identity_rule),
    vjp=_statistic_vjp,
    jvp=diagonal_jvp,
    constraints=(
        "C1 in training, running is a parameter of this operation alone",
        "C2 with a mean, seen is the mean square of what that is the mean of, less the mean",
    ),
    equation="y = running; in training y = seen, running' = momentum · running + "
    "(1 - momentum) · seen",
    source="Ioffe and Szegedy, Batch Normalization, 2015",
)


def drop(b: IRBuilder, x: Value, rate: float) -> Value:
    """x, of which training sets so many elements to zero."""
    return b.emit_one(DROP, x, params=DropParams(rate)) if rate else x


def running_statistic(
    b: IRBuilder, running: Value, seen: Value, momentum: float, mean: Value | None = None
) -> Value:
    """`running`; in training `seen`, towards which `running` moves; `mean`: what a variance that is
    seen is around."""
    given = (running, seen) if mean is None else (running, seen, mean)
    return b.emit_one(RUNNING_STATISTIC, *given, params=RunningStatisticParams(momentum))


OPS = (DROP, RUNNING_STATISTIC)
