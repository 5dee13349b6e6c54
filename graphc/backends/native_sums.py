"""What compiled code calls for a sum over members, as `loops/all_reduce.py` has it, in Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from graphc.runtime.communicators.communicator import Communicator
from graphc.runtime.shared_sums import SharedSums
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import InternalError

STATUS, POINTER, NUMBER = ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64
SUM = ctypes.CFUNCTYPE(STATUS, POINTER, NUMBER, POINTER, NUMBER, ctypes.c_int32)
"""(context, sum, data, count, bytes of a number) -> 0, or anything else where there is no sum."""
FINISH = ctypes.CFUNCTYPE(STATUS, POINTER, NUMBER)
"""(context, sum) -> the same."""


class NativeSums:
    """The sums of one function by a communicator.

    An error that its communicator raises cannot go through compiled code: it is kept, and raised by
    whoever is told that the sum was not made.
    """

    def __init__(self, signature: Signature, communicator: Communicator) -> None:
        self._sums = SharedSums(signature, communicator)
        self._failure: BaseException | None = None
        self._calls = (SUM(self._all_reduce), SUM(self._start), FINISH(self._finish))
        functions = [ctypes.cast(call, POINTER).value or 0 for call in self._calls]
        whole, *begun = functions
        # The rank and size between are for files: here they are numbers of the call.
        self._words = (ctypes.c_uint64 * 6)(whole, 0, 0, 0, *begun)
        self.address = ctypes.addressof(self._words)

    def failure(self) -> BaseException:
        """What has kept the last sum from being made, when no other one is being made any more."""
        self._sums.settle()
        found, self._failure = self._failure, None
        return found or InternalError("compiled code gave no reason for a sum that is not there")

    def _all_reduce(
        self, _context: int | None, number: int, data: int, count: int, width: int
    ) -> int:
        return self._told(lambda: self._sums.add(number, self._array(number, data, count, width)))

    def _start(self, _context: int | None, number: int, data: int, count: int, width: int) -> int:
        return self._told(lambda: self._sums.start(number, self._array(number, data, count, width)))

    def _finish(self, _context: int | None, number: int) -> int:
        return self._told(lambda: self._sums.finish(number))

    def _array(self, number: int, data: int, count: int, width: int) -> np.ndarray:
        layout = self._sums.layouts[number]
        if (count, width) != (layout.size, layout.dtype.itemsize):
            raise InternalError(f"a sum of {count} numbers, {layout.size} are in the signature")
        memory = (ctypes.c_uint8 * (count * width)).from_address(data)
        return np.ctypeslib.as_array(memory).view(layout.dtype)

    def _told(self, call: Callable[[], None]) -> int:
        """What compiled code is told of a call."""
        try:
            call()
        except BaseException as problem:  # an interrupt, too: compiled code has to be told
            self._failure = problem
            return 1
        return 0
