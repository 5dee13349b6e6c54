"""Reads the times that a profiled function records (`profile.py`), and calls such functions."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence

import numpy as np

from graphc.backends.llvm import engine
from graphc.backends.llvm.emit import emit_profiled
from graphc.backends.llvm.entries import entries
from graphc.backends.llvm.profile import CLOCK, EVENTS, SYMBOLS, TABLE
from graphc.backends.llvm.runtime import loaded_function
from graphc.backends.llvm.target import host_target
from graphc.backends.native import NativeFunction
from graphc.ir.core import Function, Operation
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import InternalError
from graphc.support.phases import Phases

MOST_EVENTS = 1 << 20
CALIBRATION_SECONDS = 0.02


def compile_profiled(
    function: Function, signature: Signature, phases: Phases, keep_events: bool
) -> tuple[NativeFunction, Recorder]:
    """A function that records the time of every operation, with the reader of these times."""
    target = host_target()
    with phases.measure("emit"):
        text, operations = emit_profiled(function, signature, target)
    code = engine.object_code(text, target, phases)
    with phases.measure("load"):
        loaded = engine.load(code, [*entries(signature), *SYMBOLS], target)
        native = loaded_function(code, signature, loaded)
    return native, Recorder(loaded, operations, keep_events=keep_events)


class Recorder:
    """Reads what the stamps of a loaded object have noted.

    operations  one for each row
    """

    def __init__(
        self, loaded: engine.Loaded, operations: Sequence[Operation], *, keep_events: bool
    ) -> None:
        self.operations = tuple(operations)
        rows = max(len(operations), 1)
        at: Mapping[str, int] = loaded.addresses
        self._loaded = loaded
        self._table = _words(at[TABLE], 2 * rows).reshape(rows, 2)
        self._events = np.zeros((MOST_EVENTS if keep_events else 0, 3), np.int64)
        header = _words(at[EVENTS], 3)
        header[:] = self._events.ctypes.data, len(self._events), 0
        self._header = header
        self._clock = engine.function(loaded, CLOCK, ctypes.c_uint64)
        self._start = self._both_clocks()

    def reset(self) -> None:
        """Discards all times so far, for instance those of a warm-up call."""
        self._table[...] = 0
        self._header[2] = 0

    def ticks(self) -> int:
        """The counter now."""
        return int(self._clock())

    def seconds_per_tick(self) -> float:
        """Calibrated by the system's clock since this was made; waits until that is long enough."""
        ticks, seconds = self._start
        while True:
            ticks_now, now = self._both_clocks()
            if now - seconds >= CALIBRATION_SECONDS:
                break
        if ticks_now <= ticks:
            raise InternalError("the processor's counter does not run")
        return (now - seconds) / (ticks_now - ticks)

    def totals(self) -> tuple[np.ndarray, np.ndarray]:
        """The ticks of each operation, and how often it ran."""
        count = len(self.operations)
        return self._table[:count, 0].copy(), self._table[:count, 1].copy()

    def events(self) -> np.ndarray:
        """i64[count, 3]: row, counter before and after, in the order in which they ended."""
        return self._events[: int(self._header[2])].copy()

    def _both_clocks(self) -> tuple[int, float]:
        return self.ticks(), time.perf_counter()


def _words(address: int, count: int) -> np.ndarray:
    """The memory at an address as i64; it lives as long as the object that it is in."""
    return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(address))
