"""The schedule of an operation on a GPU, from what each kind of operation asks of it."""

from __future__ import annotations

from graphc.ir.core import Operation
from graphc.ir.machine import GpuMachine
from graphc.ir.params import Params


def complete_gpu_schedule(op: Operation, machine: GpuMachine) -> Params:
    """The schedule with all that it leaves open chosen; itself if that is nothing.

    Raises GraphcError (bad-schedule) if what it says does not fit the operation.
    """
    return op.schedule
