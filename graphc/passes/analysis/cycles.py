"""Cycles of nodes, and how a message names them: node by node, the way the values flow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from graphc.ir.core import Operation
from graphc.ops.nodes.delays import DELAYS
from graphc.ops.nodes.layout import display_name
from graphc.support.diagnostics import DiagnosticSink, Note
from graphc.support.graphs import strongly_connected_components

Inputs = Callable[[Operation], Sequence[Operation]]


def is_cycle(component: Sequence[Operation], inputs: Inputs) -> bool:
    """Whether a strongly connected component is more than a node that does not read itself."""
    return len(component) > 1 or component[0] in inputs(component[0])


def report_without_delay(nodes: Sequence[Operation], inputs: Inputs, sink: DiagnosticSink) -> bool:
    """Reports a cycle without a delay; False if there is none among the nodes.

    nodes  in the order of the network: the first one of the cycle is where the error stands
    """
    members = set(nodes)

    def same_step(op: Operation) -> list[Operation]:
        return [] if op.opdef in DELAYS else [i for i in inputs(op) if i in members]

    found = strongly_connected_components(nodes, same_step)
    cycle = set(next((c for c in found if is_cycle(c, same_step)), ()))
    if not cycle:
        return False
    component = [op for op in nodes if op in cycle]
    walk = closed_walk(component, same_step, component[:1])
    message = "a cycle requires a PastValue or FutureValue on every way round"
    report_cycle("cycle", message, walk, walk[0], sink)
    return True


def report_cycle(
    slug: str,
    message: str,
    walk: Sequence[Operation],
    place: Operation,
    sink: DiagnosticSink,
) -> None:
    """An error at `place` that names the cycle node by node."""
    names, notes = described(walk)
    sink.error(slug, f"{message}; the cycle is {names}", place.location, notes=notes)


def described(walk: Sequence[Operation]) -> tuple[str, list[Note]]:
    """The names round a cycle, and where each node stands."""
    names = " -> ".join(f"`{op.result.name}`" for op in [*walk, walk[0]])
    notes = [
        Note(f"`{op.result.name}` is a {display_name(op.opdef)}", op.location.span)
        for op in dict.fromkeys(walk)
    ]
    return names, notes


def closed_walk(
    component: Iterable[Operation], inputs: Inputs, through: Sequence[Operation]
) -> list[Operation]:
    """A shortest way round a component, the way the values flow, that visits `through` in order.

    It starts at the first of them; a way through several may meet a node twice.
    """
    readers: dict[Operation, list[Operation]] = {op: [] for op in component}
    for op in readers:
        for source in dict.fromkeys(inputs(op)):
            if source in readers:
                readers[source].append(op)
    walk: list[Operation] = []
    for start, goal in zip(through, [*through[1:], through[0]], strict=True):
        walk += _way(start, goal, readers)
    return walk


def _way(
    start: Operation, goal: Operation, readers: dict[Operation, list[Operation]]
) -> list[Operation]:
    """From `start` on to the node before `goal`."""
    came_from: dict[Operation, Operation] = {}
    work = [start]
    for op in work:
        for reader in readers[op]:
            if reader not in came_from:
                came_from[reader] = op
                work.append(reader)
        if goal in came_from:
            break
    way = [came_from.get(goal, start)]
    while way[-1] is not start:
        way.append(came_from[way[-1]])
    return way[::-1]
