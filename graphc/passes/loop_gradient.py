"""The gradient of a `loop`: a loop over the same steps the other way round.

    %h, %y = loop %w, %x, %h0 { … yield %h, %h }
becomes, for the cotangents %dy of the stack and %dh of the last carried value, the loop
    %dh0, %dw, %dx = loop %w, %saved, %dy, %dh, %zero {count = T, …, backward = true} {
    ^(%w, %saved, %dy, %dh, %acc):
      …                            the cotangents of what the step yields, sent back through it
      yield %dh_before, %acc_after, %dx
    }

Values of the forward step that the gradient needs are kept in further stacks of the forward loop,
or recomputed in the reverse loop (`Recompute`). Cotangents of invariants are summed over the steps.
The reverse loop is an operation like any other, so gradients of gradients need nothing more.

Only values that depend on a differentiated argument, and on which a value with a cotangent depends,
take part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from graphc.ir.clone import clone_shallow
from graphc.ir.codegen import FREE, Loop
from graphc.ir.core import Block, IRBuilder, Operation, Value
from graphc.ir.traversal import made_of
from graphc.ops.constant import full_like
from graphc.ops.elementwise import add
from graphc.ops.loop import LoopParams, LoopParts, loop_parts
from graphc.passes.analysis.costs import is_light
from graphc.passes.loop_editing import Reads, append_stack, make_loop
from graphc.passes.matching import is_float
from graphc.support.graphs import reachable

SendBack = Callable[
    [IRBuilder, Sequence[Operation], dict[Value, Value], Mapping[Value, None]], None
]
"""(builder, forward operations, cotangents, dependent values): the walk through a block."""

Recompute = Literal["auto", "none", "all", "sqrt"]
"""What the reverse step computes again instead of reading what the forward step kept.

none  nothing but constants, positions, extents, broadcasts and views: least time
auto  what is light too (arithmetic, choices, comparisons), where everything that it is made of is
      kept anyway; never more memory than `none`, and no function or product is computed twice
all   everything: the loop keeps what it carries and nothing else
sqrt  of loops that go through a segment of steps at a time everything, inside a segment as `auto`:
      in segments of √T steps (`expand-nodes`) two times √T steps are kept, not T

