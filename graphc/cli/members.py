"""`--comm`: a command that several processes run together, started by `mpirun`, `srun`
or `torchrun`.

One of them, the first, talks and writes files. Where one fails, it says why and ends all others,
which would wait for it; what all of them fail in is said once.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

import click
import numpy as np

from graphc.cli.command import RecordOption
from graphc.cli.terminal import Terminal
from graphc.runtime.communicators.communicator import ORDERS, PATIENCE, WIRES, Communicator
from graphc.runtime.communicators.gloo import gloo
from graphc.runtime.communicators.mpi import MpiMember, mpi
from graphc.support.diagnostics import fail

FIRST_SPEAKS = 1.0
"""Seconds that others leave to the first member to say what all of them fail in."""


@dataclass(frozen=True, slots=True)
class MembersRequest:
    """Who works together, as the command line says it."""

    comm: str
    comm_patience: float
    comm_order: str = "any"
    comm_shards: int = 0
    comm_wire: str = "full"
    comm_split: str = ""

    @property
    def split(self) -> list[str]:
        """The parameters whose outputs are split."""
        return [name for name in self.comm_split.split(",") if name]


class MembersOption(RecordOption):
    parameter, make = "members", MembersRequest


comm_option = click.option(
    "--comm",
    cls=MembersOption,
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
comm_split_option = click.option(
    "--comm-split",
    cls=MembersOption,
    default="",
    metavar="NAME,…",
    help="Split the outputs of these parameters, such as the matrix of a large output layer, over "
    "the members: each computes its own for all samples (docs/members.md).",
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
        if request.comm_split:
            raise fail("bad-option", "--comm-split is for members: give --comm too")
        yield None
        return
    member = _member(request)
    stderr = terminal.stderr
    said = terminal.stderr = stderr if member.rank == 0 else io.StringIO()
    if member.rank > 0:
        terminal.stdout = io.StringIO()
    terminal.after_failure = lambda code: _end_all(member, stderr, said, code)
    yield member
    member.all_reduce(np.zeros(1))
    terminal.after_failure = None


def _member(request: MembersRequest) -> Communicator:
    order, patience = request.comm_order, request.comm_patience
    shards, wire = request.comm_shards, request.comm_wire
    if request.comm == "mpi":
        return mpi(order, patience, shards, wire)
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # who is gone is said by us, in one line
    return gloo(order=order, patience=patience, shards=shards, wire=wire)


def _end_all(member: Communicator, stderr: TextIO, said: TextIO, code: int) -> None:
    if isinstance(said, io.StringIO):
        time.sleep(FIRST_SPEAKS)
        stderr.write(f"member {member.rank} of {member.size}: {said.getvalue()}")
    stderr.flush()
    if isinstance(member, MpiMember) and member.size > 1:
        member.abort(code)  # those of gloo see that it is gone
