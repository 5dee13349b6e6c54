"""Changes a `loop` in place: what its steps read, carry and keep.

`open_loop` takes an operation apart into lists that a pass edits, `close_loop` puts the changed
operation where the old one stood. The body's operations stay the same objects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphc.ir.core import Block, Operation, Region, Value
from graphc.ir.types import TensorType
from graphc.ops.control import YIELD
from graphc.ops.loop import LOOP, LoopParams, element_type, loop_parts


@dataclass(eq=False)
class Read:
    """An operand and the block's argument that it becomes in a step."""

    outer: Value
    inner: Value


@dataclass(eq=False)
class Carried:
    """What the first step reads, what a step reads and yields, and the result that had the last."""

    initial: Value
    before: Value
    after: Value
    final: Value | None


@dataclass(eq=False)
class Stacked:
    """A value of the body of which every step's is kept, and the result that had them."""

    inner: Value
    stack: Value | None


@dataclass(eq=False)
class OpenLoop:
    """A loop operation under change."""

    op: Operation
    params: LoopParams
    block: Block
    invariants: list[Read]
    sequences: list[Read]
    carried: list[Carried]
    stacks: list[Stacked]

    def add_invariant(self, outer: Value) -> Value:
        """What every step reads `outer` as."""
        for read in self.invariants:
            if read.outer is outer:
                return read.inner
        inner = self.block.add_argument(outer.type, outer.name)
        self.invariants.append(Read(outer, inner))
        return inner

    def add_sequence(self, outer: Value) -> Value:
        """What a step reads of `outer`, whose first dim is time."""
        for read in self.sequences:
            if read.outer is outer:
                return read.inner
        assert isinstance(outer.type, TensorType)
        inner = self.block.add_argument(element_type(outer.type), outer.name)
        self.sequences.append(Read(outer, inner))
        return inner

    def add_stack(self, inner: Value) -> int:
        """Keep `inner` of every step; its place among the stacks."""
        for index, stacked in enumerate(self.stacks):
            if stacked.inner is inner:
                return index
        self.stacks.append(Stacked(inner, None))
        return len(self.stacks) - 1


def open_loop(op: Operation) -> OpenLoop:
    """The lists of `op`; nothing changes before `close_loop`, but for added arguments."""
    parts = loop_parts(op)
    return OpenLoop(
        op,
        parts.params,
        parts.block,
        [Read(o, i) for o, i in zip(parts.invariants, parts.shared, strict=True)],
        [Read(o, i) for o, i in zip(parts.sequences, parts.elements, strict=True)],
        [
            Carried(*c)
            for c in zip(parts.initial, parts.before, parts.after, parts.final, strict=True)
        ],
        [Stacked(i, s) for i, s in zip(parts.kept, parts.stacks, strict=True)],
    )


def close_loop(draft: OpenLoop) -> Operation:
    """The changed loop, in the place of the old one, whose readers now read its results.

    A result that is left out must have no readers.
    """
    old, source = draft.op, draft.block
    reads = [*draft.invariants, *draft.sequences]
    inner = [*(r.inner for r in reads), *(c.before for c in draft.carried)]
    body = Block([v.type for v in inner], [v.name for v in inner])
    for before, now in zip(inner, body.arguments, strict=True):
        before.replace_all_uses(now)
    new = dict(zip(inner, body.arguments, strict=True))
    yields = [*(c.after for c in draft.carried), *(s.inner for s in draft.stacks)]
    terminator = source.terminator
    assert terminator is not None and old.block is not None
    location = terminator.location
    terminator.erase()
    for op in source:
        body.append(source.unlink(op))
    yields = [new.get(v, v) for v in yields]
    body.append(Operation(YIELD, yields, (), location=location))
    params = replace(draft.params, sequences=len(draft.sequences), carried=len(draft.carried))
    operands = [*(r.outer for r in reads), *(c.initial for c in draft.carried)]
    regions = [Region([body])]
    types = LOOP.result_types([v.type for v in operands], params, regions)
    had = [*(c.final for c in draft.carried), *(s.stack for s in draft.stacks)]
    names = [v.name if v is not None else None for v in had]
    made = Operation(
        LOOP, operands, types, params, regions=regions, location=old.location, names=names
    )
    old.block.insert_before(old, made)
    for was, now in zip(had, made.results, strict=True):
        if was is not None:
            was.replace_all_uses(now)
    old.erase()
    return made
