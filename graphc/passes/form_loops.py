"""Cycles of nodes become loops over time (book 2.6, Algorithm 2.6).

    %h = node.tanh %s                     %h = loop %W, %a, %valid, %zeros
    %s = node.plus %a, %r          =>       {count = T, sequences = 2, carried = 1} : … {
    %r = node.times %W, %p                ^(%W, %a, %valid, %before):
    %p = node.past_value %h                 %p = select %valid, %before, %default
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
from graphc.ops.loop import loop
from graphc.ops.nodes.delays import DELAYS, FUTURE_VALUE, DelayParams, look_ahead
from graphc.ops.nodes.layout import display_name, node_params, node_type, tensor_type
from graphc.ops.nodes.sequence_columns import SequenceColumns
from graphc.ops.reduction import broadcast
from graphc.support.diagnostics import DiagnosticSink, Note
from graphc.support.graphs import strongly_connected_components, topological_order

Inputs = Callable[[Operation], Sequence[Operation]]
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


def is_cycle(component: Sequence[Operation], inputs: Inputs) -> bool:
    """Whether a strongly connected component is more than a node that does not read itself."""
    return len(component) > 1 or component[0] in inputs(component[0])


def find_cycle(
    component: Sequence[Operation], inputs: Inputs, sink: DiagnosticSink
) -> Cycle | None:
    """The cycle of a strongly connected component.

    None after errors, which are in the sink.
    """
    members = set(component)
    delays = [op for op in component if op.opdef in DELAYS]
    kinds = {op.opdef for op in delays}
    if len(kinds) > 1:
        names = ", ".join(f"{display_name(op.opdef)} `{op.result.name}`" for op in delays)
        message = f"a cycle looks either back or ahead in time, not both: {names}"
        _report(message, "cycle", component, inputs, sink)
        return None
    for op in component:
        if not node_type(op).has_samples:
            message = (
                f"a cycle requires nodes with one column per step, "
                f"`{op.result.name}` ({display_name(op.opdef)}) is {node_type(op)}"
            )
            _report(message, "cycle", component, inputs, sink)
            return None

    def same_step(op: Operation) -> list[Operation]:
        return [] if op.opdef in DELAYS else [i for i in inputs(op) if i in members]

    order = topological_order(component, same_step)
    if order is None:
        message = "a cycle requires a PastValue or FutureValue on every way round"
        rest = _without_delays(component, same_step)
        _report(message, "cycle", rest, same_step, sink)
        return None
    return Cycle(tuple(order), tuple(op for op in order if op.opdef in DELAYS))


def _without_delays(component: Sequence[Operation], same_step: Inputs) -> list[Operation]:
    """The members of a cycle that no delay breaks, one of them first."""
    found = strongly_connected_components(component, same_step)
    return next(c for c in found if is_cycle(c, same_step))


def _report(
    message: str,
    slug: str,
    component: Sequence[Operation],
    inputs: Inputs,
    sink: DiagnosticSink,
) -> None:
    """An error that names the cycle node by node."""
    path = walk_cycle(component, inputs)
    names = " -> ".join(f"`{op.result.name}`" for op in [*path, path[0]])
    notes = [
        Note(f"`{op.result.name}` is a {display_name(op.opdef)}", op.location.span) for op in path
    ]
    delay = next((op for op in path if op.opdef in DELAYS), path[0])
    sink.error(slug, f"{message}; the cycle is {names}", delay.location, notes=notes)


def walk_cycle(component: Sequence[Operation], inputs: Inputs) -> list[Operation]:
    """A cycle through the component's first node, in the order of its inputs."""
    members = set(component)
    start = component[0]
    parent: dict[Operation, Operation] = {}
    work = [start]
    for op in work:
        for source in inputs(op):
            if source is start:
                path = [op]
                while path[-1] is not start:
                    path.append(parent[path[-1]])
                return path
            if source in members and source not in parent:
                parent[source] = op
                work.append(source)
    return [start]


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
    members = set(cycle.order)
    sources = dict.fromkeys(inputs(op)[0] for op in cycle.delays)
    histories = {s: _Delays([d for d in cycle.delays if inputs(d)[0] is s]) for s in sources}
    read = dict.fromkeys(
        i for op in cycle.order for i in inputs(op) if i not in members and op.opdef not in DELAYS
    )
    read.update(dict.fromkeys(s for s in sources if s not in members))
    streams = [op for op in read if node_type(op).has_samples]
    shared = [op for op in read if not node_type(op).has_samples]
    steps = dict.fromkeys(look_ahead(op) for op in cycle.delays)
    if any(is_masked(op) for op in cycle.order):
        steps[0] = None
    masks = [columns.neighbour(b, step) for step in steps]
    sequences = [columns.over_time(b, values[op]) for op in streams]
    for sequence, op in zip(sequences, streams, strict=True):
        sequence.name = sequence.name or op.result.name
    draws = [columns.over_time(b, value) for value in drawn.values()]
    initial: list[Value] = []
    for source, history in histories.items():
        type = tensor_type(node_type(source), columns.sequences, dtype)
        initial += [history.start(b, type)] * history.depth

    def step(
        inner: IRBuilder, given: Sequence[Value], elements: Sequence[Value], before: Sequence[Value]
    ) -> tuple[list[Value], list[Value]]:
        here = dict(zip(shared, given, strict=True))
        rest = iter(elements)
        valid = dict(zip(steps, rest, strict=False))
        here.update(zip(streams, rest, strict=False))
        random = dict(zip(drawn, rest, strict=True))
        past: dict[Operation, list[Value]] = {}
        at = 0
        for source, history in histories.items():
            past[source] = list(before[at : at + history.depth])
            at += history.depth
        for op in cycle.order:
            with inner.at(op.location):
                if op.opdef in DELAYS:
                    earlier = past[inputs(op)[0]][_params(op).time_step - 1]
                    here[op] = _delayed(inner, op, earlier, valid[look_ahead(op)])
                else:
                    operands = [here[i] for i in inputs(op)]
                    operands += [random[op]] if op in random else []
                    here[op] = expand(inner, op, operands)
                if is_masked(op):
                    here[op] = _without_gaps(inner, here[op], valid[0])
            here[op].name = here[op].name or op.result.name
        after = [v for s in sources for v in [here[s], *past[s][:-1]]]
        return after, [here[op] for op in wanted]

    with b.at(cycle.delays[0].location):
        made = loop(
            b,
            columns.time,
            step,
            [values[op] for op in shared],
            [*masks, *sequences, *draws],
            initial,
            backward=cycle.backward,
        )
        stacks = made.results[len(initial) :]
        for op, stack in zip(wanted, stacks, strict=True):
            values[op] = columns.as_columns(b, stack)
            values[op].name, stack.name = op.result.name, None


@dataclass(frozen=True)
class _Delays:
    """The delays of one node: how many steps back they look, and where they start."""

    delays: Sequence[Operation]

    @property
    def depth(self) -> int:
        return max(_params(op).time_step for op in self.delays)

    def start(self, b: IRBuilder, type: TensorType) -> Value:
        return constant(b, _params(self.delays[0]).default_hidden_activity, type)


def _delayed(b: IRBuilder, op: Operation, earlier: Value, valid: Value) -> Value:
    assert isinstance(earlier.type, TensorType)
    default = full_like(b, _params(op).default_hidden_activity, earlier)
    return select(b, broadcast(b, valid, earlier.type.dims), earlier, default)


def is_masked(op: Operation) -> bool:
    """Whether the node is to be 0 in the gaps of a minibatch of sequences."""
    return "multiseq" in node_params(op).tags and node_type(op).has_samples


def _without_gaps(b: IRBuilder, x: Value, real: Value) -> Value:
    assert isinstance(x.type, TensorType)
    return select(b, broadcast(b, real, x.type.dims), x, full_like(b, 0.0, x))


def _params(op: Operation) -> DelayParams:
    assert isinstance(op.params, DelayParams)
    return op.params
