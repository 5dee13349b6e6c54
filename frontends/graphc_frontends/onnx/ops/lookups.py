"""Elements at places of an axis: gathering, scattering, the largest, one-hot vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc as gc
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.ops.padding import picked
from graphc_frontends.onnx.values import (
    axis_of,
    dtype_of,
    fixed,
    is_float,
    is_known,
    known_number,
    mistake,
    of,
    rank_of,
    shape_of,
    unsupported,
)

MAX_PICKED = 64
"""Known places up to which a Gather is slices, which cost nothing where they are read."""


@operator("Gather")
def gather(x: Any, indices: Any, *, axis: int) -> object:
    place = axis_of(axis, rank_of(x))
    if is_known(x) and is_known(indices):
        return np.take(x, indices.astype(np.int64), place)
    if not is_known(indices) or indices.size > MAX_PICKED:
        return gc.take(x, indices, place)
    places = indices.astype(np.int64)
    if places.ndim == 0:
        return x[(slice(None),) * place + (int(places),)]
    size = fixed([shape_of(x)[place]], "a gather")[0]
    found = picked(x, place, places.reshape(-1) % size)
    return gc.reshape(found, (*shape_of(x)[:place], *places.shape, *shape_of(x)[place + 1 :]))


@operator("GatherElements")
def gather_elements(x: Any, indices: Any, *, axis: int) -> object:
    if is_known(x) and is_known(indices):
        return np.take_along_axis(x, indices, axis)
    return gc.take_along_axis(_as_large_as(x, indices, axis), indices, axis)


def _as_large_as(x: Any, indices: Any, axis: int) -> Any:
    """x without what lies beyond the places on other axes."""
    place = axis_of(axis, rank_of(x))
    pairs = enumerate(zip(shape_of(x), shape_of(indices), strict=True))
    cut = tuple(
        slice(None) if i == place or mine == its else slice(0, its) for i, (mine, its) in pairs
    )
    return x if all(c == slice(None) for c in cut) else x[cut]


@operator("GatherND")
def gather_nd(x: Any, indices: Any, *, batch_dims: int = 0) -> object:
    """By the number that a place has in the flat array."""
    sizes = [fixed([n], "places")[0] for n in shape_of(x)]
    count = fixed([shape_of(indices)[-1]], "places")[0]
    lead, walked = sizes[:batch_dims], sizes[batch_dims : batch_dims + count]
    rest = sizes[batch_dims + count :]
    flat = of(x).reshape(x, (_product(lead) * _product(walked), *rest))
    places: Any = _numbers(indices, walked)
    if batch_dims:
        offsets = np.arange(_product(lead), dtype=np.int64).reshape(lead) * _product(walked)
        places = places + offsets.reshape(*lead, *[1] * (rank_of(places) - batch_dims))
    return gather(flat, places, axis=0)


def _numbers(indices: Any, sizes: list[int]) -> Any:
    """Of places [.., one number for each size] the numbers in the flat array."""
    xp, total = of(indices), np.int64(0)
    made: Any = total
    for i, size in enumerate(sizes):
        one = indices[..., i]
        made = made * np.int64(size) + xp.where(one < 0, one + np.int64(size), one)
    return made


def _product(sizes: list[int]) -> int:
    total = 1
    for n in sizes:
        total *= n
    return total


# --- scattering ----------------------------------------------------------------------------------


@operator("Scatter")
def scatter(x: Any, indices: Any, updates: Any, *, axis: int) -> object:
    return scatter_elements(x, indices, updates, axis=axis)


@operator("ScatterElements")
def scatter_elements(
    x: Any, indices: Any, updates: Any, *, axis: int, reduction: str = "none"
) -> object:
    place = axis_of(axis, rank_of(x))
    if reduction not in ("none", "add"):
        raise unsupported(f"ScatterElements that takes the {reduction}")
    given, changes = _whole(x, indices, updates, place)
    if reduction == "add":
        return gc.add_along_axis(x, given, changes, place)
    zeros = gc.zeros(shape_of(x), "f64" if not is_float(x) else dtype_of(x))
    number = gc.cast(changes, dtype_of(zeros))
    there = gc.add_along_axis(zeros, given, gc.ones(shape_of(changes), dtype_of(zeros)), place)
    made = gc.add_along_axis(zeros, given, number, place)
    return gc.where(there > 0, gc.cast(made, dtype_of(x)), x)


def _whole(x: Any, indices: Any, updates: Any, axis: int) -> tuple[Any, Any]:
    """Places and changes with the sizes of x but along the axis: what is not there is outside."""
    pairs = [
        (0, 0) if i == axis else (0, a - b)
        for i, (a, b) in enumerate(
            zip(fixed(shape_of(x), "a scatter"), fixed(shape_of(indices), "a scatter"), strict=True)
        )
    ]
    if not any(b for _, b in pairs):
        return indices, updates
    far = fixed(shape_of(x), "a scatter")[axis]
    return of(indices).pad(indices, pairs, constant_values=far) if is_known(indices) else gc.pad(
        indices, pairs, far
    ), gc.pad(updates, pairs)


@operator("ScatterND")
def scatter_nd(x: Any, indices: Any, updates: Any, *, reduction: str = "none") -> object:
    """By the number that a place has in the flat array, a row of the rest for each."""
    sizes = fixed(shape_of(x), "a scatter")
    count = fixed([shape_of(indices)[-1]], "places")[0]
    walked, rest = sizes[:count], sizes[count:]
    places: Any = gc.reshape(_numbers(indices, walked), (-1, 1))
    total = fixed(shape_of(places), "places")[0]
    wide = gc.broadcast_to(places, (total, _product(rest)))
    flat = gc.reshape(x, (_product(walked), _product(rest)))
    changes = gc.reshape(updates, (total, _product(rest)))
    made = scatter_elements(flat, wide, changes, axis=0, reduction=reduction)
    return gc.reshape(made, sizes)


# --- the largest, one-hot ------------------------------------------------------------------------


@operator("TopK", 10)
def top_k(x: Any, k: Any, *, axis: int, largest: int = 1, sorted: int = 1) -> object:
    """In order, of equal ones the first first."""
    count = int(known_number(k, "the count"))
    numbers: Any = x if is_float(x) else gc.cast(x, "f64")
    values, places = gc.top_k(numbers if largest else -numbers, count, axis)
    return gc.cast(values if largest else -values, dtype_of(x)), gc.cast(places, "i64")


@operator("OneHot")
def one_hot(indices: Any, depth: Any, values: Any, *, axis: int) -> object:
    """On where the new axis is at the place, off elsewhere; a negative place is from the end."""
    count = int(known_number(depth, "the depth"))
    place = axis_of(axis, rank_of(indices) + 1)
    shape = [1] * (rank_of(indices) + 1)
    shape[place] = count
    numbers = np.arange(count, dtype=np.int64).reshape(shape)
    given = gc.expand_dims(gc.cast(indices, "i64"), place)
    whole = gc.where(given < 0, given + np.int64(count), given)
    return gc.where(whole == numbers, values[1], values[0])


@operator("Compress", 9)
def compress(x: Any, condition: Any, *, axis: int | None = None) -> object:
    """What is chosen has to be known, for the size of the result depends on it."""
    if not is_known(condition):
        raise mistake("not-supported", "requires a condition that is known")
    flat = of(x).reshape(x, -1) if axis is None else x
    places = np.flatnonzero(condition)
    return gather(flat, places, axis=axis or 0)
