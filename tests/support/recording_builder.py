"""A stand-in for `GraphBuilder` that writes down what a front end asks for and judges nothing.

So a front end's tests show its own work alone: no shape, no op table and no default comes between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphc.support.diagnostics import DiagnosticSink
from graphc.support.source import UNKNOWN, Location


@dataclass(eq=False)
class RecordedNode:
    """One call of `apply`, with what was changed later."""

    name: str
    op: str
    operands: list[RecordedNode | None]
    settings: dict[str, object]
    tags: list[str]
    location: Location

    def __str__(self) -> str:
        operands = ", ".join("?" if o is None else o.name for o in self.operands)
        settings = "".join(f" {key}={value}" for key, value in self.settings.items())
        tags = "".join(f" #{tag}" for tag in self.tags)
        return f"{self.name} = {self.op}({operands}){settings}{tags}"


@dataclass
class RecordingBuilder:
    """The methods of `GraphBuilder` that front ends call."""

    sink: DiagnosticSink = field(default_factory=DiagnosticSink)
    nodes: list[RecordedNode] = field(default_factory=list)

    def apply(
        self,
        op: str,
        operands: Sequence[RecordedNode | None] = (),
        settings: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        tags: Sequence[str] = (),
        location: Location = UNKNOWN,
    ) -> RecordedNode:
        name = name or f"unnamed{len(self.nodes)}"
        if self.find(name) is not None:
            self.sink.error("duplicate-name", f"the name `{name}` is taken", location)
        node = RecordedNode(name, op, list(operands), dict(settings or {}), list(tags), location)
        self.nodes.append(node)
        return node

    def set_operand(self, node: RecordedNode, index: int, operand: RecordedNode) -> None:
        node.operands[index] = operand

    def rename(self, node: RecordedNode, name: str, location: Location = UNKNOWN) -> None:
        node.name = name

    def add_tag(self, node: RecordedNode, tag: str, location: Location = UNKNOWN) -> None:
        if tag not in node.tags:
            node.tags.append(tag)

    def find(self, name: str) -> RecordedNode | None:
        return next((n for n in self.nodes if n.name.lower() == name.lower()), None)

    def __str__(self) -> str:
        return "\n".join(str(node) for node in self.nodes)
