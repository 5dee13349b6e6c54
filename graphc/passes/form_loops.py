"""Cycles of nodes become loops over time (book 2.6, Algorithm 2.6).

    %h = node.tanh %s                     %h = loop %W, %a, %valid, %zeros
    %s = node.plus %a, %r          =>       {count = T, sequences = 2, carried = 1} : … {
    %r = node.times %W, %p                ^(%W, %a, %valid, %carry):
    %p = node.past_value %h                 %p = select %valid, %carry, %default
                                            …
                                            yield %h, %h

A cycle is a strongly connected component of the network. It is computed step by step, in time for
PastValue and against it for FutureValue; everything outside it is computed for all steps at once.
In the body a delay is a leaf: what its operand was `time_step` steps ago, or the default value
where that lies outside the sequence.

Errors name the whole cycle, node by node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from graphc.ir.core import IRBuilder, Operation, Value
from graphc.ir.types import DType, TensorType
from graphc.ops.constant import constant, full_like
from graphc.ops.elementwise import select
from graphc.ops.loop import Step, loop
from graphc.ops.movement import reshape
from graphc.ops.nodes.delays import DELAYS, FUTURE_VALUE, DelayParams, look_ahead
from graphc.ops.nodes.layout import display_name, node_params, node_type, place_of, tensor_type
from graphc.ops.nodes.sequence_columns import SequenceColumns, left_behind_name
from graphc.ops.reduction import broadcast
from graphc.passes.analysis.cycles import (
    Inputs,
    closed_walk,
    report_cycle,
    report_without_delay,
)
from graphc.support.diagnostics import DiagnosticSink
from graphc.support.graphs import topological_order

Expand = Callable[[IRBuilder, Operation, Sequence[Value]], Value]


@dataclass(frozen=True)
class Cycle:
    """Nodes that are computed step by step.

    order    all of them, each after what it reads in the same step; delays are leaves
    delays   those among them that look along time
    """

    order: tuple[Operation, ...]
    delays: tuple[Operation, ...]

    @property
    def backward(self) -> bool:
        return self.delays[0].opdef is FUTURE_VALUE


def find_cycle(
    component: Sequence[Operation], inputs: Inputs, sink: DiagnosticSink
) -> Cycle | None:
    """The cycle of a strongly connected component.

    None after errors, which are in the sink.
    """
    members = set(component)
    delays = [op for op in component if op.opdef in DELAYS]
    firsts = list({op.opdef: op for op in reversed(delays)}.values())
    if len(firsts) > 1:
        names = " and ".join(f"{display_name(op.opdef)} `{op.result.name}`" for op in firsts)
        message = f"a cycle looks either back or ahead in time, got {names}"
        walk = closed_walk(component, inputs, firsts)
        report_cycle("cycle", message, walk, walk[0], sink)
        return None
    for op in component:
        message = _unfit(op)
        if message:
            walk = closed_walk(component, inputs, [op])
            report_cycle("cycle", message, walk, op, sink)
            return None

    def same_step(op: Operation) -> list[Operation]:
        return [] if op.opdef in DELAYS else [i for i in inputs(op) if i in members]

    order = topological_order(component, same_step)
    if order is None:
        block = component[0].block
        assert block is not None
        report_without_delay([op for op in block if op in members], inputs, sink)
        return None
    return Cycle(tuple(order), tuple(op for op in order if op.opdef in DELAYS))


def _unfit(op: Operation) -> str:
    """Why a node cannot be computed step by step, or ''."""
    name = f"{display_name(op.opdef)} `{op.result.name}`"
    if not node_type(op).has_samples:
        return (
            f"a cycle requires nodes with one column per step, got {name}, "
            f"which is {node_type(op)} for all steps together"
        )
    if op.opdef not in DELAYS and op.opdef.expand_sequences is not None:
        return f"a cycle is computed step by step, got {name}, which looks at other steps"
    return ""


def expand_cycle(
    b: IRBuilder,
    cycle: Cycle,
    inputs: Inputs,
    values: dict[Operation, Value],
    wanted: Sequence[Operation],
    columns: SequenceColumns,
    dtype: DType,
    expand: Expand,
    drawn: Mapping[Operation, Value],
) -> None:
    """Emit the loop of `cycle`; `values` learns the columns [N, rows] of the `wanted` members.

    values   of the nodes outside that the cycle reads
    expand   emits what one node computes from its operands
    drawn    random numbers [N, rows] of members, as a last operand
    """
    body = _body(cycle, inputs, wanted, columns.carry, expand, tuple(drawn))
    masks = [columns.neighbour(b, offset) for offset in body.offsets]
    sequences = [columns.over_time(b, values[op]) for op in body.streams]
    for sequence, op in zip(sequences, body.streams, strict=True):
        sequence.name = sequence.name or op.result.name
    draws = [columns.over_time(b, value) for value in drawn.values()]
    initial: list[Value] = []
    for source, history in body.histories.items():
        type = tensor_type(node_type(source), columns.sequences, dtype)
        name = source.result.name or ""
        with b.at(b.location.within(name)):
            initial += history.start(b, type, name, columns)
    invariants = [values[op] for op in body.shared]
    with b.at(place_of(cycle.delays[0])):
        results = _over_time(
            b,
            columns,
            body.step,
            invariants,
            [*masks, *sequences, *draws],
            initial,
            cycle.backward,
        )
        if columns.carry:
            columns.carried |= {v.name or "": r for v, r in zip(initial, results, strict=False)}
        for op, stack in zip(wanted, results[len(initial) :], strict=True):
            values[op] = columns.as_columns(b, stack)
            values[op].name = op.result.name


@dataclass(frozen=True)
class _Body:
    """What a step of a cycle reads and computes.

    shared, streams  nodes outside that it reads: whole, and the column of the step
    offsets          places in time, seen from the step, of which it is told whether they are in
                     the sequence
    histories        the delays of each node that is looked back or ahead at
    wanted           members of which every step is kept
    drawn            members with random numbers
    """

    cycle: Cycle
    inputs: Inputs
    shared: Sequence[Operation]
    streams: Sequence[Operation]
    offsets: Sequence[int]
    histories: Mapping[Operation, _Delays]
    wanted: Sequence[Operation]
    drawn: Sequence[Operation]
    carry: bool
    expand: Expand

    def step(
        self,
        b: IRBuilder,
        given: Sequence[Value],
        elements: Sequence[Value],
        before: Sequence[Value],
    ) -> tuple[list[Value], list[Value]]:
        """Emit one step; what it carries on, and what is kept of it."""
        here = dict(zip(self.shared, given, strict=True))
        rest = iter(elements)
        valid = dict(zip(self.offsets, rest, strict=False))
        here.update(zip(self.streams, rest, strict=False))
        random = dict(zip(self.drawn, rest, strict=True))
        past = self._past(before)
        for op in self.cycle.order:
            with b.at(place_of(op)):
                if op.opdef in DELAYS:
                    earlier = past[self.inputs(op)[0]][op.params_as(DelayParams).time_step - 1]
                    here[op] = _delayed(b, op, earlier, valid[look_ahead(op)])
                else:
                    operands = [here[i] for i in self.inputs(op)]
                    for i, gap in replaced_in_gaps(op, self.inputs):
                        operands[i] = _without_gaps(b, operands[i], valid[0], gap)
                    operands += [random[op]] if op in random else []
                    here[op] = self.expand(b, op, operands)
                if is_masked(op):
                    here[op] = _without_gaps(b, here[op], valid[0])
            here[op].name = here[op].name or op.result.name
        after = [v for source, values in past.items() for v in [here[source], *values[:-1]]]
        if self.carry:
            after = [_kept(b, a, p, valid[0]) for a, p in zip(after, before, strict=True)]
        return after, [here[op] for op in self.wanted]

    def _past(self, before: Sequence[Value]) -> dict[Operation, list[Value]]:
        """Of each node that is looked at, its values 1, 2, … steps back."""
        rest = iter(before)
        past = {s: [next(rest) for _ in range(h.depth)] for s, h in self.histories.items()}
        for source, values in past.items():
            for steps, value in enumerate(values, start=1):
                value.label = left_behind_name(source.result.name or "", steps)
        return past


def _body(
    cycle: Cycle,
    inputs: Inputs,
    wanted: Sequence[Operation],
    carry: bool,
    expand: Expand,
    drawn: Sequence[Operation],
) -> _Body:
    """The body of a cycle's loop: who is read how."""
    members = set(cycle.order)
    sources = dict.fromkeys(inputs(op)[0] for op in cycle.delays)
    histories = {s: _Delays([d for d in cycle.delays if inputs(d)[0] is s]) for s in sources}
    same_step = [i for op in cycle.order if op.opdef not in DELAYS for i in inputs(op)]
    read = [op for op in dict.fromkeys([*same_step, *sources]) if op not in members]
    offsets = dict.fromkeys(look_ahead(op) for op in cycle.delays)
    if carry or any(is_masked(op) or replaced_in_gaps(op, inputs) for op in cycle.order):
        offsets[0] = None
    return _Body(
        cycle,
        inputs,
        shared=[op for op in read if not node_type(op).has_samples],
        streams=[op for op in read if node_type(op).has_samples],
        offsets=list(offsets),
        histories=histories,
        wanted=wanted,
        drawn=drawn,
        carry=carry,
        expand=expand,
    )


