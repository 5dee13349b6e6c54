"""Loops, branches and the arithmetic of indices, over any writer.

Counts and indices are i64. Arithmetic on constants is done here and not left to the compiler behind
the writer: LLVM runs no passes over what graphc writes.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from graphc.backends.loops.values import Val, index, number_of
from graphc.backends.loops.writer import Turn, Writer
from graphc.passes.analysis.loopnest import Size


def add(code: Writer, a: Val, b: Val) -> Val:
    x, y = number_of(a), number_of(b)
    if x is not None and y is not None:
        return index(x + y)
    if x == 0:
        return b
    if y == 0:
        return a
    return code.binary("add nsw", a, b)


def sub(code: Writer, a: Val, b: Val) -> Val:
    x, y = number_of(a), number_of(b)
    if x is not None and y is not None:
        return index(x - y)
    if y == 0:
        return a
    return code.binary("sub nsw", a, b)


def mul(code: Writer, a: Val, b: Val) -> Val:
    x, y = number_of(a), number_of(b)
    if x is not None and y is not None:
        return index(x * y)
    if 0 in (x, y):
        return index(0)
    if x == 1:
        return b
    if y == 1:
        return a
    return code.binary("mul nsw", a, b)


def smaller(code: Writer, a: Val, b: Val) -> Val:
    """The lesser of two integers."""
    x, y = number_of(a), number_of(b)
    if x is not None and y is not None:
        return index(min(x, y))
    return code.select(code.compare("slt", a, b), a, b)


def remainder(code: Writer, a: Val, step: int) -> Val:
    """The remainder of a length after whole steps."""
    x = number_of(a)
    if x is not None:
        return index(x % step)
    return code.binary("urem", a, index(step))


def round_down(code: Writer, a: Val, step: int) -> Val:
    """The largest multiple of `step`, a power of two, that is not above `a`."""
    x = number_of(a)
    if x is not None:
        return index(x - x % step)
    return code.binary("and", a, index(-step))


def parts_of(code: Writer, extent: Val, widest: int) -> list[tuple[Val, Val, int]]:
    """(begin, end, width): the extent cut into multiples of ever smaller powers of two."""
    parts: list[tuple[Val, Val, int]] = []
    begin, width = index(0), widest
    while width:
        end = round_down(code, extent, width)
        parts.append((begin, end, width))
        begin, width = end, width // 2
    return parts


def size_value(code: Writer, size: Size, sizes: Mapping[str, Val]) -> Val:
    """The size as a value, from those of the call's dimensions."""
    value = index(size.factor)
    for name in size.symbols:
        value = mul(code, value, sizes[name])
    return value


def offset(code: Writer, base: Val, element: str, position: Val) -> Val:
    """The address of an element of an array."""
    if number_of(position) == 0:
        return base
    return code.offset(base, element, position)


@contextmanager
def loop(
    code: Writer, start: Val, stop: Val, step: int, carried: Sequence[Val] = ()
) -> Generator[Turn]:
    """Runs the block for start, start + step, … below stop.

    Inside, `carried` holds the values of this iteration; the caller replaces them by those of the
    next one. After the loop it holds the final values.
    """
    first, last = number_of(start), number_of(stop)
    if first is not None and last is not None and first >= last:
        raise ValueError("a loop that never runs must not be written")
    if first is not None and last is not None and last - first <= step:
        yield Turn(start, list(carried))
        return
    with code.guarded_loop(start, stop, step, carried) as turn:
        yield turn


@contextmanager
def loop_if_any(
    code: Writer, start: Val, stop: Val, step: int, carried: list[Val]
) -> Generator[Turn | None]:
    """Like `loop`, but gives None and writes nothing where the loop is known never to run."""
    first, last = number_of(start), number_of(stop)
    if first is not None and last is not None and first >= last:
        yield None
        return
    with loop(code, start, stop, step, carried) as state:
        yield state
    carried[:] = state.carried


def when(code: Writer, condition: Val, carried: list[Val]) -> AbstractContextManager[list[Val]]:
    """Runs the block if the condition holds; `carried` then holds the merged values."""
    return code.when(condition, carried)
