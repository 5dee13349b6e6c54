"""What every method of a network stands on: checked edits, and making a node.

Mistakes are raised at once, with their place in the caller's code, and leave the network as it was.
Sizes that do not fit together are found when it is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import cast

from graphc.builder import GraphBuilder, MatrixType, Node, TypeRuleError
from graphc.support.diagnostics import GraphcError, fail
from graphc.support.source import UNKNOWN, Location
from graphc_frontends.network.caller import caller_location
from graphc_frontends.network.node import NetworkNode, Operand


class NetworkBase(GraphBuilder):
    """A graph whose nodes have operators, and whose edits are checked."""

    node_class = NetworkNode

    # --- edits: a front end hands over a location, and finds its mistakes in `sink` -------------

    def add_tag(self, node: Node, tag: str, location: Location = UNKNOWN) -> None:
        """Add one of the tags; a node keeps each once."""
        if not location.is_known:
            location = self._checked("add_tag", location, node)
            _tags_of("add_tag", [tag], location)
            super().add_tag(node, tag, location)
            self._raise_mistakes(lambda: None)
        else:
            super().add_tag(node, tag, location)

    def set_operand(self, node: Node, index: int, operand: Node) -> None:
        """Let a node read another one as its operand `index`, counted from 0."""
        location = self._checked("set_operand", UNKNOWN, node, operand)
        count = len(node.operation.operands)
        if index not in range(count):
            message = f"`{node.name}` has {count} operands, counted from 0, got index {index!r}"
            raise fail("bad-value", message, location)
        super().set_operand(node, index, operand)

    # --- inside --------------------------------------------------------------------------------

    def _is_own(self, operand: object) -> bool:
        if not isinstance(operand, NetworkNode) or operand.builder is not self:
            return False
        return operand.operation.block is not None  # else it was removed

    def _checked(self, what: str, location: Location, *nodes: object) -> Location:
        """The place in the caller's code, after a look at what was handed over as a node."""
        location = location if location.is_known else caller_location()
        for node in nodes:
            # Callers without a type checker may hand over anything at all.
            if not self._is_own(node):
                message = f"{what} requires nodes of this network, got {repr(node)[:60]}"
                raise fail("argument-type", message, location)
        return location

    def _raise_mistakes(self, undo: Callable[[], None]) -> None:
        """Raise what the builder reported, after `undo`."""
        if self.sink.has_errors:
            problems = list(self.sink.diagnostics)
            self.sink.diagnostics.clear()
            undo()
            raise GraphcError(problems)

    def _report_own_sizes(self, op: str, node: Node, location: Location) -> None:
        """Report sizes that are wrong by themselves, whatever the operands are."""
        operation = node.operation
        unknown = [MatrixType(None, None)] * len(operation.operands)
        try:
            operation.opdef.infer(unknown, operation.params)
        except TypeRuleError as problem:
            slug = "plug-in" if problem.slug == "plug-in" else "bad-value"
            self.sink.error(slug, f"{op} {problem.message}", location)

    def _add(
        self,
        op: str,
        operands: Sequence[Operand] | None,
        settings: Mapping[str, object],
        name: str | None,
        tag: str | Sequence[str],
    ) -> NetworkNode:
        """Make a node; of operands None it has one, which is bound later."""
        location = caller_location()
        self._check_operands(op, operands or (), location)
        if name is not None or op in ("input", "sparse_input", "parameter"):
            require_name(op, name, location)
        tags = _tags_of(op, tag, location)
        sources: list[Node | None] = [None]
        if operands is not None:
            sources = [self._source(operand, location) for operand in operands]
        made = self.apply(op, sources, settings, name=name, tags=tags, location=location)
        if not self.sink.has_errors:
            self._report_own_sizes(op, made, location)
        constants = [s for s in sources if s is not None and s not in (operands or ())]
        self._raise_mistakes(lambda: self._take_out([made, *constants]))
        return cast(NetworkNode, made)

    def _check_operands(self, op: str, operands: Sequence[object], location: Location) -> None:
        """Raise for what is neither a node nor a number."""
        for index, operand in enumerate(operands):
            if not self._is_own(operand) and not _is_number(operand):
                what = self.operand_name(op, index)
                message = f"{op} requires a node of this network or a number as {what}"
                raise fail("argument-type", f"{message}, got {repr(operand)[:60]}", location)

    def _source(self, operand: Operand, location: Location) -> Node:
        """The node itself, or a constant for a number."""
        if isinstance(operand, NetworkNode):
            return operand
        # Numbers of numpy are no floats; a whole number may be too large for one.
        value = operand if isinstance(operand, int) else float(operand)
        return self.apply("constant", (), {"value": value}, location=location)

    def _take_out(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            super().remove(node)


def _is_number(operand: object) -> bool:
    return not isinstance(operand, bool) and isinstance(operand, Real)


def require_name(what: str, name: object, location: Location) -> None:
    if not isinstance(name, str):
        message = f"{what} requires a name in text, got {repr(name)[:60]}"
        raise fail("argument-type", message, location)
    if not name:
        raise fail("bad-value", f"{what} requires a name of at least one character", location)


def _tags_of(what: str, tag: object, location: Location) -> tuple[str, ...]:
    """One tag alone stands for a list of it."""
    tags = (tag,) if isinstance(tag, str) else tag
    if not isinstance(tags, Sequence) or not all(isinstance(t, str) for t in tags):
        message = f"{what} requires a tag or a list of tags, got {repr(tag)[:60]}"
        raise fail("argument-type", message, location)
    return tuple(tags)
