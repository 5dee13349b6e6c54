"""Elements at places of an axis: gathering, the largest, one-hot vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import graphc as gc
from graphc.tensor.program_builder import Symbol
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.ops.padding import picked
from graphc_frontends.onnx.values import (
    Dim,
    axis_of,
    dtype_of,
    fixed,
    is_float,
    is_known,
    known_number,
    numbered,
    of,
    product_of,
    rank_of,
    shape_of,
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
    size = shape_of(x)[place]
    if isinstance(size, Symbol):
        return gc.take(x, places, place)
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
    sizes = shape_of(x)
    count = fixed([shape_of(indices)[-1]], "places")[0]
    lead, walked = sizes[:batch_dims], sizes[batch_dims : batch_dims + count]
    rest = sizes[batch_dims + count :]
    flat = of(x).reshape(x, (product_of(lead) * product_of(walked), *rest))
    places: Any = flat_places(indices, walked)
    if batch_dims:
        offsets = gc.multiply(numbered(product_of(lead)), product_of(walked))
        places = places + of(offsets).reshape(
            offsets, (*lead, *[1] * (rank_of(places) - batch_dims))
        )
    return gather(flat, places, axis=0)


def flat_places(indices: Any, sizes: Sequence[Dim]) -> Any:
    """Of places [.., one number for each size] the numbers in the flat array."""
    is_open = any(isinstance(n, Symbol) for n in sizes)
    xp, made = gc if is_open else of(indices), np.int64(0)
    for i, size in enumerate(sizes):
        one = indices[..., i]
        one = xp.where(one < 0, xp.add(one, size), one)
        made = xp.add(xp.multiply(made, size), one) if i else one
    return made


# --- the largest, one-hot ------------------------------------------------------------------------


@operator("TopK", 10)
def top_k(x: Any, k: Any, *, axis: int, largest: int = 1, sorted: int = 1) -> object:
    """In order, of equal ones the first first."""
    count = int(known_number(k, "the count"))
    numbers: Any = x if is_float(x) else gc.cast(x, "f64")
    numbers = numbers if largest else -numbers
    place = axis_of(axis, rank_of(x))
    is_open = isinstance(shape_of(x)[place], Symbol)
    values, places = (_open_top_k if is_open else gc.top_k)(numbers, count, place)
    return gc.cast(values if largest else -values, dtype_of(x)), gc.cast(places, "i64")


def _open_top_k(x: Any, count: int, axis: int) -> tuple[Any, Any]:
    """Along an axis whose size each call decides, one after the other: the largest of those that
    are smaller than the one before, or as large and behind it."""
    rank, size = rank_of(x), shape_of(x)[axis]
    order = [*(i for i in range(rank) if i != axis), axis]
    last = gc.transpose(x, order)
    keys, numbers = _keys(last), gc.cast(numbered(size), "i32")
    lead = [*shape_of(last)[:-1], 1]

    def step(before: Any, _: Any) -> tuple[Any, Any]:
        key, number = before
        left = (keys < key) | ((keys == key) & (numbers > number))
        best = gc.max(gc.where(left, keys, np.iinfo(keys.dtype).min), -1, keepdims=True)
        first = gc.where(left & (keys == best), numbers, FAR)
        found = gc.min(first, -1, keepdims=True)
        return (best, found), found

    start = gc.full(lead, np.iinfo(keys.dtype).max, keys.dtype), gc.full(lead, -1, "i32")
    _, places = gc.scan(step, start, length=count)
    places = gc.transpose(gc.reshape(places, (count, *lead[:-1])), (*range(1, rank), 0))
    # There are as many: what is not read refuses calls with less.
    values = gc.where(places < FAR, gc.take_along_axis(last, places, -1), last[..., :count])
    back = sorted(range(rank), key=order.__getitem__)
    return gc.transpose(values, back), gc.transpose(places, back)


FAR = np.int32(2**31 - 1)
"""A place behind every array."""


def _keys(x: Any) -> Any:
    """Integers in the order of floats, nan above all and zeros of both signs the same; none is the
    least or the largest of its type."""
    wide = x if dtype_of(x).name in ("float32", "float64") else gc.cast(x, "f32")
    bits = gc.bitcast(wide + 0.0, f"i{8 * wide.dtype.itemsize}")
    most = np.iinfo(bits.dtype).max
    return gc.where(wide != wide, most - 1, gc.where(bits < 0, gc.bitwise_xor(bits, most), bits))


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
