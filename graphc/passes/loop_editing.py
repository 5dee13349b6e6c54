"""Changes a `loop` in place: what its steps read, carry and keep.

`open_loop` takes an operation apart into lists that a pass edits, `close_loop` puts the changed
operation where the old one stood. The body's operations stay the same objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphc.ir.core import Block, IRBuilder, Operation, Region, Value
from graphc.ops.control import YIELD
from graphc.ops.loop import LOOP, LoopParams, element_type, loop_parts, stack_type


@dataclass(eq=False)
class Read:
    """An operand and the block's argument that it becomes in a step."""

    outer: Value
    inner: Value


@dataclass(eq=False)
class Carried:
    """What the first step reads, what a step reads and yields, and the result that had the last."""

    initial: Value
    carry_in: Value
    carry_out: Value
    final: Value | None


@dataclass(eq=False)
class Stacked:
    """A value of the body that is kept of every step, and the stack that had these values."""

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
        inner = self.block.add_argument(element_type(outer.tensor), outer.name)
        self.sequences.append(Read(outer, inner))
        return inner

    def refresh(self) -> None:
        """Update the lists to what the body yields now, after operations in it were replaced."""
        terminator = self.block.end
        count = len(self.carried)
        for carried, value in zip(self.carried, terminator.operands[:count], strict=True):
            carried.carry_out = value
        for stacked, value in zip(self.stacks, terminator.operands[count:], strict=True):
            stacked.inner = value

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
            for c in zip(parts.initial, parts.carry_in, parts.carry_out, parts.final, strict=True)
        ],
        [Stacked(i, s) for i, s in zip(parts.stacked, parts.stacks, strict=True)],
    )


def close_loop(draft: OpenLoop) -> Operation:
    """The changed loop, in the place of the old one, whose readers now read its results.

    A result that is left out must have no readers.
    """
    old, terminator = draft.op, draft.block.end
    terminator.erase()
    b = IRBuilder.before(old)
    made = make_loop(
        b,
        draft.params,
        draft.block,
        invariants=[(r.outer, r.inner) for r in draft.invariants],
        sequences=[(r.outer, r.inner) for r in draft.sequences],
        carried=[(c.initial, c.carry_in) for c in draft.carried],
        carry_out=[c.carry_out for c in draft.carried],
        kept=[s.inner for s in draft.stacks],
    )
    had = [*(c.final for c in draft.carried), *(s.stack for s in draft.stacks)]
    for was, now in zip(had, made.results, strict=True):
        if was is not None:
            now.call_like(was)
            was.replace_all_uses(now)
    old.erase()
    return made


def append_stack(op: Operation, inner: Value) -> Value:
    """Let the loop `op` keep `inner` of every step; the new result, or the one that has it."""
    parts = loop_parts(op)
    for kept, stack in zip(parts.stacked, parts.stacks, strict=True):
        if kept is inner:
            return stack
    terminator = parts.block.end
    terminator.set_operands([*terminator.operands, inner])
    type = stack_type(inner.tensor, parts.params.count)
    stack = Value(type, op, len(op.results), None)
    stack.label = f"{inner.called}.stack"
    op.results.append(stack)
    return stack


Reads = Sequence[tuple[Value, Value]]
"""(value outside, what the body reads it as) pairs."""


def make_loop(
    b: IRBuilder,
    params: LoopParams,
    source: Block,
    *,
    invariants: Reads,
    sequences: Reads,
    carried: Reads,
    carry_out: Sequence[Value],
    kept: Sequence[Value],
) -> Operation:
    """A loop whose body are the operations of `source`, which has no terminator.

    The arguments of `source` may stand in any order; those named in the pairs are taken. `params`
    without the numbers of sequences and carried values, which follow from the pairs.
    """
    pairs = [*invariants, *sequences, *carried]
    body = Block([i.type for _, i in pairs])
    for (_, i), argument in zip(pairs, body.arguments, strict=True):
        argument.name, argument.label = i.name, i.label
    new = {i: now for (_, i), now in zip(pairs, body.arguments, strict=True)}
    for carry_in, now in new.items():
        carry_in.replace_all_uses(now)
    for op in source:
        body.append(source.unlink(op))
    yields = [new.get(v, v) for v in (*carry_out, *kept)]
    inner = IRBuilder(body)
    inner.location = b.location
    inner.emit(YIELD, yields)
    params = replace(params, sequences=len(sequences), carried=len(carried))
    made = b.emit(LOOP, [o for o, _ in pairs], params, regions=[Region([body])])
    for result, value in zip(made.results, yields, strict=True):
        result.label = value.called if result.index < len(carry_out) else f"{value.called}.stack"
    return made
