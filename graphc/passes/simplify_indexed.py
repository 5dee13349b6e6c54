"""Products with sparse matrices, as patterns of `simplify`.

    %s = scatter_add %v, %i {size = 1000}
    %z = matmul %s, %t                    =>    %z = sparse_product %v, %t, %i

A sparse matrix is a `scatter_add` of its [N, K] values at their column indices. A product with one
never becomes a dense product: the forward product gathers rows (or columns, if the table is stored
transposed), the backward product adds to the gathered rows. A slice of the columns of a sparse
matrix is a sparse matrix with shifted indices.

Implicit zeros are not multiplied: an infinity or nan in a row of the table that no index names has
no effect, and values with the same index are multiplied before they are added. Leaves alone: slices
with a step, or of rows; products of more than two dims.
"""

from __future__ import annotations

from graphc.ir.core import IRBuilder, Operation, Value
from graphc.ir.rewriter import Pattern
from graphc.ir.types import fixed_size
from graphc.ops.constant import full_like
from graphc.ops.contraction import MATMUL, MatmulParams
from graphc.ops.elementwise import sub
from graphc.ops.indexed import (
    SAMPLED_PRODUCT,
    SCATTER_ADD,
    SPARSE_PRODUCT,
    TRANSPOSED_SPARSE_PRODUCT,
    LookupParams,
    OuterParams,
    scatter_add,
    sparse_product,
    transposed_sparse_product,
)
from graphc.ops.movement import (
    SLICE,
    TRANSPOSE,
    SliceParams,
    TransposeParams,
    cuts_open_axis,
    transpose,
)
from graphc.passes.matching import Result, made_by

INDEX_LIMIT = 2**31 - 1
"""The largest index. Below it, an index that wraps when it is moved stays outside."""


def _exchanged(b: IRBuilder, x: Value) -> Value:
    return transpose(b, x, (1, 0))


def _exchanges(op: Operation) -> bool:
    return isinstance(op.params, TransposeParams) and op.params.permutation == (1, 0)


def _product_with_sparse(b: IRBuilder, op: Operation) -> Result:
    x, y = op.operands
    params = op.params_as(MatmulParams)
    if (params.contract, params.batch) != (1, 0):
        return None
    if x.tensor.rank != 2 or y.tensor.rank != 2:
        return None
    ta, tb = params.transpose_a, params.transpose_b
    if (put := made_by(x, SCATTER_ADD)) is not None:
        return [_sparse_times(b, put, y, transposed=ta, other_transposed=tb)]
    if (put := made_by(y, SCATTER_ADD)) is not None:
        # A · S = (Sᵀ · Aᵀ)ᵀ
        return [_times_sparse(b, x, put, transposed=tb, other_transposed=ta)]
    return None


def _sparse_times(
    b: IRBuilder, put: Operation, y: Value, *, transposed: bool, other_transposed: bool
) -> Value:
    """op(S) · op(y)."""
    values, index = put.operands
    if not transposed:
        return sparse_product(b, values, y, index, columns=other_transposed)
    rows = _exchanged(b, y) if other_transposed else y
    return transposed_sparse_product(b, values, rows, index, put.result.tensor.dims[1])


def _times_sparse(
    b: IRBuilder, x: Value, put: Operation, *, transposed: bool, other_transposed: bool
) -> Value:
    """op(x) · op(S)."""
    values, index = put.operands
    if transposed:  # (S · op(x)ᵀ)ᵀ
        return _exchanged(b, sparse_product(b, values, x, index, columns=not other_transposed))
    rows = x if other_transposed else _exchanged(b, x)
    return transposed_sparse_product(
        b, values, rows, index, put.result.tensor.dims[1], columns=True
    )


def _slice_of_sparse(b: IRBuilder, op: Operation) -> Result:
    put = made_by(op.operands[0], SCATTER_ADD)
    params = op.params_as(SliceParams)
    if put is None or params.steps != (1, 1) or cuts_open_axis(op):
        return None
    (first_row, start), (last_row, stop) = map(fixed_size, params.starts), params.stops
    if first_row != 0 or last_row != put.result.tensor.dims[0] or not isinstance(stop, int):
        return None
    if stop > INDEX_LIMIT:
        return None
    values, index = put.operands
    # An index that wraps becomes at least 2^31 - start, which lies beyond the slice's end.
    moved = sub(b, index, full_like(b, start, index)) if start else index
    return [scatter_add(b, values, moved, stop - start)]


def _lookup_in_transposed(b: IRBuilder, op: Operation) -> Result:
    x, table, index = op.operands
    moved = made_by(table, TRANSPOSE)
    if moved is None or not _exchanges(moved):
        return None
    params = LookupParams(not op.params_as(LookupParams).columns)
    return [b.emit_one(op.opdef, x, moved.operands[0], index, params=params)]


def _transpose_of_outer(b: IRBuilder, op: Operation) -> Result:
    outer = made_by(op.operands[0], TRANSPOSED_SPARSE_PRODUCT)
    if outer is None or len(outer.result.uses) != 1 or not _exchanges(op):
        return None
    params = outer.params_as(OuterParams)
    size, columns = params.size, not params.columns
    x, y, index = outer.operands
    return [transposed_sparse_product(b, x, y, index, size, columns=columns)]


INDEXED_PATTERNS: tuple[Pattern, ...] = (
    Pattern("product-with-sparse", MATMUL, _product_with_sparse),
    Pattern("slice-of-sparse", SLICE, _slice_of_sparse),
    *(
        Pattern("lookup-in-transposed", o, _lookup_in_transposed)
        for o in (SPARSE_PRODUCT, SAMPLED_PRODUCT)
    ),
    Pattern("transpose-of-outer", TRANSPOSE, _transpose_of_outer),
)
