"""Resize and Upsample: every axis by itself, as a product with the weights of its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import graphc as gc
from graphc.tensor.program_builder import Symbol
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.ops.open_resizing import Manner, OpenAxis, resized, share
from graphc_frontends.onnx.values import (
    Dim,
    axis_of,
    dtype_of,
    fixed,
    known,
    known_sizes,
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
        if isinstance(axis, OpenAxis):
            x = resized(x, place, axis, manner)
            continue
        moves = axis.new != axis.old or axis.scale != 1  # places move also where no size changes
        if moves or manner.coordinates == "tf_crop_and_resize":
            x = _resized(x, place, axis, manner)
    return x


def _axes(
    x: Any, places: Sequence[int], region: Any, scales: Any, sizes: Any, policy: str
) -> dict[int, Axis | OpenAxis]:
    """The axes whose sizes may change, by their places."""
    factors = None if scales is None else known(scales, "the scales").astype(float)
    wanted = None if sizes is None else known_sizes(sizes, "the sizes")
    if factors is not None and not factors.size:
        factors = None
    if factors is None and not wanted:
        raise mistake("shape-mismatch", "requires scales or sizes")
    olds = [shape_of(x)[p] for p in places]
    if wanted and policy != "stretch":
        factors, wanted = _in_proportion(wanted, olds, policy)
    ends = np.zeros(2 * len(places)) if region is None else known(region, "the region")
    if ends.size != 2 * len(places):
        ends = np.concatenate([np.zeros(len(places)), np.ones(len(places))])
    made: dict[int, Axis | OpenAxis] = {}
    for i, (place, old) in enumerate(zip(places, olds, strict=True)):
        scale = 1.0 if factors is None else float(factors[i])
        new = wanted[i] if wanted else _scaled(old, scale)
        if isinstance(old, Symbol) or isinstance(new, Symbol):
            if new != old or scale != 1:
                made[place] = OpenAxis(old, new, None if factors is None else scale)
            continue
        if factors is None and old:
            scale = new / old
        made[place] = Axis(old, new, scale, float(ends[i]), float(ends[len(places) + i]))
    return made


def _in_proportion(wanted: Sequence[Dim], olds: Sequence[Dim], policy: str) -> tuple[Array, Any]:
    """The scale of all axes, and their new sizes, where these keep their proportion."""
    sizes = [*zip(fixed(wanted, "the sizes"), fixed(olds, "Resize in proportion"), strict=True)]
    choose = min if policy == "not_larger" else max
    scale = choose(w / n for w, n in sizes if n)
    return np.full(len(sizes), scale), [int(n * scale + 0.5) for _, n in sizes]


def _scaled(old: Dim, scale: float) -> Dim:
    """A size so many times, rounded down."""
    if not isinstance(old, Symbol):
        return int(np.floor(old * scale))
    ratio = Fraction(scale).limit_denominator(MAX_RATIO)
    if float(np.float32(float(ratio))) != float(np.float32(scale)):
        raise unsupported(f"the scale {scale} over an axis of the size {old}, which is no ratio,")
    return old * ratio.numerator // ratio.denominator


MAX_RATIO = 1000
"""The largest denominator of a scale by which a size is multiplied that a call decides."""


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
        part = share((there - at) * stretch, manner)
        outside = (there < 0) | (there > axis.old - 1)
        if manner.exclude_outside:
            part = np.where(outside, 0, part)
        where = np.clip(there, 0, axis.old - 1).astype(np.int64)
        np.add.at(made, (np.arange(axis.new), where), part)
    if manner.exclude_outside or manner.antialias:
        made /= made.sum(1, keepdims=True)
    return made
