"""Where a result lives once memory is planned: the `at` of kernel-level operations and loops.

arena:BYTES   that offset in the function's scratch memory
result:I      the caller's buffer of result I
argument:I    over argument I, which it updates
carried:I     in the body of a loop: where the next step finds carried value I
stack:I       in the body of a loop: this step's element of stack I
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from graphc.ir.core import Operation

PlaceKind = Literal["arena", "result", "argument", "carried", "stack"]


@dataclass(frozen=True, slots=True)
class Place:
    """An arena offset in bytes, or an index among what the kind says."""

    kind: PlaceKind
    index: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"


_PLACE = re.compile(r"(arena|result|argument|carried|stack):([0-9]{1,18})\Z")


def parse_place(text: str) -> Place | None:
    match = _PLACE.match(text)
    return Place(match[1], int(match[2])) if match else None  # type: ignore[arg-type]


def places(op: Operation) -> tuple[Place, ...] | None:
    """Where the results live; None for an operation without places or not planned yet."""
    at: tuple[str, ...] = getattr(op.params, "at", ())
    return tuple(p for text in at if (p := parse_place(text)) is not None) if at else None


def check_places(op: Operation) -> Iterable[str]:
    """What is wrong with the places of `op`."""
    at: tuple[str, ...] = getattr(op.params, "at", ())
    if at and len(at) != len(op.results):
        yield f"has {len(op.results)} results but {len(at)} places"
    for text in at:
        if parse_place(text) is None:
            yield (
                'a place is "arena:BYTES", "result:I", "argument:I", "carried:I" or "stack:I", '
                f'got "{text}"'
            )
