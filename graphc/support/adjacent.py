"""Arrays one behind the other in memory, each from a multiple of so many bytes on."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

ALIGNMENT = 64
"""A line of the cache, and the longest vector."""


def adjacent(sizes: Iterable[int]) -> list[int]:
    """The byte at which each array of these bytes begins, and behind them that of the end."""
    padded = (-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)
    return list(accumulate(padded, initial=0))
