"""What a compilation works with: the operations in force and the sink for messages.

Passed along, never global.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from graphc.ir.core import OpDef
from graphc.ir.rewriter import Firing
from graphc.support.diagnostics import DiagnosticSink


@dataclass(frozen=True)
class Context:
    """The OpDefs by name, where diagnostics go, and a list for rewrites that fire, if wanted."""

    ops: Mapping[str, OpDef]
    sink: DiagnosticSink = field(default_factory=DiagnosticSink)
    trace: list[Firing] | None = None

    @staticmethod
    def of(ops: Iterable[OpDef]) -> Context:
        table: dict[str, OpDef] = {}
        for op in ops:
            if op.name in table:
                raise ValueError(f"two operations are called {op.name}")
            table[op.name] = op
        return Context(table)
