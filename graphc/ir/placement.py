"""Where a result lives once memory is planned, and the memory that an operation works in.

arena:BYTES   that offset in the function's scratch memory
result:I      the caller's buffer of result I
argument:I    over argument I, which it updates
carried:I     in the body of a loop: where the next step finds carried value I
stack:I       in the body of a loop: this step's element of stack I

A workspace lies in the arena. Nothing else may lie there while its operation runs; what is in it
before and after means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeGuard, get_args

from graphc.ir.types import TensorType

AddressKind = Literal["arena", "result", "argument", "carried", "stack"]

ADDRESS_KINDS: tuple[AddressKind, ...] = get_args(AddressKind)


@dataclass(frozen=True, slots=True)
class Address:
    """An arena offset in bytes, or an index among what the kind says."""

    kind: AddressKind
    index: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"


@dataclass(frozen=True, slots=True)
class Workspace:
    """An array that an operation works in, and where it lies."""

    type: TensorType
    place: Address

    def __str__(self) -> str:
        return f"{self.type} at {self.place}"


def is_address_kind(word: str) -> TypeGuard[AddressKind]:
    return word in ADDRESS_KINDS
