"""Scopes and names: what a name stands for, and how a name is looked up.

A `Scope` belongs to one body being expanded: the script's or that of one macro call. Names of a
scope are seen in it alone; a body does not see the variables of its caller. What a name
stands for is a `Value`. A value that a macro call gave keeps the scope of that call, and that is
all that dotted names need: `CE.F` is the name `F` in the scope that made `CE`.

    L1 = DNNLayer(features, W0)        scope ""     symbols: features, W0, L1
      W = ...; z = Plus(t, b)          scope "L1."  symbols: x, w (formals), W, t, b, z

`Forward` stands for a name that nothing has defined yet. It remembers the scope where it was
written, so whoever needs the value later asks for the name there, through however many macro
arguments it has been handed on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphc.support.source import Location, Span
from graphc_frontends.ndl.ast import Macro, Name, Result, Statement
from graphc_frontends.ndl.functions import NODE_ARRAYS

if TYPE_CHECKING:
    from graphc.builder import Node

_ARRAY_KEYS = frozenset(name.lower() for name in NODE_ARRAYS)
MAX_DOTTED = 100
"""Dotted names that lead to dotted names: each of them that leads anywhere is a macro call deeper,
of which there are fewer."""


@dataclass(frozen=True, slots=True)
class Number:
    value: float
    text: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """A node of the network, and the number that it holds if it is a constant of one."""

    node: Node
    number: Number | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """The value of an option or define that is no number."""

    text: str


@dataclass(slots=True, eq=False)
class Forward:
    """The name `name`, written in `scope`, that has no value yet.

    `ahead` is where it was last found to lead, so that a long way is gone once.
    """

    name: Name
    scope: Scope
    ahead: Value | None = None


@dataclass(frozen=True, slots=True)
class Items:
    """The elements of an array."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Broken:
    """What an error has been reported for; nothing more is said about it."""


@dataclass(frozen=True, slots=True)
class Value:
    """What a name stands for. `body` is the scope of the macro call that gave it, if one did."""

    content: Made | Number | Text | Forward | Items | Broken
    body: Scope | None = None


BROKEN = Value(Broken())


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name as written, what it stands for and the place of its definition."""

    name: str
    value: Value
    span: Span | None


@dataclass(slots=True, eq=False)
class Scope:
    """The names of one body.

    prefix       what its nodes' names start with: "" or "L1.F."
    assigned     every name that the body assigns anywhere, with the place
    node_names   for names of nodes: what the node is called in the network (see `final_names`)
    macro, call  the macro that is expanded and where it was called, None for the script
    script       the scope of the script, None for that scope itself
    overridden   names whose assignments in the body do not count
    result       what the call gives, once the body is done
    """

    prefix: str
    assigned: Mapping[str, Span]
    node_names: Mapping[str, str]
    macro: Macro | None = None
    call: Location | None = None
    script: Scope | None = None
    overridden: frozenset[str] = frozenset()
    symbols: dict[str, Symbol] = field(default_factory=dict[str, Symbol])
    result: Value = BROKEN

    def place(self, span: Span) -> Location:
        """The location of a piece of this body's text, with the way that led into the body."""
        return Location(span, self.call)

    def visible_names(self) -> Iterator[str]:
        """The names defined so far and those of macro calls one level down, for suggestions."""
        for symbol in self.symbols.values():
            yield symbol.name
            if symbol.value.body is not None:
                inner = symbol.value.body.symbols.values()
                yield from (f"{symbol.name}.{member.name}" for member in inner)


def assigned_names(statements: Sequence[Statement]) -> dict[str, Span]:
    """The names that a body assigns, in lower case, each with its first place."""
    places: dict[str, Span] = {}
    for statement in statements:
        if statement.target is not None:
            places.setdefault(statement.target.key, statement.target.span)
    return places


def final_names(
    statements: Sequence[Statement], macros: Mapping[str, Macro], overridden: frozenset[str]
) -> dict[str, str]:
    """What the calls of a body are named: by their target, or by the last alias of it.

    `a = Plus(x, y)` and later `b = a` make one node named `b`; both names stand for it. An alias
    of what a macro call gave renames nothing: the nodes in it keep their dotted names.
    """
    names: dict[str, str] = {}
    call_of: dict[str, str] = {}  # for a name of a function call: the target of that call
    counted = [s for s in statements if s.target is not None and s.target.key not in overridden]
    for statement in counted:
        if isinstance(statement.value, Result) and statement.target is not None:
            names.setdefault(statement.target.key, statement.target.text)
            if statement.calls[-1].function.key not in macros:
                call_of[statement.target.key] = statement.target.key
    for statement in counted:
        target, value = statement.target, statement.value
        if target is None or (target.key in _ARRAY_KEYS and not target.is_quoted):
            continue
        if isinstance(value, Name) and value.key in call_of:
            call_of[target.key] = call_of[value.key]
            names[call_of[value.key]] = target.text
    return names


def look_up(scope: Scope, path: str, depth: int = 0) -> Value | None:
    """The value of a name, dotted or not, among the symbols of `scope`; None if it has none.

    A part after a dot is a name in the body of the macro call before it. A body without that name
    hands the question on to the call whose result it returned.
    """
    first, *rest = path.lower().split(".")
    symbol = scope.symbols.get(first)
    for part in rest:
        if symbol is None or depth == MAX_DOTTED:
            return None
        symbol = _member(settled(symbol.value, depth + 1), part)
    return None if symbol is None else symbol.value


def _member(value: Value, part: str) -> Symbol | None:
    body = value.body
    while body is not None:
        if part in body.symbols:
            return body.symbols[part]
        body = body.result.body
    return None


def settled(value: Value, depth: int = 0) -> Value:
    """`value`, or where it is a `Forward` what its name stands for by now.

    Still a `Forward` if that name has no value, or if names only lead to each other.
    """
    passed: dict[Forward, None] = {}
    while isinstance(value.content, Forward) and value.content not in passed:
        forward = value.content
        passed[forward] = None
        found = forward.ahead or look_up(forward.scope, forward.name.text, depth)
        if found is None:
            break
        value = found
    for forward in passed:
        if value.content is not forward:
            forward.ahead = value
    return value
