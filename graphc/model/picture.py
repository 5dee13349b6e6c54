"""A network as a Graphviz drawing: `graphc dump net.ndl --format dot | dot -Tsvg -o net.svg`.

Signals flow upwards, as in the book's figures. Roles have colours, each node shows its name, size
and function, and the edge into a delay is dotted: it carries the value of another time step.
"""

from __future__ import annotations

from graphc.ir.core import Function, Operation
from graphc.ops.nodes.delays import DELAYS
from graphc.ops.nodes.layout import display_name, node_params
from graphc.ops.nodes.leaves import CONSTANT, INPUT, PARAMETER, SPARSE_INPUT
from graphc.ops.nodes.statistics import STATISTICS

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
    for op in graph.block:
        style = " [style=dotted, constraint=false]" if op.opdef in DELAYS else ""
        sources = dict.fromkeys(v.op for v in op.operands if v.op is not None)
        lines += [f"  {numbers[source]} -> {numbers[op]}{style};" for source in sources]
    leaves = [numbers[op] for op in graph.block if op.opdef in LEAVES]
    if leaves:
        lines.append(f"  {{ rank=source; {'; '.join(leaves)}; }}")
    return "\n".join([*lines, "}", ""])


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
