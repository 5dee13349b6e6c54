"""Sums of gradients over all who train together, for `apply-learner`.

What a minibatch moves without a gradient, the running values of BatchNormalization, becomes the
average over all members' samples, unless it is the same for all of them already. A member without
samples has none to give: whatever it computed, such as the mean of nothing, is zero in the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from graphc.ir.codegen import Extent
from graphc.ir.core import Function, IRBuilder, Operation, ResultInfo, Value
from graphc.ir.types import TensorType
from graphc.ops.communication import ALL_REDUCE, all_reduce
from graphc.ops.constant import constant, extent, full_like
from graphc.ops.elementwise import GREATER, add, cast, compare, div, mul, select
from graphc.ops.indexed import OuterParams, transposed_sparse_product
from graphc.ops.movement import reshape
from graphc.ops.nodes.sequence_columns import BEGIN, END, is_real
from graphc.ops.random import RANDOM_UNIFORM
from graphc.ops.reduction import broadcast, reduce_sum
from graphc.support.diagnostics import fail
from graphc.support.graphs import reachable
from graphc.support.member_place import SHARD

Kept = tuple[ResultInfo, Value]


@dataclass(frozen=True)
class Shared:
    """Sums over all members.

    touched  for a gradient of lookups how often each row was looked up, else None
    kept     results besides the gradients, those of a member's own samples as they are
    """

    gradients: list[Value]
    touched: list[Value | None]
    kept: list[Kept]


def require_shareable(function: Function) -> None:
    """GraphcError `not-supported` for random numbers that do not know which shard they are of."""
    is_random = any(op.opdef is RANDOM_UNIFORM for op in function.block)
    if is_random and function.argument(SHARD) is None:
        message = "each would draw the same for its own samples"
        raise fail("not-supported", f"members cannot share a program's random numbers, {message}")


def samples_of(b: IRBuilder, function: Function) -> Callable[[TensorType], Value]:
    """What counts the samples of a call, steps of sequences: [1, 1] of a type."""

    def count(type: TensorType) -> Value:
        begin, end = function.argument(BEGIN), function.argument(END)
        if begin is not None and end is not None:
            real = cast(b, is_real(b, begin, end), type.dtype)
            return reduce_sum(b, real, (0, 1))
        for argument, role in zip(function.arguments, function.roles, strict=True):
            if role == "input" and argument.tensor.symbols():
                return extent(b, argument.tensor.symbols()[0], type)
        return constant(b, 1.0, type)  # as many for all

    return count


def is_own(value: Value) -> bool:
    """Whether it has a place for each of the member's samples or sequences, so that nothing adds
    it: what sequences leave for the next call."""
    return bool(value.tensor.symbols())


def is_common(value: Value, function: Function) -> bool:
    """Whether all members have it, the same bits: it depends on parameters, numbers of the call and
    sums over members alone."""

    def behind(value: Value) -> Sequence[Value]:
        return () if value.op is None or value.op.opdef is ALL_REDUCE else value.op.operands

    def is_own_source(value: Value) -> bool:
        if value.op is None:
            role = function.roles[value.index]
            return role not in ("parameter", "hyperparameter") or value.name == SHARD
        return isinstance(value.op.opdef.codegen, Extent)

    return not any(is_own_source(v) for v in reachable([value], behind))


def share(
    b: IRBuilder,
    gradients: Sequence[Value],
    lookups: Sequence[Sequence[Operation] | None],
    kept: Sequence[Kept],
    members: int,
    samples: Callable[[TensorType], Value],
    common: Collection[Value] = (),
) -> Shared:
    """One sum of all; `lookups` are what each gradient is the sum of, None for other gradients;
    `common` what all members have already."""
    counts = [None if found is None else _counts(b, found) for found in lookups]
    counted = [count for count in counts if count is not None]
    added = [(info, v) for info, v in kept if not (is_own(v) or v in common)]
    summands = [*gradients, *counted, *(v for _, v in added)]
    averaged = [info.updates is not None for info, _ in added]
    moved = [False] * (len(summands) - len(added)) + averaged
    if any(moved):
        number = samples(gradients[0].tensor.with_dims((1, 1)))
        summands = [_weighted(b, v, number, m) for v, m in zip(summands, moved, strict=True)]
        *sums, total = all_reduce(b, [*summands, number], members)
        sums = [
            div(b, v, _spread(b, total, v)) if m else v for v, m in zip(sums, moved, strict=True)
        ]
    else:
        sums = all_reduce(b, summands, members)
    first, last = len(gradients), len(gradients) + len(counted)
    found = iter(sums[first:last])
    touched = [None if count is None else next(found) for count in counts]
    totals = iter(sums[last:])
    made = [(info, v if is_own(v) or v in common else next(totals)) for info, v in kept]
    return Shared(sums[:first], touched, made)


def _weighted(b: IRBuilder, value: Value, samples: Value, moved: bool) -> Value:
    """The value, times the samples if it is moved; 0 where there are none."""
    made = mul(b, value, _spread(b, samples, value)) if moved else value
    is_there = compare(b, GREATER, samples, full_like(b, 0.0, samples))
    return select(b, _spread(b, is_there, value), made, full_like(b, 0.0, value))


def _spread(b: IRBuilder, number: Value, like: Value) -> Value:
    """One number in every place of another value."""
    return broadcast(b, reshape(b, number, (1,) * like.tensor.rank), like.tensor.dims)


def _counts(b: IRBuilder, lookups: Sequence[Operation]) -> Value:
    """How often each row of a table is looked up: [rows, 1], or [1, rows] for columns."""
    total: Value | None = None
    for op in lookups:
        x, y, index = op.operands
        params = op.params_as(OuterParams)
        one = constant(b, 1.0, y.tensor.with_dims((1, 1)))
        ones = broadcast(b, one, (y.tensor.dims[0], 1))
        count = transposed_sparse_product(
            b, full_like(b, 1.0, x), ones, index, params.size, columns=params.columns
        )
        total = count if total is None else add(b, total, count)
    assert total is not None
    return total


def only_where(
    b: IRBuilder, touched: Value, new: Sequence[Value], old: Sequence[Value]
) -> list[Value]:
    """The new rows of tables where they were looked up, else the old ones."""
    is_touched = compare(b, GREATER, touched, full_like(b, 0.0, touched))
    return [
        select(b, broadcast(b, is_touched, v.tensor.dims), v, o)
        for v, o in zip(new, old, strict=True)
    ]
