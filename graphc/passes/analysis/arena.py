"""Offsets for buffers of known size and life in one stretch of memory.

Two ways, and the better one is taken. In the order of time, each buffer takes the smallest free
range that holds it; that is quick for any number of buffers. If it needs more than the buffers that
live at the same time, and they are not too many, they are placed by size, by size times life and by
start, each at the lowest offset that is free as long as it lives.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

MOST_TRIED = 400
"""Buffers that are compared in pairs: more would take too long."""


@dataclass(slots=True)
class Buffer:
    """`size` bytes that are in use from moment `start` to moment `end`, both included."""

    size: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each buffer begins, and where the last one ends."""

    offsets: tuple[int, ...]
    end: int


def lay_out(buffers: Sequence[Buffer]) -> Layout:
    """Offsets at which no two buffers overlap that live at the same time."""
    found = _in_order(buffers)
    if len(buffers) > MOST_TRIED:
        return found
    least = most_alive(buffers)
    orders = (
        lambda b: (-b.size, b.start),
        lambda b: (-b.size * (b.end - b.start + 1), b.start),
        lambda b: (b.start, -b.size),
    )
    for order in orders:
        if found.end <= least:
            break
        numbers = sorted(range(len(buffers)), key=lambda i: order(buffers[i]))
        found = min(found, _lowest_first(buffers, numbers), key=lambda layout: layout.end)
    return found


def most_alive(buffers: Iterable[Buffer]) -> int:
    """Bytes of the buffers that live at the moment when they are most: no layout needs less."""
    changes: dict[int, int] = {}
    for buffer in buffers:
        changes[buffer.start] = changes.get(buffer.start, 0) + buffer.size
        changes[buffer.end + 1] = changes.get(buffer.end + 1, 0) - buffer.size
    now = most = 0
    for moment in sorted(changes):
        now += changes[moment]
        most = max(most, now)
    return most


def _lowest_first(buffers: Sequence[Buffer], order: Iterable[int]) -> Layout:
    """One after the other, each where nothing lies yet that lives when it does."""
    offsets = [0] * len(buffers)
    placed: list[tuple[int, int]] = []  # by offset
    for number in order:
        mine = buffers[number]
        offset = 0
        for begin, other in placed:
            theirs = buffers[other]
            if theirs.start > mine.end or theirs.end < mine.start:
                continue
            if begin >= offset + mine.size:
                break
            offset = max(offset, begin + theirs.size)
        offsets[number] = offset
        if mine.size:
            insort(placed, (offset, number))
    ends = (offset + b.size for offset, b in zip(offsets, buffers, strict=True))
    return Layout(tuple(offsets), max(ends, default=0))


def _in_order(buffers: Sequence[Buffer]) -> Layout:
    free = _FreeList()
    offsets = [0] * len(buffers)
    alive: list[tuple[int, int]] = []
    for number in sorted(range(len(buffers)), key=lambda i: buffers[i].start):
        buffer = buffers[number]
        while alive and alive[0][0] < buffer.start:
            _, gone = heappop(alive)
            free.give_back(offsets[gone], buffers[gone].size)
        if buffer.size:
            offsets[number] = free.take(buffer.size)
            heappush(alive, (buffer.end, number))
    return Layout(tuple(offsets), free.end)


@dataclass
class _FreeList:
    """Free byte ranges of a growing arena: by size for the search, by offset for joining."""

    end: int = 0
    by_size: list[tuple[int, int]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    size_at: dict[int, int] = field(default_factory=dict)

    def take(self, size: int) -> int:
        """The offset of `size` bytes, out of the smallest range that holds them."""
        index = bisect_left(self.by_size, (size, -1))
        if index == len(self.by_size):
            return self._grow(size)
        found, offset = self.by_size[index]
        self._remove(offset)
        if found > size:
            self._add(offset + size, found - size)
        return offset

    def _grow(self, size: int) -> int:
        offset = self.end
        if self.starts and self.starts[-1] + self.size_at[self.starts[-1]] == self.end:
            offset = self.starts[-1]
            self._remove(offset)
        self.end = offset + size
        return offset

    def give_back(self, offset: int, size: int) -> None:
        index = bisect_left(self.starts, offset)
        if index < len(self.starts) and self.starts[index] == offset + size:
            size += self._remove(self.starts[index])
        if index > 0:
            before = self.starts[index - 1]
            if before + self.size_at[before] == offset:
                size += self._remove(before)
                offset = before
        self._add(offset, size)

    def _add(self, offset: int, size: int) -> None:
        insort(self.by_size, (size, offset))
        insort(self.starts, offset)
        self.size_at[offset] = size

    def _remove(self, offset: int) -> int:
        size = self.size_at.pop(offset)
        del self.by_size[bisect_left(self.by_size, (size, offset))]
        del self.starts[bisect_left(self.starts, offset)]
        return size
