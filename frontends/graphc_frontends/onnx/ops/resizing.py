"""Resize and Upsample: every axis by itself, as a product with the weights of its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphc as gc
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.values import (
    Dim,
    axis_of,
    dtype_of,
    known,
    known_ints,
    mistake,
    rank_of,
    shape_of,
    unsupported,
)

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Axis:
    """An axis that becomes larger or smaller.

    scale  of the new size to the old one
    start, end  of the part that `tf_crop_and_resize` takes, as shares of the axis
    """

    old: int
    new: int
    scale: float
    start: float = 0.0
    end: float = 1.0


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


@operator("Upsample", 9)
def upsample(x: Any, scales: Any, *, mode: str) -> object:
    return resize(
        x,
        None,
        scales,
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


@operator("Resize", 10)
def resize_10(x: Any, scales: Any, *, mode: str) -> object:
    return upsample(x, scales, mode=mode)


@operator("Resize", 11)
def resize(
    x: Any,
    region: Any = None,
    scales: Any = None,
    sizes: Any = None,
    *,
    mode: str,
    coordinate_transformation_mode: str,
    nearest_mode: str,
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    keep_aspect_ratio_policy: str = "stretch",
) -> object:
    places = [axis_of(a, rank_of(x)) for a in (range(rank_of(x)) if axes is None else axes)]
    found = _axes(x, places, region, scales, sizes, keep_aspect_ratio_policy)
    manner = Manner(
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(exclude_outside),
        bool(antialias),
        extrapolation_value,
    )
    for place, axis in found.items():
        moves = axis.new != axis.old or axis.scale != 1  # places move also where no size changes
        if moves or manner.coordinates == "tf_crop_and_resize":
            x = _resized(x, place, axis, manner)
    return x


def _axes(
    x: Any, places: Sequence[int], region: Any, scales: Any, sizes: Any, policy: str
) -> dict[int, Axis]:
    """The axes whose sizes may change, by their places."""
    factors = None if scales is None else known(scales, "the scales").astype(float)
    wanted = None if sizes is None else known_ints(sizes, "the sizes")
    if factors is not None and not factors.size:
        factors = None
    if factors is None and not wanted:
        raise mistake("shape-mismatch", "requires scales or sizes")
    olds = [_size_of(shape_of(x)[p]) for p in places]
    if wanted and policy != "stretch":
        choose = min if policy == "not_larger" else max
        one = choose(w / n for w, n in zip(wanted, olds, strict=True) if n)
        factors, wanted = np.full(len(places), one), [int(n * one + 0.5) for n in olds]
    ends = np.zeros(2 * len(places)) if region is None else known(region, "the region")
    if ends.size != 2 * len(places):
        ends = np.concatenate([np.zeros(len(places)), np.ones(len(places))])
    made: dict[int, Axis] = {}
    for i, (place, old) in enumerate(zip(places, olds, strict=True)):
        if old < 0:  # decided by each call
            if (factors is not None and factors[i] != 1) or factors is None:
                raise unsupported(f"Resize over an axis of the size {shape_of(x)[place]}")
            continue
        scale = 1.0 if factors is None else float(factors[i])
        new = wanted[i] if wanted else int(np.floor(old * scale))
        if factors is None and old:
            scale = new / old
        made[place] = Axis(old, new, scale, float(ends[i]), float(ends[len(places) + i]))
    return made


def _size_of(size: Dim) -> int:
    """The size, -1 for one that each call decides."""
    return size if isinstance(size, int) else -1


# --- one axis ------------------------------------------------------------------------------------


def _resized(x: Any, place: int, axis: Axis, manner: Manner) -> Any:
    at = _coordinates(axis, manner.coordinates)
    if manner.mode == "nearest":
        made = _nearest(x, place, axis, _rounded(at, axis, manner.nearest))
    else:
        weights = _weights(at, axis, manner).astype(dtype_of(x))
        order = [i for i in range(rank_of(x)) if i != place]
        last = gc.transpose(x, [*order, place]) @ weights.T
        back = [*range(place), rank_of(x) - 1, *range(place, rank_of(x) - 1)]
        made = gc.transpose(last, back)
    if manner.coordinates != "tf_crop_and_resize":
        return made
    inside = (at >= 0) & (at <= axis.old - 1)
    shape = [1] * rank_of(x)
    shape[place] = axis.new
    return gc.where(inside.reshape(shape), made, manner.outside)


def _coordinates(axis: Axis, how: str) -> Array:
    """Where each new element lies among the old ones."""
    new = np.arange(axis.new, dtype=float)
    match how:
        case "half_pixel":
            return (new + 0.5) / axis.scale - 0.5
        case "half_pixel_symmetric":
            adjustment = axis.new / (axis.scale * axis.old)
            offset = axis.old / 2 * (1 - adjustment)
            return offset + (new + 0.5) / axis.scale - 0.5
        case "pytorch_half_pixel":
            return (new + 0.5) / axis.scale - 0.5 if axis.new > 1 else np.zeros(axis.new)
        case "align_corners":
            length = axis.old * axis.scale
            return new * (axis.old - 1) / (length - 1) if length > 1 else np.zeros(axis.new)
        case "asymmetric":
            return new / axis.scale
        case "tf_crop_and_resize":
            first, last = axis.start * (axis.old - 1), axis.end * (axis.old - 1)
            if axis.new > 1:
                return first + new * (last - first) / (axis.new - 1)
            return np.full(axis.new, (first + last) / 2)
        case _:
            raise unsupported(f"the coordinates {how}")


def _rounded(at: Array, axis: Axis, how: str) -> Array:
    """The nearest old elements."""
    rounding: dict[str, Callable[[Array], Array]] = {
        "round_prefer_floor": lambda a: np.ceil(a - 0.5),
        "round_prefer_ceil": lambda a: np.floor(a + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    if how not in rounding:
        raise unsupported(f"the rounding {how}")
    return np.clip(rounding[how](at), 0, axis.old - 1).astype(np.int64)


def _nearest(x: Any, place: int, axis: Axis, places: Array) -> Any:
    """Elements at places; each so many times is a broadcast."""
    times = axis.new // axis.old if axis.old else 0
    if times * axis.old == axis.new and (places == np.repeat(np.arange(axis.old), times)).all():
        sizes = shape_of(x)
        wide = gc.broadcast_to(
            gc.expand_dims(x, place + 1), (*sizes[: place + 1], times, *sizes[place + 1 :])
        )
        return gc.reshape(wide, (*sizes[:place], axis.new, *sizes[place + 1 :]))
    return gc.take(x, places, place)


def _weights(at: Array, axis: Axis, manner: Manner) -> Array:
    """[new, old]: how much of each old element a new one has."""
    base = np.floor(at)
    stretch = min(axis.scale, 1.0) if manner.antialias else 1.0
    reach = 1 if manner.mode == "linear" else 2
    count = int(np.ceil(reach / stretch))
    made = np.zeros((axis.new, axis.old))
    for offset in range(-count + 1, count + 1):
        there = base + offset
        share = _share((there - at) * stretch, manner)
        outside = (there < 0) | (there > axis.old - 1)
        if manner.exclude_outside:
            share = np.where(outside, 0, share)
        where = np.clip(there, 0, axis.old - 1).astype(np.int64)
        np.add.at(made, (np.arange(axis.new), where), share)
    if manner.exclude_outside or manner.antialias:
        made /= made.sum(1, keepdims=True)
    return made


def _share(distance: Array, manner: Manner) -> Array:
    """The weight of an element so far away."""
    d = np.abs(distance)
    if manner.mode == "linear":
        return np.maximum(1 - d, 0)
    if manner.mode != "cubic":
        raise unsupported(f"the mode {manner.mode}")
    a = manner.cubic
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))
