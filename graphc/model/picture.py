"""Networks, functions and differences as drawings: `graphc dump net.ndl --format svg > net.svg`.

Signals flow upwards, as in the book's figures. Roles have colours, each node shows its name, size
and function, and the edge into a delay is dotted: it carries the value of another time step. The
nodes of a cycle, which are computed step by step, stand in a box. At later stages every operation
has a shape, with the operations of its body in its text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from graphc.ir.core import Function, Operation, RegionKind, Value
from graphc.ir.difference import FunctionDifference
from graphc.ir.printer import value_names
from graphc.ir.traversal import walk
from graphc.model.drawing import Arrow, Drawing, Frame, Shape, dot_text
from graphc.model.svg import svg
from graphc.ops.nodes.delays import DELAYS, FUTURE_VALUE, PAST_VALUE
from graphc.ops.nodes.layout import display_name, node_params
from graphc.ops.nodes.leaves import CONSTANT, INPUT, PARAMETER, SPARSE_INPUT, ParameterParams
from graphc.ops.nodes.statistics import StatisticParams
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
ARGUMENT_COLOURS = {"input": "lightblue", "parameter": "gray90", "state": "gray90"}
ADDED, REMOVED, CHANGED = "green", "red", "orange"
"""Outlines of what is different."""

MOST_SHOWN = 300
"""Shapes of a picture that nobody asked for: more take Graphviz seconds and are not readable."""

MOST_WORDS = 6
"""Of a body's operations; a kernel may have hundreds."""


def shown_svg(drawing: Drawing) -> str | None:
    """What a notebook shows by itself; None, so that it shows text, of more than `MOST_SHOWN`."""
    return svg(drawing) if len(drawing.shapes) <= MOST_SHOWN else None


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


def function_drawing(function: Function) -> Drawing:
    """A shape for each argument, then one for each operation, in order."""
    names = value_names(function)
    numbers: dict[Operation | Value, int] = {}
    shapes: list[Shape] = []
    for argument, role in zip(function.arguments, function.roles, strict=True):
        numbers[argument] = len(shapes)
        lines = (argument.name or "", f"{role} {_short(argument)}")
        shapes.append(Shape(lines, ARGUMENT_COLOURS.get(role)))
    for op in function.block:
        numbers[op] = len(shapes)
        shapes.append(_operation_shape(op, names))
    arrows = [
        Arrow(numbers[maker], numbers[op])
        for op in function.block
        for maker in dict.fromkeys(v.op or v for v in op.operands)
    ]
    return Drawing(shapes, arrows)


def _operation_shape(op: Operation, names: Mapping[Value, str]) -> Shape:
    results = ", ".join(names[v].removeprefix("%") for v in op.results)
    body = list(dict.fromkeys(inner.opdef.name for inner in walk(op) if inner is not op))
    inside = f": {', '.join(body[:MOST_WORDS])}" if body else ""
    more = ", …" if len(body) > MOST_WORDS else ""
    lines = [results, op.opdef.name + inside + more, ", ".join(map(_short, op.results))]
    return Shape(tuple(line for line in lines if line))


def _short(value: Value) -> str:
    """`tensor<Nx3xf32>` without the word."""
    return str(value.type).partition("<")[2].removesuffix(">")


def difference_drawing(found: FunctionDifference) -> Drawing:
    """The second function with what is added in green and changed in orange, removed in red."""
    a, b = found.a, found.b
    assert a is not None
    assert b is not None
    old, new = _drawing(a), _drawing(b)
    parts_b: list[Operation | Value] = [*b.arguments, *b.block]
    place_b = {part: i for i, part in enumerate(parts_b)}
    paired: list[Operation | Value | None] = [
        *map(found.pairing.values.get, a.arguments),
        *map(found.pairing.operations.get, a.block),
    ]
    partners = {i: place_b[part] for i, part in enumerate(paired) if part is not None}
    kept = set(partners.values())
    shapes = [
        replace(shape, outline=_outline(parts_b[i], i in kept, found))
        for i, shape in enumerate(new.shapes)
    ]
    for i, shape in enumerate(old.shapes):
        if i not in partners:
            partners[i] = len(shapes)
            shapes.append(replace(shape, outline=REMOVED))
    before = {(partners[arrow.source], partners[arrow.target]) for arrow in old.arrows}
    after = {(arrow.source, arrow.target) for arrow in new.arrows}
    arrows = [
        arrow if (arrow.source, arrow.target) in before else replace(arrow, colour=ADDED)
        for arrow in new.arrows
    ]
    for arrow in old.arrows:
        ends = partners[arrow.source], partners[arrow.target]
        if ends not in after:
            arrows.append(Arrow(*ends, arrow.dotted, arrow.backward, REMOVED))
    return replace(new, shapes=shapes, arrows=arrows)


def _drawing(function: Function) -> Drawing:
    is_graph = function.kind is RegionKind.GRAPH
    return network_drawing(function) if is_graph else function_drawing(function)


def _outline(part: Operation | Value, is_kept: bool, found: FunctionDifference) -> str | None:
    if not is_kept:
        return ADDED
    return CHANGED if part in found.different else None


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
    if colour is None and isinstance(op.params, ParameterParams | StatisticParams):
        colour = PARAMETER_COLOUR
    return Shape((*lines, *([f"image {layout}"] if image else [])), colour)


def _size_text(op: Operation) -> str:
    return str(op.result.type).removeprefix("matrix<").removesuffix(">")
