"""Where a result lives once memory is planned.

arena:BYTES   that offset in the function's scratch memory
result:I      the caller's buffer of result I
argument:I    over argument I, which it updates
carried:I     in the body of a loop: where the next step finds carried value I
stack:I       in the body of a loop: this step's element of stack I
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeGuard, get_args

PlaceKind = Literal["arena", "result", "argument", "carried", "stack"]

PLACE_KINDS: tuple[PlaceKind, ...] = get_args(PlaceKind)


@dataclass(frozen=True, slots=True)
class Place:
    """An arena offset in bytes, or an index among what the kind says."""

    kind: PlaceKind
    index: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"


def is_place_kind(word: str) -> TypeGuard[PlaceKind]:
    return word in PLACE_KINDS
