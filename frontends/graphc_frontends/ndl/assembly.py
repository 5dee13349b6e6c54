"""The network that an expansion builds: its nodes by name, and what has to wait for later names.

`expand.py` decides what is to be made; this file knows the builder. It finds and names nodes, turns
numbers into constant nodes, and keeps the operands and tags whose names had no value when they
were read until `finish` binds them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphc.support.diagnostics import (
    MAX_SHOWN,
    Diagnostic,
    GraphcError,
    Note,
    Severity,
    fail,
    make,
    suggestion,
)
from graphc.support.source import Location, Span
from graphc_frontends.ndl.ast import Name
from graphc_frontends.ndl.mistakes import MAX_MISTAKES
from graphc_frontends.ndl.scopes import (
    BROKEN,
    Broken,
    Forward,
    Items,
    Made,
    Number,
    Scope,
    Text,
    Value,
    look_up,
    settled,
)

if TYPE_CHECKING:
    from graphc.builder import GraphBuilder, Node


@dataclass(frozen=True, slots=True)
class Source:
    """A value as an operand, and the text in `scope` that asks for it."""

    value: Value
    scope: Scope
    span: Span

    @property
    def where(self) -> Location:
        return self.scope.place(self.span)


@dataclass(frozen=True, slots=True)
class _TagRequest:
    """The nodes of `value` get `tag`, because of `what` (an array or the option `tag=`)."""

    value: Value
    tag: str
    what: str
    where: Location


class Assembly:
    """A builder being filled from NDL."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.failures = 0
        """Errors so far, those included that had been reported before."""
        self._unnamed: Counter[str] = Counter()  # by prefix, so that macro calls count apart
        self._open_operands: list[tuple[Node, int, Source]] = []
        self._aliases: list[Forward] = []
        self._used_as_text: set[Forward] = set()
        self._tag_requests: list[_TagRequest] = []
        self._broken_names: set[str] = set()
        self._reported: set[tuple[str, Span | None]] = set()
        self._mistakes = self._warnings = 0  # in the sink

    def report(self, error: GraphcError) -> None:
        """Report an error, once for each place: a macro's body may be expanded many times."""
        self.failures += 1
        for diagnostic in error.diagnostics:
            if not self._is_new(diagnostic):
                continue
            if self._mistakes == MAX_MISTAKES:
                message = f"after {MAX_MISTAKES} mistakes the rest of the text is not looked at"
                raise fail("limit", message, diagnostic.span)
            self._mistakes += 1
            self.builder.sink.extend([diagnostic])

    def warn(self, slug: str, message: str, where: Location) -> None:
        """Report what is left out, once for each place too."""
        diagnostic = make(Severity.WARNING, slug, message, where, "", ())
        if self._warnings < MAX_MISTAKES and self._is_new(diagnostic):
            self._warnings += 1
            self.builder.sink.extend([diagnostic])

    def _is_new(self, diagnostic: Diagnostic) -> bool:
        known = len(self._reported)
        self._reported.add((diagnostic.message, diagnostic.span))
        return len(self._reported) > known

    # ---- names ----------------------------------------------------------------------------

    def find(self, scope: Scope, name: Name) -> Value | None:
        """What a name stands for: a symbol of the body, or else a node of the network.

        A name that the body assigns further down is not looked for in the network: it is meant to
        be the body's own.
        """
        found = look_up(scope, name.text)
        if found is not None and not self._is_gone(settled(found)):
            return settled(found)
        first = name.key.split(".", 1)[0]
        if first in scope.assigned and first not in scope.symbols:
            return None
        return self._find_node(name)

    def _is_gone(self, value: Value) -> bool:
        """Whether a value is a node that has been taken out of the network."""
        made = value.content
        return isinstance(made, Made) and self.builder.find(made.node.name) is not made.node

    def near(self, name: str, known: Iterable[str]) -> str:
        """`; did you mean ...?`, for as many messages as are shown: the search is slow."""
        return suggestion(name, known) if len(self._reported) < MAX_SHOWN else ""

    def _find_node(self, name: Name) -> Value | None:
        """The node of the network with exactly this name."""
        if name.key in self._broken_names:
            return BROKEN
        node = self.builder.find(name.text)
        return None if node is None else Value(Made(node))

    def fresh_name(self, scope: Scope) -> str:
        """`unnamedN`, not in use in the network and not assigned by the body."""
        while True:
            self._unnamed[scope.prefix] += 1
            name = f"unnamed{self._unnamed[scope.prefix]}"
            if name not in scope.assigned and self.builder.find(scope.prefix + name) is None:
                return name

    # ---- nodes ----------------------------------------------------------------------------

    def add_node(
        self,
        op: str,
        operands: Sequence[Source],
        settings: Mapping[str, object],
        tags: Sequence[str],
        name: str,
        where: Location,
    ) -> Value:
        """Add a node; operands without a value yet stay open until `finish`."""
        try:
            sources = [self._node_of(operand) for operand in operands]
        except GraphcError as error:
            self.report(error)
            return self.broken_node(name)
        node = self.builder.apply(op, sources, settings, name=name, tags=tags, location=where)
        for index, (source, operand) in enumerate(zip(sources, operands, strict=True)):
            if source is None:
                self._open_operands.append((node, index, operand))
        return Value(Made(node, _number_of(op, settings)))

    def broken_node(self, name: str) -> Value:
        """Say that the node of this name would be there but for an error."""
        self._broken_names.add(name.lower())
        return BROKEN

    def _node_of(self, operand: Source) -> Node | None:
        """The node that a value stands for, None where its name is not defined yet.

        A number becomes a constant node.
        """
        match operand.value.content:
            case Made(node):
                return node
            case Forward():
                return None
            case Number(value):
                name = operand.scope.prefix + self.fresh_name(operand.scope)
                return self.builder.apply(
                    "constant", (), {"value": value}, name=name, location=operand.where
                )
            case Text(text):
                raise fail("argument-type", f"a node is required, got `{text}`", operand.where)
            case Items() | Broken():
                raise fail("argument-type", "a node is required, got a list", operand.where)

    # ---- what waits -----------------------------------------------------------------------

    def request_tag(self, value: Value, tag: str, what: str, where: Location) -> None:
        """Tag the node or nodes of `value` when every name is known."""
        self._tag_requests.append(_TagRequest(value, tag, what, where))

    def expect_defined(self, value: Value) -> None:
        """Names that stand for other names have to be defined in the end, used or not."""
        values = value.content.values if isinstance(value.content, Items) else (value,)
        self._aliases += [v.content for v in values if isinstance(v.content, Forward)]

    def used_as_text(self, value: Value) -> None:
        """An option took the name for a word (`mode = gaussian`, `init=mode`): not an alias."""
        if isinstance(value.content, Forward):
            self._used_as_text.add(value.content)

    def bind_known(self, is_waiting: Callable[[Node, int], bool]) -> None:
        """Pass 2 for the names that have a value by now; the others go on waiting.

        is_waiting  whether an operand has not been given a node by somebody else
        """
        operands, self._open_operands = self._open_operands, []
        requests, self._tag_requests = self._tag_requests, []
        for node, index, operand in operands:
            if is_waiting(node, index) and not self._is_known(operand.value):
                self._open_operands.append((node, index, operand))
            elif is_waiting(node, index):
                self._bind([(node, index, operand)])
        for request in requests:
            if self._is_known(request.value):
                self._add_tag(request)
            else:
                self._tag_requests.append(request)

    def _is_known(self, value: Value) -> bool:
        """Whether every name in a value stands for something by now."""
        content = settled(value).content
        if isinstance(content, Items):
            return all(self._is_known(v) for v in content.values)
        return not isinstance(content, Forward) or self._find_node(content.name) is not None

    def finish(self) -> None:
        """Pass 2: bind open operands, check aliases, hand out tags."""
        operands, self._open_operands = self._open_operands, []
        self._bind(operands)
        for alias in self._aliases:
            if alias not in self._used_as_text:
                try:
                    self._resolve(Value(alias))
                except GraphcError as error:
                    self.report(error)
        self._aliases = []
        requests, self._tag_requests = self._tag_requests, []
        for request in requests:
            self._add_tag(request)

    def _bind(self, operands: Sequence[tuple[Node, int, Source]]) -> None:
        """Give operands the nodes that their names stand for."""
        for node, index, operand in operands:
            try:
                value = self._resolve(operand.value)
                if not isinstance(value.content, Broken):
                    source = self._node_of(Source(value, operand.scope, operand.span))
                    assert source is not None, "a resolved value is no Forward"
                    self.builder.set_operand(node, index, source)
            except GraphcError as error:
                self.report(error)

    def _resolve(self, value: Value) -> Value:
        """The value with no name left open, or the error that the name is not defined."""
        value = settled(value)
        if isinstance(value.content, Made) and self._is_gone(value):
            gone = value.content.node
            message = f"`{gone.name}` was taken out of the network"
            raise fail("undefined-name", message, gone.location)
        if not isinstance(value.content, Forward):
            return value
        forward = value.content
        found = self._find_node(forward.name)
        if found is None:
            raise self._undefined(forward)
        return found

    def _undefined(self, forward: Forward) -> GraphcError:
        """The error for a name that nothing defines, with what may have been meant."""
        name, scope = forward.name, forward.scope
        where = scope.place(name.span)
        if look_up(scope, name.text) is not None:
            message = f"`{name.text}` stands for names that only stand for each other"
            return fail("cycle", message, where)
        notes: list[Note] = []
        outer = scope.script.symbols.get(name.key) if scope.script is not None else None
        if outer is not None:
            message = f"`{name.text}` of the script is not seen in a macro; make it an argument"
            notes.append(Note(message, outer.span))
        near = "" if notes else self.near(name.text, scope.visible_names())
        return fail("undefined-name", f"`{name.text}` is not defined{near}", where, notes=notes)

    def _add_tag(self, request: _TagRequest) -> None:
        try:
            value = self._resolve(request.value)
            values = value.content.values if isinstance(value.content, Items) else (value,)
            for element in values:
                self._tag_node(self._resolve(element), request)
        except GraphcError as error:
            self.report(error)

    def _tag_node(self, value: Value, request: _TagRequest) -> None:
        match value.content:
            case Made(node):
                self.builder.add_tag(node, request.tag, request.where)
            case Broken():
                pass
            case Number(text=text) | Text(text):
                message = f"{request.what} takes nodes, got `{text}`"
                raise fail("argument-type", message, request.where)
            case _:
                message = f"{request.what} takes nodes, got a list in a list"
                raise fail("argument-type", message, request.where)


def _number_of(op: str, settings: Mapping[str, object]) -> Number | None:
    """The number that a new node holds, if it is a constant of one element."""
    value = settings.get("value")
    size = (settings.get("rows", 1), settings.get("cols", 1))
    if op != "constant" or size != (1, 1) or not isinstance(value, int | float):
        return None
    return Number(value, f"{value:g}")
