"""What members hand to each other besides sums: rows of all, and their own rows of a sum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphc.runtime.communicators.communicator import Communicator, PieceCommunicator
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
    if communicator.size == 1:
        return mine
    rank, total, shape = communicator.rank, sum(counts), mine.shape[1:]
    if not isinstance(communicator, PieceCommunicator):
        wide = mine if mine.dtype.itemsize in (4, 8) else mine.astype(np.int32)
        start = sum(counts[:rank])
        places = slice(start, start + counts[rank])
        return gather_rows(communicator, wide, places, total).astype(mine.dtype, copy=False)
    padded = np.zeros((max(counts), *shape), mine.dtype)
    padded[: len(mine)] = mine
    pieces = communicator.collect(padded.reshape(-1).view(np.uint8))
    rows = pieces.reshape(communicator.size, -1).view(mine.dtype)
    rows = rows.reshape(communicator.size, max(counts), *shape)
    return np.concatenate([r[:n] for r, n in zip(rows, counts, strict=True)])


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
    if not isinstance(communicator, PieceCommunicator):
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


class Columns:
    """Some columns of all members' rows. Rows with at most one number that is not 0, as labels are,
    travel as its place and the number."""

    def __init__(self, start: int, stop: int) -> None:
        self._start, self._stop = start, stop
        self._room = Room()
        self._found = np.empty((0, 0))
        self._set: tuple[Array, Array] = np.empty(0, np.int64), np.empty(0, np.int64)

    def of(self, communicator: Communicator, mine: Array, counts: Sequence[int]) -> Array:
        """(all rows, stop - start), until the next call."""
        # Of bools it takes a tenth of the time that it takes of numbers.
        rows, columns = np.divmod(np.flatnonzero(mine != 0), mine.shape[1])
        is_dense = len(rows) > 1 and not bool((np.diff(rows) > 0).all())
        if counts_of(communicator, int(is_dense)).any():
            return np.ascontiguousarray(
                gathered(communicator, mine, counts)[:, self._start : self._stop]
            )
        places = np.full(len(mine), -1, np.int64)
        places[rows] = columns
        numbers = np.zeros(len(mine), mine.dtype)
        numbers[rows] = mine[rows, columns]
        places, numbers = (gathered(communicator, a, counts) for a in (places, numbers))
        here = np.flatnonzero((places >= self._start) & (places < self._stop))
        return self._one_in_each(here, places[here] - self._start, numbers, mine.dtype)

    def _one_in_each(self, rows: Array, columns: Array, numbers: Array, dtype: np.dtype) -> Array:
        """Zeros but for a number in each of these rows: where it was in the last call becomes zero,
        which is less to write than all."""
        shape = len(numbers), self._stop - self._start
        if (self._found.shape, self._found.dtype) == (shape, dtype):
            self._found[self._set] = 0
        else:
            self._found = self._room.of(shape, dtype)
            self._found.fill(0)
        self._set = rows, columns
        self._found[rows, columns] = numbers[rows]
        return self._found
