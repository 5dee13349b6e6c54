"""Pairs of numbers of bf16, which the dot products of some machines multiply.

A pair is one 32-bit element with two steps of a sum: the earlier one in the upper half, which a dot
product adds first, so that an element's sum goes through k in rising order as it does everywhere,
and has the bits of fused multiply-adds of the same factors, but for denormals. Behind an odd number
of steps comes a zero.
"""

from __future__ import annotations

from graphc.backends.loops.control import add
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import Val, index, lane_type, number_of
from graphc.backends.loops.writer import Writer


def count_of(code: Writer, steps: Val) -> Val:
    """How many pairs so many steps are."""
    known = number_of(steps)
    if known is not None:
        return index((known + 1) // 2)
    return code.binary("lshr", add(code, steps, index(1)), index(1))


def pair(s: LaneScalars, earlier: Val, later: Val) -> Val:
    """Pairs of the numbers in the same lanes of two vectors."""
    lanes = earlier.type.lanes
    words = s.code.to_bf16(later, earlier)
    order = [half + lane for lane in range(lanes) for half in (0, lanes)]
    return s.convert("bitcast", s.code.shuffle(words, None, order), lane_type("i32", lanes))


def neighbours(s: LaneScalars, first: Val, second: Val) -> Val:
    """Pairs of neighbouring lanes of two vectors, which are one behind the other."""
    lanes = first.type.lanes
    words = s.code.to_bf16(first, second)
    order = [lane ^ 1 for lane in range(2 * lanes)]
    return s.convert("bitcast", s.code.shuffle(words, None, order), lane_type("i32", lanes))
