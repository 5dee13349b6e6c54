"""How the members of a training add up what each of them has.

A communicator is what MPI, NCCL or gloo offers, and what threads of one process do. In which order
summands are added is the engine's choice (`any`), or that of one binary tree over the members
(`fixed`, in `sums.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import is_dataclass, replace
from numbers import Integral
from typing import Any, Literal, Protocol, TypeGuard, get_args, runtime_checkable

import numpy as np

from graphc.runtime.device_arrays import DeviceArray
from graphc.support import arguments
from graphc.support.diagnostics import fail

Array = np.ndarray
Order = Literal["any", "fixed"]
ORDERS: tuple[str, ...] = get_args(Order)
Wire = Literal["full", "bf16", "1bit"]
WIRES: tuple[str, ...] = get_args(Wire)

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


@runtime_checkable
class PieceCommunicator(Communicator, Protocol):
    """One that hands arrays of any type over as they are: what `wire.py` makes sums of, for
    gradients that travel in fewer bits. What it returns is the caller's until the next call."""

    @property
    def wire(self) -> Wire: ...

    def exchange(self, rows: Array) -> Array:
        """Of (size, n), row r for member r: the rows that members have for this one, in their
        order."""
        ...

    def collect(self, piece: Array) -> Array:
        """Of (n,): (size, n), the arrays of all members in their order."""
        ...


@runtime_checkable
class PatientCommunicator(Communicator, Protocol):
    """One whose members can wait for each other without a limit, and leave their processors to
    those who work meanwhile."""

    def wait(self) -> None:
        """Return when all members have called this."""
        ...


@runtime_checkable
class PollingCommunicator(Communicator, Protocol):
    """One whose sums keep a processor busy while they wait, unless they are asked otherwise."""

    def beside(self, pause: Callable[[], None]) -> Communicator:
        """The same member, for sums that a thread makes beside the one that computes: between two
        looks whether a sum is there it calls `pause`."""
        ...


def beside(communicator: Communicator, pause: Callable[[], None]) -> Communicator:
    """The same member, for sums beside what is computed; see `PollingCommunicator`."""
    if isinstance(communicator, PollingCommunicator):
        return communicator.beside(pause)
    return communicator


@runtime_checkable
class ChoosingCommunicator(Communicator, Protocol):
    """One that knows its link, so that it can be chosen what is made beside the backward pass.

    overlap  whether sums are; None: where that takes less time
    idle     seconds that a byte of a sum is waited for (`link.py`), the same for all members
    """

    @property
    def overlap(self) -> bool | None: ...

    @property
    def idle(self) -> float: ...


def overlap_of(communicator: Communicator) -> bool | None:
    """Whether its sums go on beside the backward pass; None where that is chosen by `idle_of`."""
    if chooses(communicator):
        return None
    return bool(getattr(communicator, "overlap", False))


def chooses(communicator: Communicator) -> TypeGuard[ChoosingCommunicator]:
    """Whether it has been left to graphc what is made beside the backward pass."""
    return isinstance(communicator, ChoosingCommunicator) and communicator.overlap is None


def choosing_by(communicator: Communicator, idle: float | None) -> Communicator:
    """The same member, which chooses as if bytes were waited for so long; None: as it does."""
    if idle is None or not chooses(communicator) or not is_dataclass(communicator):
        return communicator
    return replace(communicator, idle=idle)


def hands_pieces(communicator: Communicator) -> TypeGuard[PieceCommunicator]:
    """Whether it is a `PieceCommunicator`. In Python 3.11 `isinstance` takes 40 us for that, which
    steps ask several times."""
    return all(hasattr(communicator, name) for name in ("wire", "exchange", "collect"))


def wait_for_all(communicator: Communicator) -> None:
    """Return when all members have come here, however long one of them works by itself."""
    if isinstance(communicator, PatientCommunicator):
        communicator.wait()
    else:
        communicator.all_reduce(np.zeros(1))


def checked_communicator(communicator: object) -> Communicator | None:
    """The communicator, or None; GraphcError `argument-type` for anything else, `bad-value` for a
    rank that no member has."""
    if communicator is None:
        return None
    if not isinstance(communicator, Communicator):
        got = type(communicator).__name__
        raise fail("argument-type", f"a communicator has rank, size and all_reduce, got {got}")
    own: Any = communicator  # of the caller's making, so that its numbers may be of any type
    rank, size = own.rank, own.size
    if not (isinstance(rank, int) and isinstance(size, int) and 0 <= rank < size):
        message = "the rank of a communicator is an int from 0 to size - 1"
        raise fail("bad-value", f"{message}, got rank {rank!r} of size {size!r}")
    return communicator


def checked_order(order: str) -> Order:
    """The order; GraphcError `bad-value` for a name that is none."""
    if order not in ORDERS:
        raise fail("bad-value", f"an order of sums is {' or '.join(ORDERS)}, got {order!r}")
    return order  # type: ignore[return-value]


def checked_wire(wire: str, shards: int = 0) -> Wire:
    """What gradients travel as; GraphcError `bad-value` for a name that is none, and together with
    shards: what a member rounds then depends on how many shards it has."""
    if wire not in WIRES:
        raise fail("bad-value", f"gradients travel as {', '.join(WIRES)}, got {wire!r}")
    if wire != "full" and shards:
        message = "shards have the same bits for any number of members, which fewer bits do not"
        raise fail("bad-value", f"{message}: leave out shards, or wire={wire!r}")
    return wire  # type: ignore[return-value]


def checked_overlap(overlap: bool | None, wire: Wire) -> bool | None:
    """Whether sums are beside the backward pass, None where members choose. They do not with one
    bit a number: its bits would depend on it. GraphcError `bad-value` for anything else."""
    if overlap not in (True, False, None):
        raise fail("bad-value", f"overlap is True, False or None, got {overlap!r}")
    return False if overlap is None and wire == "1bit" else overlap


def checked_patience(patience: float) -> float:
    """The seconds; GraphcError `argument-type` for no number, `bad-value` unless there are some,
    and for more than threads can wait (300 years)."""
    if not 0 < arguments.number(patience, "patience") <= threading.TIMEOUT_MAX:
        raise fail("bad-value", f"patience is a number of seconds above 0, got {patience!r}")
    return float(patience)


def shards_of(communicator: Communicator) -> int:
    """In how many parts members compute a minibatch, each of them as many: with `shards` of its own
    (a power of two) the sums of a communicator have the same bits for any number of members."""
    return getattr(communicator, "shards", 0) or communicator.size


def has_own_shards(communicator: Communicator) -> bool:
    """Whether its parts of a minibatch are the same for any number of members."""
    return bool(getattr(communicator, "shards", 0))


def wire_of(communicator: Communicator) -> Wire:
    """What gradients travel as."""
    return communicator.wire if hands_pieces(communicator) else "full"


def sending(communicator: Communicator, wire: Wire) -> Communicator:
    """The same member, whose gradients travel so; what has no wire of its own stays as it is."""
    if is_dataclass(communicator) and isinstance(communicator, PieceCommunicator):
        return replace(communicator, wire=checked_wire(wire))
    return communicator


def checked_shards(shards: int, members: int) -> int:
    """The shards, 0 for one of each member; GraphcError `argument-type` for no whole number,
    `bad-value` for others than a power of two that the members divide."""
    shards = int(arguments.instance(shards, Integral, "shards", "a whole number"))
    if shards and (shards < 0 or shards & (shards - 1) or shards % members):
        said = f"shards are a power of two that {members} members divide"
        raise fail("bad-value", f"{said}, got {shards!r}")
    return shards
