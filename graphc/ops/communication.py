"""What the members of a training share: sums of arrays over all of them, and each other's samples.

Each member calls its own copy of a function with data of its own. Where such an operation stands,
all wait for each other. Compiled code calls a communicator there for `all_reduce`; otherwise a
function is cut there, and a communicator adds and hands over between its parts
(`graphc/driver/members.py`, `graphc/driver/stages.py`).

The gradient of `all_reduce` is that of the sum of what all members return: a summand of one member
is in the sums of all, so its cotangent is the sum of theirs.

    all_reduce         Σ x, the same for all; of `ANY_NUMBER` the caller says how many there are
    all_reduce_start   the same, begun: nothing but its `all_reduce_finish` may read it
    all_reduce_finish  what was begun, when it is there
    all_fold           Σ x, or the largest or smallest x, of arrays with all members' samples
    all_gather         the samples of all members, those of the first one first
    reduce_scatter     Σ x of arrays with all members' samples, of which each takes its own
    own_samples        a member's samples out of an array with those of all
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from graphc.ir.codegen import Collective
from graphc.ir.core import (
    Array,
    Function,
    InferRule,
    IRBuilder,
    NotDifferentiable,
    OpDef,
    Operation,
    Value,
)
from graphc.ir.params import Params
from graphc.ir.types import Symbol, TensorType, Type, TypeRuleError
from graphc.ops.rules import FLOATS, NUMBERS, multilinear_jvp, require_dtype, tensor
from graphc.support.diagnostics import InternalError

ANY_NUMBER = 0
"""Of members: as many as there are when the function is called, which is in a file."""


@dataclass(frozen=True)
class AllReduceParams(Params):
    """`members`: how many there are, or `ANY_NUMBER`."""

    members: int


def all_reduce(b: IRBuilder, values: Iterable[Value], members: int) -> list[Value]:
    """The values' sums over all members."""
    return b.emit(ALL_REDUCE, values, AllReduceParams(members)).results


def _infer(types: Sequence[Type], params: AllReduceParams) -> Sequence[Type]:
    if params.members < ANY_NUMBER:
        message = f"requires 1 member or more, or 0 for any number, got {params.members}"
        raise TypeRuleError(message, slug="bad-value")
    if not types:
        raise TypeRuleError("requires at least one operand")
    found = [tensor(type, i) for i, type in enumerate(types)]
    for operand, type in enumerate(found):
        require_dtype(type, FLOATS, operand)
        if type.dtype != found[0].dtype:
            raise TypeRuleError(
                f"requires one element type, got {found[0]} and {type}", operand=operand
            )
        if type.symbols():
            raise TypeRuleError(
                f"requires dims that are the same for all members, got {type}", operand=operand
            )
    return found


def _reference(params: AllReduceParams, *arrays: Array) -> tuple[Array, ...]:
    if params.members != 1:
        raise InternalError(f"one of {params.members} members has not what the others add")
    return arrays


def _vjp(b: IRBuilder, op: Operation, dy: Value) -> list[Value | None]:
    return [*all_reduce(b, [dy], op.params_as(AllReduceParams).members)]


ALL_REDUCE = OpDef(
    name="all_reduce",
    summary="sums over all members of a training, which call the same function on their own data",
    operands=("x*",),
    params=AllReduceParams,
    infer=_infer,
    reference=_reference,
    codegen=Collective(),
    vjp=_vjp,
    jvp=multilinear_jvp,
    constraints=("C1 dims are the same for all members", "C2 one operand, to be differentiated"),
    equation="y = Σ_member x",
)


# --- sums beside what is computed ----------------------------------------------------------------


def all_reduce_start(b: IRBuilder, values: Iterable[Value], members: int) -> list[Value]:
    """The values' sums over all members, which are made while this one computes on."""
    return b.emit(ALL_REDUCE_START, values, AllReduceParams(members)).results


def all_reduce_finish(b: IRBuilder, begun: Iterable[Value]) -> list[Value]:
    """All sums of one `all_reduce_start`, when they are there."""
    return b.emit(ALL_REDUCE_FINISH, begun).results


