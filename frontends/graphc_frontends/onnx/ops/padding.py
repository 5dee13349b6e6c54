"""Pad, in all its modes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import graphc as gc
from graphc.tensor.program_builder import Symbol
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.values import (
    Dim,
    axis_of,
    dtype_of,
    fixed,
    is_known,
    known_ints,
    known_number,
    known_sizes,
    mistake,
    of,
    rank_of,
    shape_of,
)


@operator("Pad", 2)
def pad_2(x: Any, *, mode: str, pads: Sequence[int], value: float) -> object:
    return _padded(x, mode, pads, value)


@operator("Pad", 11)
def pad(x: Any, pads: Any, value: Any = None, axes: Any = None, *, mode: str) -> object:
    widths = known_sizes(pads, "the widths")
    rank = rank_of(x)
    if axes is not None:
        places = [axis_of(a, rank) for a in known_ints(axes, "the axes")]
        every: list[Dim] = [0] * (2 * rank)
        for i, place in enumerate(places):
            every[place], every[rank + place] = widths[i], widths[len(places) + i]
        widths = every
    return _padded(x, mode, widths, 0 if value is None else value)


def _padded(x: Any, mode: str, widths: Sequence[Dim], value: Any) -> object:
    """Negative widths cut off. Those that calls decide are of constants, and not negative."""
    rank = rank_of(x)
    open_pairs = [*zip(widths[:rank], widths[rank:], strict=True)]
    if mode == "constant" and any(isinstance(n, Symbol) for n in widths):
        return _constant(x, open_pairs, value)
    widths = fixed(widths, "a pad")
    low, high = widths[:rank], widths[rank:]
    if any(n < 0 for n in widths):
        index = tuple(
            slice(max(-a, 0), None if b >= 0 else b) for a, b in zip(low, high, strict=True)
        )
        x, low, high = x[index], [max(a, 0) for a in low], [max(b, 0) for b in high]
    pairs = [*zip(low, high, strict=True)]
    if is_known(x):
        return _of_known(x, mode, pairs, value)
    if mode == "constant":
        return _constant(x, pairs, value)
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            x = _along(x, axis, before, after, mode)
    return x


def _of_known(x: Any, mode: str, pairs: Sequence[tuple[int, int]], value: Any) -> object:
    if mode != "constant":
        return np.pad(x, pairs, mode)  # type: ignore[call-overload]  # one of numpy's names
    return np.pad(x, pairs, constant_values=known_number(np.asarray(value), "the value"))


def _constant(x: Any, pairs: Sequence[tuple[Dim, Dim]], value: Any) -> object:
    if not isinstance(value, gc.Tensor) or hasattr(value, "array"):
        number = value if isinstance(value, int | float) else known_number(value, "the value")
        if dtype_of(x).kind == "b":
            return gc.cast(gc.pad(gc.cast(x, "i32"), pairs, int(number)), "i1")
        return gc.pad(x, pairs, number)
    inside = gc.pad(gc.cast(gc.ones(shape_of(x)), "i32"), pairs)
    return gc.where(inside == 1, gc.pad(x, pairs), gc.reshape(value, ()))


def _along(x: Any, axis: int, before: int, after: int, mode: str) -> object:
    """The axis with what `mode` puts around it."""
    size = shape_of(x)[axis]
    if isinstance(size, Symbol):
        return _along_open(x, axis, before, after, mode)
    places = np.arange(-before, size + after)
    match mode:
        case "edge":
            places = np.clip(places, 0, size - 1)
        case "wrap":
            places = places % size
        case "reflect":
            period = max(2 * (size - 1), 1)
            places = (size - 1) - np.abs((size - 1) - places % period)
        case _:
            raise mistake("not-supported", f"the mode {mode} is not supported")
    return picked(x, axis, places)


def _along_open(x: Any, axis: int, before: int, after: int, mode: str) -> object:
    """The same where calls decide the axis's size, which has at least what is put around it."""
    size = shape_of(x)[axis]

    def part(start: Dim, stop: Dim) -> Any:
        return x[(slice(None),) * axis + (slice(start, stop),)]

    match mode:
        case "edge":
            parts = [*[part(0, 1)] * before, x, *[part(size - 1, size)] * after]
        case "wrap":
            parts = [part(size - before, size), x, part(0, after)]
        case "reflect":
            below, above = part(1, 1 + before), part(size - 1 - after, size - 1)
            parts = [gc.flip(below, axis), x, gc.flip(above, axis)]
        case _:
            raise mistake("not-supported", f"the mode {mode} is not supported")
    return gc.concatenate([p for p in parts if shape_of(p)[axis] != 0], axis)


def picked(x: Any, axis: int, places: Any) -> object:
    """The elements at these places of an axis, as slices one after the other."""
    at = (slice(None),) * axis
    cuts = np.flatnonzero(np.diff(places) != (1 if len(places) else 0)) + 1
    parts = [x[(*at, slice(int(p[0]), int(p[-1]) + 1))] for p in np.split(places, cuts) if len(p)]
    return of(x).concatenate(parts, axis)
