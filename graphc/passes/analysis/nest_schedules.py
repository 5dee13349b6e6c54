"""How a loop nest is computed on a machine: its vectors, what is left over, what is read ahead."""

from __future__ import annotations

from graphc.ir.core import Operation
from graphc.ir.machine import Machine
from graphc.ir.types import DType
from graphc.ops.schedules import NestSchedule, nest_schedules
from graphc.passes.analysis.loopnest import ArrayAccess, Load, Nest
from graphc.passes.analysis.nestplan import misfit, nests_of

VECTORS = 4
"""Vectors that a turn of a loop takes, as one value of all their lanes: functions are long chains
of steps that wait for each other, and a processor does not look far enough ahead to find the next
turn."""

MAX_AHEAD_BYTES = 131072
"""What is asked for before its row begins, at most: it has to wait in a cache for that."""


def choose_nest(nest: Nest, machine: Machine) -> NestSchedule:
    """The schedule of a nest: its loops as they are."""
    lanes = lanes_of(nest, machine)
    return NestSchedule(
        nest.axes,
        lanes,
        VECTORS if nest.bound >= VECTORS * lanes else 1,
        "masked" if machine.masks_memory and _can_mask(nest) and lanes > 1 else "scalar",
        bool(read_first(nest)),
        tuple(sorted(nest.statements[keep.value].source for keep in nest.keeps)),
    )


def lanes_of(nest: Nest, machine: Machine) -> int:
    """Lanes of a vector: one register of the widest type, less where the extent is small: no more
    than it has, unless one masked vector can hold it."""
    if nest.lane < 0:
        return 1
    types = _lane_dtypes(nest) or {s.dtype for s in nest.statements}
    lanes = min(machine.lanes(dtype) for dtype in types)
    is_masked = machine.masks_memory and _can_mask(nest)
    while lanes > 1 and (lanes // 2 if is_masked else lanes - 1) >= nest.bound:
        lanes //= 2
    return lanes


def _lane_dtypes(nest: Nest) -> set[DType]:
    """Element types of the values and arrays that have lanes."""
    values = {s.dtype for i, s in enumerate(nest.statements) if nest.has_lanes(i)}
    return values | {store.access.dtype for store in nest.stores if nest.lane in store.access.dims}


def read_first(nest: Nest) -> tuple[ArrayAccess, ...]:
    """What the first sweep of a row reads and no other row does, where more sweeps follow and it
    is not too much."""
    if nest.lane < 1 or len(nest.sweeps) < 2:
        return ()
    works = (nest.statements[n].work for n in nest.sweeps[0].compute)
    accesses = dict.fromkeys(w.access for w in works if isinstance(w, Load))
    walked = tuple(p for p in accesses if p.strides[nest.lane - 1] is not None)
    size = sum(nest.bound * p.dtype.itemsize for p in walked)
    return walked if size <= MAX_AHEAD_BYTES else ()


def _can_mask(nest: Nest) -> bool:
    """Whether left-over lanes can be masked; elements of one or two bytes have no masked moves
    short of AVX-512."""
    accesses = (p.dtype for p in nest.accesses() if nest.lane in p.dims)
    kept = (nest.statements[k.value].dtype for k in nest.keeps)
    return all(dtype.itemsize >= 4 for dtype in (*accesses, *kept))


def scheduled_nests(kernel: Operation) -> list[tuple[Nest, NestSchedule | None]]:
    """The nests of a kernel and how each is computed, where that is chosen.

    Raises GraphcError (bad-schedule) for a schedule that does not fit.
    """
    nests = nests_of(kernel)
    given = nest_schedules(kernel.schedule)
    for nest, how in zip(nests, given, strict=False):
        check_nest(kernel, nest, how)
    return list(zip(nests, given or [None] * len(nests), strict=True))


def check_nest(op: Operation, nest: Nest, given: NestSchedule) -> None:
    """GraphcError (bad-schedule) if a nest of `op` cannot be computed so."""
    if given.tail == "masked" and not _can_mask(nest):
        raise misfit(op, 'tail = "scalar" for a nest that moves elements of one or two bytes')
    if given.prefetch and not read_first(nest):
        raise misfit(op, "prefetch = false for rows that are swept once, or are too long")
    if nest.lane < 0 and given.lanes > 1:
        raise misfit(op, f"lanes = 1 for a nest of one element, got {given.lanes}")
    if given.vectors & (given.vectors - 1):  # sums are folded by halves
        raise misfit(op, f"vectors that are a power of two, got {given.vectors}")
    sources = {s.source for i, s in enumerate(nest.statements) if nest.has_lanes(i)}
    if unknown := [n for n in given.keep if n not in sources]:
        raise misfit(op, f"kept operations that have lanes, got {unknown[0]}")