def sums_of(function: Function) -> list[Operation]:
    """Where members add: `all_reduce` and `all_reduce_start`, in order."""
    return [op for op in function.block if op.opdef in (ALL_REDUCE, ALL_REDUCE_START)]


def sum_number(op: Operation) -> int:
    """The place of a sum among those of its function; a finish has that of its start."""
    start = op.operands[0].op if op.opdef is ALL_REDUCE_FINISH else op
    assert start is not None and start.block is not None
    earlier = takewhile(lambda other: other is not start, start.block)
    return sum(other.opdef in (ALL_REDUCE, ALL_REDUCE_START) for other in earlier)


def _infer_finish(types: Sequence[Type], params: Params) -> Sequence[Type]:
    return _infer(types, AllReduceParams(1))


def _finish_reference(params: Params, *arrays: Array) -> tuple[Array, ...]:
    return arrays


def _check_start(op: Operation) -> Iterable[str]:
    readers = {user for value in op.results for user in value.users()}
    if len(readers) != 1 or next(iter(readers)).opdef is not ALL_REDUCE_FINISH:
        yield "requires one all_reduce_finish, and no other reader of what it begins"


def _check_finish(op: Operation) -> Iterable[str]:
    start = op.operands[0].op
    if start is None or start.opdef is not ALL_REDUCE_START or op.operands != tuple(start.results):
        yield "requires all results of one all_reduce_start, in their order"
    elif start.block is not op.block:
        yield "requires an all_reduce_start of its own block"


ALL_REDUCE_START = OpDef(
    name="all_reduce_start",
    summary="begins sums over all members, which are made while this one computes on",
    operands=("x*",),
    params=AllReduceParams,
    infer=_infer,
    reference=_reference,
    codegen=Collective("start"),
    vjp=NotDifferentiable.NONE,
    check=_check_start,
    equation="y = Σ_member x",
)
ALL_REDUCE_FINISH = OpDef(
    name="all_reduce_finish",
    summary="waits for the sums over all members that an `all_reduce_start` has begun",
    operands=("x*",),
    infer=_infer_finish,
    reference=_finish_reference,
    codegen=Collective("finish"),
    vjp=NotDifferentiable.NONE,
    check=_check_finish,
    equation="y = x",
)


# --- samples of all members ----------------------------------------------------------------------

Fold = Literal["add", "maximum", "minimum"]


@dataclass(frozen=True)
class AllFoldParams(Params):
    members: int
    by: Fold = "add"


@dataclass(frozen=True)
class AllGatherParams(Params):
    """`total`: how many samples all members have; `start`, `stop`: the columns that this member
    takes of all, with `stop` 0 every one."""

    members: int
    total: int | Symbol
    start: int = 0
    stop: int = 0


@dataclass(frozen=True)
class OwnParams(Params):
    """`own`: how many samples this member has."""

    members: int
    own: int | Symbol


def all_fold(b: IRBuilder, x: Value, members: int, by: Fold = "add") -> Value:
    """What all members' arrays, of the same samples, are together."""
    return b.emit_one(ALL_FOLD, x, params=AllFoldParams(members, by))


def all_gather(
    b: IRBuilder, x: Value, members: int, total: Symbol, columns: tuple[int, int] = (0, 0)
) -> Value:
    """The rows of all members, or of them some columns."""
    return b.emit_one(ALL_GATHER, x, params=AllGatherParams(members, total, *columns))


def reduce_scatter(b: IRBuilder, x: Value, members: int, own: Symbol) -> Value:
    """This member's rows of the sum over all members."""
    return b.emit_one(REDUCE_SCATTER, x, params=OwnParams(members, own))


def own_samples(b: IRBuilder, x: Value, members: int, own: Symbol) -> Value:
    """This member's rows."""
    return b.emit_one(OWN_SAMPLES, x, params=OwnParams(members, own))


