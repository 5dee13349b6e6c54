"""The derivative of a `loop` along a direction: tangents are carried beside the values.

    %h, %y = loop %w, %x, %h0 { … yield %h, %h }
becomes, where %w and %x have the tangents %dw and %dx,
    %h, %dh, %y, %dy = loop %w, %dw, %x, %dx, %h0, %zero { … yield %h, %dh, %h, %dh }

One loop computes both, so nothing has to be saved. Only what depends on a value with a tangent, in
this step or an earlier one, gets a tangent of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.ir.core import IRBuilder, Operation, Value
from graphc.ops.constant import full_like
from graphc.ops.loop import LoopParts, loop_parts
from graphc.passes.loop_editing import Carried, OpenLoop, close_loop, open_loop
from graphc.passes.loop_gradient import dependent_values
from graphc.passes.matching import is_float

Push = Callable[[Sequence[Operation], dict[Value, Value]], None]
"""(operations, tangents): the walk through a block; `tangents` is extended."""


def loop_jvp(op: Operation, tangents: dict[Value, Value], push: Push) -> None:
    """Let the loop `op` compute tangents too; `tangents` learns those of its results.

    The changed loop stands in the place of `op`.
    """
    parts = loop_parts(op)
    dependent = dependent_values(parts, dict.fromkeys(tangents))
    moving = [i for i, v in enumerate(parts.carry_in) if is_float(v) and v in dependent]
    draft = open_loop(op)
    inner = _tangents_of_reads(draft, parts, tangents)
    given = {i: draft.block.add_argument(parts.carry_in[i].tensor) for i in moving}
    inner.update({parts.carry_in[i]: argument for i, argument in given.items()})
    terminator = draft.block.end
    push([o for o in draft.block if o is not terminator], inner)
    draft.refresh()  # loops in the body have been replaced
    at_start, at_end = IRBuilder.before(op), IRBuilder.before(terminator)
    for i, argument in given.items():
        carried = draft.carried[i]
        initial = tangents.get(carried.initial) or full_like(at_start, 0.0, carried.initial)
        after = inner.get(carried.carry_out) or full_like(at_end, 0.0, carried.carry_out)
        draft.carried.append(Carried(initial, argument, after, None))
    stacks = {
        i: draft.add_stack(inner[v])
        for i, v in enumerate(s.inner for s in list(draft.stacks))
        if v in inner
    }
    made = loop_parts(close_loop(draft))
    finals = zip(moving, made.final[len(parts.carry_in) :], strict=True)
    tangents.update({made.final[i]: tangent for i, tangent in finals})
    tangents.update({made.stacks[i]: made.stacks[tangent] for i, tangent in stacks.items()})


def _tangents_of_reads(
    draft: OpenLoop, parts: LoopParts, tangents: dict[Value, Value]
) -> dict[Value, Value]:
    """The tangents of what a step reads of invariants and sequences, brought into the body."""
    inner: dict[Value, Value] = {}
    for outer, shared in zip(parts.invariants, parts.shared, strict=True):
        if outer in tangents:
            inner[shared] = draft.add_invariant(tangents[outer])
    for outer, element in zip(parts.sequences, parts.elements, strict=True):
        if outer in tangents:
            inner[element] = draft.add_sequence(tangents[outer])
    return inner
