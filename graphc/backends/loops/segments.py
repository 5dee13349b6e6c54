"""Segments: neighbouring entries of an index with contiguous values, such as the words of a
class."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.backends.loops import memory
from graphc.backends.loops.control import add, loop_if_any, round_down, sub, when
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import I1, I64, Val, constant, index
from graphc.backends.loops.writer import Writer
from graphc.ir.types import DType

Work = Callable[[Val, list[Val]], None]
"""(position, carried): handles one position; it may change the carried values in place."""
SegmentWork = Callable[[Val, Val, list[Val]], None]
"""(position, start, carried): the same for a vector of positions, whose values start there."""
VECTORS = 4
"""Vectors that are tested for one run before single vectors are."""


def all_of(s: LaneScalars, condition: Val) -> Val:
    """Whether the condition holds in all lanes."""
    return s.code.fold_truth("and", condition)


def segment_start(s: LaneScalars, vectors: Sequence[Val]) -> tuple[Val, Val]:
    """The first lane of i32 vectors as i64, and whether all others count up from it by one."""
    type_ = vectors[0].type
    first = s.code.extract(vectors[0], 0)
    counted = s.add(s.splat(first, type_.lanes), memory.steps(type_))
    same = s.compare("eq", vectors[0], counted)
    for i, values in enumerate(vectors[1:], 1):
        later = s.add(counted, constant(i * type_.lanes, type_))
        same = s.logical_and(same, s.compare("eq", values, later))
    return s.convert("sext", first, I64), all_of(s, same)


class Segments:
    """Walks over an array of i32 numbers, by whole vectors where the numbers are consecutive.

    base   the array
    lanes  of a vector
    limit  the numbers of a run are below it, if it is given, and never negative
    """

    def __init__(self, s: LaneScalars, base: Val, lanes: int, limit: Val | None = None) -> None:
        self._s = s
        self._base = base
        self._lanes = lanes
        self._limit = limit

    def walk(
        self, end: Val, offset: Val, carried: list[Val], some: SegmentWork, each: Work
    ) -> None:
        """`some` for vectors of positions, `each` for single ones, of all below `end`.

        The number of a position is at `offset` + position in the array. Runs of `VECTORS` vectors
        are looked for first: one test then covers many positions.
        """
        code = self._s.code
        middle = round_down(code, end, self._lanes)
        step = VECTORS * self._lanes

        def many(position: Val, carried: list[Val]) -> None:
            stop = add(code, position, index(step))
            found = [*carried, constant(0, I1)]
            with when(code, self._s.compare("sle", stop, middle), found) as values:
                self._try(position, offset, VECTORS, values, some)
            is_left = self._s.logical_not(found.pop())
            carried[:] = found
            with when(code, is_left, carried) as values:
                stop = self._s.minimum(stop, middle)
                with loop_if_any(code, position, stop, self._lanes, values) as state:
                    if state:
                        one(state.index, state.carried)

        def one(position: Val, carried: list[Val]) -> None:
            found = [*carried, constant(0, I1)]
            self._try(position, offset, 1, found, some)
            is_left = self._s.logical_not(found.pop())
            carried[:] = found
            with when(code, is_left, carried) as values:
                stop = add(code, position, index(self._lanes))
                with loop_if_any(code, position, stop, 1, values) as state:
                    if state:
                        each(state.index, state.carried)

        with loop_if_any(code, index(0), middle, step, carried) as state:
            if state:
                many(state.index, state.carried)
        with loop_if_any(code, middle, end, 1, carried) as state:
            if state:
                each(state.index, state.carried)

    def _try(
        self, position: Val, offset: Val, vectors: int, found: list[Val], some: SegmentWork
    ) -> None:
        """`some` if these vectors are one run; sets the last of `found` to whether they were."""
        s, code, lanes = self._s, self._s.code, self._lanes
        at = add(code, offset, position)
        places = [add(code, at, index(i * lanes)) for i in range(vectors)]
        numbers = [memory.load(s, self._base, place, DType.I32, lanes) for place in places]
        start, is_segment = segment_start(s, numbers)
        is_segment = s.logical_and(is_segment, s.compare("sge", start, index(0)))
        if self._limit is not None:
            last = sub(code, self._limit, index(vectors * lanes))
            is_segment = s.logical_and(is_segment, s.compare("sle", start, last))
        with when(code, is_segment, found) as values:
            inside = values[:-1]
            for i in range(vectors):
                further = index(i * lanes)
                some(add(code, position, further), add(code, start, further), inside)
            values[:] = [*inside, constant(1, I1)]


def whole_or_each(
    code: Writer, begin: Val, end: Val, lanes: int, carried: list[Val], whole: Work, each: Work
) -> None:
    """`whole` for every `lanes` positions from `begin` on, and `each` for the remaining ones."""
    middle = round_down(code, end, lanes)
    with loop_if_any(code, begin, middle, lanes, carried) as state:
        if state:
            whole(state.index, state.carried)
    with loop_if_any(code, middle, end, 1, carried) as state:
        if state:
            each(state.index, state.carried)


def either(
    s: LaneScalars,
    condition: Val,
    carried: list[Val],
    some: Callable[[list[Val]], None],
    other: Callable[[list[Val]], None],
) -> None:
    """`some` if the condition holds, else `other`; both may change the carried values in place."""
    with when(s.code, condition, carried) as values:
        some(values)
    with when(s.code, s.logical_not(condition), carried) as values:
        other(values)
