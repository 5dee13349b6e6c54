"""What a compiled function does, as data: launches of kernels, and turns of loops around them.

Addresses are what a call makes of them: places in the arena, in memory behind it or in the caller's
buffers, and elements of those that follow from the turn of a loop. The runtime goes through the
steps to launch kernels, the persistent kernels and the C program are written from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from graphc.backends.cuda.kernel import size_in
from graphc.passes.analysis.loopnest import Size

ALIGNMENT = 16
"""Bytes that the address of every buffer is a multiple of."""

Base = Literal["arena", "scratch", "buffer"]


@dataclass(frozen=True, slots=True)
class Number:
    """An index or a count: size + sign · turn of the loop + plus. Loops are numbered from the
    outermost in, from 0; sign is 0 for what does not depend on one."""

    size: Size
    sign: Literal[-1, 0, 1] = 0
    loop: int = 0
    plus: int = 0

    def at(self, sizes: Mapping[str, int], turns: Sequence[int]) -> int:
        """Its value in a call."""
        turn = turns[self.loop] if self.sign else 0
        return size_in(self.size, sizes) + self.sign * turn + self.plus


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes behind the start of the arena or of the scratch memory, or the number of a buffer.

    size  bytes from there on that belong to the array, with every dim at its bound
    """

    base: Base
    index: int
    size: int


@dataclass(frozen=True, slots=True)
class Part:
    """Element `number` of an array of parts of `size` elements."""

    whole: Where
    number: Number
    size: Size
    itemsize: int


@dataclass(frozen=True, slots=True)
class Either:
    """`some` where `turn` is above 0, which alone may be read then; else `otherwise`."""

    turn: Number
    some: Where
    otherwise: Where


Where = Place | Part | Either


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel with its pointers, in order.

    remark  the operation that it belongs to, for people
    writes  the pointers, by their places, that it writes; it may read all
    flops   of arithmetic, with every dim at its bound
    moved   bytes that the operation reads and writes at least, at the bounds: of a table only what
            is looked up
    """

    kernel: str
    pointers: tuple[Where, ...]
    remark: str = ""
    writes: frozenset[int] = frozenset()
    flops: int = 0
    moved: int = 0


@dataclass(frozen=True, slots=True)
class Turns:
    """Steps that run `count` times, in loop number `loop`."""

    loop: int
    count: Number
    steps: tuple[Step, ...]


Step = Launch | Turns

Address = Callable[[Place], int]


def address_of(where: Where, place: Address, sizes: Mapping[str, int], turns: Sequence[int]) -> int:
    """The address in a call; `place` says where places are."""
    match where:
        case Place():
            return place(where)
        case Part(whole, number, size, itemsize):
            distance = number.at(sizes, turns) * size_in(size, sizes) * itemsize
            return address_of(whole, place, sizes, turns) + distance
        case Either(turn, some, otherwise):
            chosen = some if turn.at(sizes, turns) > 0 else otherwise
            return address_of(chosen, place, sizes, turns)


def alignment_of(where: Where) -> int:
    """A number of bytes, at most `ALIGNMENT`, that the address is a multiple of in every call."""
    match where:
        case Place():
            return math.gcd(where.index, ALIGNMENT) if where.base != "buffer" else ALIGNMENT
        case Part(whole, _, size, itemsize):
            return math.gcd(alignment_of(whole), size.factor * itemsize)
        case Either(_, some, otherwise):
            return math.gcd(alignment_of(some), alignment_of(otherwise))


def run_order(
    steps: Sequence[Step], sizes: Mapping[str, int], turns: tuple[int, ...] = ()
) -> Iterator[tuple[Launch, tuple[int, ...]]]:
    """Every launch of a call in order, with the turns of the loops around it."""
    for step in steps:
        if isinstance(step, Launch):
            yield step, turns
            continue
        for turn in range(step.count.at(sizes, turns)):
            yield from run_order(step.steps, sizes, (*turns, turn))


def in_loop(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The same steps with one more loop around them, which they do not depend on."""
    return tuple(_step_in_loop(step) for step in steps)


def _step_in_loop(step: Step) -> Step:
    if isinstance(step, Turns):
        return Turns(step.loop + 1, _number_in_loop(step.count), in_loop(step.steps))
    return replace(step, pointers=tuple(map(_where_in_loop, step.pointers)))


def _where_in_loop(where: Where) -> Where:
    match where:
        case Place():
            return where
        case Part(whole, number, size, itemsize):
            return Part(_where_in_loop(whole), _number_in_loop(number), size, itemsize)
        case Either(turn, some, otherwise):
            return Either(_number_in_loop(turn), *map(_where_in_loop, (some, otherwise)))


def _number_in_loop(number: Number) -> Number:
    return replace(number, loop=number.loop + 1)


def launches(steps: Sequence[Step]) -> Iterator[Launch]:
    """Every launch as it stands in the program, those in loops once."""
    for step in steps:
        if isinstance(step, Launch):
            yield step
        else:
            yield from launches(step.steps)
