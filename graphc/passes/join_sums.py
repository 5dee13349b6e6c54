"""Makes one sum over members of those that need not wait for each other.

    %a1 = all_reduce %a {members = 2}        %b = …
    %c = mul %a1, …                     =>   %a1, %b1 = all_reduce %a, %b {members = 2}
    %b = …                                   %c = mul %a1, …
    %b1 = all_reduce %b {members = 2}

So members meet once for the two sums of a BatchNormalization, and for those of layers side by side.
A sum is as deep as the longest chain of sums before it: those of one depth, element type and number
of members become one, where the last of them stands. What reads an earlier one and stands before
that moves behind it; everything else stays.

Leaves alone: sums that are taken apart already (`all_reduce_start`), and those in loops' bodies.
Algorithm: one walk for the depths, two more for each sum that is made. O(n) for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.context import Context
from graphc.ir.core import Function, IRBuilder, Module, Operation, Value
from graphc.ir.types import DType
from graphc.ops.communication import ALL_REDUCE, AllReduceParams, all_reduce
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome

Kind = tuple[int, DType, int]
"""What sums have in common that become one: depth, element type and number of members."""


def join_sums(function: Function) -> int:
    """Join them; how many are gone."""
    groups = [sums for sums in _groups(function).values() if len(sums) > 1]
    for sums in groups:
        wanted = set(sums)
        _join([op for op in function.block if op in wanted])  # what was joined before moved some
    return sum(len(sums) - 1 for sums in groups)


def _groups(function: Function) -> dict[Kind, list[Operation]]:
    """The sums of each kind, in order."""
    depths: dict[Value, int] = {}
    groups: dict[Kind, list[Operation]] = {}
    for op in function.block:
        depth = max((depths.get(value, 0) for value in op.operands), default=0)
        if op.opdef is ALL_REDUCE:
            members = op.params_as(AllReduceParams).members
            kind = depth, op.operands[0].tensor.dtype, members
            groups.setdefault(kind, []).append(op)
            depth += 1
        depths.update(dict.fromkeys(op.results, depth))
    return groups


def _join(sums: list[Operation]) -> None:
    last = sums[-1]
    block = last.block
    assert block is not None
    later = _readers_before(last, sums)
    b = IRBuilder.before(last)
    with b.at(last.location):
        operands = [value for op in sums for value in op.operands]
        made = iter(all_reduce(b, operands, last.params_as(AllReduceParams).members))
    behind = last.next
    for op in later:
        block.unlink(op)
        block.insert_before(behind, op)
    for op in sums:
        op.replace_with([next(made) for _ in op.results])


def _readers_before(last: Operation, sums: list[Operation]) -> list[Operation]:
    """What needs one of the sums and stands before the last. The sums themselves need none."""
    depend = {value for op in sums for value in op.results}
    found: list[Operation] = []
    op = sums[0].next
    while op is not None and op is not last:
        if not depend.isdisjoint(op.operands):
            found.append(op)
            depend.update(op.results)
        op = op.next
    return found


@dataclass(frozen=True)
class JoinSums(Pass):
    name: ClassVar[str] = "join-sums"
    summary: ClassVar[str] = "make one sum over members of those that need not wait for each other"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})

    def run(self, module: Module, context: Context) -> PassOutcome:
        joined = sum(join_sums(function) for function in module.functions)
        return PassOutcome(changed=joined > 0, counters={"joined": joined})
