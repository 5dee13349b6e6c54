"""Chooses how a machine computes each operation: tiles, panels, blocks, vectors.

    %0 = gemm %x, %w schedule {parallel = "cols", chunk = 64} : tensor<256x512xf32>
 =>
    %0 = gemm %x, %w schedule {parallel = "cols", chunk = 64, tile = {rows = 12, vectors = 2,
        lanes = 16, depth = 384, block = 256, b = "packed by tiles", prefetch = 8}} : …

What a schedule says already is kept, so that it can be written by hand. Backends act on schedules
alone; for an operation without one they ask the same functions. `parallel` and `chunk` are
`split-work`'s and hold for any machine, but for products without a tile, of which some machines
have better ones (`analysis/product_chunks.py`). Changes no result, but for sums over the lanes of a
vector, whose order follows from their number, and for convolutions by Winograd's algorithm. These
are chosen here only, as their memory is planned next. O(operations).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.context import Context
from graphc.ir.core import Function, Module, Operation
from graphc.ir.machine import GPUS, MACHINES, AnyMachine, GpuMachine
from graphc.ir.params import Params
from graphc.ir.traversal import straight_blocks
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.support.diagnostics import suggestion


def choose_schedules(function: Function, machine: AnyMachine) -> int:
    """Complete the schedules of a kernel-level function; how many were not complete."""
    complete = _completion(machine)
    count = 0
    for op in (op for block in straight_blocks(function) for op in block):
        schedule = complete(op)
        count += schedule is not op.schedule
        op.schedule = schedule
    return count


def _completion(machine: AnyMachine) -> Callable[[Operation], Params]:
    """What completes the schedule of an operation. Imported here: where code is found in the cache
    no schedule is made, and it takes 20 ms."""
    if isinstance(machine, GpuMachine):
        from graphc.passes.analysis.gpu_schedules import complete_gpu_schedule

        return lambda op: complete_gpu_schedule(op, machine)
    from graphc.passes.analysis.schedules import complete_schedule

    return lambda op: complete_schedule(op, machine)


@dataclass(frozen=True)
class ChooseSchedule(Pass):
    """`machine`: the name of an instruction set, or a machine with all its fields."""

    name: ClassVar[str] = "choose-schedule"
    summary: ClassVar[str] = "choose tiles, blocks and vectors for a machine"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.FUSED})
    establishes: ClassVar[frozenset[Invariant]] = frozenset({Invariant.FUSED})

    machine: str | AnyMachine = "x86-64-v3"

    def run(self, module: Module, context: Context) -> PassOutcome:
        named = {**MACHINES, **GPUS}
        machine = named.get(self.machine) if isinstance(self.machine, str) else self.machine
        if machine is None:
            known, near = ", ".join(named), suggestion(str(self.machine), named)
            message = f"choose-schedule requires a machine out of {known}, got {self.machine}{near}"
            context.sink.error("bad-option", message)
            return PassOutcome(changed=False)
        if what := machine.misfit():
            context.sink.error("bad-value", f"choose-schedule requires {what}")
            return PassOutcome(changed=False)
        count = sum(choose_schedules(f, machine) for f in module.functions)
        return PassOutcome(changed=count > 0, counters={"scheduled": count})
