"""Live ranges of the buffers of a kernel-level block: a function's, or the body of a loop.

A view (`reshape`) shares its operand's memory, so the unit is the root: the argument or the result
of an operation that views lead back to. Positions count the operations of the block from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphc.ir.codegen import View
from graphc.ir.core import Block, Operation, Value


@dataclass(frozen=True, slots=True)
class LiveRange:
    """The memory of `root` is needed from `start` (it is written there) to `end` (last read).

    An argument starts at -1; a value that nobody reads ends where it starts.
    """

    root: Value
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Liveness:
    """The operations in order, the root of every value, the live range of every root."""

    operations: tuple[Operation, ...]
    roots: Mapping[Value, Value]
    ranges: Mapping[Value, LiveRange]


def is_view(op: Operation) -> bool:
    return isinstance(op.opdef.codegen, View)


def live_ranges(block: Block) -> Liveness:
    """One walk forwards. The terminator counts as a reader of what it hands out, and a loop as one
    of all that its steps read.
    """
    operations = tuple(block)
    roots: dict[Value, Value] = {a: a for a in block.arguments}
    start: dict[Value, int] = dict.fromkeys(block.arguments, -1)
    end: dict[Value, int] = dict(start)
    for position, op in enumerate(operations):
        if is_view(op):
            roots[op.result] = roots[op.operands[0]]
            continue
        for value in op.operands:
            end[roots[value]] = position
        for value in op.results:
            roots[value] = value
            start[value] = end[value] = position
    ranges = {root: LiveRange(root, start[root], end[root]) for root in start}
    return Liveness(operations, roots, ranges)
