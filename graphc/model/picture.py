"""A network as a Graphviz drawing: `graphc dump net.ndl --format svg > net.svg`.

Signals flow upwards, as in the book's figures. Roles have colours, each node shows its name, size
and function, and the edge into a delay is dotted: it carries the value of another time step. The
nodes of a cycle, which are computed step by step, stand in a box.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence

from graphc.ir.core import Function, Operation
from graphc.ops.nodes.delays import DELAYS, FUTURE_VALUE, PAST_VALUE
from graphc.ops.nodes.layout import display_name, node_params
from graphc.ops.nodes.leaves import CONSTANT, INPUT, PARAMETER, SPARSE_INPUT
from graphc.ops.nodes.statistics import STATISTICS
from graphc.support.diagnostics import fail
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
    numbers = {op: f"n{i}" for i, op in enumerate(graph.block)}
    lines = [
        "strict digraph network {",
        "  rankdir=BT;",
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontname="Helvetica"];',
        '  edge [fontname="Helvetica", fontsize=10];',
    ]
    lines += [f"  {numbers[op]} [{_node_attributes(op)}];" for op in graph.block]
    boxes = [c for c in strongly_connected_components(graph.block, _sources) if _is_cycle(c)]
    box_of = {op: place for place, box in enumerate(boxes) for op in box}
    for place in range(len(boxes)):
        lines += _box(place, [op for op in graph.block if box_of.get(op) == place], numbers)
    for op in graph.block:
        for source in _sources(op):
            style = ""
            if op.opdef in DELAYS:
                # Inside a box it runs against the flow and would turn the drawing upside down.
                within = source in box_of and box_of[source] == box_of.get(op)
                style = f" [style=dotted{', constraint=false' if within else ''}]"
            lines.append(f"  {numbers[source]} -> {numbers[op]}{style};")
    leaves = [numbers[op] for op in graph.block if op.opdef in LEAVES]
    if leaves:
        lines.append(f"  {{ rank=source; {'; '.join(leaves)}; }}")
    return "\n".join([*lines, "}", ""])


def svg(picture: str) -> str:
    """The picture as SVG, by Graphviz; GraphcError `toolchain` where that is missing or fails."""
    program = shutil.which("dot")
    if program is None:
        message = "drawing requires the program `dot` of Graphviz, which is not on the PATH"
        raise fail("toolchain", message)
    made = subprocess.run(
        [program, "-Tsvg"], input=picture, capture_output=True, encoding="utf-8", check=False
    )
    if made.returncode:
        raise fail("toolchain", f"`dot` failed with {made.returncode}: {made.stderr.strip()}")
    return made.stdout


def _sources(op: Operation) -> list[Operation]:
    return list(dict.fromkeys(v.op for v in op.operands if v.op is not None))


def _is_cycle(component: Sequence[Operation]) -> bool:
    return len(component) > 1 or component[0] in _sources(component[0])


def _box(place: int, members: Sequence[Operation], numbers: Mapping[Operation, str]) -> list[str]:
    """The box of a loop, by what its delays look at."""
    kinds = {op.opdef for op in members if op.opdef in DELAYS}
    ways = {PAST_VALUE: "forward in time", FUTURE_VALUE: "backward in time"}
    way = ", ".join(text for kind, text in ways.items() if kind in kinds) or "without a delay"
    return [
        f"  subgraph cluster_{place} {{",
        f'    label="loop {way}"; style="rounded,dashed"; color=gray50; fontcolor=gray30;',
        '    fontname="Helvetica"; fontsize=11; labeljust=l;',
        f"    {'; '.join(numbers[op] for op in members)};",
        "  }",
    ]


def _node_attributes(op: Operation) -> str:
    size = str(op.result.type).removeprefix("matrix<").removesuffix(">")
    size = size.replace(" image ", "\\nimage ")
    text = f"{_escaped(op.result.name or '')}\\n{display_name(op.opdef)} {size}"
    tags = node_params(op).tags
    colour = next((c for tag, c in COLOURS.items() if tag in tags), None)
    if colour is None and (op.opdef is PARAMETER or op.opdef in STATISTICS):
        colour = PARAMETER_COLOUR
    return f'label="{text}"' + (f", fillcolor={colour}" if colour else "")


def _escaped(name: str) -> str:
    """A name inside a quoted string of Graphviz: no quote, backslash or line end gets through."""
    plain = "".join(c if c.isprintable() else "?" for c in name)
    return plain.replace("\\", "\\\\").replace('"', '\\"')
