"""Rearrangements seen from the result: which element of an operand comes to which place.

A copy says where each index of its box goes. Turned round, index r of an axis of the result is
reached from index (r - start) / step of the box, if that is one; where windows overlap, from every
window that begins at r or before and is not over yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphc.backends.loops.affine import Distance, steps_of
from graphc.ir.codegen import AffineCopy, AffineIndex
from graphc.ir.types import TensorType
from graphc.passes.analysis.loopnest import Size
from graphc.support.diagnostics import InternalError

_ONE = Size()
_NOWHERE = Distance()


@dataclass(frozen=True, slots=True)
class Reach:
    """Which indices of the box reach index r of an axis of the result: r = start + step · i + j.

    count, source  the extent of i, and how far apart its elements are in the operand
    width, within  the same of j; more than one where there are windows
    """

    start: Size
    step: int
    count: Size
    source: Distance
    width: Size = _ONE
    within: Distance = _NOWHERE

    @property
    def is_window(self) -> bool:
        return self.width != _ONE

    @property
    def is_run(self) -> bool:
        """Neighbours in the box are neighbours in the result."""
        return self.step == 1 and not self.is_window

    def is_whole(self, extent: Size) -> bool:
        """All of an axis of that extent is reached."""
        return self.is_run and self.start.factor == 0 and self.count == extent


@dataclass(frozen=True, slots=True)
class Fetch:
    """One copy: a reach for each axis of the result, and where the operand's element for index 0
    of the box is."""

    operand: int
    start: Distance
    reaches: tuple[Reach, ...]


@dataclass(frozen=True, slots=True)
class Fetches:
    """All copies into a result of these extents. What a later one reaches is taken from that."""

    extents: tuple[Size, ...]
    copies: tuple[Fetch, ...]

    @staticmethod
    def of(
        copies: Sequence[AffineCopy], operands: Sequence[TensorType], result: TensorType
    ) -> Fetches:
        """With as few axes as that can be said with."""
        extents = tuple(Size.of((dim,)) for dim in result.dims)
        made = tuple(_fetch(copy, operands[copy.operand]) for copy in copies if 0 not in copy.box)
        return _merged(Fetches(extents, made))

    @staticmethod
    def whole(type: TensorType) -> Fetches:
        """An array as it is."""
        elements = Size.of(type.dims)
        reach = Reach(Size(0), 1, elements, Distance((_ONE,)))
        return Fetches((elements,), (Fetch(0, _NOWHERE, (reach,)),))

    @property
    def elements(self) -> Size:
        """Of the result."""
        total = _ONE
        for extent in self.extents:
            total = total * extent
        return total

    def symbols(self) -> tuple[str, ...]:
        """The dims of the call that these places depend on."""
        sizes = list(self.extents)
        for copy in self.copies:
            sizes += copy.start.sizes
            for reach in copy.reaches:
                sizes += (reach.start, reach.count, reach.width)
                sizes += (*reach.source.sizes, *reach.within.sizes)
        return tuple(sorted({name for size in sizes for name in size.symbols}))

    def most_at_once(self, most: int) -> int:
        """Elements, a power of two up to `most`, that are neighbours on both sides everywhere, and
        that all distances are multiples of."""
        if not self.extents:
            return 1
        sizes = [self.extents[-1]]
        for copy in self.copies:
            *others, last = copy.reaches
            if not last.is_run or last.source.number != 1:
                return 1
            sizes += [last.start, last.count, *copy.start.sizes]
            sizes += [s for reach in others for s in (*reach.source.sizes, *reach.within.sizes)]
        while most > 1 and any(size.factor % most for size in sizes):
            most //= 2
        return max(most, 1)

    def at_once(self, number: int) -> Fetches:
        """The same with so many elements as one."""
        if number == 1:
            return self
        copies: list[Fetch] = []
        for copy in self.copies:
            *others, last = copy.reaches
            apart = [
                replace(r, source=_less(r.source, number), within=_less(r.within, number))
                for r in others
            ]
            start, count = _part(last.start, number), _part(last.count, number)
            last = replace(last, start=start, count=count)
            copies.append(Fetch(copy.operand, _less(copy.start, number), (*apart, last)))
        extents = (*self.extents[:-1], _part(self.extents[-1], number))
        return Fetches(extents, tuple(copies))


def _part(size: Size, number: int) -> Size:
    return Size(size.factor // number, size.symbols)


def _less(distance: Distance, number: int) -> Distance:
    return Distance(tuple(_part(size, number) for size in distance.sizes))


# --- from copies ---------------------------------------------------------------------------------


def _fetch(copy: AffineCopy, operand: TensorType) -> Fetch:
    start, steps = steps_of(copy.source, operand.dims, len(copy.box))
    extents = [Size.of((dim,)) for dim in copy.box]
    reaches = tuple(_reach(place, extents, steps) for place in copy.target)
    windows = [p.terms[0][0] for p, r in zip(copy.target, reaches, strict=True) if r.is_window]
    if windows != sorted(windows):
        raise InternalError(f"windows meet in another order than the axes: {copy}")
    return Fetch(copy.operand, start, reaches)


def _reach(place: AffineIndex, extents: Sequence[Size], steps: Sequence[Distance]) -> Reach:
    start = Size.of((place.start,))
    match place:
        case AffineIndex(terms=(), backward=False):
            return Reach(start, 1, _ONE, _NOWHERE)
        case AffineIndex(terms=((i, step),), backward=False):
            return Reach(start, step, extents[i], steps[i])
        case AffineIndex(terms=((i, step), (j, 1)), backward=False):
            return Reach(start, step, extents[i], steps[i], extents[j], steps[j])
        case _:
            raise InternalError(f"cannot say what reaches {place}")


def _merged(fetches: Fetches) -> Fetches:
    """With neighbouring axes that all copies walk as one made one, which saves divisions."""
    for axis in reversed(range(1, len(fetches.extents))):
        joined = [_joined(copy, axis, fetches.extents[axis]) for copy in fetches.copies]
        copies = tuple(copy for copy in joined if copy is not None)
        if len(copies) == len(joined):
            before, after = fetches.extents[: axis - 1], fetches.extents[axis + 1 :]
            one = fetches.extents[axis - 1] * fetches.extents[axis]
            fetches = Fetches((*before, one, *after), copies)
    return fetches


def _joined(copy: Fetch, axis: int, extent: Size) -> Fetch | None:
    """With the axis and the one before it as one; None where they are walked apart."""
    outer, inner = copy.reaches[axis - 1 : axis + 1]
    if not (inner.is_whole(extent) and outer.is_run):
        return None
    if outer.source != inner.source.times(extent):
        return None
    one = Reach(outer.start * extent, 1, outer.count * extent, inner.source)
    return replace(copy, reaches=(*copy.reaches[: axis - 1], one, *copy.reaches[axis + 1 :]))
