"""Sums over members whose numbers travel in fewer bits.

Each member adds one piece of the array: it is given the others' numbers for that piece as codes,
adds them as the numbers that they stand for, in the array's own type and one tree over the ranks,
and gives everybody the codes of the sums. So all members end with the same bits.

    bf16  the nearest number of 8 significant bits: half the bytes of an f32
    1bit  whether a number is negative, and for every 512 the averages of those that are and of the
          others: a 28th of the bytes. What that leaves out is added to the next ones, by those who
          send and again by those who add (F. Seide et al., 1-bit stochastic gradient descent,
          Interspeech 2014)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from graphc.runtime.communicators.communicator import (
    Communicator,
    PieceCommunicator,
    Wire,
    hands_pieces,
)
from graphc.runtime.communicators.sums import tree_sum
from graphc.support.element_types import NUMPY_DTYPES, as_numbers, as_type

Array = np.ndarray

BLOCK = 512
"""Numbers that share two averages."""
SOME = 256 * BLOCK
"""Numbers that are coded at a time."""


def adder(
    communicator: Communicator, array: Array, shapes: Mapping[int, tuple[int, ...]]
) -> Callable[[], None]:
    """What puts the sums over all members into the array, each time it is called.

    shapes  of the arrays that lie in this one, by where they begin. Those with two axes or more,
            such as gradients of weights, travel as the communicator says; what is few or counts
            something (biases, criteria, how often a row was looked up) as it is
    """
    if not hands_pieces(communicator) or communicator.wire == "full":
        return partial(communicator.all_reduce, array)
    coarse = [
        array[start : start + math.prod(shape)]
        for start, shape in shapes.items()
        if sum(n > 1 for n in shape) > 1
    ]
    exact = [
        array[start : start + math.prod(shape)]
        for start, shape in shapes.items()
        if sum(n > 1 for n in shape) <= 1
    ]
    if not coarse or communicator.size == 1:
        return partial(communicator.all_reduce, array)
    return _Adder(communicator, coarse, exact).add


class _Codes(Protocol):
    """Numbers as bytes, for up to `SOME` of them at a time, a multiple of `BLOCK`."""

    code: np.dtype
    per_block: int

    def encode(self, numbers: Array, rest: Array) -> Array:
        """The codes of these numbers. `rest` is what was left out of those before them at these
        places, and becomes what is left out of them."""
        ...

    def decode(self, codes: Array, dtype: np.dtype) -> Array:
        """The numbers."""
        ...


class _Bf16:
    code = np.dtype(np.uint16)
    per_block = BLOCK

    def encode(self, numbers: Array, rest: Array) -> Array:
        return as_type(numbers, NUMPY_DTYPES["bf16"]).view(np.uint16)

    def decode(self, codes: Array, dtype: np.dtype) -> Array:
        return as_numbers(codes.view(NUMPY_DTYPES["bf16"])).astype(dtype, copy=False)


class _OneBit:
    code = np.dtype(np.uint8)
    per_block = BLOCK // 8 + 8

    def encode(self, numbers: Array, rest: Array) -> Array:
        wanted = (numbers + rest).reshape(-1, BLOCK)
        is_negative = wanted < 0
        below = is_negative.sum(axis=1, dtype=wanted.dtype)
        low = np.minimum(wanted, 0).sum(axis=1)
        averages = np.empty((len(wanted), 2), np.float32)
        averages[:, 0] = (wanted.sum(axis=1) - low) / np.maximum(BLOCK - below, 1)
        averages[:, 1] = low / np.maximum(below, 1)
        bits = np.packbits(is_negative, axis=1)
        codes = np.concatenate([bits, averages.view(np.uint8)], axis=1).reshape(-1)
        rest[...] = wanted.reshape(-1) - self.decode(codes, numbers.dtype)
        return codes

    def decode(self, codes: Array, dtype: np.dtype) -> Array:
        rows = codes.reshape(-1, self.per_block)
        is_negative = np.unpackbits(rows[:, : BLOCK // 8], axis=1).view(np.bool_)
        averages = np.ascontiguousarray(rows[:, BLOCK // 8 :]).view(np.float32).astype(dtype)
        return np.where(is_negative, averages[:, 1:], averages[:, :1]).reshape(-1)


_CODES: Mapping[Wire, _Codes] = {"bf16": _Bf16(), "1bit": _OneBit()}


class _Coded:
    """As many numbers, and their codes, in memory that stays. Coded a part at a time, so that what
    is made on the way stays in caches, and needs few fresh pages."""

    def __init__(self, codes: _Codes, count: int, dtype: np.dtype) -> None:
        self.numbers = np.zeros(count, dtype)
        self.codes = np.zeros(count // BLOCK * codes.per_block, codes.code)
        self._rest = np.zeros(count, dtype) if isinstance(codes, _OneBit) else self.numbers
        self._by = codes

    def _parts(self) -> Iterator[tuple[slice, slice]]:
        """Of numbers, and of their codes."""
        for start in range(0, len(self.numbers), SOME):
            end = min(start + SOME, len(self.numbers))
            of = [place // BLOCK * self._by.per_block for place in (start, end)]
            yield slice(start, end), slice(*of)

    def encode(self) -> Array:
        """The codes of the numbers."""
        for some, its in self._parts():
            self.codes[its] = self._by.encode(self.numbers[some], self._rest[some])
        return self.codes

    def decode(self, codes: Array) -> Array:
        """The numbers of codes."""
        for some, its in self._parts():
            self.numbers[some] = self._by.decode(codes[its], self.numbers.dtype)
        return self.numbers


class _Adder:
    """coarse, exact: parts of one array."""

    def __init__(
        self, communicator: PieceCommunicator, coarse: Sequence[Array], exact: Sequence[Array]
    ) -> None:
        codes, members, dtype = _CODES[communicator.wire], communicator.size, coarse[0].dtype
        total = sum(part.size for part in coarse)
        piece = -(-total // (members * BLOCK)) * BLOCK
        self._communicator, self._coarse, self._exact = communicator, coarse, exact
        self._mine = _Coded(codes, members * piece, dtype)
        self._theirs = [_Coded(codes, piece, dtype) for _ in range(members)]
        self._sums = _Coded(codes, piece, dtype)

    def add(self) -> None:
        communicator, mine = self._communicator, self._mine
        with np.errstate(all="ignore"):  # infinities and nan as in compiled code
            _join(self._coarse, mine.numbers)
            rows = communicator.exchange(mine.encode().reshape(communicator.size, -1))
            pieces = [its.decode(row) for its, row in zip(self._theirs, rows, strict=True)]
            self._sums.numbers[...] = tree_sum(pieces, in_place=True)
            sums = communicator.collect(self._sums.encode())
            _part(mine.decode(sums.reshape(-1)), self._coarse)
        if self._exact:
            few = np.concatenate(self._exact)
            communicator.all_reduce(few)
            _part(few, self._exact)


def _join(parts: Sequence[Array], whole: Array) -> None:
    start = 0
    for part in parts:
        whole[start : start + part.size] = part
        start += part.size
    whole[start:] = 0


def _part(whole: Array, parts: Sequence[Array]) -> None:
    start = 0
    for part in parts:
        part[...] = whole[start : start + part.size]
        start += part.size
