"""Removes dead stacks, carried values and operands of loops, and stacks of what another one keeps,
whole or as a part.

A stack is live if it is read. A carried value is live if its last value is read, or if a step
computes a live value from it; one that only feeds itself is dead. So are operands that no step
reads.
"""

from __future__ import annotations

from graphc.ir.codegen import Loop
from graphc.ir.core import Function, IRBuilder, Operation, Value
from graphc.ir.traversal import walk
from graphc.ops.loop import LoopParts, loop_parts
from graphc.ops.movement import CONCAT, ConcatParams, slice_axis
from graphc.passes.loop_editing import close_loop, open_loop
from graphc.passes.matching import made_by
from graphc.support.graphs import reachable


def trim_loops(function: Function) -> int:
    """Trim every loop of `function`; how many operands and results were removed."""
    loops = [op for op in walk(function) if isinstance(op.opdef.codegen, Loop)]
    return sum(map(trim_loop, reversed(loops)))


def trim_loop(op: Operation) -> int:
    """Trim one loop; how many operands and results were removed."""
    parts = loop_parts(op)
    _share_stacks(parts)
    needed = _needed_values(parts)
    draft = open_loop(op)
    draft.carried = [c for c in draft.carried if c.carry_in in needed or c.final in needed]
    draft.stacks = [s for s in draft.stacks if s.stack is not None and s.stack.has_uses]
    draft.invariants = [r for r in draft.invariants if r.inner in needed]
    draft.sequences = [r for r in draft.sequences if r.inner in needed]
    kept = len(draft.carried) * 2 + len(draft.stacks) + len(draft.invariants) + len(draft.sequences)
    removed = len(op.operands) + len(op.results) - kept
    if removed:
        terminator = parts.block.end
        yields = [*(c.carry_out for c in draft.carried), *(s.inner for s in draft.stacks)]
        terminator.set_operands(yields)
        _erase_unneeded(parts, needed)
        close_loop(draft)
    return removed


def _share_stacks(parts: LoopParts) -> None:
    """Let only the first of the stacks that keep a value be read, and of a value that is joined
    with others into one that is kept too, its part of that."""
    first: dict[Value, Value] = {}
    for inner, stack in zip(parts.stacked, parts.stacks, strict=True):
        if (kept := first.setdefault(inner, stack)) is not stack:
            stack.replace_all_uses(kept)
    for inner, stack in first.items():
        joined = made_by(inner, CONCAT) if stack.has_uses else None
        if joined is None:
            continue
        axis, start = joined.params_as(ConcatParams).axis, 0
        assert parts.op.block is not None
        b = IRBuilder(parts.op.block, parts.op.next)
        b.location = parts.op.location
        for value in joined.operands:
            extent = value.tensor.dims[axis]
            if not isinstance(extent, int):
                break
            part = first.get(value)
            if part is not None and part.has_uses:
                cut = slice_axis(b, stack, axis + 1, start, start + extent)
                cut.label = part.called
                part.replace_all_uses(cut)
            start += extent


def _needed_values(parts: LoopParts) -> dict[Value, None]:
    """Everything in the body that something read outside depends on, and results that are read."""
    after = dict(zip(parts.carry_in, parts.carry_out, strict=True))

    def inputs(value: Value) -> list[Value]:
        if value in after:
            return [after[value]]
        return list(value.op.operands) if value.op is not None else []

    finals = [(f, a) for f, a in zip(parts.final, parts.carry_out, strict=True) if f.has_uses]
    roots = [a for _, a in finals]
    roots += [k for s, k in zip(parts.stacks, parts.stacked, strict=True) if s.has_uses]
    needed = reachable(roots, inputs)
    needed.update(dict.fromkeys(f for f, _ in finals))
    return needed


def _erase_unneeded(parts: LoopParts, needed: dict[Value, None]) -> None:
    terminator = parts.block.terminator
    for op in reversed(list(parts.block)):
        if op is not terminator and not any(v in needed for v in op.results):
            op.erase()
