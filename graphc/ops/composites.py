"""Functions that emit several primitives: not operations, fusion puts them back together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from graphc.ir.core import IRBuilder, Value
from graphc.ir.types import DType, TensorType
from graphc.ops.constant import full_like, iota
from graphc.ops.elementwise import (
    CAST,
    EQUAL,
    LESS,
    LOGICAL_AND,
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
from graphc.ops.movement import reshape
from graphc.ops.reduction import BROADCAST, broadcast, reduce_max, reduce_min, reduce_sum

NO_CLASS = -1
"""Among class numbers: of a sample without a class, whose row is 0 everywhere."""
LOG_FLOOR = 1e-37
"""`Log` takes smaller arguments as this, so that log 0 is -85.2 and not minus infinity."""


def relu(b: IRBuilder, x: Value) -> Value:
    """max(x, 0); slope 0 at 0, nan stays nan."""
    return maximum(b, x, full_like(b, 0.0, x))


def clamped_log(b: IRBuilder, x: Value) -> Value:
    """log(max(x, 1e-37)); no gradient flows below the floor."""
    return log(b, maximum(b, x, full_like(b, LOG_FLOOR, x)))


def centred(b: IRBuilder, x: Value, axis: int) -> Value:
    """x minus its maximum along `axis`: softmax may subtract any number, so no gradient flows."""
    top = stop_gradient(b, reduce_max(b, x, [axis]))
    return sub(b, x, broadcast(b, top, x.tensor.dims))


def softmax(b: IRBuilder, x: Value, axis: int) -> Value:
    """Exponentials times the reciprocal of their sum, which is 1 or more: one division a row."""
    e = exp(b, centred(b, x, axis))
    total = reduce_sum(b, e, [axis])
    inverse = divide(b, full_like(b, 1.0, total), total)
    return mul(b, e, broadcast(b, inverse, x.tensor.dims))


def log_softmax(b: IRBuilder, x: Value, axis: int) -> Value:
    d = centred(b, x, axis)
    return sub(b, d, broadcast(b, log(b, reduce_sum(b, exp(b, d), [axis])), x.tensor.dims))


def weighted_log_softmax(b: IRBuilder, weight: Value, x: Value, axis: int) -> Value:
    """weight log softmax(x), elements of shape x; 0 where the weight and the softmax are 0."""
    d = centred(b, x, axis)
    total = log(b, reduce_sum(b, exp(b, d), [axis]))
    index = class_index(weight)
    if index is not None:
        logs = sub(b, d, broadcast(b, total, x.tensor.dims))
        return select(b, _is_class(b, index, x.tensor), logs, full_like(b, 0.0, logs))
    d = finite_if_unused(b, d, weight)
    return mul(b, weight, sub(b, d, broadcast(b, total, x.tensor.dims)))


def finite_if_unused(b: IRBuilder, x: Value, weight: Value) -> Value:
    """x, with the lowest number in place of minus infinity where the weight is 0.

    So their product is 0 there, and what flows back to the weight is large instead of infinite. A
    choice of the product would pass it 0 times infinity.
    """
    is_unused = compare(b, EQUAL, weight, full_like(b, 0.0, weight))
    is_never = compare(b, EQUAL, x, full_like(b, -math.inf, x))
    lowest = full_like(b, float(np.finfo(x.tensor.dtype.numpy).min), x)
    return select(b, b.emit_one(LOGICAL_AND, is_unused, is_never), lowest, x)


def log_sum_exp(b: IRBuilder, x: Value, axes: Sequence[int]) -> Value:
    """log Σ exp(x) over `axes`, without overflow; infinite where the maximum is, with slope 0 where
    that is minus infinity."""
    top = stop_gradient(b, reduce_max(b, x, axes))
    # An infinite maximum is not subtracted: infinity minus infinity is nan.
    is_finite = compare(b, LESS, absolute(b, top), full_like(b, math.inf, top))
    shift = select(b, is_finite, top, full_like(b, 0.0, top))
    total = reduce_sum(b, exp(b, sub(b, x, broadcast(b, shift, x.tensor.dims))), axes)
    # The logarithm is never taken of 0, where its slope is infinite.
    is_never = compare(b, EQUAL, top, full_like(b, -math.inf, top))
    total = select(b, is_never, full_like(b, 1.0, total), total)
    return select(b, is_never, top, add(b, shift, log(b, total)))


def normalized(b: IRBuilder, x: Value, axis: int, epsilon: float) -> Value:
    """x less its mean along `axis`, of a fixed size, divided by √(variance + epsilon)."""
    dims = x.tensor.dims
    count = dims[axis]
    assert isinstance(count, int)

    def average(v: Value) -> Value:
        total = reduce_sum(b, v, [axis])
        return divide(b, total, full_like(b, float(count), total))

    difference = sub(b, x, broadcast(b, average(x), dims))
    variance = average(mul(b, difference, difference))
    deviation = sqrt(b, add(b, variance, full_like(b, epsilon, variance)))
    factor = divide(b, full_like(b, 1.0, deviation), deviation)
    return mul(b, difference, broadcast(b, factor, dims))


def argmax(b: IRBuilder, x: Value, axis: int) -> Value:
    """Index (i32) of the first maximum along `axis`; 2147483647 where the maximum is nan."""
    type = x.tensor
    index = class_index(x)
    if index is not None:
        return index
    positions = iota(b, axis, type.with_dtype(DType.I32))
    top = broadcast(b, reduce_max(b, x, [axis]), type.dims)
    none = full_like(b, 2**31 - 1, positions)
    return reduce_min(b, select(b, compare(b, EQUAL, x, top), positions, none), [axis])


def one_hot(b: IRBuilder, numbers: Value, rows: TensorType) -> Value:
    """`rows` [N, classes]: 1 at the class of each of the `numbers` i64[N], 0 elsewhere."""
    samples, _ = rows.dims
    index = reshape(b, cast(b, numbers, DType.I32), (samples, 1))
    return cast(b, _is_class(b, index, rows), rows.dtype)


def class_index(rows: Value) -> Value | None:
    """i32[N, 1], the places of the ones of rows that `one_hot` made; None for other rows."""
    found = rows
    for opdef, place in ((CAST, 0), (EQUAL, 1), (BROADCAST, 0)):
        if found.op is None or found.op.opdef is not opdef:
            return None
        found = found.op.operands[place]
    source = found.op.operands[0].op if found.op is not None and found.op.operands else None
    if source is None or source.opdef is not CAST:
        return None
    return found if source.operands[0].tensor.dtype is DType.I64 else None


def _is_class(b: IRBuilder, index: Value, type: TensorType) -> Value:
    """i1 of `type`'s dims [N, classes]: whether it is the place `index` i32[N, 1]."""
    places = iota(b, 1, type.with_dtype(DType.I32))
    return compare(b, EQUAL, places, broadcast(b, index, type.dims))


def one_hot_maximum(b: IRBuilder, x: Value, axis: int) -> Value:
    """1 at the first maximum along `axis`, 0 elsewhere; all 0 where the maximum is nan."""
    type = x.tensor
    positions = iota(b, axis, type.with_dtype(DType.I32))
    first = broadcast(b, argmax(b, x, axis), type.dims)
    return cast(b, compare(b, EQUAL, positions, first), type.dtype)
