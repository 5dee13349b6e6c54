"""Elements put at places of an array: the scatters."""

from __future__ import annotations

from typing import Any

import graphc as gc
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.ops.lookups import flat_places, product_of
from graphc_frontends.onnx.values import (
    axis_of,
    dtype_of,
    fixed,
    is_known,
    of,
    rank_of,
    shape_of,
    unsupported,
)


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
    zeros = gc.zeros(shape_of(x), "f64" if dtype_of(x).kind != "f" else dtype_of(x))
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
    places: Any = gc.reshape(flat_places(indices, walked), (-1, 1))
    total = fixed(shape_of(places), "places")[0]
    wide = gc.broadcast_to(places, (total, product_of(rest)))
    flat = gc.reshape(x, (product_of(walked), product_of(rest)))
    changes = gc.reshape(updates, (total, product_of(rest)))
    made = scatter_elements(flat, wide, changes, axis=0, reduction=reduction)
    return gc.reshape(made, sizes)
