"""What compiled code calls for a sum over members, as `loops/all_reduce.py` has it, in Python."""

from __future__ import annotations

import ctypes

import numpy as np

from graphc.runtime.communicators.communicator import Communicator
from graphc.runtime.shared_sums import SharedSums
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import InternalError

ALL_REDUCE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
)
"""(context, data, count, bytes of a number) -> 0, or anything else where there is no sum."""


class NativeSums:
    """The sums of one function by a communicator.

    An error that its communicator raises cannot go through compiled code: it is kept, and raised by
    whoever is told that the sum was not made.
    """

    def __init__(self, signature: Signature, communicator: Communicator) -> None:
        self._sums = SharedSums(signature, communicator)
        self._failure: BaseException | None = None
        self._call = ALL_REDUCE(self._all_reduce)
        function = ctypes.cast(self._call, ctypes.c_void_p).value
        self._words = (ctypes.c_uint64 * 2)(function or 0, 0)
        self.address = ctypes.addressof(self._words)

    def failure(self) -> BaseException:
        """What has kept the last sum from being made."""
        found, self._failure = self._failure, None
        return found or InternalError("compiled code gave no reason for a sum that is not there")

    def _all_reduce(self, _context: int | None, data: int, count: int, width: int) -> int:
        try:
            layout = self._sums.layout
            if (count, width) != (layout.size, layout.dtype.itemsize):
                raise InternalError(f"a sum of {count} numbers, {layout.size} are in the signature")
            memory = (ctypes.c_uint8 * (count * width)).from_address(data)
            self._sums.add(np.ctypeslib.as_array(memory).view(layout.dtype))
        except BaseException as problem:  # an interrupt, too: compiled code has to be told
            self._failure = problem
            self._sums.begin()
            return 1
        return 0
