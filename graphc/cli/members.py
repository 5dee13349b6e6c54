"""`--comm`: a command that several processes run together, started by `mpirun`, `srun`
or `torchrun`.

One of them, the first, talks and writes files. Where one fails, it says why and who it is, and ends
all others, which would wait for it; what several of them fail in is said once.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TextIO

import click
import numpy as np

from graphc.cli.command import RecordOption
from graphc.cli.terminal import Terminal
from graphc.runtime.communicators.communicator import ORDERS, PATIENCE, WIRES, Communicator
from graphc.runtime.communicators.gloo import gloo
from graphc.runtime.communicators.mpi import MpiMember, mpi, started, started_rank
from graphc.support.diagnostics import GraphcError, fail

ANSWERS = 1.0
"""Seconds in which other members say what fails there, before one speaks for all of them."""
SPOKEN = 10.0
"""Seconds in which that one ends the job."""


@dataclass(frozen=True, slots=True)
class MembersRequest:
    """Who works together, as the command line says it."""

    comm: str
    comm_patience: float
    comm_order: str = "any"
    comm_shards: int = 0
    comm_wire: str = "full"
    comm_overlap: bool | None = False
    comm_split: str = ""
    comm_sync_batchnorm: bool = False

    @property
    def split(self) -> list[str]:
        """The parameters whose outputs are split."""
        return [name for name in self.comm_split.split(",") if name]


class MembersOption(RecordOption):
    parameter, make = "members", MembersRequest


def _expected(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """From here on what fails is told the other members, also before this process is one."""
    terminal = ctx.find_object(Terminal)
    if terminal is not None and value != "none":
        held = hold(terminal)
        terminal.after_failure = lambda code: _end_early(value, held, code)
    return value


comm_option = click.option(
    "--comm",
    cls=MembersOption,
    is_eager=True,
    callback=_expected,
    type=click.Choice(["none", "mpi", "gloo"]),
    default="none",
    show_default=True,
    help="Share the work with the other processes that `mpirun -n 4 graphc …` or srun has started "
    "(mpi), or torchrun (gloo): docs/members.md.",
)
comm_order_option = click.option(
    "--comm-order",
    cls=MembersOption,
    type=click.Choice(ORDERS),
    default="any",
    show_default=True,
    help="Of sums over members: as the engine likes best, or fixed, the same bits on every engine.",
)
comm_shards_option = click.option(
    "--comm-shards",
    cls=MembersOption,
    type=click.IntRange(min=0),
    default=0,
    metavar="V",
    help="Compute every minibatch in V parts, a power of two, added in a tree: the same bits for "
    "any number of members up to V.  [default: a part for each member]",
)
comm_wire_option = click.option(
    "--comm-wire",
    cls=MembersOption,
    type=click.Choice(WIRES),
    default="full",
    show_default=True,
    help="What gradients travel as: as they are, rounded to bf16, or as one bit a number, of which "
    "the rest is added to the next ones. For slow networks (docs/members.md).",
)
comm_overlap_option = click.option(
    "--comm-overlap/--no-comm-overlap",
    cls=MembersOption,
    default=None,
    help="Add gradients while the backward pass goes on, in several sums that a thread makes, or "
    "behind it.  [default: what is quicker on the members' network (docs/members.md)]",
)
comm_split_option = click.option(
    "--comm-split",
    cls=MembersOption,
    default="",
    metavar="NAME,…",
    help="Split the outputs of these parameters, such as the matrix of a large output layer, over "
    "the members: each computes its own for all samples (docs/members.md).",
)
comm_sync_batchnorm_option = click.option(
    "--comm-sync-batchnorm",
    cls=MembersOption,
    is_flag=True,
    help="Normalise by the samples of all members in BatchNormalization, in place of each member's "
    "own (docs/members.md).",
)
comm_patience_option = click.option(
    "--comm-patience",
    cls=MembersOption,
    type=click.FloatRange(min=0, min_open=True),
    default=PATIENCE,
    show_default=True,
    metavar="SECONDS",
    help="How long members wait for one that does not come, before the job is ended.",
)


def is_first(member: Communicator | None) -> bool:
    """Whether this process is the one that talks and writes."""
    return member is None or member.rank == 0


@contextmanager
def joined(terminal: Terminal, request: MembersRequest) -> Generator[Communicator | None]:
    """This process as one of those that run the command, or None if it runs alone.

    Inside of it only the first one's terminal says anything. At the end all wait for each other, so
    that the first one's files are written when any of them leaves.
    """
    if request.comm == "none":
        if request.comm_shards:
            raise fail("bad-option", "--comm-shards is for members: give --comm too")
        if request.comm_wire != "full":
            raise fail("bad-option", "--comm-wire is for members: give --comm too")
        if request.comm_overlap:
            raise fail("bad-option", "--comm-overlap is for members: give --comm too")
        if request.comm_split:
            raise fail("bad-option", "--comm-split is for members: give --comm too")
        if request.comm_sync_batchnorm:
            raise fail("bad-option", "--comm-sync-batchnorm is for members: give --comm too")
        yield None
        return
    shown = release(terminal)
    member = _member(request)
    verbosity, stdout = terminal.verbosity, terminal.stdout
    if member.rank > 0:
        terminal.verbosity, terminal.stdout = -1, io.StringIO()
        terminal.stderr = Held(shown)
    try:
        yield member
        member.all_reduce(np.zeros(1))
    except BaseException:
        terminal.stderr = shown
        held = hold(terminal)  # what is said of it
        terminal.after_failure = lambda code: _end_all(member, held, code)
        raise
    terminal.verbosity, terminal.stdout, terminal.stderr = verbosity, stdout, shown


class Held(io.StringIO):
    """What is said and not shown yet."""

    def __init__(self, shown: TextIO) -> None:
        super().__init__()
        self.shown = shown

    def isatty(self) -> bool:
        return self.shown.isatty()


def hold(terminal: Terminal) -> Held:
    """Keep what is said on stderr from now on."""
    held = terminal.stderr = Held(terminal.stderr)
    return held


def release(terminal: Terminal) -> TextIO:
    """Show what was kept, and what is said from now on; where that is."""
    held = terminal.stderr
    if isinstance(held, Held):
        held.shown.write(held.getvalue())
        terminal.stderr = held.shown
    terminal.after_failure = None
    return terminal.stderr


def _member(request: MembersRequest) -> Communicator:
    order, patience = request.comm_order, request.comm_patience
    shards, wire, overlap = request.comm_shards, request.comm_wire, request.comm_overlap
    if request.comm == "mpi":
        return mpi(order, patience, shards, wire, overlap)
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # who is gone is said by us, in one line
    return gloo(order=order, patience=patience, shards=shards, wire=wire, overlap=overlap)


def end_by_rank(held: Held, code: int) -> None:
    """Say what failed where this process has not met the others: as launchers number them, of whom
    the first one may end all others before they say the same."""
    rank, size = started_rank(), started()
    text = held.getvalue()
    if size > 1:
        if rank > 0:
            time.sleep(ANSWERS)  # the first one says at once what all of them fail in
        text = said_by({rank: text}, size)
    _show(held, text)


def _end_early(comm: str, held: Held, code: int) -> None:
    """What fails before this process is a member: it becomes one, as the others do."""
    if comm == "mpi" and started() > 1:
        with suppress(GraphcError):
            _end_all(mpi(overlap=False), held, code)
            return
    end_by_rank(held, code)


def _end_all(member: Communicator, held: Held, code: int) -> None:
    """Say once what fails, on which members, and end the job."""
    text = held.getvalue()
    if not isinstance(member, MpiMember) or member.size == 1:
        if member.rank > 0:  # the first one says at once what all of them fail in
            time.sleep(ANSWERS)
            text = said_by({member.rank: text}, member.size)
        _show(held, text)
        return  # others see that this one is gone
    found = member.failures(text, ANSWERS)
    if member.rank == min(found):
        _show(held, said_by(found, member.size))
    else:
        time.sleep(SPOKEN)  # who speaks for all ends the job, this one with it
    member.abort(code)


def _show(held: Held, text: str) -> None:
    held.shown.write(text)
    held.shown.flush()


def said_by(found: Mapping[int, str], size: int) -> str:
    """What some of so many members say, each text once, with who says it unless all do."""
    groups: dict[str, list[int]] = {}
    for rank, text in sorted(found.items()):
        groups.setdefault(text, []).append(rank)
    if len(groups) == 1 and len(found) == size:
        return next(iter(groups))
    return "".join(
        f"member{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))} of {size}: {text}"
        for text, ranks in groups.items()
    )
