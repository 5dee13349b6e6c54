"""NDL built into a network piece by piece, with other changes of the network in between.

The whole text is known from the start, so names that it defines further down are forward references
as in any text. A name that waits stays open until it has a value, or until `finish`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from graphc.support.source import Span
from graphc_frontends.ndl.ast import Name, Statement
from graphc_frontends.ndl.expand import expansion_of
from graphc_frontends.ndl.macros import MacroTable
from graphc_frontends.ndl.scopes import Made, Value

if TYPE_CHECKING:
    from graphc.builder import GraphBuilder, Node


class InlineScript:
    """The statements of NDL for one network; what is wrong goes into the sink of its builder."""

    def __init__(
        self,
        builder: GraphBuilder,
        statements: Sequence[Statement],
        table: MacroTable,
        defines: Mapping[str, Value],
    ) -> None:
        self.builder = builder
        self._expansion = expansion_of(builder, statements, table, defines)

    def run(self, statement: Statement) -> None:
        """Make what the next statement says."""
        self._expansion.run(self._expansion.script, statement)

    def find(self, name: str, span: Span) -> Node | None:
        """The node that a name of the script stands for."""
        scope = self._expansion.script
        found = self._expansion.assembly.find(scope, Name(name, span))
        return found.content.node if found is not None and isinstance(found.content, Made) else None

    def bind_known(self) -> None:
        """Bind what is known by now."""
        unset = self.builder.model.unset
        self._expansion.assembly.bind_known(lambda node, i: (node.operation, i) in unset)

    def finish(self) -> None:
        """Bind all that is open; what stays open is an error."""
        self.bind_known()
        self._expansion.assembly.finish()
