"""What numpy's basic indexing means in the IR: a slice, a reversal and a reshape."""

from __future__ import annotations

import numpy as np

from graphc.ir.core import IRBuilder, Value
from graphc.ir.types import Dim, Symbol, TypeRuleError
from graphc.ops.movement import reshape, reverse, slice_box
from graphc.tensor.numeric import shape_of
from graphc.tensor.shapes import Shape, whole


def indexed(b: IRBuilder, x: Value, index: object) -> Value:
    """Basic indexing: integers, slices with any step, None and `...`."""
    entries = _with_ellipsis(index if isinstance(index, tuple) else (index,), shape_of(x))
    starts: list[int] = []
    stops: list[Dim] = []
    steps: list[int] = []
    backward: list[int] = []
    result: list[Dim] = []
    for entry in entries:
        if entry is None:
            result.append(1)
            continue
        axis = len(starts)
        size = shape_of(x)[axis]
        if isinstance(size, Symbol):
            _require_whole(entry, size, axis)
            starts.append(0)
            stops.append(size)
            steps.append(1)
            result.append(size)
            continue
        taken = _range(entry, size, axis)
        low, high = (taken[0], taken[-1]) if len(taken) else (0, -1)
        if low > high and len(taken):
            low, high = high, low
            backward.append(axis)
        starts.append(low)
        stops.append(high + 1)
        steps.append(abs(taken.step))
        if isinstance(entry, slice):
            result.append(len(taken))
    cut = slice_box(b, x, starts, stops, steps)
    return reshape(b, reverse(b, cut, backward), result)


def _require_whole(entry: object, size: Symbol, axis: int) -> None:
    """TypeRuleError for a part of an axis whose size only the call knows."""
    if entry not in (slice(None), slice(0, None), slice(None, None, 1), slice(0, None, 1)):
        shown = f"{entry}" if not isinstance(entry, slice) else "a slice"
        raise TypeRuleError(
            f"requires all of axis {axis}, whose size {size} each call decides, got {shown}",
            slug="not-supported",
        )


def _with_ellipsis(entries: tuple[object, ...], shape: Shape) -> list[object]:
    """The entries with one for every axis."""
    dots = [i for i, e in enumerate(entries) if e is Ellipsis]
    used = sum(1 for e in entries if e is not None and e is not Ellipsis)
    if len(dots) > 1:
        raise TypeRuleError("an index requires at most one `...`", slug="bad-value")
    if used > len(shape):
        raise TypeRuleError(
            f"requires at most {len(shape)} indices for shape {shape}, got {used}", slug="bad-value"
        )
    at = dots[0] if dots else len(entries)
    rest = [slice(None)] * (len(shape) - used)
    return [*entries[:at], *rest, *entries[at + 1 :]]


def _range(entry: object, size: int, axis: int) -> range:
    """The positions along an axis that an integer or a slice takes."""
    if isinstance(entry, slice):
        parts = [entry.start, entry.stop, entry.step]
        start, stop, step = (
            None if p is None else whole(p, "a slice's end or step") for p in parts
        )
        if step == 0:
            raise TypeRuleError("a slice requires a step other than 0", slug="bad-value")
        return range(size)[slice(start, stop, step)]
    if isinstance(entry, bool) or not isinstance(entry, int | np.integer):
        raise TypeRuleError(
            f"requires indices that are integers, slices, None or `...`, got {_kind(entry)}; "
            "use gc.where to choose elements, gc.stack or gc.concatenate to join some",
            slug="argument-type",
        )
    place = whole(entry, "an index")
    if not -size <= place < size:
        raise TypeRuleError(
            f"requires an index from {-size} to {size - 1} for axis {axis}, got {place}"
            if size
            else f"requires an axis with elements, got index {place} of axis {axis} of size 0",
            slug="bad-value",
        )
    return range(place % size, place % size + 1)


def _kind(entry: object) -> str:
    return "an array" if hasattr(entry, "shape") else f"{type(entry).__name__}"
