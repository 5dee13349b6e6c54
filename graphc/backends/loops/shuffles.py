"""Transposition of square blocks of vectors in registers."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.backends.loops import memory
from graphc.backends.loops.control import add
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import ELEMENT_BYTES, Val, index
from graphc.backends.loops.writer import Writer
from graphc.ir.types import DType


def transposed(code: Writer, rows: list[Val]) -> list[Val]:
    """The transpose of a square block: halves swap, then quarters, and so on."""
    return _exchanged(code, rows, len(rows) // 2)


def load_transposed(
    s: LaneScalars, rows: Sequence[Val], position: Val, dtype: DType, lanes: int
) -> list[Val]:
    """Loads and transposes a block: as many rows as there are lanes, from `position` on.

    The halves that swap are loaded where they belong: a load costs less than a shuffle.
    """
    if lanes < 4:
        return transposed(s.code, [memory.load(s, r, position, dtype, lanes) for r in rows])
    half = lanes // 2
    after = add(s.code, position, index(half))
    low: list[Val] = []
    high: list[Val] = []
    for a, b in zip(rows[:half], rows[half:], strict=True):
        for start, values in ((position, low), (after, high)):
            parts = [memory.load(s, row, start, dtype, half) for row in (a, b)]
            values.append(_joined(s.code, *parts))
    return _exchanged(s.code, low + high, half // 2)


def _exchanged(code: Writer, rows: list[Val], block: int) -> list[Val]:
    """Blocks of this size swap in pairs, then those of half the size, down to single elements."""
    values, count = list(rows), len(rows)
    while block:
        if block == 2 and _is_single_precision(rows[0]):
            return _interleaved(code, values)
        low = [p if not p & block else count + p - block for p in range(count)]
        high = [p + block if not p & block else count + p for p in range(count)]
        for i in range(count):
            if not i & block:
                a, b = values[i], values[i + block]
                values[i] = _shuffled(code, a, b, low)
                values[i + block] = _shuffled(code, a, b, high)
        block //= 2
    return values


def _is_single_precision(value: Val) -> bool:
    return ELEMENT_BYTES[value.type.element] == 4


def _interleaved(code: Writer, rows: list[Val]) -> list[Val]:
    """The last two steps where four elements fill 128 bits: the shuffles that are one instruction.

    Swapping single elements would be two.
    """
    count = len(rows)
    quarters = range(0, count, 4)
    singles = [[q + o + p for q in quarters for p in (0, count, 1, count + 1)] for o in (0, 2)]
    pairs = [[q + o + p for q in quarters for p in (0, 1, count, count + 1)] for o in (0, 2)]
    values: list[Val] = []
    for i in range(0, count, 4):
        for order in singles:
            a, b = (_shuffled(code, rows[j], rows[j + 1], order) for j in (i, i + 2))
            values += [_shuffled(code, a, b, pair) for pair in pairs]
    return values


def _joined(code: Writer, a: Val, b: Val) -> Val:
    """The lanes of a, then those of b."""
    return _shuffled(code, a, b, list(range(2 * a.type.lanes)))


def _shuffled(code: Writer, a: Val, b: Val, order: list[int]) -> Val:
    return code.shuffle(a, b, order)
