"""Mean and variance over the samples of all members, of those that each has of its own.

    mean = Σ nᵢ mᵢ / N        variance = Σ nᵢ (vᵢ + mᵢ²) / N - mean²

Both sums are made at once, of f64: the difference loses (mean / deviation)² roundings of 2⁻⁵³, less
than what f32 numbers with that mean have lost already. Numbers of f64 have nothing wider to be
added in: for them the mean comes first, and then the variance around it. Each member's mean and
variance, gathered, would cancel nothing, but be as many more numbers as there are members, and in
files nobody knows how many those are.
"""

from __future__ import annotations

from graphc.ir.core import IRBuilder, Value
from graphc.ir.types import DType
from graphc.ops.communication import all_reduce
from graphc.ops.constant import full_like
from graphc.ops.elementwise import GREATER, add, cast, compare, div, maximum, mul, select, sub
from graphc.ops.movement import reshape
from graphc.ops.reduction import broadcast

WIDE = DType.F64


def can_pool(dtype: DType) -> bool:
    """Whether there is a wider type to add numbers of this one in."""
    return dtype is not WIDE


def pooled(
    b: IRBuilder, mean: Value, variance: Value, own: Value, whole: Value, members: int
) -> tuple[Value, Value]:
    """Mean and variance over all members.

    mean, variance  over this member's samples; anything where it has none
    own, whole      how many samples it has, and all have, one number each
    """
    one = mean.tensor.with_dtype(WIDE).with_dims((1,) * mean.tensor.rank)
    dims, dtype = mean.tensor.dims, mean.tensor.dtype
    count, total = (reshape(b, cast(b, n, WIDE), one.dims) for n in (own, whole))
    is_there = broadcast(b, compare(b, GREATER, count, full_like(b, 0.0, count)), dims)
    count, total = broadcast(b, count, dims), broadcast(b, total, dims)

    def given(value: Value) -> Value:
        return cast(b, select(b, is_there, value, full_like(b, 0.0, value)), WIDE)

    first, second = given(mean), given(variance)
    squares = add(b, second, mul(b, first, first))
    # Two operations, each with a gradient; `join-sums` makes one of both, and of both gradients.
    sums = [all_reduce(b, [mul(b, count, v)], members)[0] for v in (first, squares)]
    first, squares = (div(b, v, total) for v in sums)
    # A rounding may leave less than nothing of equal numbers.
    second = sub(b, squares, mul(b, first, first))
    second = maximum(b, second, full_like(b, 0.0, second))
    return cast(b, first, dtype), cast(b, second, dtype)
