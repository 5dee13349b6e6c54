"""Moves the updates of parameters and learner state to the earliest place their operands allow.

    %g1 = gemm %d1, %x                    %g1 = gemm %d1, %x
    %g2 = gemm %d2, %h                    %w1 = kernel %w, %g1      updates w
    %w1 = kernel %w, %g1      =>          %g2 = gemm %d2, %h
    %w2 = kernel %u, %g2                  %w2 = kernel %u, %g2      updates u

The live range of a gradient then ends at its update and not at the end of the function, where all
gradients would be live together; with `fuse-epilogues` the gradient is never stored. Scalars
computed from arguments alone, such as a learner's rates, come first. All other operations keep
their order. An update comes after all readers of the old value, so no new copies are needed.

Where sums over members are taken apart (`overlap-sums`), what they add and their starts come as
early, and their finishes as late as they may, so that most is computed in between:

    %d = gemm %e, %w                      %g = gemm %e, %x
    %g = gemm %e, %x                      %0 = all_reduce_start %g
    %0 = all_reduce_start %g      =>      %d = gemm %e, %w
    %s = all_reduce_finish %0             %h = gemm %d, %y
    %h = gemm %d, %y                      %s = all_reduce_finish %0

Starts keep their order among each other: members begin the same sums in the same order. Updates
come behind all finishes: where a sum is not made, nothing is updated.

Leaves alone: bodies of loops, functions with a memory plan. Algorithm: list scheduling in program
order, in which what is early goes first as soon as it is ready. O(n log n).
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from typing import ClassVar

from graphc.ir.codegen import Collective
from graphc.ir.context import Context
from graphc.ir.core import Function, Module, Operation, Trait, Value
from graphc.ir.types import TensorType
from graphc.passes.analysis.liveness import Liveness, is_view, live_ranges
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome

START, FINISH = Collective("start"), Collective("finish")


def schedule_updates(function: Function) -> int:
    """Reorder the operations of `function`; the number of operations whose position changed."""
    liveness = live_ranges(function.block)
    updated = _updated(function, liveness)
    starts = [op for op in liveness.operations if op.opdef.codegen == START]
    early = set(updated) | {op for op in liveness.operations if _is_rate(op)}
    early.update(starts, (made for op in starts for made in _summands(op)))
    behind = _dependents(liveness, updated)
    finishes = [op for op in liveness.operations if op.opdef.codegen == FINISH]
    for op, following in (*pairwise(starts), *pairwise(finishes)):
        behind[op].append(following)
    if finishes:
        after = liveness.operations.index(finishes[-1]) + 1
        behind[finishes[-1]] += [op for op in liveness.operations[after:] if op in updated]
    order = _ordered(liveness, behind, early)
    moved = sum(a is not b for a, b in zip(order, liveness.operations, strict=True))
    if moved:
        for op in order:
            function.block.unlink(op)
            function.block.append(op)
    return moved


def _updated(function: Function, liveness: Liveness) -> dict[Operation, set[Value]]:
    """The arguments that each operation makes new values of."""
    found: dict[Operation, set[Value]] = {}
    for result, value in zip(function.results, function.returned, strict=True):
        op = liveness.roots[value].op
        argument = function.argument(result.updates) if result.updates is not None else None
        if op is not None and argument is not None:
            found.setdefault(op, set()).add(argument)
    return found


def _summands(start: Operation) -> list[Operation]:
    """What makes the arrays that members add, with the views between."""
    found: list[Operation] = []
    for value in start.operands:
        op = value.op
        while op is not None and is_view(op):
            found.append(op)
            op = op.operands[0].op
        if op is not None:
            found.append(op)
    return found


def _is_rate(op: Operation) -> bool:
    """Whether it computes scalars from the function's arguments alone."""
    values = (*op.operands, *op.results)
    return all(v.op is None for v in op.operands) and all(
        isinstance(v.type, TensorType) and v.type.bound_elements == 1 for v in values
    )


def _dependents(
    liveness: Liveness, updated: dict[Operation, set[Value]]
) -> dict[Operation, list[Operation]]:
    """The dependents of each operation: readers of its results, and updates of what it reads.

    A dependent is listed once for each reason.
    """
    behind: dict[Operation, list[Operation]] = {op: [] for op in liveness.operations}
    readers: dict[Value, list[Operation]] = {}
    for op in liveness.operations:
        for value in op.operands:
            if value.op is not None:
                behind[value.op].append(op)
        for argument in updated.get(op, ()):
            for reader in readers.get(argument, ()):
                behind[reader].append(op)
        for value in op.operands:
            readers.setdefault(liveness.roots[value], []).append(op)
    return behind


def _ordered(
    liveness: Liveness, behind: dict[Operation, list[Operation]], early: set[Operation]
) -> list[Operation]:
    waits = dict.fromkeys(liveness.operations, 0)
    for operations in behind.values():
        for op in operations:
            waits[op] += 1
    number = {op: i for i, op in enumerate(liveness.operations)}
    ready: list[tuple[int, int]] = []

    def enter(op: Operation) -> None:
        # The terminator goes last, whatever it hands out.
        turn = 0 if op in early else 2 if op.opdef.codegen == FINISH else 1
        heappush(ready, (turn, number[op]))

    for op in liveness.operations:
        if not waits[op] and not op.opdef.has(Trait.TERMINATOR):
            enter(op)
    order: list[Operation] = []
    while ready:
        op = liveness.operations[heappop(ready)[1]]
        order.append(op)
        for later in behind[op]:
            waits[later] -= 1
            if not waits[later] and not later.opdef.has(Trait.TERMINATOR):
                enter(later)
    return [*order, liveness.operations[-1]]


@dataclass(frozen=True)
class ScheduleUpdates(Pass):
    name: ClassVar[str] = "schedule-updates"
    summary: ClassVar[str] = "run updates of parameters as soon as they may"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})

    def run(self, module: Module, context: Context) -> PassOutcome:
        todo = [f for f in module.functions if f.arena is None]
        moved = sum(schedule_updates(f) for f in todo)
        return PassOutcome(changed=moved > 0, counters={"moved": moved})
