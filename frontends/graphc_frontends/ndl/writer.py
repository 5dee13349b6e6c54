"""From a network to NDL text that reads back to the same network: one call a line.

The table of functions that the reader has (`functions.py`) is read the other way round: for a node
the function is looked for that takes its settings, and every setting that is not the default is
written. Nodes keep their order, since parameters are drawn and criteria chosen in it. A name that
NDL cannot write bare, such as `L1.W` or `W0*features`, is quoted.

Not in the text: parameters' values (but how they are drawn, or the files that they are read from),
values of statistics, and places in the text that the network came from.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from graphc.support.diagnostics import DiagnosticSink
from graphc_frontends.ndl.arguments import array_tag
from graphc_frontends.ndl.functions import (
    FUNCTIONS,
    INITIALIZERS,
    Function,
    Kind,
    Option,
    plugged_node,
)
from graphc_frontends.ndl.functions import Positional as Place

if TYPE_CHECKING:
    from graphc.builder import GraphBuilder, Node

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_KEYS = frozenset(["load", "run"])
# Quotes do not protect what is read before quotes are: comments and `$name$`.
_NOT_IN_QUOTES = re.compile(r"[\"$]|[\s()\[\]{},;]#")
_SPELLINGS = {setting: word for word, setting in INITIALIZERS.items() if word != "zero"}


def write(builder: GraphBuilder, files: Mapping[str, str] | None = None) -> str:
    """The network as NDL.

    `files` names for parameters, by the node's name, the text file that their value is read from.
    GraphcError `not-supported` with every node that NDL has no words for.
    """
    sink = DiagnosticSink()
    names = {node: _written_name(node, sink) for node in builder.nodes}
    by_operation = {node.operation: name for node, name in names.items()}
    lines: list[str] = []
    for node, name in names.items():
        operands = [by_operation[value.definition] for value in node.operation.operands]
        lines.append(f"{name} = {_call(node, operands, files or {}, sink)}")
    sink.raise_if_errors()
    return "".join(f"{line}\n" for line in lines)


def _written_name(node: Node, sink: DiagnosticSink) -> str:
    """The node's name as NDL reads it."""
    name = node.name
    if _BARE.fullmatch(name) and name.lower() not in _KEYS and array_tag(name) is None:
        return name
    return _quoted(name, f"the name of the node {name!r}", node, sink)


def _quoted(text: str, what: str, node: Node, sink: DiagnosticSink) -> str:
    if not text.isprintable() or _NOT_IN_QUOTES.search(text):
        message = (
            f"{what} cannot be written in NDL, which has printable text in quotes, without quotes, "
            "`$` and comments in it; net.rename gives another name"
        )
        sink.error("not-supported", message, node.location)
    return f'"{text}"'


def _call(
    node: Node, operands: Sequence[str], files: Mapping[str, str], sink: DiagnosticSink
) -> str:
    settings = _settings(node, files)
    function = _function_for(node, is_image="width" in settings)
    said = {p.setting for p in (*function.positionals, *function.options)} if function else ()
    if function is None or not settings.keys() <= {*said}:
        message = f"NDL has no function for `{node.name}`, a node {node.op} with its settings"
        sink.error("not-supported", message, node.location)
        return ""
    writer = _Arguments(node, settings, sink)
    by_option = {option.setting for option in function.options}
    places = [p for p in function.positionals if p.setting not in by_option or not p.optional]
    arguments = [*writer.places(places, operands), *writer.options(function.options)]
    arguments += [f"tag={tag}" for tag in node.tags]
    return f"{function.names[0]}({', '.join(arguments)})"


def _function_for(node: Node, *, is_image: bool) -> Function | None:
    """The function that makes such a node, maybe of another distribution; of an image there is one
    apart."""
    for function in FUNCTIONS:
        takes_image = any(p.setting == "width" for p in function.positionals)
        if function.op == node.op and takes_image == is_image:
            return function
    return plugged_node(node.op)


def _settings(node: Node, files: Mapping[str, str]) -> dict[str, object]:
    """The settings that are not the default, by name."""
    params = node.operation.params
    defaults = {field.name: field.default for field in fields(params)}
    settings = {name: getattr(params, name) for name in defaults}
    if node.name in files:
        settings |= {"init": "from_file", "init_from_file_path": files[node.name]}
    if settings.get("width"):  # the rows follow from the image's sizes
        settings |= {size: defaults[size] for size in ("rows", "cols") if size in settings}
    # Tags are written apart, and what was computed over data is computed again.
    return {
        name: value
        for name, value in settings.items()
        if value != defaults[name] and name not in ("tags", "computed")
    }


@dataclass(frozen=True)
class _Arguments:
    """The arguments of one call."""

    node: Node
    settings: Mapping[str, object]
    sink: DiagnosticSink

    def places(self, places: Sequence[Place], operands: Sequence[str]) -> Iterator[str]:
        """The arguments by place; `operands` are the names of all nodes among them."""
        waiting = list(operands)
        nodes_left = sum(place.kind == "node" for place in places)
        for place in places:
            if place.kind == "node":
                nodes_left -= 1
                count = len(waiting) if nodes_left == 0 else 1  # the last one may repeat
                yield from waiting[:count]
                del waiting[:count]
            elif place.setting is not None:
                value = getattr(self.node.operation.params, place.setting)
                yield self.value(place.kind, value)

    def options(self, options: Sequence[Option]) -> Iterator[str]:
        """The arguments `name=value`; of several names for one setting the first."""
        names = {o.setting: o for o in reversed(options) if o.setting in self.settings}
        for setting, option in reversed(names.items()):
            yield f"{option.name}={self.value(option.kind, self.settings[setting or ''])}"

    def value(self, kind: Kind, value: object) -> str:
        """A setting as NDL writes it."""
        if kind == "flag":
            return "true" if value else "false"
        if kind == "initializer":
            return _SPELLINGS[str(value)]
        if kind == "path":
            return _quoted(str(value), f"the file name {value!r}", self.node, self.sink)
        return self.number(float(value) if isinstance(value, float) else int(str(value)))

    def number(self, value: float) -> str:
        """The shortest text that reads back as this number."""
        if math.isnan(value):
            message = f"NDL has no word for nan, `{self.node.name}` has it"
            self.sink.error("not-supported", message, self.node.location)
        if math.isinf(value):
            return "1#INF" if value > 0 else "-1#INF"
        return repr(value)
