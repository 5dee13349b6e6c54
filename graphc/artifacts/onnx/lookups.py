"""What sums with a looked up axis become: gathers and scatters of places that lie inside.

An index outside of its axis reads zeros and adds nothing; ONNX has no such index. What is read is
replaced by zeros there; what is written goes to one place more, which is cut off again.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphc.artifacts.onnx.graph import Graph, Writer
from graphc.ir.core import OpDef, Operation, Value
from graphc.ir.dims import size_product, size_sum
from graphc.ir.types import Dim, DType
from graphc.ops import indexed, selection


def _inside(g: Graph, index: Value, size: Dim) -> tuple[str, str]:
    """The index as an array, and where it lies inside an axis of that size."""
    places = g.whole(index)
    limit = g.cast(g.file.size(size), DType.I32)
    is_low = g.node("GreaterOrEqual", places, g.number(0, DType.I32))
    return places, g.node("And", is_low, g.node("Less", places, limit))


def _not_empty(g: Graph, x: str, rank: int, axis: int, size: Dim, dtype: DType) -> str:
    """`x`, with one more element along an axis that may have none, so that there is a first one."""
    if isinstance(size, int) and size > 0:
        return x
    ends = [0] * (2 * rank)
    ends[rank + axis] = 1
    return g.node("Pad", x, g.sizes(ends), g.number(0.0, dtype), mode="constant")


def _gather(g: Graph, op: Operation) -> None:
    x, index = op.operands
    size, dtype = x.tensor.dims[1], x.tensor.dtype
    places, inside = _inside(g, index, size)
    safe = g.node("Where", inside, places, g.number(0, DType.I32))
    source = _not_empty(g, g.whole(x), 2, 1, size, dtype)
    found = g.node("GatherElements", source, safe, axis=1)
    g.hold(op.result, g.node("Where", inside, found, g.number(0.0, dtype)))


def _scatter_add(g: Graph, op: Operation) -> None:
    x, index = op.operands
    size, dtype = op.params_as(indexed.ScatterParams).size, x.tensor.dtype
    places, inside = _inside(g, index, size)
    outside = g.cast(g.file.size(size), DType.I32)
    safe = g.node("Where", inside, places, outside)
    zeros = g.full(g.number(0.0, dtype), [x.tensor.dims[0], size_sum([size, 1])])
    made = g.node("ScatterElements", zeros, safe, g.whole(x), axis=1, reduction="add")
    g.hold(op.result, g.cut(made, 1, 0, size))


def _rows(g: Graph, table: Value, index: Value, *, columns: bool) -> tuple[str, str]:
    """The rows of a table that are looked up, [N, K, D], zeros outside; and [N, K] where inside."""
    (n, k), dtype = index.tensor.dims, table.tensor.dtype
    axis = 1 if columns else 0
    size = table.tensor.dims[axis]
    places, inside = _inside(g, index, size)
    safe = g.node("Where", inside, places, g.number(0, DType.I32))
    source = _not_empty(g, g.whole(table), 2, axis, size, dtype)
    rows = g.node("Gather", source, safe, axis=axis)
    rows = g.transpose(rows, (1, 2, 0)) if columns else rows
    mask = g.reshape(inside, [n, k, 1])
    return g.node("Where", mask, rows, g.number(0.0, dtype)), inside


def _sparse_product(g: Graph, op: Operation) -> None:
    x, table, index = op.operands
    (n, k), dtype = index.tensor.dims, x.tensor.dtype
    rows, inside = _rows(g, table, index, columns=op.params_as(indexed.LookupParams).columns)
    weights = g.node("Where", inside, g.whole(x), g.number(0.0, dtype))
    made = g.node("MatMul", g.reshape(weights, [n, 1, k]), rows)
    g.hold(op.result, g.reshape(made, op.result.tensor.dims))


def _sampled_product(g: Graph, op: Operation) -> None:
    x, table, index = op.operands
    n, d = x.tensor.dims
    rows, inside = _rows(g, table, index, columns=op.params_as(indexed.LookupParams).columns)
    made = g.node("MatMul", rows, g.reshape(g.whole(x), [n, d, 1]))
    made = g.reshape(made, op.result.tensor.dims)
    g.hold(op.result, g.node("Where", inside, made, g.number(0.0, x.tensor.dtype)))


def _transposed_sparse_product(g: Graph, op: Operation) -> None:
    x, y, index = op.operands
    p, dtype = op.params_as(indexed.OuterParams), x.tensor.dtype
    (n, k), (_, d) = index.tensor.dims, y.tensor.dims
    places, inside = _inside(g, index, p.size)
    safe = g.node("Where", inside, places, g.cast(g.file.size(p.size), DType.I32))
    count = size_product([n, k])
    index64 = g.cast(g.reshape(safe, [count, 1]), DType.I64)
    products = g.node("Mul", g.reshape(g.whole(x), [n, k, 1]), g.reshape(g.whole(y), [n, 1, d]))
    zeros = g.full(g.number(0.0, dtype), [size_sum([p.size, 1]), d])
    added = g.reshape(products, [count, d])
    made = g.cut(g.node("ScatterND", zeros, index64, added, reduction="add"), 0, 0, p.size)
    g.hold(op.result, g.transpose(made, (1, 0)) if p.columns else made)


def _top_indices(g: Graph, op: Operation) -> None:
    """Of equal elements ONNX takes the first one first too."""
    count = g.sizes([op.params_as(selection.TopParams).count])
    _, places = g.several("TopK", [g.whole(op.operands[0]), count], 2, axis=1)
    g.hold(op.result, g.cast(places, DType.I32))


WRITERS: Mapping[OpDef, Writer] = {
    indexed.GATHER: _gather,
    indexed.SCATTER_ADD: _scatter_add,
    indexed.SPARSE_PRODUCT: _sparse_product,
    indexed.SAMPLED_PRODUCT: _sampled_product,
    indexed.TRANSPOSED_SPARSE_PRODUCT: _transposed_sparse_product,
    selection.TOP_INDICES: _top_indices,
}
