"""A network as it was, to be put back after an edit that failed.

Nodes are put back themselves and not as copies, so handles on them stay good. Arrays are not
copied: edits give a network other arrays and change none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphc.ir.core import Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import Type
from graphc.model.model import Model
from graphc.support.source import Location


@dataclass(frozen=True)
class _SavedNode:
    operation: Operation
    name: str | None
    type: Type
    params: Params
    operands: tuple[Value, ...]
    location: Location


@dataclass(frozen=True)
class SavedModel:
    """All that edits change of a network."""

    nodes: tuple[_SavedNode, ...]
    tables: tuple[dict[str, np.ndarray], dict[str, np.ndarray]]
    unset: frozenset[tuple[Operation, int]]


def save_state(model: Model) -> SavedModel:
    """The network as it is now. O(nodes)."""
    nodes = tuple(
        _SavedNode(op, op.result.name, op.result.type, op.params, op.operands, op.location)
        for op in model.graph.block
    )
    return SavedModel(nodes, model.tables(), frozenset(model.unset))


def restore_state(model: Model, saved: SavedModel) -> None:
    """Make the network what it was; nodes that came since are in no network any more."""
    block = model.graph.block
    for op in [*block]:
        op.drop_references()
        block.unlink(op)
    for node in saved.nodes:
        op = node.operation
        op.result.name, op.result.type = node.name, node.type
        op.params, op.location = node.params, node.location
        block.append(op)
    for node in saved.nodes:
        node.operation.set_operands(node.operands)
    model.use_tables(saved.tables)
    model.unset = set(saved.unset)
