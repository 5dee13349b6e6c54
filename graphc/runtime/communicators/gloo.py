"""Members of a training that meet over TCP: processes that torchrun, Ray or a script has started.

gloo comes with PyTorch, which is imported when somebody asks for it. A member that is gone is an
error for the others, at once where its process has ended and after their patience where it was
stopped. They may go on with a communicator of fewer.
"""

from __future__ import annotations

import atexit
import os
import socket
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from importlib import import_module
from itertools import count
from typing import Any
from weakref import ReferenceType, ref

import numpy as np

from graphc.runtime.communicators.communicator import (
    PATIENCE,
    Communicator,
    Order,
    Wire,
    checked_order,
    checked_overlap,
    checked_patience,
    checked_shards,
    checked_wire,
)
from graphc.runtime.communicators.link import measured_idle
from graphc.runtime.communicators.rendezvous import Rendezvous, rendezvous
from graphc.runtime.communicators.sums import Room, add_by_pieces
from graphc.runtime.communicators.watchdog import members_said
from graphc.support.diagnostics import fail

Array = np.ndarray

PORT = 29500
ANSWERS = 1.0
"""Seconds that members leave each other to say that a sum failed for them too."""
LOOK = 0.01
"""Seconds between two looks whether others have said something."""
NO_TORCH = "members over gloo need PyTorch: pip install 'graphc[gloo]'"


@dataclass(frozen=True)
class GlooMember:
    """A process with a process group of PyTorch's, and the store that its members share; for `idle`
    see `ChoosingCommunicator`.

    lent  views of arrays that PyTorch may still hold
    """

    rank: int
    size: int
    order: Order
    shards: int
    wire: Wire
    overlap: bool | None
    group: Any
    store: Any
    idle: float = 0.0
    _sums: Iterator[int] = field(default_factory=count, repr=False)
    _rows: Room = field(default_factory=Room, repr=False)
    _exchanged: Room = field(default_factory=Room, repr=False)
    _collected: Room = field(default_factory=Room, repr=False)
    lent: list[ReferenceType[Array]] = field(default_factory=list["ReferenceType[Array]"])

    def all_reduce(self, array: Array) -> None:
        """See `Communicator`. GraphcError `training` names who is missing."""
        with self._reported(next(self._sums)):
            if self.order == "any":
                self.group.allreduce([self._tensor(array)]).wait()
            else:
                add_by_pieces(array, self.size, self._exchange, self._collect, self._rows)

    def exchange(self, rows: Array) -> Array:
        """See `PieceCommunicator`; as bytes, since gloo knows few types."""
        with self._reported(next(self._sums)):
            return self._exchange(rows.view(np.uint8)).view(rows.dtype)

    def collect(self, piece: Array) -> Array:
        """See `PieceCommunicator`."""
        with self._reported(next(self._sums)):
            return self._collect(piece.view(np.uint8)).view(piece.dtype)

    def failures(self, text: str, seconds: float) -> dict[int, str]:
        """What fails on which members, here `text`, of those that say so within so many seconds.
        The store ends with member 0."""
        found, end = {self.rank: text}, time.monotonic() + seconds
        with suppress(RuntimeError):
            self.store.set(f"said/{self.rank}", text)
            while len(found) < self.size and time.monotonic() < end:
                for other in range(self.size):
                    if other not in found and self.store.check([f"said/{other}"]):
                        found[other] = self.store.get(f"said/{other}").decode()
                time.sleep(LOOK)  # the store is asked over TCP
        return found

    def _exchange(self, rows: Array) -> Array:
        found = self._exchanged.of(rows.shape, rows.dtype)
        self.group.alltoall_base(self._tensor(found), self._tensor(rows), [], []).wait()
        return found

    def _collect(self, piece: Array) -> Array:
        found = self._collected.of((self.size, *piece.shape), piece.dtype)
        self.group.allgather([list(self._tensor(found))], [self._tensor(piece)]).wait()
        return found

    def _tensor(self, array: Array) -> Any:
        """PyTorch's view of an array; the view is noted in `lent` until PyTorch lets go of it."""
        view = array.view()
        self.lent[:] = [ref(view), *(other for other in self.lent if other() is not None)]
        return import_module("torch").from_numpy(view)

    @contextmanager
    def _reported(self, number: int) -> Generator[None]:
        try:
            yield
        except RuntimeError as problem:
            missing = self._missing(number)
            who = members_said(missing, self.size) or _first_line(problem)
            raise fail("training", f"member {self.rank} has no sum: {who}") from problem

    def _missing(self, number: int) -> list[int]:
        """Who does not say that this sum failed there too. The store is with member 0: who does
        not come to it misses that member, and this one itself all others."""
        found: list[list[int]] = []

        def ask() -> None:
            keys = [f"failed/{number}/{rank}" for rank in range(self.size)]
            with suppress(RuntimeError):
                self.store.set(keys[self.rank], "")
                time.sleep(ANSWERS * (1 + (self.rank == 0)))  # with whom the store ends
                found.append([r for r, key in enumerate(keys) if not self.store.check([key])])

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(3 * ANSWERS)  # a store that was stopped does not answer
        if found:
            return found[0]
        return [0] if self.rank else list(range(1, self.size))


