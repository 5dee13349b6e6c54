"""Sums over members whose bits do not depend on the engine: in one binary tree over the ranks.

An engine's own sum adds in the order of its ring or tree, which another engine, or another number
of bytes, has otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from graphc.runtime.communicators.communicator import Communicator

Array = np.ndarray

LINE_BYTES = 64
FEW_BYTES = 4096
"""Arrays up to this size are sent to everybody: one message is faster than two."""


@dataclass
class Room:
    """Memory for an array that is gone with the next one: fresh pages cost more than sums in
    them. It begins where a cache line does, so that vectors lie in one."""

    held: Array = field(default_factory=lambda: np.empty(0, np.uint8))

    def of(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        """An array with any numbers in it."""
        size = math.prod(shape) * dtype.itemsize
        if self.held.size < size:
            raw = np.empty(size + LINE_BYTES, np.uint8)
            start = -raw.ctypes.data % LINE_BYTES
            self.held = raw[start : start + size]
        return self.held[:size].view(dtype).reshape(shape)


def tree_sum(arrays: Sequence[Array], *, in_place: bool = False) -> Array:
    """The sum in a binary tree over neighbours: ((0 + 1) + (2 + 3)) + ((4 + 5) + 6).

    With two times as many arrays, each of which is one of two summands of these, the bits are the
    same: so 2 members add like 4.

    in_place  some of the arrays are overwritten, one with the sum
    """
    level = list(arrays)
    with np.errstate(all="ignore"):  # infinities and nan as in compiled code
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2], strict=False)
            level = [
                *(np.add(a, b, out=a if in_place else None) for a, b in pairs),
                *level[len(level) & ~1 :],
            ]
    return level[0]


def gather_rows(
    communicator: Communicator, mine: Array, places: Array | slice, count: int
) -> Array:
    """The rows of all members: of (n, …) those of this one at its places among `count`, which no
    other member has. All are of one type, whose numbers have 4 or 8 bytes."""
    found = np.zeros((count, *mine.shape[1:]), mine.dtype)
    found[places] = mine
    # As whole numbers, since -0.0 + 0.0 is 0.0.
    communicator.all_reduce(found.view(f"i{found.dtype.itemsize}"))
    return found


def add_by_pieces(
    array: Array,
    members: int,
    exchange: Callable[[Array], Array],
    collect: Callable[[Array], Array],
    room: Room,
) -> None:
    """Put the sum over all members into the array, each member adding one piece of it.

    exchange  given (members, n), row r for member r, returns the rows that members have for this
              one, in their order
    collect   given (n,), returns (members, n), the arrays of all in their order
    room      for the rows; what `exchange` returns is overwritten
    """
    flat = array.reshape(-1)
    if array.nbytes <= FEW_BYTES:
        flat[...] = tree_sum(list(collect(flat)))
        return
    piece = -(-flat.size // members)
    rows = room.of((members, piece), array.dtype)
    rows.reshape(-1)[: flat.size] = flat
    rows.reshape(-1)[flat.size :] = 0
    total = tree_sum(list(exchange(rows)), in_place=True)
    flat[...] = collect(total).reshape(-1)[: flat.size]
