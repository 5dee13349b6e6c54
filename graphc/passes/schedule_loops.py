"""Says which loops run at the same time, each on a thread of its own.

    %f = loop %x, …                       %r = kernel %x …
    %r = kernel %x …               =>     %f = loop %x, …
    %b = loop %r, … {backward = true}     %b = loop %r, … {backward = true} schedule {beside = true}

The two directions of a recurrent layer do not wait for each other, and what a step computes is
often too small to cut. Such loops come one right after the other, and what a later one waits for
comes before the first. A loop runs beside others if it takes `GRAIN_NS` or more, most of it in
operations of one piece: all threads compute the others as they are.

Leaves alone: loops in the bodies of loops, functions with a memory plan. O(loops^2 x operations).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.codegen import Loop
from graphc.ir.context import Context
from graphc.ir.core import Function, Module, Operation
from graphc.ir.types import bound_of
from graphc.ops.loop import loop_parts
from graphc.ops.schedules import LoopSchedule
from graphc.passes.analysis.liveness import live_ranges
from graphc.passes.analysis.work import operation_ns
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.passes.split_work import GRAIN_NS, chunks


def schedule_loops(function: Function) -> int:
    """Bring loops that do not wait for each other together; how many run beside another."""
    waiting = [op for op in function.block if _is_worth_a_thread(op)]
    updates = _updates(function) if len(waiting) > 1 else set()
    count = 0
    while waiting:
        first, *waiting = waiting
        together = [first]
        for loop in list(waiting):
            needed = _needed_behind(first, loop)
            if not updates.isdisjoint(needed) or not needed.isdisjoint(together):
                continue
            for op in [op for op in function.block if op in needed]:
                _move(op, first)
            _move(loop, together[-1].next)
            loop.schedule = LoopSchedule(beside=True)
            waiting.remove(loop)
            together.append(loop)
        count += len(together) - 1
    return count


def _is_worth_a_thread(op: Operation) -> bool:
    """Whether it is a loop of enough work, most of it in operations of one piece."""
    if not isinstance(op.opdef.codegen, Loop):
        return False
    parts = loop_parts(op)
    work = [(operation_ns(inner), chunks(inner)) for inner in parts.block]
    total = sum(ns for ns, _ in work)
    cut = sum(ns for ns, schedule in work if schedule is not None and schedule.is_parallel)
    return bound_of(parts.params.count) * total >= GRAIN_NS and 2 * cut < total


def _updates(function: Function) -> set[Operation]:
    """What writes new values of arguments, which comes behind all that reads the old ones."""
    roots = live_ranges(function.block).roots
    results = zip(function.results, function.returned, strict=True)
    made = (roots[value].op for info, value in results if info.updates is not None)
    return {op for op in made if op is not None}


def _needed_behind(first: Operation, loop: Operation) -> set[Operation]:
    """What `loop` waits for from `first` on."""
    needed = {loop}
    op: Operation | None = loop
    while op is not None and op is not first:
        op = op.previous
        if op is not None and any(u in needed for value in op.results for u in value.users()):
            needed.add(op)
    return needed - {loop}


def _move(op: Operation, before: Operation | None) -> None:
    block = op.block
    assert block is not None
    if op is not before:
        block.unlink(op)
        block.insert_before(before, op)


@dataclass(frozen=True)
class ScheduleLoops(Pass):
    name: ClassVar[str] = "schedule-loops"
    summary: ClassVar[str] = "say which loops run at the same time"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.FUSED})
    establishes: ClassVar[frozenset[Invariant]] = frozenset({Invariant.FUSED})

    def run(self, module: Module, context: Context) -> PassOutcome:
        todo = [f for f in module.functions if f.arena is None]
        count = sum(schedule_loops(f) for f in todo)
        return PassOutcome(changed=count > 0, counters={"beside": count})
