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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np

from graphc.runtime.communicators.communicator import Communicator, PieceCommunicator, Wire
from graphc.runtime.communicators.sums import tree_sum
from graphc.support.element_types import NUMPY_DTYPES, as_numbers, as_type

Array = np.ndarray

BLOCK = 512
"""Numbers that share two averages."""


def adder(
    communicator: Communicator, array: Array, shapes: Mapping[int, tuple[int, ...]]
) -> Callable[[], None]:
    """What puts the sums over all members into the array, each time it is called.

    shapes  of the arrays that lie in this one, by where they begin. Those with two axes or more,
            such as gradients of weights, travel as the communicator says; what is few or counts
            something (biases, criteria, how often a row was looked up) as it is
    """
    if not isinstance(communicator, PieceCommunicator) or communicator.wire == "full":
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
    """Numbers as bytes."""

    def encode(self, numbers: Array) -> Array:
        """u8 or so of (n,) numbers, n a multiple of `BLOCK`."""
        ...

    def decode(self, codes: Array, dtype: np.dtype) -> Array:
        """The numbers of the last axis's codes."""
        ...


class _Bf16:
    def encode(self, numbers: Array) -> Array:
        return as_type(numbers, NUMPY_DTYPES["bf16"]).view(np.uint16)

    def decode(self, codes: Array, dtype: np.dtype) -> Array:
        return as_numbers(codes.view(NUMPY_DTYPES["bf16"])).astype(dtype, copy=False)


@dataclass
class _OneBit:
    """rest  what the codes so far have left out of the numbers that they stand for"""

    rest: Array | None = None

    def encode(self, numbers: Array) -> Array:
        wanted = (numbers if self.rest is None else numbers + self.rest).reshape(-1, BLOCK)
        is_negative = wanted < 0
        below = is_negative.sum(axis=1, dtype=wanted.dtype)
        total = wanted.sum(axis=1)
        low = np.where(is_negative, wanted, 0).sum(axis=1)
        averages = np.empty((len(wanted), 2), np.float32)
        averages[:, 0] = (total - low) / np.maximum(BLOCK - below, 1)
        averages[:, 1] = low / np.maximum(below, 1)
        codes = np.concatenate(
            [np.packbits(is_negative, axis=1), averages.view(np.uint8)], axis=1
        ).reshape(-1)
        self.rest = wanted.reshape(-1) - self.decode(codes, numbers.dtype)
        return codes

    def decode(self, codes: Array, dtype: np.dtype) -> Array:
        rows = codes.reshape(*codes.shape[:-1], -1, BLOCK // 8 + 8)
        is_negative = np.unpackbits(rows[..., : BLOCK // 8], axis=-1).view(np.bool_)
        averages = np.ascontiguousarray(rows[..., BLOCK // 8 :]).view(np.float32).astype(dtype)
        found = np.where(is_negative, averages[..., 1:], averages[..., :1])
        return found.reshape(*codes.shape[:-1], -1)


_CODES: Mapping[Wire, Callable[[], _Codes]] = {"bf16": _Bf16, "1bit": _OneBit}


@dataclass
class _Adder:
    """coarse, exact  parts of one array
    mine, sums     codes of what this member sends as its own numbers, and as sums
    numbers        the coarse ones side by side, as many for each member
    """

    communicator: PieceCommunicator
    coarse: Sequence[Array]
    exact: Sequence[Array]
    mine: _Codes = field(init=False)
    sums: _Codes = field(init=False)
    numbers: Array = field(init=False)

    def __post_init__(self) -> None:
        make = _CODES[self.communicator.wire]
        self.mine, self.sums = make(), make()
        members = self.communicator.size
        total = sum(part.size for part in self.coarse)
        piece = -(-total // (members * BLOCK)) * BLOCK
        self.numbers = np.zeros(members * piece, self.coarse[0].dtype)

    def add(self) -> None:
        communicator, numbers = self.communicator, self.numbers
        with np.errstate(all="ignore"):  # infinities and nan as in compiled code
            _join(self.coarse, numbers)
            codes = self.mine.encode(numbers).reshape(communicator.size, -1)
            its = self.mine.decode(communicator.exchange(codes), numbers.dtype)
            codes = self.sums.encode(tree_sum(list(its)))
            found = self.sums.decode(communicator.collect(codes), numbers.dtype)
        _part(found.reshape(-1), self.coarse)
        if self.exact:
            few = np.concatenate(self.exact)
            communicator.all_reduce(few)
            _part(few, self.exact)


def _join(parts: Sequence[Array], whole: Array) -> None:
    start = 0
    for part in parts:
        whole[start : start + part.size] = part
        start += part.size


def _part(whole: Array, parts: Sequence[Array]) -> None:
    start = 0
    for part in parts:
        part[...] = whole[start : start + part.size]
        start += part.size