def _over_time(
    b: IRBuilder,
    columns: SequenceColumns,
    step: Step,
    invariants: Sequence[Value],
    sequences: Sequence[Value],
    initial: Sequence[Value],
    backward: bool,
) -> list[Value]:
    """The results of a loop over all steps; with segments, of a loop over these in which another
    one goes through the steps of one.
    """
    if columns.segments is None:
        return loop(
            b, columns.time, step, invariants, sequences, initial, backward=backward
        ).results

    def segment(
        inner: IRBuilder, given: Sequence[Value], elements: Sequence[Value], before: Sequence[Value]
    ) -> tuple[list[Value], list[Value]]:
        made = loop(inner, columns.segment, step, given, elements, before, backward=backward)
        return made.results[: len(before)], made.results[len(before) :]

    split = [_split(b, v, columns) for v in sequences]
    made = loop(b, columns.segments, segment, invariants, split, initial, backward=backward)
    stacks = [
        reshape(b, v, (columns.time, *v.tensor.dims[2:])) for v in made.results[len(initial) :]
    ]
    return [*made.results[: len(initial)], *stacks]


def _split(b: IRBuilder, x: Value, columns: SequenceColumns) -> Value:
    """`x` [T, …] as [segments, steps of one, …]."""
    assert columns.segments is not None
    return reshape(b, x, (columns.segments, columns.segment, *x.tensor.dims[1:]))


