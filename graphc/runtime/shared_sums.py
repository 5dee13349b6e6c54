"""The sums over members that a function asks for where they stand: each of `signature.sums` is one
array."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.runtime.communicators.communicator import Communicator, wire_of
from graphc.runtime.communicators.wire import adder
from graphc.runtime.signature import NUMPY_DTYPES, Result, Signature
from graphc.support.adjacent import adjacent


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


class SharedSums:
    """How a communicator makes the sums of a function, which asks for them in their order."""

    def __init__(self, signature: Signature, communicator: Communicator) -> None:
        self._layouts = [SumLayout.of(results) for results in signature.sums]
        self._number = 0
        self._communicator = communicator
        self._rounded: list[_Rounded] = []
        if wire_of(communicator) != "full":
            self._rounded = [_Rounded(layout, communicator) for layout in self._layouts]

    def begin(self) -> None:
        """The next sum is the function's first one: a call has ended, perhaps early."""
        self._number = 0

    @property
    def layout(self) -> SumLayout:
        """Of the next sum."""
        return self._layouts[self._number]

    def add(self, array: np.ndarray) -> None:
        """Put the sums of all members' arrays into the array, that of the next sum. Raises what the
        communicator does."""
        number, self._number = self._number, (self._number + 1) % len(self._layouts)
        if self._rounded:
            self._rounded[number].add(array)
        else:
            self._communicator.all_reduce(array)


class _Rounded:
    """Sums of numbers that travel in fewer bits. What those have left out so far belongs to one
    array."""

    def __init__(self, layout: SumLayout, communicator: Communicator) -> None:
        self._array = np.zeros(layout.size, layout.dtype)
        self._add = adder(communicator, self._array, dict(layout.parts.values()))

    def add(self, array: np.ndarray) -> None:
        self._array[:] = array
        self._add()
        array[:] = self._array
