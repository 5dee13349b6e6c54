"""Elements put at places of an array: the scatters, MaxUnpool, and what is written into a cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import graphc as gc
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.ops.elementwise import mod
from graphc_frontends.onnx.ops.lookups import flat_places
from graphc_frontends.onnx.values import (
    along,
    axis_of,
    computed,
    dtype_of,
    fixed,
    is_known,
    known_ints,
    mistake,
    product_of,
    rank_of,
    shape_of,
    unsupported,
)

_FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "mul": lambda x, y: x * y,
    "max": lambda x, y: gc.maximum(x, y),
    "min": lambda x, y: gc.minimum(x, y),
}
"""What becomes of an element and a change of it, where changes are not added."""

OUTSIDE = np.iinfo(np.int32).max
"""A place that no axis has."""


@operator("Scatter")
def scatter(x: Any, indices: Any, updates: Any, *, axis: int) -> object:
    return scatter_elements(x, indices, updates, axis=axis)


@operator("ScatterElements")
def scatter_elements(
    x: Any, indices: Any, updates: Any, *, axis: int, reduction: str = "none"
) -> object:
    place = axis_of(axis, rank_of(x))
    given, changes = _whole(x, indices, updates, place)
    if reduction == "add":
        return gc.cast(gc.add_along_axis(x, given, changes, place), dtype_of(x))
    if reduction == "none":
        return _put(x, given, changes, place)
    if reduction not in _FOLDS:
        raise unsupported(f"the reduction {reduction}")
    return _folded(x, given, changes, place, _FOLDS[reduction])


def _put(x: Any, places: Any, changes: Any, axis: int) -> Any:
    """By the numbers of the changes, which are put there, so that any type stays exact."""
    count = shape_of(changes)[axis]
    if count == 0:
        return x
    numbers = gc.cast(along(count, rank_of(x), axis), "f64") + 1.0
    which = gc.broadcast_to(numbers, shape_of(changes))
    found = gc.cast(gc.add_along_axis(gc.zeros(shape_of(x), "f64"), places, which, axis), "i64")
    there = gc.take_along_axis(changes, gc.maximum(found - 1, 0), axis)
    return gc.where(found > 0, there, x)


def _folded(
    x: Any, places: Any, changes: Any, axis: int, fold: Callable[[Any, Any], Any]
) -> object:
    """One change along the axis after the other: as many steps, over all of x."""
    size, numbers = shape_of(x)[axis], along(shape_of(x)[axis], rank_of(x), 0)
    first = [axis, *(i for i in range(rank_of(x)) if i != axis)]
    index = gc.cast(gc.transpose(places, first), "i64")
    index = gc.where(index < 0, index + size, index)

    def step(made: Any, change: Any) -> tuple[Any, None]:
        place, value = change
        return gc.where(gc.expand_dims(place, 0) == numbers, fold(made, value), made), None

    made, _ = gc.scan(step, gc.transpose(x, first), (index, gc.transpose(changes, first)))
    return gc.transpose(made, [first.index(i) for i in range(rank_of(x))])


def _whole(x: Any, indices: Any, updates: Any, axis: int) -> tuple[Any, Any]:
    """Places and changes with the sizes of x but along the axis: what is not there is outside."""
    both = zip(shape_of(x), shape_of(indices), strict=True)
    beside = [(a, b) for i, (a, b) in enumerate(both) if i != axis]
    if all(a == b for a, b in beside):
        return indices, updates
    both = zip(shape_of(x), shape_of(indices), strict=True)
    pairs = [(0, 0) if i == axis else (0, a - b) for i, (a, b) in enumerate(both)]
    if is_known(indices):
        ends = [(0, n) for n in fixed([after for _, after in pairs], "a scatter")]
        return np.pad(indices, ends, constant_values=OUTSIDE), gc.pad(updates, pairs)
    return gc.pad(indices, pairs, OUTSIDE), gc.pad(updates, pairs)


@operator("ScatterND")
def scatter_nd(x: Any, indices: Any, updates: Any, *, reduction: str = "none") -> object:
    """By the number that a place has in the flat array, a row of the rest for each."""
    x, updates = computed(x, updates)
    sizes = shape_of(x)
    count = fixed([shape_of(indices)[-1]], "places")[0]
    walked, rest = sizes[:count], sizes[count:]
    total = product_of(shape_of(indices)[:-1])
    places: Any = gc.reshape(flat_places(indices, walked), (total, 1))
    wide = gc.broadcast_to(places, (total, product_of(rest)))
    flat = gc.reshape(x, (product_of(walked), product_of(rest)))
    changes = gc.reshape(updates, (total, product_of(rest)))
    made = scatter_elements(flat, wide, changes, axis=0, reduction=reduction)
    return gc.reshape(made, sizes)


@operator("MaxUnpool")
def max_unpool(
    x: Any,
    places: Any,
    shape: Any = None,
    *,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> object:
    """Zeros but at the places of maxima, as MaxPool gives them."""
    lead, extents = fixed(shape_of(x)[:2], "places"), fixed(shape_of(x)[2:], "places")
    count = len(extents)
    steps, around = strides or [1] * count, pads or [0] * (2 * count)
    whole = [
        (extents[i] - 1) * steps[i] + kernel_shape[i] - around[i] - around[count + i]
        for i in range(count)
    ]
    sizes = [*lead, *whole]
    zeros = gc.zeros([product_of(sizes)], dtype_of(x))
    made = scatter_elements(zeros, gc.reshape(places, -1), gc.reshape(x, -1), axis=0)
    wanted = sizes if shape is None else known_ints(shape, "the shape")
    pairs = [(0, w - n) for w, n in zip(wanted, sizes, strict=True)]
    if any(b < 0 for _, b in pairs):
        raise mistake("shape-mismatch", f"requires a shape of at least {sizes}, got {wanted}")
    return gc.pad(gc.reshape(made, sizes), pairs)


@operator("TensorScatter")
def tensor_scatter(cache: Any, update: Any, starts: Any = None, *, axis: int, mode: str) -> object:
    """The cache with the update from each sample's start on, in a circle where `mode` says so."""
    place = axis_of(axis, rank_of(cache))
    if place == 0:
        raise mistake("bad-value", "requires an axis after that of the samples, got 0")
    size, count = fixed([shape_of(cache)[place], shape_of(update)[place]], "a cache")
    if count > size:
        message = f"requires an update of at most {size} along axis {place}, got {count}"
        raise mistake("shape-mismatch", message)
    if not count:
        return cache
    shape = [1] * rank_of(cache)
    shape[place] = size
    since = np.arange(size, dtype=np.int64).reshape(shape)
    if starts is not None:
        if mode == "circular":
            starts = mod(starts, np.int64(size), fmod=0)
        since = since - gc.reshape(starts, (-1, *[1] * (rank_of(cache) - 1)))
    if mode == "circular":
        since = gc.where(since < 0, since + np.int64(size), since)
    since = gc.broadcast_to(gc.where(since < 0, np.int64(count), since), shape_of(cache))
    return gc.where(since < count, gc.take_along_axis(update, since, place), cache)
