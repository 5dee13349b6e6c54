"""What compiled code calls for a sum over members, as `loops/all_reduce.py` has it, in Python."""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType

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

Handler = Callable[[int, FrameType | None], object]

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGBREAK")
SIGNALS = tuple(s for s in signal.Signals if s.name in _NAMES)
"""Those that a program, a launcher or a scheduler sends, and whose handlers raise something."""


class NativeSums:
    """The sums of one function by a communicator.

    An error that its communicator raises cannot go through compiled code: it is kept, and raised by
    whoever is told that the sum was not made. Nor can what the handler of a signal raises, as that
    of an interrupt does: of a signal that comes while compiled code runs it would be raised where
    that calls Python, before anything there could catch it. So the signal is held back until the
    sum is under way, or the call has ended.
    """

    def __init__(self, signature: Signature, communicator: Communicator) -> None:
        self._sums = SharedSums(signature, communicator)
        self._failure: BaseException | None = None
        self._made = 0
        self._handlers: dict[int, Handler] = {}
        self._is_caught = False
        self._came: list[int] = []
        self._calls = (SUM(self._all_reduce), SUM(self._start), FINISH(self._finish))
        whole, *begun = (ctypes.cast(call, POINTER).value or 0 for call in self._calls)
        # The rank and size between are for files: here they are numbers of the call.
        self._words = (ctypes.c_uint64 * 6)(whole, 0, 0, 0, *begun)
        self.address = ctypes.addressof(self._words)

    def run(self, call: Callable[[], int], times: int = 1) -> int:
        """The status of compiled code that goes through the function so many times."""
        self._made = 0
        if threading.current_thread() is threading.main_thread():
            status = self._run_among_signals(call)
        else:
            status = call()
        if status == 0 and self._made != times * len(self._sums.layouts):
            raise self.failure()
        return status

    def _run_among_signals(self, call: Callable[[], int]) -> int:
        """The same where signals come to this thread."""
        handlers = ((number, signal.getsignal(number)) for number in SIGNALS)
        self._handlers = {number: handler for number, handler in handlers if callable(handler)}
        self._came.clear()
        with ExitStack() as changed:  # all come back, also where a handler raises as it does
            for number, handler in self._handlers.items():
                changed.callback(_put_back, number, handler)
                signal.signal(number, self._note)
            status = call()
        if self._came:
            if status:
                self.failure()
            self._deliver()
        return status

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._is_caught:
            self._handlers[number](number, frame)
        elif number not in self._came:
            self._came.append(number)

    def _deliver(self) -> None:
        """Handle the signals that were held back."""
        while self._came:
            number = self._came.pop(0)
            self._handlers[number](number, None)

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
        start = self._sums.start
        return self._told(lambda: start(number, self._array(number, data, count, width)), made=0)

    def _finish(self, _context: int | None, number: int) -> int:
        return self._told(lambda: self._sums.finish(number))

    def _array(self, number: int, data: int, count: int, width: int) -> np.ndarray:
        layout = self._sums.layouts[number]
        if (count, width) != (layout.size, layout.dtype.itemsize):
            raise InternalError(f"a sum of {count} numbers, {layout.size} are in the signature")
        memory = (ctypes.c_uint8 * (count * width)).from_address(data)
        return np.ctypeslib.as_array(memory).view(layout.dtype)

    def _told(self, call: Callable[[], None], made: int = 1) -> int:
        """What compiled code is told of a call, after which so many more sums are made."""
        try:
            self._is_caught = True
            self._deliver()
            call()
            self._made += made
        except BaseException as problem:  # an interrupt, too: compiled code has to be told
            self._failure = problem
            return 1
        finally:
            self._is_caught = False
        return 0


def _put_back(number: int, handler: Handler) -> None:
    """Let the handler have its signal again. Python runs handlers that are due before it changes
    one: where one of them raises, nothing is changed yet."""
    try:
        signal.signal(number, handler)
    finally:
        if signal.getsignal(number) != handler:
            signal.signal(number, handler)