def gloo(
    rank: int | None = None,
    size: int | None = None,
    *,
    host: str | None = None,
    port: int | None = None,
    order: str = "any",
    patience: float = PATIENCE,
    shards: int = 0,
    wire: str = "full",
    overlap: bool | None = None,
) -> Communicator:
    """This process as one of `size` that find each other over TCP. It waits until all have come.

    rank, size  by default what RANK and WORLD_SIZE say, as torchrun sets them
    host, port  where member 0 listens, by default what MASTER_ADDR and MASTER_PORT say, else
                127.0.0.1 and 29500
    order       of sums: `any`, as gloo likes best, or `fixed`, in one tree
    patience    seconds that a member waits for the others; then all raise `training`
    shards      as in `mpi`, and so are `wire` and `overlap`

    Raises GraphcError `bad-value` for a rank, size, order, patience, shards, wire or overlap that
    cannot be, `training` without PyTorch, where the port is taken, or where members do not find
    each other.
    """
    met = rendezvous(rank, size, host, port, PORT)
    order, patience = checked_order(order), checked_patience(patience)
    wire = checked_wire(wire, shards)
    overlap = checked_overlap(overlap, wire)
    if checked_shards(shards, met.size):
        order = "fixed"
    distributed = _distributed()
    wait = timedelta(seconds=patience)
    try:
        store = _store(distributed, met, wait)
        group = distributed.ProcessGroupGloo(store, met.rank, met.size, wait)
    except RuntimeError as problem:
        message = f"{met.size} members have not found each other at {met.host}:{met.port}"
        raise fail("training", f"{message}: {_first_line(problem)}") from problem
    member = GlooMember(met.rank, met.size, order, shards, wire, overlap, group, store)
    atexit.register(_settle, member.lent)
    return replace(member, idle=measured_idle(member)) if overlap is None else member


def _distributed() -> Any:
    """torch.distributed."""
    try:
        return import_module("torch.distributed")
    except ModuleNotFoundError as problem:
        raise fail("training", NO_TORCH) from problem


def _store(distributed: Any, met: Rendezvous, wait: timedelta) -> Any:
    """What all members share; in torchrun's own store a part for this start of the members."""
    by_torchrun = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    listens = met.rank == 0 and not by_torchrun
    store = distributed.TCPStore(
        met.host,
        met.port,
        None if by_torchrun else met.size,
        listens,
        timeout=wait,
        wait_for_workers=not by_torchrun,
        master_listen_fd=_listening(met) if listens else None,
    )
    start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return distributed.PrefixStore(f"graphc/{start}", store)


def _listening(met: Rendezvous) -> int:
    """A socket at the port, for the store. GraphcError `training` where there can be none."""
    try:
        (family, *_), *_ = socket.getaddrinfo(met.host, met.port, type=socket.SOCK_STREAM)
        return socket.create_server((met.host, met.port), family=family).detach()
    except OSError as problem:
        message = f"member 0 cannot listen at {met.host}:{met.port}: {problem.strerror}"
        raise fail("training", f"{message}; give all members another port") from problem


def _settle(lent: Sequence[ReferenceType[Array]]) -> None:
    """Return when PyTorch has let go of arrays. A thread of its own does, after the sum, and has to
    have Python for that: where Python has ended, the process is aborted."""
    end = time.monotonic() + ANSWERS
    time.sleep(LOOK)
    while any(view() is not None for view in lent) and time.monotonic() < end:
        time.sleep(LOOK)


def _first_line(problem: RuntimeError) -> str:
    return str(problem).partition("\n")[0]
