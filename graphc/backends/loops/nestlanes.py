"""Parts of the lanes of a vector."""

from __future__ import annotations

from graphc.backends.loops.values import Val
from graphc.backends.loops.writer import Writer


def halves(code: Writer, value: Val) -> tuple[Val, Val]:
    """The lanes of a vector in two."""
    half = value.type.lanes // 2
    return lanes_from(code, value, 0, half), lanes_from(code, value, half, half)


def lanes_from(code: Writer, value: Val, start: int, count: int) -> Val:
    """`count` lanes of a vector from `start` on."""
    if count == 1:
        return code.extract(value, start)
    return code.shuffle(value, None, range(start, start + count))