The memory is that of the stacks: T times the bytes of every value that is kept of a step.
"""

RECOMPUTE: tuple[Recompute, ...] = ("auto", "none", "all", "sqrt")


LABEL = "d."
"""What the text puts before a name to call its gradient."""


def call_gradient(gradient: Value | None, of: Value) -> None:
    """Call it `d.NAME` in the text if it has no name, as the gradient of another value, yet."""
    if gradient is not None and not (gradient.name or gradient.label):
        gradient.label = LABEL + of.called


def loop_vjp(
    b: IRBuilder,
    op: Operation,
    cotangents: Mapping[Value, Value],
    dependent: Mapping[Value, None],
    send_back: SendBack,
    recompute: Recompute = "auto",
) -> list[Value | None]:
    """The cotangent of each operand of the loop `op`; None where there is none.

    cotangents  those of its results, as far as they have any
    dependent   values outside the loop through which the gradient flows
    """
    if recompute == "sqrt":
        has_inner = any(isinstance(inner.opdef.codegen, Loop) for inner in op.regions[0].block)
        recompute = "all" if has_inner else "auto"
    parts = loop_parts(op)
    inner_dependent = dependent_values(parts, dependent)
    leading = _leading_values(parts, cotangents)
    flowing = [is_float(v) and v in inner_dependent and v in leading for v in parts.carry_in]
    reverse = Block()
    inner = IRBuilder(reverse)
    inner.location = b.location
    carried = [
        (i, reverse.add_argument(v.type)) for i, v in enumerate(parts.carry_in) if flowing[i]
    ]
    kept = [(i, s) for i, s in enumerate(parts.stacks) if s in cotangents]
    elements = [(i, reverse.add_argument(parts.stacked[i].type)) for i, _ in kept]
    found: dict[Value, Value] = {}
    for i, d in carried:
        call_gradient(d, parts.carry_in[i])
    for value, cotangent in (
        *((parts.carry_out[i], d) for i, d in carried),
        *((parts.stacked[i], d) for i, d in elements),
    ):
        if value in inner_dependent:
            found[value] = add(inner, found[value], cotangent) if value in found else cotangent
    forward = [o for o in parts.block if o is not parts.block.terminator]
    send_back(inner, forward, found, inner_dependent)
    for value in parts.block.arguments:
        call_gradient(found.get(value), value)
    handed_on = [found.get(v) or full_like(inner, 0.0, v) for v in _at(parts.carry_in, carried)]
    sums = [(i, found[v]) for i, v in enumerate(parts.shared) if v in found]
    totals = [(i, d, reverse.add_argument(d.type)) for i, d in sums]
    for i, d, total in totals:
        handed_on.append(add(inner, total, d))
        for value in (total, handed_on[-1]):
            call_gradient(value, parts.shared[i])
    streams = [(i, found[v]) for i, v in enumerate(parts.elements) if v in found]
    invariants, sequences = _bring_in(reverse, op, recompute)
    given = [(cotangents[s], e) for (_, s), (_, e) in zip(kept, elements, strict=True)]
    made = make_loop(
        b,
        LoopParams(parts.params.count, 0, 0, not parts.params.backward),
        reverse,
        invariants=invariants,
        sequences=[*sequences, *given],
        carried=[
            *((_initial(b, parts.final[i], cotangents), d) for i, d in carried),
            *((full_like(b, 0.0, parts.invariants[i]), total) for i, _, total in totals),
        ],
        carry_out=handed_on,
        kept=[d for _, d in streams],
    )
    results = iter(made.results)
    of_initial = {i: next(results) for i, _ in carried}
    of_invariant = {i: next(results) for i, _, _ in totals}
    of_sequence = {i: next(results) for i, _ in streams}
    for i, gradient in of_invariant.items():
        gradient.label = LABEL + parts.invariants[i].called
    return [
        *(of_invariant.get(i) for i in range(len(parts.shared))),
        *(of_sequence.get(i) for i in range(len(parts.elements))),
        *(of_initial.get(i) for i in range(len(parts.carry_in))),
    ]


def dependent_values(parts: LoopParts, dependent: Mapping[Value, None]) -> dict[Value, None]:
    """The values of the body that depend on an operand in `dependent`, in this step or earlier."""
    arguments = [*parts.shared, *parts.elements, *parts.carry_in]
    roots = [a for a, o in zip(arguments, parts.op.operands, strict=True) if o in dependent]
    by_after: dict[Value, list[Value]] = {}
    for after, argument in zip(parts.carry_out, parts.carry_in, strict=True):
        by_after.setdefault(after, []).append(argument)

    def readers(value: Value) -> Iterable[Value]:
        yield from by_after.get(value, ())
        for user in value.users():
            yield from user.results

    return reachable(roots, readers)


def _leading_values(parts: LoopParts, cotangents: Mapping[Value, Value]) -> dict[Value, None]:
    """The values of the body that something with a cotangent depends on, now or in a later step."""
    after = dict(zip(parts.carry_in, parts.carry_out, strict=True))
    carried = list(zip(parts.final, parts.carry_in, parts.carry_out, strict=True))
    # The first one too: it is the last one where there are no steps.
    roots = [v for final, *pair in carried if final in cotangents for v in pair]
    roots += [k for s, k in zip(parts.stacks, parts.stacked, strict=True) if s in cotangents]

    def inputs(value: Value) -> Iterable[Value]:
        if value in after:
            return [after[value]]
        return value.op.operands if value.op is not None else ()

    return reachable(roots, inputs)


def _initial(b: IRBuilder, final: Value, cotangents: Mapping[Value, Value]) -> Value:
    return cotangents.get(final) or full_like(b, 0.0, final)


def _at(values: Sequence[Value], places: Sequence[tuple[int, Value]]) -> list[Value]:
    return [values[i] for i, _ in places]


def _bring_in(reverse: Block, forward: Operation, recompute: Recompute) -> tuple[Reads, Reads]:
    """Make what `reverse` reads of the forward step its own: (invariants, sequences)."""
    parts = loop_parts(forward)
    outside = dict(zip(parts.shared, parts.invariants, strict=True))
    streams = dict(zip(parts.elements, parts.sequences, strict=True))
    foreign = [v for op in reverse for v in op.operands if not _is_of(v, reverse)]
    saved = _to_save(parts, list(dict.fromkeys(foreign)), recompute)
    own: dict[Value, Value] = {}
    invariants: list[tuple[Value, Value]] = []
    sequences: list[tuple[Value, Value]] = []

    def argument(value: Value) -> Value:
        inner = reverse.add_argument(value.type, value.name)
        if value in outside:
            invariants.append((outside[value], inner))
        else:
            stack = streams.get(value) or append_stack(forward, value)
            sequences.append((stack, inner))
        return inner

    for op in list(reverse):
        for index, value in enumerate(op.operands):
            if _is_of(value, reverse):
                continue
            for needed in made_of(value, lambda v: v in saved or v in own):
                if needed in own:
                    continue
                if needed in saved or needed.op is None:
                    own[needed] = argument(needed)
                    continue
                copy = clone_shallow(needed.op)
                copy.set_operands(own[v] for v in needed.op.operands)
                reverse.insert_before(op, copy)
                own.update(zip(needed.op.results, copy.results, strict=True))
            op.set_operand(index, own[value])
    return invariants, sequences


def _to_save(parts: LoopParts, read: Sequence[Value], recompute: Recompute) -> set[Value]:
    """Which values of the forward step the loop keeps for a reverse step that reads `read`."""
    if recompute == "all":
        return set()
    wanted = list(dict.fromkeys(map(_spread_from, read)))
    heavy = {v for v in wanted if v.op is not None and not _is_light(v.op)}
    at_hand = {*parts.shared, *parts.elements, *parts.stacked, *heavy}
    at_hand.update(v for v in wanted if v.op is None)
    saved = set(heavy)
    for value in wanted:
        if value in at_hand or (value.op is not None and _is_free(value.op)):
            continue
        sources = made_of(value, at_hand.__contains__)
        repeats = all(v in at_hand or (v.op is not None and _is_light(v.op)) for v in sources)
        if recompute == "none" or not repeats:
            saved.add(value)
        at_hand.add(value)  # what repeats does so in what is made of it too
    return saved | {v for v in parts.stacked if v.op is not None and recompute == "auto"}


def _spread_from(value: Value) -> Value:
    """What `value` is a broadcast or a view of, if it is."""
    while value.op is not None and _is_free(value.op) and value.op.operands:
        (value,) = value.op.operands
    return value


def _is_free(op: Operation) -> bool:
    return isinstance(op.opdef.codegen, FREE)


def _is_light(op: Operation) -> bool:
    """Whether to compute it twice costs less than to keep its result."""
    return _is_free(op) or is_light(op)


def _is_of(value: Value, block: Block) -> bool:
    owner = value.owner
    return owner is block or (isinstance(owner, Operation) and owner.block is block)
