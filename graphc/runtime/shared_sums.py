"""The sums over members that a function asks for where it stands: `signature.sums`, side by side in
one array."""

from __future__ import annotations

import numpy as np

from graphc.runtime.communicators.communicator import Communicator, wire_of
from graphc.runtime.communicators.wire import adder
from graphc.runtime.signature import NUMPY_DTYPES, Signature


class SharedSums:
    """How a communicator makes them, of `size` numbers of a `dtype`."""

    def __init__(self, signature: Signature, communicator: Communicator) -> None:
        self.dtype = NUMPY_DTYPES[signature.sums[0].dtype]
        self.size = signature.sum_places[-1] // self.dtype.itemsize
        self._communicator = communicator
        self._travels_whole = wire_of(communicator) == "full"
        if not self._travels_whole:
            # What numbers in fewer bits have left out so far belongs to one array.
            self._array = np.zeros(self.size, self.dtype)
            places = (place // self.dtype.itemsize for place in signature.sum_places)
            shapes = [tuple(d for d in r.shape if isinstance(d, int)) for r in signature.sums]
            self._add = adder(communicator, self._array, dict(zip(places, shapes, strict=False)))

    def add(self, array: np.ndarray) -> None:
        """Put the sums of all members' arrays into the array. Raises what the communicator does."""
        if self._travels_whole:
            self._communicator.all_reduce(array)
            return
        self._array[:] = array
        self._add()
        array[:] = self._array
