"""Poolings: the extremum, the mean and the norm of windows, or of all places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphc as gc
from graphc_frontends.onnx.graph import Context
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.values import (
    Dim,
    along,
    dtype_of,
    fixed,
    is_float,
    of,
    rank_of,
    shape_of,
)
from graphc_frontends.onnx.windows import (
    Walk,
    WindowSettings,
    channels_first,
    channels_last,
    padded,
    windows,
    with_whole_windows,
)


@dataclass(frozen=True, kw_only=True)
class PoolSettings(WindowSettings):
    """ceil_mode: whether the last window may end outside."""

    ceil_mode: int = 0

    def whole(self, x: Any, walk: Walk) -> Walk:
        return with_whole_windows(walk, shape_of(x)[2:]) if self.ceil_mode else walk


def _over_windows(walk: Walk) -> tuple[int, ...]:
    count = len(walk.sizes)
    return tuple(range(1 + count, 1 + 2 * count))


@operator("MaxPool", settings=PoolSettings)
def max_pool(x: Any, *, settings: PoolSettings, storage_order: int = 0, context: Context) -> object:
    walk = settings.whole(x, settings.walk(x))
    least = -np.inf if is_float(x) else int(np.iinfo(dtype_of(x)).min)
    seen = windows(padded(channels_last(x), walk, least), walk)
    made = gc.max(seen, _over_windows(walk))
    if not context.wants(1):
        return channels_first(made)
    return channels_first(made), _places(x, walk, seen, storage_order)


def _places(x: Any, walk: Walk, seen: Any, storage_order: int) -> object:
    """Where the maxima lie among all elements of x, the first of equal ones."""
    samples, channels, *extents = fixed(shape_of(x), "places of maxima")
    size = int(np.multiply.reduce(extents, dtype=np.int64))
    shape = extents if not storage_order else extents[::-1]
    inside = np.arange(size, dtype=np.int64).reshape(shape)
    inside = inside if not storage_order else inside.transpose()
    ends = (fixed(n, "places of maxima") for n in (walk.before, walk.after))
    pairs = [*zip(*ends, strict=True)]
    wide = np.pad(inside, pairs, constant_values=-1)[None, ..., None]
    numbers = gc.cast(windows(gc.cast(wide, "f64"), walk), "i64")
    axes = _over_windows(walk)
    best = gc.max(seen, axes, keepdims=True)
    first = gc.min(gc.where((seen == best) & (numbers >= 0), numbers, np.int64(size)), axes)
    each = np.arange(samples * channels, dtype=np.int64).reshape(samples, channels) * size
    offsets = each.reshape(samples, *[1] * len(extents), channels)
    return channels_first(first + offsets)


@operator("AveragePool", settings=PoolSettings)
def average_pool(x: Any, *, settings: PoolSettings, count_include_pad: int = 0) -> object:
    walk = settings.walk(x)
    whole = settings.whole(x, walk)
    total = gc.sum(windows(padded(channels_last(x), whole), whole), _over_windows(whole))
    if not whole.is_padded or (count_include_pad and whole == walk):
        count = 1
        for n in walk.sizes:
            count *= n
        return channels_first(total / count)
    counts = _counts(shape_of(x)[2:], walk, whole, bool(count_include_pad))
    return channels_first(total / counts.astype(dtype_of(x)))


def _counts(extents: Sequence[Dim], walk: Walk, whole: Walk, include: bool) -> Any:
    """How many elements each window has: [places…, 1]."""
    counts: Any = np.ones((), np.int64)
    for i, places in enumerate(whole.open_places(extents)):
        low = 0 if include else walk.before[i]
        high = extents[i] + walk.before[i] + (walk.after[i] if include else 0)
        starts = along(places, 2, 0) * walk.strides[i]
        at = starts + np.arange(walk.sizes[i]) * walk.dilations[i]
        inside: Any = (at >= low) & (at < high)
        counts = counts[..., None] * of(inside).sum(inside, 1)
    return counts[..., None]


@operator("LpPool", settings=PoolSettings)
def lp_pool(x: Any, *, settings: PoolSettings, p: int) -> object:
    walk = settings.whole(x, settings.walk(x))
    powers = gc.power(gc.abs(channels_last(x)), p)
    total = gc.sum(windows(padded(powers, walk), walk), _over_windows(walk))
    return channels_first(gc.power(total, 1.0 / p))


def _everywhere(x: Any) -> tuple[int, ...]:
    return tuple(range(2, rank_of(x)))


@operator("GlobalAveragePool")
def global_average_pool(x: Any) -> object:
    return gc.mean(x, _everywhere(x), keepdims=True)


@operator("GlobalMaxPool")
def global_max_pool(x: Any) -> object:
    return gc.max(x, _everywhere(x), keepdims=True)


@operator("GlobalLpPool")
def global_lp_pool(x: Any, *, p: int) -> object:
    total = gc.sum(gc.power(gc.abs(x), p), _everywhere(x), keepdims=True)
    return gc.power(total, 1.0 / p)
