"""Says which operations are computed chunk by chunk, each chunk right behind what it reads.

    %c = conv %x, %w schedule {parallel = "images", chunk = 1} : tensor<Nx24x24x16xf32>
    %p = pool %c schedule {parallel = "images", chunk = 10} : tensor<Nx12x12x16xf32>
 =>
    %c = conv %x, %w schedule {parallel = "images", chunk = 1} : tensor<Nx24x24x16xf32>
    %p = pool %c schedule {parallel = "images", chunk = 1, behind = true} : tensor<Nx12x12x16xf32>

What a thread has made is then in its near cache when it reads it, and threads meet once for a group
of operations, not behind each. What can be in a group says `analysis/chunk_groups.py`; it goes on
from operation to operation for as long as the next one fits. What alone was too little to cut is
cut behind others. Chunks are those of the first operation, longer ones where the next has fewer
places (sequences behind heads) and all sizes are known: a call of one sample would have one chunk.

Behind others come kernels, poolings and products over a batch, whose code does not depend on how
long a chunk is. Products of rows and convolutions begin groups alone: each chunk would read all of
their weights again, and their code would drive that of the others out of the instruction cache.
Nor comes behind others what would have fewer chunks than alone and than `LEAST_CHUNKS`, or so
little to do in a chunk that the call takes longer (`LEAST_NS`). Leaves alone: the bodies of loops,
functions in which somebody has written `behind`, functions with a memory plan.
O(operations + operands).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from graphc.ir.codegen import Contraction, Kernel, View, WindowReduction
from graphc.ir.context import Context
from graphc.ir.core import Function, Module, Operation
from graphc.ir.types import bound_elements
from graphc.ops.contraction import MatmulParams
from graphc.ops.schedules import KernelSchedule, Schedule, is_behind, schedule_of
from graphc.passes.analysis.chunk_groups import (
    Group,
    Ranges,
    chunk_behind,
    ranges_in_chunks,
    ranges_of,
    require_behind,
)
from graphc.passes.analysis.iteration import kernel_space
from graphc.passes.analysis.work import operation_ns
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome

LEAST_NS = 40.0
"""Of a chunk, by the same estimate: a few times what a call may cost; not measured."""

LEAST_CHUNKS = 8
"""Of a group: no fewer, if operations alone have more."""

GROWN_BYTES = 2**20
"""Of what chunks that became longer make, at most: about a second-level cache."""


def fuse_chunks(function: Function, least_ns: float = LEAST_NS) -> int:
    """Write `behind` into schedules of a fused function; how many operations are computed so.

    least_ns  of each chunk

    Raises GraphcError (bad-schedule) where one says it already that does not fit.
    """
    if written := [op for op in function.block if is_behind(op)]:
        for op in written:
            require_behind(op)
        return 0
    found: list[_Chunks] = []
    for op in function.block:
        if isinstance(op.opdef.codegen, View):
            continue
        ranges = ranges_of(op)
        if found and ranges is not None and found[-1].take(op, ranges, least_ns):
            continue
        # What cannot begin a group ends the one before.
        found.append(_Chunks(op))
    for chunks in found:
        chunks.write()
    return sum(max(len(chunks.members) - 1, 0) for chunks in found)


class _Chunks:
    """A group that grows, and its chunks: `chunk` places of its first operation; 0 of one that is
    not cut into ranges, and begins no group."""

    def __init__(self, first: Operation) -> None:
        ranges, schedule = ranges_in_chunks(first), schedule_of(first)
        self.chunk = schedule.chunk if ranges and schedule else 0
        self._group = Group(first, ranges) if ranges else None

    @property
    def members(self) -> list[tuple[Operation, Ranges]]:
        return self._group.members if self._group else []

    def take(self, op: Operation, ranges: Ranges, least_ns: float) -> bool:
        """Add an operation if it can be computed behind these, and is better so."""
        if self._group is None or not _has_any_chunks(op) or self._group.misfit(op, ranges):
            return False
        chunk, places = self._chunk_for(ranges), bound_elements(self.members[0][1].axes)
        if not chunk or operation_ns(op) * chunk < least_ns * places:
            return False
        before = max(-(-places // self.chunk), _chunks_alone(op, ranges))
        if -(-places // chunk) < min(before, LEAST_CHUNKS):
            return False
        self.chunk = chunk
        self._group.add(op, ranges)
        return True

    def _chunk_for(self, ranges: Ranges) -> int:
        """Of the first operation, so that one with these ranges has whole places; 0: none is."""
        leader = self.members[0][1]
        own, places = leader.extent, ranges.extent
        if own.symbols != places.symbols or 0 in (own.factor, places.factor):
            return 0
        times = own.factor // math.gcd(places.factor * self.chunk, own.factor)
        return self.chunk * times if times == 1 or self._may_grow(self.chunk * times) else 0

    def _may_grow(self, chunk: int) -> bool:
        """Whether chunks may be of so many places of the first operation, more than they are."""
        extent = self.members[0][1].extent
        made = max(v.tensor.bound_bytes for op, _ in self.members for v in op.results)
        fits = not extent.symbols and made * chunk <= GROWN_BYTES * extent.factor
        return fits and all(_has_any_chunks(op) for op, _ in self.members)

    def write(self) -> None:
        """The schedules of all members, if there are several."""
        for number, (op, ranges) in enumerate(self.members if len(self.members) > 1 else ()):
            assert isinstance(op.schedule, Schedule)
            length = chunk_behind(ranges, self.members[0][1], self.chunk)
            changes = {"parallel": ranges.parallel, "chunk": length, "behind": number > 0}
            op.schedule = replace(op.schedule, **changes)


def _chunks_alone(op: Operation, ranges: Ranges) -> int:
    """How many there are now, maybe along another axis."""
    schedule, axes = schedule_of(op), ranges.axes
    if schedule is None:
        return 1
    if isinstance(schedule, KernelSchedule) and schedule.parallel is not None:
        axes = kernel_space(op)[schedule.parallel :][:1]
    return -(-bound_elements(axes) // schedule.chunk)


def _has_any_chunks(op: Operation) -> bool:
    """Whether the code of an operation is the same for chunks of any length."""
    match op.opdef.codegen:
        case Contraction():
            return op.params_as(MatmulParams).batch > 0
        case Kernel() | WindowReduction():
            return True
        case _:
            return False


@dataclass(frozen=True)
class FuseChunks(Pass):
    """`least_ns`: what a chunk of an operation behind others takes at least, by estimate."""

    name: ClassVar[str] = "fuse-chunks"
    summary: ClassVar[str] = "compute operations chunk by chunk, each right behind what it reads"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.FUSED})
    establishes: ClassVar[frozenset[Invariant]] = frozenset({Invariant.FUSED})
    least_ns: float = LEAST_NS

    def run(self, module: Module, context: Context) -> PassOutcome:
        count = sum(fuse_chunks(f, self.least_ns) for f in module.functions if f.arena is None)
        return PassOutcome(changed=count > 0, counters={"behind": count})