@dataclass(frozen=True)
class _Delays:
    """The delays of one node: how many steps back they look, and where they start."""

    delays: Sequence[Operation]

    @property
    def depth(self) -> int:
        return max(op.params_as(DelayParams).time_step for op in self.delays)

    def start(
        self, b: IRBuilder, type: TensorType, name: str, columns: SequenceColumns
    ) -> list[Value]:
        """What the first step finds 1, 2, … steps back; no step reads it outside its sequence."""
        if columns.carry:
            return [columns.left_behind(name, k + 1, type) for k in range(self.depth)]
        default = self.delays[0].params_as(DelayParams).default_hidden_activity
        return [constant(b, default, type)] * self.depth


def _delayed(b: IRBuilder, op: Operation, earlier: Value, valid: Value) -> Value:
    default = full_like(b, op.params_as(DelayParams).default_hidden_activity, earlier)
    return select(b, broadcast(b, valid, earlier.tensor.dims), earlier, default)


def _kept(b: IRBuilder, after: Value, before: Value, real: Value) -> Value:
    """`carry_out` in a step and `carry_in` in a gap, which a sequence's last values outlast."""
    with b.at(b.location.within(after.called)):
        return select(b, broadcast(b, real, after.tensor.dims), after, before)


def is_masked(op: Operation) -> bool:
    """Whether the node is to be 0 in the gaps of a minibatch of sequences."""
    return "multiseq" in node_params(op).tags and node_type(op).has_samples


def replaced_in_gaps(op: Operation, inputs: Inputs) -> list[tuple[int, float]]:
    """The operands with a value for each column that the node reads another number of in the gaps,
    and that number."""
    read = enumerate(zip(inputs(op), op.opdef.gap_values, strict=False))
    return [(i, gap) for i, (x, gap) in read if gap is not None and node_type(x).has_samples]


def _without_gaps(b: IRBuilder, x: Value, real: Value, gap: float = 0.0) -> Value:
    return select(b, broadcast(b, real, x.tensor.dims), x, full_like(b, gap, x))
