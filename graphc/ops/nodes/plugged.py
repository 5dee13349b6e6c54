"""Nodes of other distributions: entry points of the group `graphc.nodes`.

    [project.entry-points."graphc.nodes"]
    Maxout = "my_package:MAXOUT"

The key is the node's name in NDL; `net.maxout` and `node.maxout` of the IR follow from it. It names
the node's `OpDef`, or a record that has one as `opdef`, as `gc.NodeType` is. A plug-in is loaded
when its name is used and graphc has no node of it, so a broken one is in nobody's way. What goes
wrong in its rules is an error that names the distribution.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from graphc.ir.core import ExpandRule, Level, OpDef, Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import MatrixType, Type, TypeRuleError
from graphc.ops.nodes.interface import NodeFunction, node_functions, node_name
from graphc.ops.nodes.layout import display_name, node_type
from graphc.support.diagnostics import GraphcError, fail
from graphc.support.plugins import EntryPoint, load, origin, plugins

GROUP = "graphc.nodes"
PREFIX = "node."


class OpTable(Mapping[str, OpDef]):
    """graphc's own operations and the nodes of plug-ins by name; looking one up loads it.

    GraphcError `plug-in` for one that is broken, or that two distributions have.
    """

    def __init__(self, own: Mapping[str, OpDef]) -> None:
        self._known = dict(own)

    def __getitem__(self, name: str) -> OpDef:
        if name not in self._known:
            entries = [e for e in plugins(GROUP) if op_name(e.name) == name]
            if not entries or not name.startswith(PREFIX):
                raise KeyError(name)
            self._known[name] = _plugged(entries)
        return self._known[name]

    def add(self, op: OpDef) -> None:
        """Let an operation be found that nothing is installed of."""
        self._known[op.name] = op

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in plugged_names()

    def __iter__(self) -> Iterator[str]:
        yield from self._known
        yield from (name for name in plugged_names() if name not in self._known)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def op_name(ndl: str) -> str:
    """The node operation that a function of NDL is: `node.row_maximum` of RowMaximum."""
    return PREFIX + node_name(ndl)


def plugged_names() -> list[str]:
    """The names of the node operations that plug-ins have; none is loaded."""
    return list(dict.fromkeys(op_name(entry.name) for entry in plugins(GROUP)))


def plugged_spellings() -> list[str]:
    """The names that plug-ins' nodes have in NDL; none is loaded."""
    return list(dict.fromkeys(entry.name for entry in plugins(GROUP)))


def plugged_function(name: str) -> NodeFunction | None:
    """The node of a plug-in with this name in NDL, in any case; None if there is none."""
    entries = [e for e in plugins(GROUP) if e.name.lower() == name.lower()]
    return _function(_plugged(entries)) if entries else None


def plugged_method(name: str) -> NodeFunction | None:
    """The node of a plug-in that `net.NAME` makes; None if there is none."""
    entries = [e for e in plugins(GROUP) if op_name(e.name) == PREFIX + name]
    return _function(_plugged(entries)) if entries else None


def origin_of(name: str) -> str:
    """The distributions that have a node operation of this name."""
    return " and ".join(origin(e) for e in plugins(GROUP) if op_name(e.name) == name)


def _function(opdef: OpDef) -> NodeFunction:
    (function,) = node_functions([opdef])
    return function


# --- loading -------------------------------------------------------------------------------------


def _plugged(entries: Sequence[EntryPoint]) -> OpDef:
    """The node of the only entry point that has its name."""
    where = " and ".join(map(origin, entries))
    name = entries[0].name
    if len(entries) > 1:
        raise fail("plug-in", f"a node is required to have a name of its own, `{name}` is {where}")
    return _checked(load(entries[0]), name, where)


@cache  # operations are told apart by identity, so a record is one operation
def _checked(record: object, name: str, where: str) -> OpDef:
    try:
        opdef = record if isinstance(record, OpDef) else getattr(record, "opdef", record)
    except GraphcError as error:
        message = f"the node `{name}` of {where} {error.diagnostics[0].message}"
        raise fail("plug-in", message) from error
    problem = _problem(opdef, name)
    if problem or not isinstance(opdef, OpDef):
        raise fail("plug-in", f"the node `{name}` of {where} {problem}")
    return with_origin(opdef, where)


def _problem(made: object, name: str) -> str:
    """Why this cannot be the node `name`, or ''."""
    if not isinstance(made, OpDef):
        return f"requires a gc.NodeType or an OpDef, got {type(made).__name__}"
    if made.level is not Level.NODE or made.expand is None or made.reference is None:
        return "requires an operation of the node level with an expansion and a reference"
    if made.ndl != (name,) or made.name != op_name(name):
        own = made.ndl[0] if made.ndl else made.name
        return f"requires the name {name} as in its entry point, got {own}"
    return ""


# --- rules of others -----------------------------------------------------------------------------


def with_origin(opdef: OpDef, where: str) -> OpDef:
    """The node with rules whose failures name the distribution `where`."""
    return replace(
        opdef,
        origin=where,
        infer=_typed(opdef.infer, where),
        refine=opdef.refine and _typed(opdef.refine, where),
        expand=_emitting(opdef.expand, where),
        expand_training=_emitting(opdef.expand_training, where),
        expand_sequences=_emitting(opdef.expand_sequences, where),
    )


def _typed(rule: Callable[[Sequence[Any], Any], Sequence[Any]], where: str) -> Callable[..., Any]:
    """A type rule that raises nothing but TypeRuleError."""

    def infer(types: Sequence[Type], params: Params) -> Sequence[Type]:
        try:
            return rule(types, params)
        except TypeRuleError as problem:
            message, slug = f"{problem.message} (a node of {where})", problem.slug
            raise TypeRuleError(message, operand=problem.operand, slug=slug) from problem
        except Exception as error:
            message = f"of {where} is broken: its type rule raises {described(error)}"
            raise TypeRuleError(message, slug="plug-in") from error

    return infer


def _emitting(rule: ExpandRule | None, where: str) -> ExpandRule | None:
    """An expansion that raises nothing but GraphcError, and gives what the type rule says."""
    if rule is None:
        return None

    def expand(b: Any, op: Operation, *rest: Any) -> Value:
        try:
            made = rule(b, op, *rest)
        except GraphcError:
            raise
        except Exception as error:
            message = f"is broken: its expansion raises {described(error)}"
        else:
            if _fits(made, node_type(op)):
                return made
            message = f"is broken: its expansion of {node_type(op)} gives {made.type}"
        raise fail("plug-in", f"{display_name(op.opdef)} of {where} {message}", op.location)

    return expand


def _fits(made: Value, type: MatrixType) -> bool:
    """Whether a tensor is how a node of this type lies in memory (ops/nodes/layout.py)."""
    dims = made.tensor.dims
    if type.has_samples:
        return len(dims) == 2 and dims[1] == type.rows
    return dims == (type.rows, type.cols)


def described(error: Exception) -> str:
    """What was raised, and the line of code where."""
    if isinstance(error, GraphcError):
        first = error.diagnostics[0]
        return f"{first.message}, at {first.span}" if first.span is not None else first.message
    *_, frame = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__}: {error}, at {frame.filename}:{frame.lineno}"
