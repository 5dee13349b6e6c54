"""What numpy's basic indexing means in the IR: a slice, a reversal and a reshape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphc.ir.core import IRBuilder, Value
from graphc.ir.dims import size_ceiling, size_difference, size_sum
from graphc.ir.types import Dim, Symbol, TypeRuleError
from graphc.ops.movement import reshape, reverse, slice_box
from graphc.tensor.numeric import shape_of
from graphc.tensor.shapes import Shape, whole


@dataclass(frozen=True, slots=True)
class _Cut:
    """What an index takes of an axis: all from start to before stop, then, where `backward`, in the
    other direction, of that every step-th element from the first on."""

    start: Dim
    stop: Dim
    step: int = 1
    backward: bool = False

    @property
    def size(self) -> Dim:
        return size_ceiling(size_difference(self.stop, self.start), self.step)


def indexed(b: IRBuilder, x: Value, index: object) -> Value:
    """Basic indexing: integers, slices with any step, None and `...`."""
    entries = _with_ellipsis(index if isinstance(index, tuple) else (index,), shape_of(x))
    cuts: list[_Cut] = []
    result: list[Dim] = []
    for entry in entries:
        if entry is None:
            result.append(1)
            continue
        axis = len(cuts)
        cut = _cut(entry, shape_of(x)[axis], axis)
        cuts.append(cut)
        if isinstance(entry, slice):
            result.append(cut.size)
    # Where calls decide sizes a cut and a step are two slices.
    apart = [_is_open(c, size) for c, size in zip(cuts, shape_of(x), strict=True)]
    steps = [1 if alone else c.step for c, alone in zip(cuts, apart, strict=True)]
    part = slice_box(b, x, [c.start for c in cuts], [c.stop for c in cuts], steps)
    part = reverse(b, part, [axis for axis, c in enumerate(cuts) if c.backward])
    steps = [c.step if alone else 1 for c, alone in zip(cuts, apart, strict=True)]
    part = slice_box(b, part, [0] * len(cuts), shape_of(part), steps)
    return reshape(b, part, result)


def _is_open(cut: _Cut, size: Dim) -> bool:
    return any(isinstance(n, Symbol) for n in (cut.start, cut.stop, size))


def _cut(entry: object, size: Dim, axis: int) -> _Cut:
    """What an entry of an index takes of an axis of that size."""
    given = [entry.start, entry.stop] if isinstance(entry, slice) else [entry]
    if isinstance(size, Symbol) or any(isinstance(n, Symbol) for n in given):
        return _open_cut(entry, size, axis)
    taken = _range(entry, size, axis)
    if not taken:
        return _Cut(0, 0)
    low, high = sorted((taken[0], taken[-1]))
    return _Cut(low, high + 1, abs(taken.step), taken.step < 0 and low < high)


def _open_cut(entry: object, size: Dim, axis: int) -> _Cut:
    """The same where a call decides the axis's size, or a place that the entry names."""
    if not isinstance(entry, slice):
        _require_index(entry)
        place = _place(entry, size, axis)
        return _Cut(place, size_sum([place, 1]))
    step = 1 if entry.step is None else whole(entry.step, "a slice's step")
    if step == 0:
        raise TypeRuleError("a slice requires a step other than 0", slug="bad-value")
    first, last = (None if _is_end(p) else p for p in (entry.start, entry.stop))
    if step > 0:
        start = 0 if first is None else _place(first, size, axis)
        stop = size if last is None else _place(last, size, axis)
    else:  # from the one behind `last` up to `first`, which is taken
        start = 0 if last is None else size_sum([_place(last, size, axis), 1])
        stop = size if first is None else size_sum([_place(first, size, axis), 1])
    taken = size_difference(stop, start)
    if isinstance(taken, int) and taken <= 0:
        return _Cut(0, 0)
    return _Cut(start, stop, abs(step), step < 0)


FAR = 2**31 - 1
"""A place beyond the end, or before the beginning, of any array: files write such ones."""


def _is_end(place: object) -> bool:
    return place is None or (not isinstance(place, Symbol) and abs(whole(place, "a place")) >= FAR)


def _place(place: object, size: Dim, axis: int) -> Dim:
    """A place along the axis, counted from its beginning."""
    if isinstance(place, Symbol):
        return place
    number = whole(place, "an index, or a slice's end or step,")
    counted = size_sum([size, number]) if number < 0 else number
    if isinstance(counted, int) and counted < 0:
        raise TypeRuleError(
            f"requires a place on axis {axis}, of size {size}, got {number}", slug="bad-value"
        )
    return counted


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
    _require_index(entry)
    place = whole(entry, "an index")
    if not -size <= place < size:
        raise TypeRuleError(
            f"requires an index from {-size} to {size - 1} for axis {axis}, got {place}"
            if size
            else f"requires an axis with elements, got index {place} of axis {axis} of size 0",
            slug="bad-value",
        )
    return range(place % size, place % size + 1)


def _require_index(entry: object) -> None:
    if isinstance(entry, bool) or not isinstance(entry, int | np.integer | Symbol):
        raise TypeRuleError(
            f"requires indices that are integers, slices, None or `...`, got {_kind(entry)}; "
            "use gc.where to choose elements, gc.stack or gc.concatenate to join some",
            slug="argument-type",
        )


def _kind(entry: object) -> str:
    return "an array" if hasattr(entry, "shape") else f"{type(entry).__name__}"
