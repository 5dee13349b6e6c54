"""Members of a training that are threads of one process.

They need no other library, and add in the fixed order: what they compute is what members on other
engines compute with `order="fixed"`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from graphc.runtime.communicators.communicator import (
    PATIENCE,
    Communicator,
    Wire,
    checked_patience,
    checked_shards,
    checked_wire,
)
from graphc.runtime.communicators.sums import tree_sum
from graphc.support import arguments
from graphc.support.diagnostics import fail

Array = np.ndarray


@dataclass(frozen=True)
class _Meeting:
    """Where threads leave their arrays for each other."""

    barrier: threading.Barrier
    arrays: list[Array]


@dataclass(frozen=True)
class ThreadMember:
    """A member that is a thread of this process."""

    rank: int
    size: int
    shards: int
    wire: Wire
    overlap: bool
    _meeting: _Meeting

    def all_reduce(self, array: Array) -> None:
        """See `Communicator`; in the fixed order."""
        arrays = self._meeting.arrays
        arrays[self.rank] = array
        self._wait()
        forms = {(a.shape, a.dtype) for a in arrays}
        total = tree_sum(arrays) if len(forms) == 1 else None
        self._wait()  # nobody reads the arrays any more
        if total is None:
            got = ", ".join(f"{a.dtype}{list(a.shape)}" for a in arrays)
            raise fail("training", f"members have to add arrays of one shape and type, got {got}")
        array[...] = total

    def exchange(self, rows: Array) -> Array:
        """See `PieceCommunicator`."""
        return self._taken(rows, lambda its: its[self.rank])

    def collect(self, piece: Array) -> Array:
        """See `PieceCommunicator`."""
        return self._taken(piece, lambda its: its)

    def _taken(self, array: Array, part: Callable[[Array], Array]) -> Array:
        """A part of each member's array."""
        arrays = self._meeting.arrays
        arrays[self.rank] = array
        self._wait()
        found = np.stack([part(its) for its in arrays])
        self._wait()
        return found

    def _wait(self) -> None:
        try:
            self._meeting.barrier.wait()
        except threading.BrokenBarrierError:
            message = f"member {self.rank} of {self.size} waited for another one that did not come"
            raise fail("training", message) from None


def threads(
    count: int,
    patience: float = PATIENCE,
    shards: int = 0,
    wire: str = "full",
    overlap: bool = False,
) -> list[Communicator]:
    """So many members, each for a thread of its own; they wait for each other for `patience`
    seconds. `shards`, `wire` and `overlap` as in `mpi`."""
    if (count := arguments.whole(count, "the number of members")) < 1:
        raise fail("bad-value", f"members are 1 or more, got {count!r}")
    checked_shards(shards, count)
    wire = checked_wire(wire, shards)
    meeting = _Meeting(
        threading.Barrier(count, timeout=checked_patience(patience)), [np.empty(0)] * count
    )
    return [ThreadMember(rank, count, shards, wire, overlap, meeting) for rank in range(count)]
