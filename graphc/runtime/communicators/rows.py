"""What members hand to each other besides sums: rows of all, and their own rows of a sum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from graphc.runtime.communicators.communicator import Communicator, hands_pieces
from graphc.runtime.communicators.sums import Room, gather_rows, tree_sum

Array = np.ndarray


def counts_of(communicator: Communicator, *numbers: int) -> Array:
    """These numbers of all members: (members, numbers)."""
    found = np.zeros((communicator.size, len(numbers)), np.int64)
    found[communicator.rank] = numbers
    communicator.all_reduce(found)
    return found


def gathered(communicator: Communicator, mine: Array, counts: Sequence[int]) -> Array:
    """The rows of all members, of which each has so many."""
    return gathered_together(communicator, [mine], counts, Room())[0]


def gathered_together(
    communicator: Communicator, arrays: Sequence[Array], counts: Sequence[int], room: Room
) -> list[Array]:
    """The rows of all members of several arrays, in one message; `room` is for that."""
    if communicator.size == 1:
        return [*arrays]
    if not hands_pieces(communicator):
        return [_gathered_by_sum(communicator, mine, counts) for mine in arrays]
    most = max(counts)
    widths = [a.dtype.itemsize * math.prod(a.shape[1:]) for a in arrays]
    starts = [0, *accumulate(-(-most * width // 8) * 8 for width in widths)]
    packed = room.of((starts[-1],), np.dtype(np.uint8))
    for mine, start in zip(arrays, starts, strict=False):
        packed[start : start + mine.nbytes] = _bytes_of(mine)
    every = communicator.collect(packed)
    return [
        np.concatenate(
            [its[start : start + n * width] for its, n in zip(every, counts, strict=True)]
        )
        .view(mine.dtype)
        .reshape(sum(counts), *mine.shape[1:])
        for mine, start, width in zip(arrays, starts, widths, strict=False)
    ]


def _bytes_of(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _gathered_by_sum(communicator: Communicator, mine: Array, counts: Sequence[int]) -> Array:
    wide = mine if mine.dtype.itemsize in (4, 8) else mine.astype(np.int32)
    start = sum(counts[: communicator.rank])
    places = slice(start, start + counts[communicator.rank])
    return gather_rows(communicator, wide, places, sum(counts)).astype(mine.dtype, copy=False)


def folded(communicator: Communicator, array: Array, by: str) -> Array:
    """The largest, or smallest, elements of all members' arrays."""
    every = gathered(communicator, array.reshape(1, -1), [1] * communicator.size)
    fold = np.maximum if by == "maximum" else np.minimum
    return fold.reduce(every, axis=0).reshape(array.shape)


def scattered_sum(communicator: Communicator, array: Array, counts: Sequence[int]) -> Array:
    """This member's rows of the sum of all members' arrays."""
    rank, start = communicator.rank, sum(counts[: communicator.rank])
    if communicator.size == 1:
        return array
    if not hands_pieces(communicator):
        communicator.all_reduce(array)
        return array[start : start + counts[rank]]
    most, first = max(counts), 0
    rows = np.zeros((communicator.size, most, *array.shape[1:]), array.dtype)
    for member, count in enumerate(counts):
        rows[member, :count] = array[first : first + count]
        first += count
    pieces = communicator.exchange(rows.reshape(communicator.size, -1))
    total = tree_sum(list(pieces)).reshape(most, *array.shape[1:])
    return total[: counts[rank]].copy()


class Gathering:
    """All members' rows of some arrays, of each all columns or those from a first one on to the one
    behind a last one."""

    def __init__(self, columns: Sequence[tuple[int, int]]) -> None:
        self._columns = [_Columns(*ends) if ends[1] else None for ends in columns]
        self._room = Room()

    def of(
        self, communicator: Communicator, arrays: Sequence[Array], counts: Sequence[int]
    ) -> list[Array]:
        """The rows, until the next call."""
        sent: list[Array] = []
        for mine, columns in zip(arrays, self._columns, strict=True):
            sent += [mine] if columns is None else columns.sent(mine)
        got = iter(gathered_together(communicator, sent, counts, self._room))
        made: list[Array] = []
        for mine, columns in zip(arrays, self._columns, strict=True):
            rows = next(got)
            if columns is not None and (rows == DENSE).any():
                next(got)
                rows = columns.taken(gathered(communicator, mine, counts))
            elif columns is not None:
                rows = columns.found(rows, next(got))
            made.append(rows)
        return made


NO_COLUMN, DENSE = -1, -2


class _Columns:
    """Some columns of rows. Those with at most one number that is not 0, as labels are, travel as
    its column and the number; DENSE stands there for others."""

    def __init__(self, start: int, stop: int) -> None:
        self._start, self._stop = start, stop
        self._room = Room()
        self._found = np.empty((0, 0))
        self._set: tuple[Array, Array] = np.empty(0, np.int64), np.empty(0, np.int64)

    def taken(self, rows: Array) -> Array:
        return np.ascontiguousarray(rows[:, self._start : self._stop])

    def sent(self, mine: Array) -> list[Array]:
        """The column in each row, and the number."""
        # Of bools it takes a tenth of the time that it takes of numbers.
        rows, columns = np.divmod(np.flatnonzero(mine != 0), mine.shape[1])
        if len(rows) > len(mine) or not bool((np.diff(rows) > 0).all()):
            return [np.full(len(mine), DENSE, np.int32), np.zeros(len(mine), mine.dtype)]
        places = np.full(len(mine), NO_COLUMN, np.int32)
        places[rows] = columns
        numbers = np.zeros(len(mine), mine.dtype)
        numbers[rows] = mine[rows, columns]
        return [places, numbers]

    def found(self, places: Array, numbers: Array) -> Array:
        """Rows that are 0 but for these numbers. Where they were in the last call becomes 0, which
        is less to write than all."""
        shape = len(numbers), self._stop - self._start
        if (self._found.shape, self._found.dtype) == (shape, numbers.dtype):
            self._found[self._set] = 0
        else:
            self._found = self._room.of(shape, numbers.dtype)
            self._found.fill(0)
        rows = np.flatnonzero((places >= self._start) & (places < self._stop))
        self._set = rows, places[rows] - self._start
        self._found[self._set] = numbers[rows]
        return self._found
