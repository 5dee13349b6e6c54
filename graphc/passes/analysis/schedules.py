"""The schedule of an operation on a machine, from what each kind of operation asks of it."""

from __future__ import annotations

from dataclasses import replace

from graphc.ir.core import Operation
from graphc.ir.machine import Machine
from graphc.ir.params import Params
from graphc.ops.schedules import KernelSchedule, ProductSchedule
from graphc.passes.analysis.nest_schedules import check_nest, choose_nest, scheduled_nests
from graphc.passes.analysis.nestplan import epilogue_nest
from graphc.passes.analysis.product_tiles import form_of, product_schedule, tilings


def complete_schedule(op: Operation, machine: Machine) -> Params:
    """The schedule with all that it leaves open chosen; itself if that is nothing.

    Raises GraphcError (bad-schedule) if what it says does not fit the operation.
    """
    match op.schedule:
        case KernelSchedule() as schedule:
            return _of_kernel(op, schedule, machine)
        case ProductSchedule():
            return _of_product(op, machine)
        case schedule:
            return schedule


def _of_kernel(op: Operation, schedule: KernelSchedule, machine: Machine) -> KernelSchedule:
    found = scheduled_nests(op)
    if schedule.nests or not found:
        return schedule
    return replace(schedule, nests=tuple(choose_nest(nest, machine) for nest, _ in found))


def _of_product(op: Operation, machine: Machine) -> ProductSchedule:
    schedule = product_schedule(op)
    form = form_of(op)
    if schedule.tile is None and 0 not in (form.m, form.n):  # else there is nothing to compute
        tile, few_rows = tilings(machine, form)
        schedule = replace(schedule, tile=tile, few_rows=few_rows)
    if op.regions:
        nest = epilogue_nest(op)
        if schedule.body is None:
            schedule = replace(schedule, body=choose_nest(nest, machine))
        else:
            check_nest(op, nest, schedule.body)
    return schedule
