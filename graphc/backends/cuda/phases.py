"""Phases: which launches run side by side, because none touches what another one writes.

    %1 = gemm %x, %a at arena:0          phase 0    %1, %2
    %2 = gemm %x, %b at arena:4096   =>  phase 1    %3
    %3 = kernel %1, %2 at result:0

What a launch touches are bytes: those that its arrays have at the bounds. Each launch comes into
the first phase behind all that it has to wait for (what it reads was written, what it writes was
read or written), so it may move up past launches before it, and there are no more phases than the
longest chain has launches. A loop stands between phases, or beside one, with phases of its own.

Elements of a sequence are the whole sequence, unless both are elements of the same one in the same
turn of the loops, at different distances from it. O(launches²) for what is in one block of steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from graphc.backends.cuda.steps import Base, Either, Launch, Number, Part, Place, Step, Turns, Where
from graphc.passes.analysis.loopnest import Size


@dataclass(frozen=True, slots=True)
class Phase:
    """Launches that may run in any order, or all at once."""

    launches: tuple[Launch, ...]


@dataclass(frozen=True, slots=True)
class PhasedTurns:
    """Phases that run `count` times, in loop number `loop`."""

    loop: int
    count: Number
    phases: tuple[Phased, ...]


Phased = Phase | PhasedTurns


def phases_of(steps: Sequence[Step]) -> tuple[Phased, ...]:
    """The phases in order: none waits for what comes behind it."""
    levels: list[list[Step]] = []
    placed: list[tuple[_Touched, int]] = []
    for step in steps:
        mine = _touched(step)
        level = max((at + 1 for other, at in placed if _conflict(mine, other)), default=0)
        placed.append((mine, level))
        if level == len(levels):
            levels.append([])
        levels[level].append(step)
    return tuple(phased for level in levels for phased in _phased(level))


def walk_phases(phases: Iterable[Phased]) -> Iterator[Phase]:
    """All of them, those of loops once."""
    for phased in phases:
        if isinstance(phased, Phase):
            yield phased
        else:
            yield from walk_phases(phased.phases)


def _phased(level: Sequence[Step]) -> Iterator[Phased]:
    launches = tuple(step for step in level if isinstance(step, Launch))
    if launches:
        yield Phase(launches)
    for step in level:
        if isinstance(step, Turns):
            yield PhasedTurns(step.loop, step.count, phases_of(step.steps))


# --- what a step touches --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Span:
    """Bytes of an array, or of the element of it that `path` leads to: an element of the whole, an
    element of that, …"""

    base: Base
    start: int
    end: int
    path: tuple[tuple[Number, Size], ...] = ()


@dataclass(frozen=True, slots=True)
class _Touched:
    reads: frozenset[_Span]
    writes: frozenset[_Span]


def _touched(step: Step) -> _Touched:
    if isinstance(step, Turns):
        inner = [_touched(s) for s in step.steps]
        return _Touched(
            frozenset(_in_all_turns(s, step.loop) for t in inner for s in t.reads),
            frozenset(_in_all_turns(s, step.loop) for t in inner for s in t.writes),
        )
    numbered = list(enumerate(step.pointers))
    return _Touched(
        frozenset(s for i, where in numbered if i not in step.writes for s in _spans(where)),
        frozenset(s for i, where in numbered if i in step.writes for s in _spans(where)),
    )


def _spans(where: Where) -> Iterator[_Span]:
    match where:
        case Place("buffer", index):
            yield _Span("buffer", index, index + 1)
        case Place(base, index, size):
            yield _Span(base, index, index + size)
        case Part(whole, number, size):
            for span in _spans(whole):
                yield _Span(span.base, span.start, span.end, (*span.path, (number, size)))
        case Either(_, some, otherwise):
            yield from _spans(some)
            yield from _spans(otherwise)


def _in_all_turns(span: _Span, loop: int) -> _Span:
    """What it touches in any turn of this loop."""
    path = span.path
    for length, (number, _) in enumerate(path):
        if number.sign and number.loop >= loop:
            return _Span(span.base, span.start, span.end, path[:length])
    return span


def _conflict(a: _Touched, b: _Touched) -> bool:
    pairs = ((a.writes, b.writes), (a.writes, b.reads), (a.reads, b.writes))
    return any(_overlap(x, y) for xs, ys in pairs for x in xs for y in ys)


def _overlap(a: _Span, b: _Span) -> bool:
    if a.base != b.base or max(a.start, b.start) >= min(a.end, b.end):
        return False
    is_same_array = (a.start, a.end) == (b.start, b.end)
    return not (is_same_array and _are_apart(a.path, b.path))


def _are_apart(a: Sequence[tuple[Number, Size]], b: Sequence[tuple[Number, Size]]) -> bool:
    """Whether the paths lead to different elements, at the first place where they part."""
    for (x, size_of_x), (y, size_of_y) in zip(a, b, strict=False):
        if (x, size_of_x) == (y, size_of_y):
            continue
        # What they still differ in is how far they are from it: `plus`.
        return size_of_x == size_of_y and (x.size, x.sign, x.loop) == (y.size, y.sign, y.loop)
    return False
