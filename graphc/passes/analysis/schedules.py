"""The schedule of an operation on a machine, from what each kind of operation asks of it."""

from __future__ import annotations

from dataclasses import replace

from graphc.ir.codegen import StridedCopy
from graphc.ir.core import Operation
from graphc.ir.machine import Machine
from graphc.ir.params import Params
from graphc.ops.schedules import (
    ChannelSchedule,
    ConvSchedule,
    CopySchedule,
    ImagesSchedule,
    KernelSchedule,
    LaneSchedule,
    LookupSchedule,
    ProductSchedule,
    RowUpdateSchedule,
    WeightGradSchedule,
)
from graphc.passes.analysis.loopnest import copy_nest
from graphc.passes.analysis.nest_schedules import check_nest, choose_nest, scheduled_nests
from graphc.passes.analysis.nestplan import epilogue_nest
from graphc.passes.analysis.product_chunks import with_machine_chunks
from graphc.passes.analysis.product_schedules import with_pairs
from graphc.passes.analysis.product_tiles import form_of, with_tilings
from graphc.passes.analysis.window_products import (
    by_winograd,
    choose_convolution,
    convolution_schedule,
    product_of,
)
from graphc.passes.analysis.winograd import choose_winograd, suits_winograd


def complete_schedule(op: Operation, machine: Machine) -> Params:
    """The schedule with all that it leaves open chosen; itself if that is nothing.

    Raises GraphcError (bad-schedule) if what it says does not fit the operation.
    """
    match op.schedule:
        case KernelSchedule() as schedule:
            return _of_kernel(op, schedule, machine)
        case ProductSchedule():
            return _of_product(op, machine)
        case ConvSchedule() | WeightGradSchedule():
            return _of_convolution(op, machine)
        case ImagesSchedule(lanes=0) | ChannelSchedule(lanes=0) as schedule:
            return replace(schedule, lanes=machine.lanes(op.result.tensor.dtype))
        case (
            LaneSchedule(lanes=0) | LookupSchedule(lanes=0) | RowUpdateSchedule(lanes=0)
        ) as schedule:
            return replace(schedule, lanes=_lanes(op, machine))
        case CopySchedule(nest=None):
            return CopySchedule(choose_nest(copy_nest(op.result.tensor), machine))
        case schedule:
            return schedule


def _of_kernel(op: Operation, schedule: KernelSchedule, machine: Machine) -> KernelSchedule:
    found = scheduled_nests(op)
    if schedule.nests or not found:
        return schedule
    return replace(schedule, nests=tuple(choose_nest(nest, machine) for nest, _ in found))


def _of_product(op: Operation, machine: Machine) -> ProductSchedule:
    schedule = with_pairs(op, machine)
    is_open = schedule.tile is None
    schedule = with_tilings(schedule, machine, form_of(op, schedule))
    if is_open:
        schedule = with_machine_chunks(op, schedule, machine)
    if op.regions:
        nest = epilogue_nest(op)
        if schedule.body is None:
            schedule = replace(schedule, body=choose_nest(nest, machine))
        else:
            check_nest(op, nest, schedule.body)
    return schedule


def _of_convolution(op: Operation, machine: Machine) -> Params:
    given = convolution_schedule(op)
    what, turned = product_of(op), by_winograd(op)
    if given is not None or 0 in (*what.output_positions, what.run, what.outputs):
        return op.schedule
    if suits_winograd(turned):
        chosen = choose_winograd(turned, machine)
    else:
        chosen = choose_convolution(what, machine)
    return replace(chosen, parallel=what.parallel, chunk=what.chunk)


def _lanes(op: Operation, machine: Machine) -> int:
    """Of elements that are only moved, as many as a register holds; else of numbers."""
    dtype = op.results[0].tensor.dtype
    if isinstance(op.opdef.codegen, StridedCopy):
        return machine.vector_bits // (8 * dtype.itemsize)
    return machine.lanes(dtype)
