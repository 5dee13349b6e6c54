"""Functions that emit several primitives: not operations, fusion puts them back together."""

from __future__ import annotations

from graphc.ir.core import IRBuilder, Value
from graphc.ir.types import DType, TensorType
from graphc.ops.constant import full_like, iota
from graphc.ops.elementwise import (
    EQUAL,
    compare,
    exp,
    log,
    maximum,
    select,
    stop_gradient,
    sub,
)
from graphc.ops.elementwise import div as divide
from graphc.ops.reduction import broadcast, reduce_max, reduce_min, reduce_sum

LOG_FLOOR = 1e-37
"""`Log` takes smaller arguments as this, so that log 0 is -85.2 and not minus infinity."""


def _dims(x: Value) -> TensorType:
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
    return sub(b, x, broadcast(b, top, _dims(x).dims))


def softmax(b: IRBuilder, x: Value, axis: int) -> Value:
    e = exp(b, centred(b, x, axis))
    return divide(b, e, broadcast(b, reduce_sum(b, e, [axis]), _dims(x).dims))


def log_softmax(b: IRBuilder, x: Value, axis: int) -> Value:
    d = centred(b, x, axis)
    return sub(b, d, broadcast(b, log(b, reduce_sum(b, exp(b, d), [axis])), _dims(x).dims))


def argmax(b: IRBuilder, x: Value, axis: int) -> Value:
    """Index (i32) of the first maximum along `axis`; the extent itself where the maximum is nan."""
    type = _dims(x)
    positions = iota(b, axis, type.with_dtype(DType.I32))
    top = broadcast(b, reduce_max(b, x, [axis]), type.dims)
    none = full_like(b, 2**31 - 1, positions)
    return reduce_min(b, select(b, compare(b, EQUAL, x, top), positions, none), [axis])
