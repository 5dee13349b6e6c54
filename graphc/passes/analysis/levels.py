"""Which operations of a planned block need not wait for each other.

The level of an operation is the number of operations in the longest chain that it waits for: those
that make what it reads, and those that read what it writes over. Views belong to what they show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphc.ir.core import Block, Operation, Value
from graphc.passes.analysis.liveness import is_view, live_ranges


def levels_of(
    block: Block, overwritten: Mapping[Operation, Sequence[Value]]
) -> dict[Operation, int]:
    """From 0 on; views of arguments have -1, the terminator comes behind all.

    overwritten  what operations write over that others read before
    """
    liveness = live_ranges(block)
    levels: dict[Operation, int] = {}
    readers: dict[Value, list[Operation]] = {}
    for op in liveness.operations:
        made = [levels[v.op] for v in op.operands if v.op in levels]
        if is_view(op):
            levels[op] = max(made, default=-1)
            continue
        for before in overwritten.get(op, ()):
            made += [levels[reader] for reader in readers.get(before, ())]
        levels[op] = max(made, default=-1) + 1
        for root in {liveness.roots[v] for v in op.operands}:
            readers.setdefault(root, []).append(op)
    levels[block.end] = max(levels.values()) + 1
    return levels


def order_by_levels(block: Block, levels: Mapping[Operation, int]) -> None:
    """Bring the operations into the order of their levels, those of one level as they were."""
    for op in sorted(block, key=lambda op: max(levels[op], 0)):
        block.unlink(op)
        block.append(op)
