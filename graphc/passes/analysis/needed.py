"""The live nodes of a network: those that a result is computed from."""

from __future__ import annotations

from collections.abc import Set

from graphc.ir.core import Function, Operation
from graphc.ops.nodes.layout import RESULT_TAGS, node_params
from graphc.support.graphs import reachable


def needed_nodes(graph: Function) -> Set[Operation]:
    """The nodes tagged as results and all that they read, however far away.

    Without any such tag every node is live.
    """
    results = [op for op in graph.block if not set(RESULT_TAGS).isdisjoint(node_params(op).tags)]
    roots = results or list(graph.block)
    return reachable(roots, lambda op: [v.op for v in op.operands if v.op is not None]).keys()
