"""Where members that no launcher has put together find each other: at a port of the first one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from numbers import Integral

from graphc.support import arguments
from graphc.support.diagnostics import fail

HOST = "127.0.0.1"
LARGEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Member `rank` of `size`, and the address of member 0."""

    rank: int
    size: int
    host: str
    port: int


def rendezvous(
    rank: int | None, size: int | None, host: str | None, port: int | None, default_port: int
) -> Rendezvous:
    """As given, else what RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say. GraphcError
    `bad-value` for what cannot be."""
    rank, size = _number(rank, "rank", "RANK"), _number(size, "size", "WORLD_SIZE")
    if size < 1 or not 0 <= rank < size:
        raise fail("bad-value", f"a rank is from 0 to size - 1, got rank {rank} of size {size}")
    where = host or os.environ.get("MASTER_ADDR", HOST)
    port = _number(port, "port", "MASTER_PORT", default_port)
    if not 0 <= port <= LARGEST_PORT:
        raise fail("bad-value", f"a port is from 0 to {LARGEST_PORT}, got {port}")
    return Rendezvous(rank, size, where, port)


def _number(given: int | None, what: str, variable: str, otherwise: int | None = None) -> int:
    if given is not None:
        return int(arguments.instance(given, Integral, what, "a whole number"))
    said = os.environ.get(variable)
    if said is None and otherwise is not None:
        return otherwise
    if said is None or not said.strip().isdecimal():
        raise fail("bad-value", f"{what} is a number, or {variable} says one, got {said!r}")
    return int(said)
