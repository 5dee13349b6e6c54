"""Sums of gradients over all who train together, for `apply-learner`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphc.ir.core import IRBuilder, Operation, ResultInfo, Value
from graphc.ops.communication import all_reduce
from graphc.ops.constant import constant, full_like
from graphc.ops.elementwise import GREATER, add, compare, select
from graphc.ops.indexed import OuterParams, transposed_sparse_product
from graphc.ops.reduction import broadcast
from graphc.support.diagnostics import fail


@dataclass(frozen=True)
class Shared:
    """Sums over all members.

    touched  for a gradient of lookups how often each row was looked up, else None
    kept     results besides the gradients
    """

    gradients: list[Value]
    touched: list[Value | None]
    kept: list[Value]


def require_shareable(kept: Sequence[ResultInfo], *, is_random: bool) -> None:
    """GraphcError `not-supported` for a step that members cannot share so that it is that of one
    with all their samples."""
    moved = [info.name for info in kept if info.updates is not None]
    if moved:
        message = f"its statistics of a minibatch are of a member's own samples: `{moved[0]}`"
        raise fail("not-supported", f"members cannot share BatchNormalization yet, {message}")
    if is_random:
        message = "each would set the same places of its own samples to zero"
        raise fail("not-supported", f"members cannot share what is random in training, {message}")


def share(
    b: IRBuilder,
    gradients: Sequence[Value],
    lookups: Sequence[Sequence[Operation] | None],
    kept: Sequence[Value],
    members: int,
) -> Shared:
    """One sum of all; `lookups` are what each gradient is the sum of, None for other gradients."""
    counts = [None if found is None else _counts(b, found) for found in lookups]
    counted = [count for count in counts if count is not None]
    sums = all_reduce(b, [*gradients, *counted, *kept], members)
    first, last = len(gradients), len(gradients) + len(counted)
    found = iter(sums[first:last])
    touched = [None if count is None else next(found) for count in counts]
    return Shared(sums[:first], touched, sums[last:])


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
