"""A network as a drawing: `graphc dump net.ndl --format svg > net.svg`.

Signals flow upwards, as in the book's figures. Roles have colours, each node shows its name, size
and function, and the edge into a delay is dotted: it carries the value of another time step. The
nodes of a cycle, which are computed step by step, stand in a box.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.core import Function, Operation
from graphc.model.drawing import Arrow, Drawing, Frame, Shape, dot_text
from graphc.ops.nodes.delays import DELAYS, FUTURE_VALUE, PAST_VALUE
from graphc.ops.nodes.layout import display_name, node_params
from graphc.ops.nodes.leaves import CONSTANT, INPUT, PARAMETER, SPARSE_INPUT
from graphc.ops.nodes.statistics import STATISTICS
from graphc.support.graphs import strongly_connected_components

LEAVES = (INPUT, SPARSE_INPUT, PARAMETER, CONSTANT)
COLOURS = {
    "feature": "lightblue",
    "label": "khaki",
    "criterion": "salmon",
    "evaluation": "peachpuff",
    "output": "palegreen",
}
"""Fill colours of tagged nodes, the first that applies."""

PARAMETER_COLOUR = "gray90"


def network_picture(graph: Function) -> str:
    """The text of a Graphviz digraph; nodes in the order of the network."""
    return dot_text(network_drawing(graph))


def network_drawing(graph: Function) -> Drawing:
    """A shape for each node, in the order of the network."""
    numbers = {op: i for i, op in enumerate(graph.block)}
    cycles = [c for c in strongly_connected_components(graph.block, _sources) if _is_cycle(c)]
    cycle_of = {op: place for place, cycle in enumerate(cycles) for op in cycle}
    frames = [
        Frame(_label(members), tuple(numbers[op] for op in members))
        for place in range(len(cycles))
        if (members := [op for op in graph.block if cycle_of.get(op) == place])
    ]
    arrows: list[Arrow] = []
    for op in graph.block:
        for source in _sources(op):
            late = op.opdef in DELAYS
            # Inside a box it runs against the flow and would turn the drawing upside down.
            within = late and source in cycle_of and cycle_of[source] == cycle_of.get(op)
            arrows.append(Arrow(numbers[source], numbers[op], dotted=late, backward=within))
    leaves = [numbers[op] for op in graph.block if op.opdef in LEAVES]
    return Drawing([_shape(op) for op in graph.block], arrows, frames, leaves)


def _sources(op: Operation) -> list[Operation]:
    return list(dict.fromkeys(v.op for v in op.operands if v.op is not None))


def _is_cycle(component: Sequence[Operation]) -> bool:
    return len(component) > 1 or component[0] in _sources(component[0])


def _label(members: Sequence[Operation]) -> str:
    """What a loop is, by what its delays look at."""
    kinds = {op.opdef for op in members if op.opdef in DELAYS}
    ways = {PAST_VALUE: "forward in time", FUTURE_VALUE: "backward in time"}
    way = ", ".join(text for kind, text in ways.items() if kind in kinds) or "without a delay"
    return f"loop {way}"


def _shape(op: Operation) -> Shape:
    size, image, layout = _size_text(op).partition(" image ")
    lines = [op.result.name or "", f"{display_name(op.opdef)} {size}"]
    tags = node_params(op).tags
    colour = next((c for tag, c in COLOURS.items() if tag in tags), None)
    if colour is None and (op.opdef is PARAMETER or op.opdef in STATISTICS):
        colour = PARAMETER_COLOUR
    return Shape((*lines, *([f"image {layout}"] if image else [])), colour)


def _size_text(op: Operation) -> str:
    return str(op.result.type).removeprefix("matrix<").removesuffix(">")
