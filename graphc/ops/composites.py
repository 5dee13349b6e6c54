"""Functions that emit several primitives: not operations, fusion puts them back together."""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphc.ir.core import IRBuilder, Value
from graphc.ir.types import DType, TensorType
from graphc.ops.constant import full_like, iota
from graphc.ops.elementwise import (
    EQUAL,
    LESS,
    absolute,
    add,
    cast,
    compare,
    maximum,
    mul,
    select,
    stop_gradient,
    sub,
)
from graphc.ops.elementwise import div as divide
from graphc.ops.functions import exp, log, sqrt
from graphc.ops.reduction import broadcast, reduce_max, reduce_min, reduce_sum

LOG_FLOOR = 1e-37
"""`Log` takes smaller arguments as this, so that log 0 is -85.2 and not minus infinity."""


def _type(x: Value) -> TensorType:
    assert isinstance(x.type, TensorType)
    return x.type


def relu(b: IRBuilder, x: Value) -> Value:
    """max(x, 0); slope 0 at 0, nan stays nan."""
    return maximum(b, x, full_like(b, 0.0, x))


def clamped_log(b: IRBuilder, x: Value) -> Value:
    """log(max(x, 1e-37)); no gradient flows below the floor."""
    return log(b, maximum(b, x, full_like(b, LOG_FLOOR, x)))


def centred(b: IRBuilder, x: Value, axis: int) -> Value:
    """x minus its maximum along `axis`: softmax may subtract any number, so no gradient flows."""
    top = stop_gradient(b, reduce_max(b, x, [axis]))
    return sub(b, x, broadcast(b, top, _type(x).dims))


def softmax(b: IRBuilder, x: Value, axis: int) -> Value:
    """Exponentials times the reciprocal of their sum, which is 1 or more: one division a row."""
    e = exp(b, centred(b, x, axis))
    total = reduce_sum(b, e, [axis])
    inverse = divide(b, full_like(b, 1.0, total), total)
    return mul(b, e, broadcast(b, inverse, _type(x).dims))


def log_softmax(b: IRBuilder, x: Value, axis: int) -> Value:
    d = centred(b, x, axis)
    return sub(b, d, broadcast(b, log(b, reduce_sum(b, exp(b, d), [axis])), _type(x).dims))


def log_sum_exp(b: IRBuilder, x: Value, axes: Sequence[int]) -> Value:
    """log Σ exp(x) over `axes`, without overflow; infinite where the maximum is."""
    top = stop_gradient(b, reduce_max(b, x, axes))
    # An infinite maximum is not subtracted: infinity minus infinity is nan.
    is_finite = compare(b, LESS, absolute(b, top), full_like(b, math.inf, top))
    top = select(b, is_finite, top, full_like(b, 0.0, top))
    terms = exp(b, sub(b, x, broadcast(b, top, _type(x).dims)))
    return add(b, top, log(b, reduce_sum(b, terms, axes)))


def argmax(b: IRBuilder, x: Value, axis: int) -> Value:
    """Index (i32) of the first maximum along `axis`; 2147483647 where the maximum is nan."""
    type = _type(x)
    positions = iota(b, axis, type.with_dtype(DType.I32))
    top = broadcast(b, reduce_max(b, x, [axis]), type.dims)
    none = full_like(b, 2**31 - 1, positions)
    return reduce_min(b, select(b, compare(b, EQUAL, x, top), positions, none), [axis])


def one_hot_maximum(b: IRBuilder, x: Value, axis: int) -> Value:
    """1 at the first maximum along `axis`, 0 elsewhere; all 0 where the maximum is nan."""
    type = _type(x)
    positions = iota(b, axis, type.with_dtype(DType.I32))
    first = broadcast(b, argmax(b, x, axis), type.dims)
    return cast(b, compare(b, EQUAL, positions, first), type.dtype)


def norm(b: IRBuilder, x: Value, axes: Sequence[int]) -> Value:
    """The square root of the sum of squares over `axes`; slope 0 where it is 0."""
    is_zero, root = _root_or_one(b, x, axes)
    return select(b, is_zero, full_like(b, 0.0, root), root)


def cosine(b: IRBuilder, x: Value, y: Value, axis: int) -> Value:
    """The cosine of the angle between x and y along `axis`; 0, with slope 0, where either is 0."""
    product = reduce_sum(b, mul(b, x, y), [axis])
    for operand in (x, y):
        is_zero, root = _root_or_one(b, operand, [axis])
        inverse = divide(b, full_like(b, 1.0, root), root)
        # A product and no choice of the whole result: nan in the other operand is not hidden.
        product = mul(b, product, select(b, is_zero, full_like(b, 0.0, root), inverse))
    return product


def unit(b: IRBuilder, x: Value, axis: int) -> Value:
    """x divided by its length along `axis`; 0, with slope 0, where that is 0."""
    is_zero, root = _root_or_one(b, x, [axis])
    inverse = divide(b, full_like(b, 1.0, root), root)
    inverse = select(b, is_zero, full_like(b, 0.0, root), inverse)
    return mul(b, x, broadcast(b, inverse, _type(x).dims))


def _root_or_one(b: IRBuilder, x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """Whether the sum of squares is 0, and its square root, 1 where it is.

    The root is never taken of 0, where its slope is infinite: the gradient of a choice is 0 times
    that of what was not chosen, so an infinite one would become nan.
    """
    total = reduce_sum(b, mul(b, x, x), axes)
    is_zero = compare(b, EQUAL, total, full_like(b, 0.0, total))
    return is_zero, sqrt(b, select(b, is_zero, full_like(b, 1.0, total), total))
