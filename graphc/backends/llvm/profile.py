"""Writes a function that takes the time of each of its operations (`recorder.py` reads them).

The entry is written with a time stamp before and after every operation of the kernel level, also
inside loops. `graphc.note` adds the difference to the operation's row of a table in the object, and
appends an event to a list until that is full. Time stamps are read from the processor's invariant
cycle counter, which is calibrated against the system's clock.

A profiled function is called by one thread at a time: its table is written without a lock.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from graphc.backends.llvm.target import Target
from graphc.backends.llvm.text import Code, Module
from graphc.backends.loops.values import I1, I64, PTR, Val
from graphc.backends.loops.writer import Writer
from graphc.ir.codegen import Terminator, View
from graphc.ir.core import Operation

TABLE, EVENTS, CLOCK, NOTE = "graphc.times", "graphc.events", "graphc.clock", "graphc.note"
SYMBOLS = (TABLE, EVENTS, CLOCK)


class Instrument:
    """Writes the time stamps. `operations`: the profiled operations in the order of the rows."""

    def __init__(self, module: Module, target: Target) -> None:
        self.operations: list[Operation] = []
        self._module = module
        x86 = target.triple.startswith("x86_64")
        # Elsewhere the cycle counter may be reserved to the system.
        self._counter = "llvm.readcyclecounter" if x86 else "llvm.readsteadycounter"

    @contextmanager
    def around(self, code: Writer, op: Operation) -> Generator[None]:
        """Attributes the time of the code written in the body to `op`."""
        assert isinstance(code, Code)
        if isinstance(op.opdef.codegen, View | Terminator):
            yield
            return
        row = len(self.operations)
        self.operations.append(op)
        start = self._now(code)
        yield
        code.do(f"call void @{NOTE}(i64 {row}, {start})")

    def finish(self) -> None:
        """Writes the table and the functions that the stamps call."""
        module, rows = self._module, max(len(self.operations), 1)
        module.add_global(TABLE, f"global [{2 * rows} x i64] zeroinitializer, align 16")
        module.add_global(EVENTS, "global { ptr, i64, i64 } zeroinitializer, align 16")
        clock = Code(module)
        clock.do(f"ret {self._now(clock)}")
        module.add_function(f"define i64 @{CLOCK}() nounwind", clock)
        module.add_function(
            f"define internal void @{NOTE}(i64 %row, i64 %start) noinline nounwind", self._note()
        )

    def _now(self, code: Code) -> Val:
        return code.value(I64, f"call i64 {self._module.intrinsic(self._counter, 'i64')}()")

    def _note(self) -> Code:
        code = Code(self._module)
        stop = self._now(code)
        taken = code.value(I64, f"sub i64 {stop.ref}, %start")
        place = code.value(PTR, f"getelementptr inbounds [2 x i64], ptr @{TABLE}, i64 %row")
        self._add(code, place, taken.ref)
        calls = code.value(PTR, f"getelementptr inbounds i64, {place}, i64 1")
        self._add(code, calls, "1")

        fields = "{ ptr, i64, i64 }"
        space_at = code.value(PTR, f"getelementptr inbounds {fields}, ptr @{EVENTS}, i64 0, i32 1")
        count_at = code.value(PTR, f"getelementptr inbounds {fields}, ptr @{EVENTS}, i64 0, i32 2")
        space = code.value(I64, f"load i64, {space_at}")
        count = code.value(I64, f"load i64, {count_at}")
        has_space = code.value(I1, f"icmp slt i64 {count.ref}, {space.ref}")
        code.do(f"br {has_space}, label %event, label %done")
        code.enter("event")
        events = code.value(PTR, f"load ptr, ptr @{EVENTS}")
        event = code.value(PTR, f"getelementptr inbounds [3 x i64], {events}, i64 {count.ref}")
        for i, value in enumerate(("%row", "%start", stop.ref)):
            field = code.value(PTR, f"getelementptr inbounds i64, {event}, i64 {i}")
            code.do(f"store i64 {value}, {field}")
        self._add(code, count_at, "1")
        code.do("br label %done")
        code.enter("done")
        code.leave()
        return code

    @staticmethod
    def _add(code: Code, place: Val, value: str) -> None:
        before = code.value(I64, f"load i64, {place}")
        after = code.value(I64, f"add i64 {before.ref}, {value}")
        code.do(f"store {after}, {place}")
