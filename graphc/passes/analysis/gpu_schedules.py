"""The schedule of an operation on a GPU, from what each kind of operation asks of it."""

from __future__ import annotations

from graphc.ir.core import Operation
from graphc.ir.machine import GpuMachine
from graphc.ir.params import Params
from graphc.ops.schedules import (
    ConvSchedule,
    KernelSchedule,
    ProductSchedule,
    WeightGradSchedule,
)
from graphc.passes.analysis.gpu_nests import complete_kernel
from graphc.passes.analysis.gpu_products import product_grid
from graphc.passes.analysis.window_tiles import complete_window_schedule


def complete_gpu_schedule(op: Operation, machine: GpuMachine) -> Params:
    """The schedule with all that it leaves open chosen; itself if that is nothing.

    Raises GraphcError (bad-schedule) if what it says does not fit the operation.
    """
    match op.schedule:
        case ConvSchedule() | WeightGradSchedule():
            return complete_window_schedule(op, machine)
        case KernelSchedule():
            return complete_kernel(op, machine)
        case ProductSchedule():
            return product_grid(op, machine)
        case schedule:
            return schedule
