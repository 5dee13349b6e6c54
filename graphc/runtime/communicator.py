"""How the members of a training add up what each of them has.

A communicator is what MPI, NCCL or gloo offers. `thread_members` needs none of them: its members
are threads of one process, and are added in a fixed order.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from graphc.runtime.device_arrays import DeviceArray
from graphc.support.diagnostics import fail

Array = np.ndarray

PATIENCE = 600.0
"""Seconds that a member waits for the others."""


@runtime_checkable
class Communicator(Protocol):
    """One of `size` members, number `rank`. All of them make the same calls in the same order."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def all_reduce(self, array: Array) -> None:
        """Put the sum of all members' arrays, of one shape and type, into the array. Everybody gets
        the same bits. Raises GraphcError `training` where a member does not come."""
        ...


@runtime_checkable
class DeviceCommunicator(Communicator, Protocol):
    """One that adds arrays in the memory of GPUs where they lie."""

    def all_reduce_there(self, array: DeviceArray, stream: int) -> None:
        """The same on a GPU: begun on a stream of CUDA, by its handle, behind what was begun there
        and before what will be."""
        ...


def checked_communicator(communicator: object) -> Communicator | None:
    """The communicator, or None; GraphcError `argument-type` for anything else."""
    if communicator is None or isinstance(communicator, Communicator):
        return communicator
    got = type(communicator).__name__
    raise fail("argument-type", f"a communicator has rank, size and all_reduce, got {got}")


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
    _meeting: _Meeting

    def all_reduce(self, array: Array) -> None:
        """See `Communicator`; members are added in their order."""
        arrays = self._meeting.arrays
        arrays[self.rank] = array
        self._wait()
        forms = {(a.shape, a.dtype) for a in arrays}
        total = _sum(arrays) if len(forms) == 1 else None
        self._wait()  # nobody reads the arrays any more
        if total is None:
            got = ", ".join(f"{a.dtype}{list(a.shape)}" for a in arrays)
            raise fail("training", f"members have to add arrays of one shape and type, got {got}")
        array[...] = total

    def _wait(self) -> None:
        try:
            self._meeting.barrier.wait()
        except threading.BrokenBarrierError:
            message = f"member {self.rank} of {self.size} waited for another one that did not come"
            raise fail("training", message) from None


def _sum(arrays: Sequence[Array]) -> Array:
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array
    return total


def thread_members(count: int, patience: float = PATIENCE) -> list[Communicator]:
    """So many members, each for a thread of its own; they wait for each other for `patience`
    seconds."""
    if count < 1:
        raise fail("bad-value", f"members are 1 or more, got {count!r}")
    meeting = _Meeting(threading.Barrier(count, timeout=patience), [np.empty(0)] * count)
    return [ThreadMember(rank, count, meeting) for rank in range(count)]
