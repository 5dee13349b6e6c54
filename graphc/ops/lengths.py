"""Lengths of vectors, and the angle between them, of numbers of any size.

The sum of squares of numbers around 1e-30 is 0 in f32, that of numbers around 1e30 infinite, though
the length is neither. So the plain sum decides on a power of two that the numbers are multiplied
by: exactly 1 in the ordinary case, whose results have the bits that they have without it. Each
vector has its own; none flows back, as none changes what is computed. Only what is 0 has length 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.core import IRBuilder, Value
from graphc.ir.types import DType
from graphc.ops.constant import full_like
from graphc.ops.elementwise import (
    EQUAL,
    GREATER,
    LESS,
    add,
    compare,
    maximum,
    mul,
    select,
    stop_gradient,
    sub,
)
from graphc.ops.elementwise import div as divide
from graphc.ops.functions import sqrt
from graphc.ops.reduction import broadcast, reduce_sum


@dataclass(frozen=True)
class _Scales:
    """Sums of squares from 1 / `ordinary` to `ordinary` are right as they are. Smaller numbers are
    multiplied by `up`, larger ones by `down`, after which no square is lost or infinite."""

    ordinary: float
    up: float
    down: float


_SCALES = {
    DType.F32: _Scales(2.0**80, 2.0**90, 2.0**-80),
    DType.F64: _Scales(2.0**600, 2.0**700, 2.0**-650),
}


def norm(b: IRBuilder, x: Value, axes: Sequence[int]) -> Value:
    """The square root of the sum of squares over `axes`; slope 0 where it is 0.

    Of whole matrices, which are read once for all three sums. What flows back goes through the
    plain sum, so that it needs no copy of scaled numbers: nothing does where that is infinite.
    """
    scales = _scales(x)
    plain = _sum_of_squares(b, x, axes)
    fixed = stop_gradient(b, x)
    up, down = (
        _sum_of_squares(b, mul(b, fixed, full_like(b, s, x)), axes)
        for s in (scales.up, scales.down)
    )
    total = stop_gradient(b, plain)
    scaled = _by_size(b, total, up, total, down)
    root = mul(b, sqrt(b, scaled), _constants(b, total, 1 / scales.up, 1.0, 1 / scales.down))
    # The slope by the plain sum is 1 / (2 root); what carries it is 0 and changes no value.
    zero = full_like(b, 0.0, root)
    least = full_like(b, float(np.finfo(x.tensor.dtype.numpy).tiny), root)
    slope = divide(b, full_like(b, 0.5, root), maximum(b, root, least))
    slope = select(b, compare(b, EQUAL, root, zero), zero, slope)
    is_finite = compare(b, LESS, total, full_like(b, math.inf, total))
    carrier = mul(b, select(b, is_finite, plain, zero), slope)
    return add(b, root, sub(b, carrier, stop_gradient(b, carrier)))


def cosine(b: IRBuilder, x: Value, y: Value, axis: int) -> Value:
    """The cosine of the angle between x and y along `axis`; 0, with slope 0, where either is 0."""
    x, y = (_scaled(b, v, axis) for v in (x, y))
    product = reduce_sum(b, mul(b, x, y), [axis])
    for operand in (x, y):
        # A product and no choice of the whole result: nan in the other operand is not hidden.
        product = mul(b, product, _inverse_length(b, operand, axis))
    return product


def unit(b: IRBuilder, x: Value, axis: int) -> Value:
    """x divided by its length along `axis`; 0, with slope 0, where that is 0."""
    x = _scaled(b, x, axis)
    return mul(b, x, broadcast(b, _inverse_length(b, x, axis), x.tensor.dims))


def _scaled(b: IRBuilder, x: Value, axis: int) -> Value:
    """x, each vector along `axis` multiplied by a power of two that keeps its squares in range."""
    scales = _scales(x)
    total = _sum_of_squares(b, stop_gradient(b, x), [axis])
    factor = _constants(b, total, scales.up, 1.0, scales.down)
    return mul(b, x, broadcast(b, factor, x.tensor.dims))


def _inverse_length(b: IRBuilder, x: Value, axis: int) -> Value:
    """1 / length, 0 where the length is.

    The root is never taken of 0, where its slope is infinite: the gradient of a choice is 0 times
    that of what was not chosen, so an infinite one would become nan.
    """
    total = _sum_of_squares(b, x, [axis])
    zero, one = full_like(b, 0.0, total), full_like(b, 1.0, total)
    is_zero = compare(b, EQUAL, total, zero)
    root = sqrt(b, select(b, is_zero, one, total))
    return select(b, is_zero, zero, divide(b, one, root))


def _constants(b: IRBuilder, total: Value, small: float, ordinary: float, large: float) -> Value:
    """The number for the size that the plain sum of squares `total` has."""
    return _by_size(b, total, *(full_like(b, c, total) for c in (small, ordinary, large)))


def _by_size(b: IRBuilder, total: Value, small: Value, ordinary: Value, large: Value) -> Value:
    """What is for the size of the plain sum of squares `total`; nan is ordinary."""
    limit = _scales(total).ordinary
    is_small = compare(b, LESS, total, full_like(b, 1 / limit, total))
    is_large = compare(b, GREATER, total, full_like(b, limit, total))
    return select(b, is_small, small, select(b, is_large, large, ordinary))


def _sum_of_squares(b: IRBuilder, x: Value, axes: Sequence[int]) -> Value:
    return reduce_sum(b, mul(b, x, x), axes)


def _scales(x: Value) -> _Scales:
    return _SCALES[x.tensor.dtype]
