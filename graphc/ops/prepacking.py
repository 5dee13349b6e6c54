"""Factors of a product that are copied whole before its chunks are computed, in its workspace.

    gemm %x, %W schedule {parallel = "rows", chunk = 128, tile = {…, b = "prepacked"}}
    gemm %x, %W schedule {parallel = "rows", chunk = 128, tile = {…, a = "packed",
        b = "prepacked"}, pairs = true, amx = true}

A chunk of rows reads all of B, a chunk of columns all of A: without this each of them makes the
same copies. They are made in parts too, which threads share.

B lies in panels as wide as a tile; what is left over at the right is a panel that begins earlier,
as in parameters that lie in panels. For products in pairs of bf16 these are the elements, and A may
be copied too, by rows that are `PAIRS_APART` further apart than they are long.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.core import Operation
from graphc.ir.types import DType, TensorType, bound_elements
from graphc.ops.contraction import MatmulParams, groups
from graphc.ops.schedules import ProductSchedule

PAIRS_APART = 16
"""Pairs between two rows or panels of A, so that they do not lie in the same lines of a cache, and
that what whole vectors write too much lies in none."""
PAIRS_SLACK = 64
"""Elements behind workspace that whole vectors may reach."""
WHOLE_ROWS = 32
"""Tiles read as many rows of A, whether or not there are so many."""
WHOLE_PAIRS = 16
"""A panel of B stored by columns is copied in blocks of as many pairs: each panel has room for all
of its last block."""


def prepacked_types(op: Operation) -> Sequence[TensorType]:
    """The arrays for the copies of A and of B that the schedule asks for, at the bounds of dims."""
    tile = op.schedule_as(ProductSchedule).tile
    if tile is None or "prepacked" not in (tile.a, tile.b):
        return ()
    roles = groups(op.params_as(MatmulParams), *(v.tensor for v in op.operands[:2]))
    rows, cols, inner = (bound_elements(dims) for dims in (roles.rows, roles.cols, roles.inner))
    pairs, width = -(-inner // 2), tile.vectors * tile.lanes
    if not op.schedule_as(ProductSchedule).pairs:
        return [TensorType((_whole(cols, width) * inner,), op.operands[0].tensor.dtype)]
    found = []
    if tile.a == "prepacked":
        found.append(_whole(rows, WHOLE_ROWS) * (pairs + PAIRS_APART) + PAIRS_SLACK)
    if tile.b == "prepacked":
        found.append(_whole(cols, width) * _whole(pairs, WHOLE_PAIRS) + PAIRS_SLACK)
    return [TensorType((elements,), DType.I32) for elements in found]


def _whole(length: int, multiple: int) -> int:
    return -(-length // multiple) * multiple
