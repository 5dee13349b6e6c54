"""Normalisation by statistics of batches, images and neighbours; others run as schemas say."""

from __future__ import annotations

from typing import Any

import graphc as gc
from graphc_frontends.onnx.graph import Context
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.values import fixed, rank_of, shape_of, unsupported


def _by_channel(v: Any, x: Any) -> Any:
    """A vector of channels, next to [samples, channels, …]."""
    return gc.reshape(v, (shape_of(v)[0], *[1] * (rank_of(x) - 2)))


@operator("BatchNormalization", 7)
def batch_normalization(
    x: Any,
    scale: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    *,
    epsilon: float,
    momentum: float,
    training_mode: int = 0,
    context: Context,
) -> object:
    """By the statistics that the file has, until the program is trained; with `training_mode` by
    those of the batch."""
    if not training_mode:
        if context.outputs > 1:
            raise unsupported("BatchNormalization that updates its statistics")
        columns = scale, bias, mean, variance
        return gc.batch_normalization(x, *columns, axis=1, epsilon=epsilon, momentum=momentum)
    axes = (0, *range(2, rank_of(x)))
    own_mean = gc.mean(x, axes)
    off = x - _by_channel(own_mean, x)
    own = gc.mean(off * off, axes)
    made = off * _by_channel(scale / gc.sqrt(own + epsilon), x) + _by_channel(bias, x)
    return (
        made,
        mean * momentum + own_mean * (1 - momentum),
        variance * momentum + own * (1 - momentum),
    )


@operator("InstanceNormalization")
def instance_normalization(x: Any, scale: Any, bias: Any, *, epsilon: float) -> object:
    axes = tuple(range(2, rank_of(x)))
    off = x - gc.mean(x, axes, keepdims=True)
    made = off / gc.sqrt(gc.mean(off * off, axes, keepdims=True) + epsilon)
    return made * _by_channel(scale, x) + _by_channel(bias, x)


@operator("LRN")
def lrn(x: Any, *, alpha: float, beta: float, bias: float, size: int) -> object:
    """Divided by a power of the sum of squares of neighbouring channels."""
    before = (size - 1) // 2
    channels = fixed([shape_of(x)[1]], "neighbours")[0]
    pairs = [(0, 0)] * rank_of(x)
    pairs[1] = (before, size - 1 - before)
    wide = gc.pad(x * x, pairs)
    total: Any = wide[:, 0:channels]
    for i in range(1, size):
        total = total + wide[:, i : i + channels]
    return x / gc.power(bias + (alpha / size) * total, beta)


@operator("LpNormalization")
def lp_normalization(x: Any, *, axis: int, p: int) -> object:
    """Of a vector of zeros it is zeros."""
    powers = gc.abs(x) if p == 1 else x * x
    total = gc.sum(powers, axis, keepdims=True)
    norm = total if p == 1 else gc.sqrt(total)
    return gc.where(norm == 0, 0, x / gc.where(norm == 0, 1, norm))
