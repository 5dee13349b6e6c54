"""The sums over members that a function asks for where it stands: `signature.sums`, those of each
side by side in one array."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from graphc.runtime.communicators.communicator import Communicator, beside, wire_of
from graphc.runtime.communicators.wire import adder
from graphc.runtime.signature import NUMPY_DTYPES, Result, Signature
from graphc.support.adjacent import adjacent
from graphc.support.diagnostics import InternalError

LOOK = 2e-4
"""Seconds between two looks whether a sum is there, beside what is computed."""


@dataclass(frozen=True)
class SumLayout:
    """Results of fixed shapes side by side in one array of `size` elements: of each where it
    starts, and its shape."""

    dtype: np.dtype
    size: int
    parts: Mapping[str, tuple[int, tuple[int, ...]]]

    @staticmethod
    def of(results: Sequence[Result]) -> SumLayout:
        dtype = NUMPY_DTYPES[results[0].dtype]
        shapes = [tuple(d for d in r.shape if isinstance(d, int)) for r in results]
        places = adjacent(math.prod(shape) * dtype.itemsize for shape in shapes)
        starts = [place // dtype.itemsize for place in places]
        names = (r.name for r in results)
        parts = dict(zip(names, zip(starts, shapes, strict=False), strict=True))
        return SumLayout(dtype, starts[-1], parts)

    def gaps(self) -> np.ndarray:
        """The places of elements that belong to no result: whatever was in memory is there."""
        is_gap = np.ones(self.size, bool)
        for start, shape in self.parts.values():
            is_gap[start : start + math.prod(shape)] = False
        return np.flatnonzero(is_gap)


class SharedSums:
    """How a communicator makes them. The sums of a function have numbers, from 0 on.

    A sum that is started is made by one thread beside the caller's, behind those started before: it
    is the only one that sums meanwhile.
    """

    def __init__(self, signature: Signature, communicator: Communicator) -> None:
        self.layouts = [SumLayout.of(results) for results in signature.sums]
        self._communicator = communicator
        self._beside = beside(communicator, self._pause)
        self._sums: dict[int, _Sum] = {}
        self._thread = ThreadPoolExecutor(1, "graphc-sums")
        self._started: dict[int, Future[None]] = {}
        self._failed = self._is_waited_for = False

    def add(self, number: int, array: np.ndarray) -> None:
        """Put the sums of all members' arrays into the array. Raises what the communicator does."""
        if self._started:  # one after the other, in the order of all members
            self.start(number, array)
            self.finish(number)
        else:
            self._sum(number, self._communicator)(array)

    def start(self, number: int, array: np.ndarray) -> None:
        """Begin that. Until `finish` nobody may touch the array."""
        made = self._sum(number, self._beside)
        self._started[number] = self._thread.submit(self._make, made, array)

    def finish(self, number: int) -> None:
        """Return when it is done. Raises what the communicator does."""
        started = self._started[number]
        self._is_waited_for = True
        started.result()
        self._is_waited_for = False
        del self._started[number]

    def settle(self) -> None:
        """Return when no sum is being made any more, after one that failed or was not waited for:
        they write into memory of the call. An interrupt does not keep it from that."""
        self._is_waited_for = True
        last, is_done = self._thread.submit(lambda: None), False
        while not is_done:
            with suppress(BaseException):
                is_done = bool(wait([last]).done)
        self._started.clear()
        self._failed = self._is_waited_for = False

    def _make(self, made: _Sum, array: np.ndarray) -> None:
        """In the thread. Behind one that failed the other members begin no sum."""
        if self._failed:
            raise InternalError("a sum behind one that was not made")
        try:
            made(array)
        except BaseException:
            self._failed = True
            raise

    def _pause(self) -> None:
        """Between two looks whether a sum is there: leave the processor to who computes, until that
        one has to wait."""
        if not self._is_waited_for:
            time.sleep(LOOK)

    def _sum(self, number: int, communicator: Communicator) -> _Sum:
        if number not in self._sums:
            self._sums[number] = _Sum(self.layouts[number], communicator)
        return self._sums[number]


class _Sum:
    """Puts the sums of all members' arrays, which lie as a layout says, into an array."""

    def __init__(self, layout: SumLayout, communicator: Communicator) -> None:
        self._communicator = communicator
        self._travels_whole = wire_of(communicator) == "full"
        self._gaps = layout.gaps()
        if not self._travels_whole:
            # What numbers in fewer bits have left out so far belongs to one array.
            self._array = np.zeros(layout.size, layout.dtype)
            self._add = adder(communicator, self._array, dict(layout.parts.values()))

    def __call__(self, array: np.ndarray) -> None:
        if self._travels_whole:
            array[self._gaps] = 0  # numbers that were never written may be too large to add
            self._communicator.all_reduce(array)
            return
        self._array[:] = array
        self._add()
        array[:] = self._array