def _rows(type: Type, members: int) -> TensorType:
    """A tensor whose first axis, and no other, counts samples."""
    found = tensor(type)
    if members < 1:
        raise TypeRuleError(f"requires 1 member or more, got {members}", slug="bad-value")
    if not found.rank or any(isinstance(d, Symbol) for d in found.dims[1:]):
        raise TypeRuleError(f"requires samples along the first axis, and no other, got {found}")
    return found


def _infer_all_fold(types: Sequence[Type], params: AllFoldParams) -> Sequence[Type]:
    type = tensor(types[0])
    require_dtype(type, NUMBERS)
    if params.members < 1:
        raise TypeRuleError(f"requires 1 member or more, got {params.members}", slug="bad-value")
    return [type]


def _infer_all_gather(types: Sequence[Type], params: AllGatherParams) -> Sequence[Type]:
    type = _rows(types[0], params.members)
    if not params.stop:
        return [type.with_dims((params.total, *type.dims[1:]))]
    columns = type.dims[1] if type.rank == 2 else 0
    if not isinstance(columns, int) or not 0 <= params.start < params.stop <= columns:
        raise TypeRuleError(
            f"requires 0 <= start < stop <= the columns of a matrix, got {params.start}:"
            f"{params.stop} of {type}",
            slug="bad-value",
        )
    return [type.with_dims((params.total, params.stop - params.start))]


def _infer_own(floats: bool) -> InferRule:
    def infer(types: Sequence[Type], params: OwnParams) -> Sequence[Type]:
        type = _rows(types[0], params.members)
        if floats:
            require_dtype(type, FLOATS)
        if isinstance(params.own, int) and params.own < 0:
            raise TypeRuleError(f"requires own of 0 or more, got {params.own}", slug="bad-value")
        return [type.with_dims((params.own, *type.dims[1:]))]

    return infer


def _require_alone(members: int) -> None:
    if members != 1:
        raise InternalError(f"one of {members} members has not what the others have")


def _fold_reference(params: AllFoldParams, x: Array) -> Array:
    _require_alone(params.members)
    return x


def _gather_reference(params: AllGatherParams, x: Array) -> Array:
    _require_alone(params.members)
    return x[:, params.start : params.stop] if params.stop else x


def _own_reference(params: OwnParams, x: Array) -> Array:
    _require_alone(params.members)
    return x


ALL_FOLD = OpDef(
    name="all_fold",
    summary="sums, or extremes, over all members, which have the same samples",
    operands=("x",),
    params=AllFoldParams,
    infer=_infer_all_fold,
    reference=_fold_reference,
    codegen=Collective(),
    vjp=NotDifferentiable.NONE,
    equation="y = Σ_member x",
)
ALL_GATHER = OpDef(
    name="all_gather",
    summary="the samples of all members, one member's behind another's; or some columns of them",
    operands=("x",),
    params=AllGatherParams,
    infer=_infer_all_gather,
    reference=_gather_reference,
    codegen=Collective(),
    vjp=NotDifferentiable.NONE,
    equation="y = [x of member 0; x of member 1; …]",
)
REDUCE_SCATTER = OpDef(
    name="reduce_scatter",
    summary="a member's own samples of the sum over all members, which have the same samples",
    operands=("x",),
    params=OwnParams,
    infer=_infer_own(floats=True),
    reference=_own_reference,
    codegen=Collective(),
    vjp=NotDifferentiable.NONE,
    equation="y = (Σ_member x)[own]",
)
OWN_SAMPLES = OpDef(
    name="own_samples",
    summary="a member's own samples out of those of all members",
    operands=("x",),
    params=OwnParams,
    infer=_infer_own(floats=False),
    reference=_own_reference,
    codegen=Collective(),
    vjp=NotDifferentiable.NONE,
    equation="y = x[own]",
)

OPS = (
    ALL_REDUCE,
    ALL_REDUCE_START,
    ALL_REDUCE_FINISH,
    ALL_FOLD,
    ALL_GATHER,
    REDUCE_SCATTER,
    OWN_SAMPLES,
)
