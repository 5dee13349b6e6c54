"""Takes a sum over members apart, so that what is there early is added beside the backward pass.

    %s1, %s2 = all_reduce %g1, %g2    =>   %0 = all_reduce_start %g2
                                           %1 = all_reduce_start %g1
                                           %s2 = all_reduce_finish %0
                                           %s1 = all_reduce_finish %1

The summands come in the order in which the last product or loop that each needs does in the
program: gradients of the last layer first. They are put into buckets, each of which is full with
`bucket_bytes`: few bytes would cost a message of their own. All members have the same program up to
bounds, on which no order depends, so that they begin the same sums in the same order.
`schedule-updates` moves the starts forwards.

Leaves alone: what would be one bucket, which is there when all is; loops' bodies.
Where members know how long they wait for a byte, `overlap_pays` says whether it takes less time: by
the bytes in all buckets but the last, which has nothing beside it, and by what it costs for each
byte that a thread of its own adds, takes time of the processor that computes, and looks whether a
sum is there.
Algorithm: one walk through the block. O(n) for n operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.codegen import Broadcast, Elementwise, Extent, Fill, Reduction, View
from graphc.ir.context import Context
from graphc.ir.core import Block, Function, IRBuilder, Module, Operation, Value
from graphc.ops.communication import (
    ALL_REDUCE,
    AllReduceParams,
    all_reduce_finish,
    all_reduce_start,
)
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome

BUCKET_BYTES = 2**20
COST = 0.75e-9
"""Seconds for a byte: what it costs to add it beside. So the measurements of docs/members.md come
out: a byte is waited for 0.7 ns at 10 Gbit/s, where it takes longer, and 1.7 at 2.5, where not."""
QUICK = (Elementwise, Broadcast, Reduction, Extent, Fill, View)
"""Categories of operations that are made right behind what they are made of."""


def overlap_sums(function: Function, bucket_bytes: int = BUCKET_BYTES) -> int:
    """Take the sums apart; into how many buckets."""
    sums = [op for op in function.block if op.opdef is ALL_REDUCE]
    return sum(_take_apart(op, bucket_bytes) for op in sums)


def overlap_pays(function: Function, idle: float, bucket_bytes: int = BUCKET_BYTES) -> bool | None:
    """Whether it takes less time to take the sums apart, where a byte is waited for `idle` seconds;
    None where there is nothing to take apart."""
    sums = [op for op in function.block if op.opdef is ALL_REDUCE]
    sizes = [[_bytes(op, its) for its in _buckets(op, bucket_bytes)] for op in sums]
    apart = [its for its in sizes if len(its) > 1]
    if not apart:
        return None
    return idle * sum(sum(its[:-1]) for its in apart) > COST * sum(map(sum, apart))


def _bytes(op: Operation, operands: Sequence[int]) -> int:
    return sum(op.operands[i].tensor.bound_bytes for i in operands)


def _take_apart(op: Operation, bucket_bytes: int) -> int:
    buckets = _buckets(op, bucket_bytes)
    if len(buckets) < 2:
        return 0
    b = IRBuilder.before(op)
    members = op.params_as(AllReduceParams).members
    with b.at(op.location):
        begun = [all_reduce_start(b, [op.operands[i] for i in its], members) for its in buckets]
        made: dict[int, Value] = {}
        for its, values in zip(buckets, begun, strict=True):
            made.update(zip(its, all_reduce_finish(b, values), strict=True))
    op.replace_with([made[i] for i in range(len(op.results))])
    return len(buckets)


def _buckets(op: Operation, bucket_bytes: int) -> list[list[int]]:
    """The operands of each bucket, those that are there first in the first one."""
    assert op.block is not None
    made = _positions(op.block)
    order = sorted(range(len(op.operands)), key=lambda i: made.get(op.operands[i], -1))
    buckets: list[list[int]] = [[]]
    size = 0
    for i in order:
        if size >= bucket_bytes:
            buckets.append([])
            size = 0
        buckets[-1].append(i)
        size += op.operands[i].tensor.bound_bytes
    return buckets


def _positions(block: Block) -> dict[Value, int]:
    """For each value the place in the block of the last operation that takes time for it."""
    found: dict[Value, int] = {}
    for position, op in enumerate(block):
        last = position
        if isinstance(op.opdef.codegen, QUICK):
            last = max((found.get(value, -1) for value in op.operands), default=-1)
        found.update(dict.fromkeys(op.results, last))
    return found


@dataclass(frozen=True)
class OverlapSums(Pass):
    """`bucket_bytes`: what fills a bucket."""

    name: ClassVar[str] = "overlap-sums"
    summary: ClassVar[str] = "add gradients over members beside the backward pass"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})
    bucket_bytes: int = BUCKET_BYTES

    def run(self, module: Module, context: Context) -> PassOutcome:
        if self.bucket_bytes < 1:
            message = f"bucket_bytes requires 1 or more, got {self.bucket_bytes}"
            context.sink.error("bad-option", message)
            return PassOutcome(False)
        count = sum(overlap_sums(f, self.bucket_bytes) for f in module.functions)
        return PassOutcome(changed=count > 0, counters={"buckets": count})
