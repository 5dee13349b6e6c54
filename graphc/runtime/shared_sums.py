"""The sums over members that a function asks for where it stands: `signature.sums`, side by side in
one array."""

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
    """How a communicator makes them, of `size` numbers of a `dtype`."""

    def __init__(self, signature: Signature, communicator: Communicator) -> None:
        layout = SumLayout.of(signature.sums)
        self.dtype, self.size = layout.dtype, layout.size
        self._communicator = communicator
        self._travels_whole = wire_of(communicator) == "full"
        if not self._travels_whole:
            # What numbers in fewer bits have left out so far belongs to one array.
            self._array = np.zeros(self.size, self.dtype)
            self._add = adder(communicator, self._array, dict(layout.parts.values()))

    def add(self, array: np.ndarray) -> None:
        """Put the sums of all members' arrays into the array. Raises what the communicator does."""
        if self._travels_whole:
            self._communicator.all_reduce(array)
            return
        self._array[:] = array
        self._add()
        array[:] = self._array
