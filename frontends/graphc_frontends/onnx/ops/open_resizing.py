"""Resize over an axis whose old or new size each call decides: places and weights are computed.

What a new element is made of is taken from the old ones at as many places as the mode has
neighbours, each times its weight. An axis that grows by a whole number, each element so many times,
is a broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

import graphc as gc
from graphc_frontends.onnx.values import (
    Dim,
    dtype_of,
    numbered,
    of,
    rank_of,
    shape_of,
    unsupported,
)


@dataclass(frozen=True)
class Manner:
    """How new places lie among the old ones, and what is between these."""

    mode: str
    coordinates: str
    nearest: str
    cubic: float
    exclude_outside: bool
    antialias: bool
    outside: float


@dataclass(frozen=True)
class OpenAxis:
    """An axis whose size changes, in another way in each call.

    scale  of the new size to the old one; None where that follows from the sizes
    """

    old: Dim
    new: Dim
    scale: float | None


def resized(x: Any, place: int, axis: OpenAxis, manner: Manner) -> Any:
    """The array with another size along an axis."""
    if manner.mode == "nearest":
        times = _whole_times(axis, manner)
        if times:
            sizes = shape_of(x)
            lead, rest = sizes[: place + 1], sizes[place + 1 :]
            wide = gc.broadcast_to(gc.expand_dims(x, place + 1), (*lead, times, *rest))
            return gc.reshape(wide, (*sizes[:place], axis.new, *rest))
        where = _rounded(_coordinates(axis, manner.coordinates), manner.nearest)
        return gc.take(x, _inside(where, axis), place)
    at = _coordinates(axis, manner.coordinates)
    parts = _weights(at, axis, manner)
    shape = [axis.new if i == place else 1 for i in range(rank_of(x))]
    made: Any = None
    for where, weight in parts:
        some = gc.take(x, _inside(where, axis), place)
        some = some * gc.cast(gc.reshape(weight, shape), dtype_of(x))
        made = some if made is None else made + some
    return made


def _inside(places: Any, axis: OpenAxis) -> Any:
    """Places of elements, the nearest for those outside."""
    return gc.cast(gc.maximum(gc.minimum(places, _number(axis.old) - 1.0), 0.0), "i64")


def _number(size: Dim) -> Any:
    """A size as a float."""
    return gc.cast(size, "f64")


def _coordinates(axis: OpenAxis, how: str) -> Any:
    """[new]: where each new element lies among the old ones, f64."""
    new, old = gc.cast(numbered(axis.new), "f64"), _number(axis.old)
    scale = axis.scale if axis.scale is not None else _number(axis.new) / old
    match how:
        case "half_pixel":
            return (new + 0.5) / scale - 0.5
        case "half_pixel_symmetric":
            offset = old / 2 * (1 - _number(axis.new) / (scale * old))
            return offset + (new + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return gc.where(_number(axis.new) > 1, (new + 0.5) / scale - 0.5, 0.0)
        case "align_corners":
            length = old * scale
            return gc.where(length > 1, new * (old - 1) / gc.maximum(length - 1, 1e-9), 0.0)
        case "asymmetric":
            return new / scale
        case _:
            raise unsupported(f"{how} over an axis of the size {axis.old}")


def _rounded(at: Any, how: str) -> Any:
    """The nearest old elements."""
    match how:
        case "round_prefer_floor":
            return -gc.floor(0.5 - at)
        case "round_prefer_ceil":
            return gc.floor(at + 0.5)
        case "floor":
            return gc.floor(at)
        case "ceil":
            return -gc.floor(-at)
        case _:
            raise unsupported(f"the rounding {how}")


def _whole_times(axis: OpenAxis, manner: Manner) -> int:
    """How many new elements each old one becomes, one after the other; 0 where it is otherwise.

    A whole scale shifts the pattern by one old element: it is the same for every size.
    """
    times = int(axis.scale or 0)
    if times != axis.scale or times < 1 or manner.coordinates not in _SHIFTED:
        return 0
    at = np.asarray(_coordinates(OpenAxis(3, 3 * times, times), manner.coordinates))
    found = np.clip(np.asarray(_rounded(at, manner.nearest)), 0, 2)
    return times if (found == np.repeat(np.arange(3), times)).all() else 0


_SHIFTED = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric")
"""Coordinates that do not depend on the size, where the scale is given."""


def _weights(at: Any, axis: OpenAxis, manner: Manner) -> list[tuple[Any, Any]]:
    """Places of old elements and how much of each a new one has."""
    stretch = 1.0
    if manner.antialias:
        if axis.scale is None:
            raise unsupported(f"antialias over an axis of the size {axis.old} without a scale")
        stretch = min(axis.scale, 1.0)
    count = ceil((1 if manner.mode == "linear" else 2) / stretch)
    base = gc.floor(at)
    parts: list[tuple[Any, Any]] = []
    for offset in range(-count + 1, count + 1):
        where = base + float(offset)
        weight = share((where - at) * stretch, manner)
        if manner.exclude_outside:
            outside = (where < 0.0) | (where > _number(axis.old) - 1.0)
            weight = gc.where(outside, 0.0, weight)
        parts.append((where, weight))
    if manner.exclude_outside or manner.antialias:
        total = sum(weight for _, weight in parts)
        parts = [(where, weight / total) for where, weight in parts]
    return parts


def share(distance: Any, manner: Manner) -> Any:
    """The weight of an element so far away."""
    d = of(distance).abs(distance)
    if manner.mode == "linear":
        return of(d).maximum(1 - d, 0)
    if manner.mode != "cubic":
        raise unsupported(f"the mode {manner.mode}")
    a = manner.cubic
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return of(d).where(d <= 1, near, of(d).where(d < 2, far, 0))
