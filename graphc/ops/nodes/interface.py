"""The functions of nodes as front ends offer them: what a language or a builder has to know.

A node whose record has NDL names (`OpDef.ndl`) is such a function: it takes its operands, then its
settings by name. Nodes of another form (leaves, delays, sizes given by place) are written by hand
in each front end. Front ends get the table through `graphc.builder`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from graphc.ir.core import OpDef

Number = bool | int | float


@dataclass(frozen=True)
class Setting:
    """A setting of a function; its type is that of its default."""

    name: str
    default: Number


@dataclass(frozen=True)
class NodeFunction:
    """A function of nodes.

    op        what `GraphBuilder.apply` takes
    names     its spellings in NDL, that of messages first
    operands  their names in lower case
    describe  what it computes, for people: a sentence, the equation, what operands have to be
    """

    op: str
    names: tuple[str, ...]
    operands: tuple[str, ...]
    settings: tuple[Setting, ...]
    describe: str


def node_functions(ops: Sequence[OpDef]) -> tuple[NodeFunction, ...]:
    """Those of these nodes that are functions as they stand, in their order."""
    return tuple(_function(op) for op in ops if op.ndl)


def node_name(ndl: str) -> str:
    """What a builder calls a function of NDL: `row_maximum` for RowMaximum."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", ndl).lower()


def _function(op: OpDef) -> NodeFunction:
    defaults = vars(op.params())
    settings = [Setting(name, value) for name, value in defaults.items() if name != "tags"]
    sentence = f"{op.summary[:1].upper()}{op.summary[1:]}."
    notes = [op.params.__doc__ or ""] if settings else []
    describe = "\n".join([sentence, "", op.equation, *op.constraints, *notes])
    name = op.name.removeprefix("node.")
    operands = tuple(operand.lower() for operand in op.operands)
    return NodeFunction(name, op.ndl, operands, tuple(settings), describe)
