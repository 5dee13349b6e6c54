"""An ONNX graph as text, a node a line: the source that errors point at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphc.support.diagnostics import printable
from graphc.support.source import Location, SourceFile, Span

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, NodeProto

MAX_SHOWN = 8
"""Elements of an attribute that are written out."""


class Listing:
    """The lines of a model's graph, and the places of its nodes in them."""

    def __init__(self, file: str, graph: GraphProto) -> None:
        self.file = file
        lines = [node_line(node) for node in graph.node]
        self._source = SourceFile(file, "\n".join(lines))
        self._lengths = [len(line) for line in lines]

    def place(self, index: int) -> Location:
        """Where the node of that number is, from 0."""
        length = self._lengths[index]
        return Location(Span(self.file, index + 1, 1, length + 1, self._source))


def node_line(node: NodeProto) -> str:
    """`y = Conv(x, w, strides=[2, 2])  # its name`."""
    attributes = [f"{a.name}={_attribute(a)}" for a in node.attribute]
    inside = ", ".join([*(name or "None" for name in node.input), *attributes])
    outputs = ", ".join(name or "_" for name in node.output)
    line = f"{outputs} = {operator_name(node.domain, node.op_type)}({inside})"
    return printable(f"{line}  # {node.name}" if node.name else line)


def operator_name(domain: str, op_type: str) -> str:
    """`Conv`, `com.example.Scale`."""
    return f"{domain}.{op_type}" if domain not in ("", "ai.onnx") else op_type


def _attribute(attribute: AttributeProto) -> str:
    """The value where it is short, else its kind."""
    if attribute.ref_attr_name:
        return f"@{attribute.ref_attr_name}"
    kinds = attribute.AttributeType
    match attribute.type:
        case kinds.INT:
            return str(attribute.i)
        case kinds.FLOAT:
            return f"{attribute.f:g}"
        case kinds.STRING:
            return repr(attribute.s.decode(errors="replace"))
        case kinds.INTS:
            return _list([str(i) for i in attribute.ints])
        case kinds.FLOATS:
            return _list([f"{f:g}" for f in attribute.floats])
        case _:
            return "…"


def _list(elements: list[str]) -> str:
    more = [] if len(elements) <= MAX_SHOWN else ["…"]
    return f"[{', '.join([*elements[:MAX_SHOWN], *more])}]"
