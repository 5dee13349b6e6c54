"""Removes pure operations whose results nobody reads.

    %0 = exp %x : tensor<4xf32>                %1 = neg %x : tensor<4xf32>
    %1 = neg %x : tensor<4xf32>          =>    return %1
    return %1

Leaves alone: graphs (their nodes are what the user wrote), operations marked ROOT, operations that
are not pure, unused arguments, and an operation of several results as long as one of them is read,
but for loops, which lose what is not needed of them (`trim_loops.py`).

Algorithm: one walk backwards over each block; readers come after what they read, so a chain of
dead operations falls in the same walk. What loops no longer read may die in turn, so this goes on
until none is trimmed. O(operations + operands) each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.context import Context
from graphc.ir.core import Block, Function, Module, Operation, RegionKind, Trait
from graphc.ir.traversal import blocks
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.passes.trim_loops import trim_loops


def is_dead(op: Operation) -> bool:
    """Whether `op` is pure and none of its results is read."""
    kept = op.opdef.has(Trait.TERMINATOR) or op.opdef.has(Trait.ROOT)
    return op.opdef.has(Trait.PURE) and not kept and not any(v.has_uses for v in op.results)


def remove_dead_operations(function: Function) -> int:
    """Remove dead operations from every block of `function`; how many there were."""
    if function.kind is not RegionKind.SSA:
        return 0
    removed = _remove_everywhere(function)
    while function.arena is None and (trimmed := trim_loops(function)):
        removed += trimmed + _remove_everywhere(function)
    return removed


def _remove_everywhere(function: Function) -> int:
    removed = remove_dead_in_block(function.block)
    return removed + sum(
        remove_dead_in_block(b) for b in blocks(function) if b is not function.block
    )


def remove_dead_in_block(block: Block) -> int:
    """Remove dead operations from `block` itself, not from blocks inside it."""
    removed = 0
    op = block.last
    while op is not None:
        before = op.previous
        if is_dead(op):
            op.erase()
            removed += 1
        op = before
    return removed


@dataclass(frozen=True)
class EliminateDeadCode(Pass):
    name: ClassVar[str] = "dce"
    summary: ClassVar[str] = "remove pure operations whose results nobody reads"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})

    def run(self, module: Module, context: Context) -> PassOutcome:
        removed = sum(remove_dead_operations(f) for f in module.functions)
        return PassOutcome(changed=removed > 0, counters={"removed": removed})
