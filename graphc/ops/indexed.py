"""Sums of products in which one axis is looked up: sparse columns, embeddings, parts of a softmax.

Each takes an index [N, K] of i32 as its last operand; `i` is index[n, k]. An index outside its axis
(such as -1) reads zeros and adds nothing, so short lists are padded with it.

    gather                     y[n, k] = x[n, i]
    scatter_add                y[n, i] += x[n, k]
    sparse_product             y[n, d] = Σ_k x[n, k] t[i, d]
    sampled_product            y[n, k] = Σ_d x[n, d] t[i, d]
    transposed_sparse_product  t[i, d] += x[n, k] y[n, d]

With `columns` the table is t[d, i]. Each one's gradients are of the same family, so none of them,
forward or backward, touches more of a table than the rows that are looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.codegen import IndexedSum
from graphc.ir.core import Array, IRBuilder, OpDef, Operation, Value
from graphc.ir.params import NoParams, Params
from graphc.ir.types import Dim, DType, Symbol, TensorType, Type, TypeRuleError, fixed_size
from graphc.ops.rules import FLOATS, multilinear_jvp, require_dtype, tensor


@dataclass(frozen=True)
class ScatterParams(Params):
    """`size`: the extent of the axis that is written to."""

    size: int | Symbol


@dataclass(frozen=True)
class LookupParams(Params):
    """`columns`: the table's columns are looked up, not its rows."""

    columns: bool = False


@dataclass(frozen=True)
class OuterParams(Params):
    """`size`: the extent of the table's axis that is looked up."""

    size: int | Symbol
    columns: bool = False


def gather(b: IRBuilder, x: Value, index: Value) -> Value:
    """x[n, index[n, k]]."""
    return b.emit_one(GATHER, x, index)


def scatter_add(b: IRBuilder, x: Value, index: Value, size: Dim) -> Value:
    """[N, size] in which x[n, k] is added at column index[n, k]."""
    return b.emit_one(SCATTER_ADD, x, index, params=ScatterParams(size))


def sparse_product(
    b: IRBuilder, x: Value, table: Value, index: Value, *, columns: bool = False
) -> Value:
    """The rows index[n, :] of the table, weighted by x[n, :] and added."""
    return b.emit_one(SPARSE_PRODUCT, x, table, index, params=LookupParams(columns))


def sampled_product(
    b: IRBuilder, x: Value, table: Value, index: Value, *, columns: bool = False
) -> Value:
    """The scalar products of x[n, :] with the rows index[n, :] of the table."""
    return b.emit_one(SAMPLED_PRODUCT, x, table, index, params=LookupParams(columns))


def transposed_sparse_product(
    b: IRBuilder, x: Value, y: Value, index: Value, size: Dim, *, columns: bool = False
) -> Value:
    """A table of `size` rows in which x[n, k] y[n, :] is added at row index[n, k]."""
    return b.emit_one(TRANSPOSED_SPARSE_PRODUCT, x, y, index, params=OuterParams(size, columns))


# --- types ---------------------------------------------------------------------------------------


def _matrices(types: Sequence[Type]) -> list[TensorType]:
    """All operands, the index last; checks ranks and element types."""
    found = [tensor(t, i) for i, t in enumerate(types)]
    for operand, type in enumerate(found):
        last = operand == len(found) - 1
        require_dtype(type, (DType.I32,) if last else FLOATS, operand)
        if type.rank != 2:
            raise TypeRuleError(f"requires operands of rank 2, got {type}", operand=operand)
        if not last and type.dtype != found[0].dtype:
            raise TypeRuleError(
                f"requires one element type, got {found[0]} and {type}", operand=operand
            )
    return found


def _require_equal(what: str, a: Dim, b: Dim, operand: int, types: Sequence[TensorType]) -> None:
    if a != b:
        listed = ", ".join(map(str, types))
        raise TypeRuleError(
            f"requires equal {what}, got {a} and {b} ({listed})",
            operand=operand,
            slug="shape-mismatch",
        )


def _infer_gather(types: Sequence[Type], _params: NoParams) -> Sequence[Type]:
    x, index = _matrices(types)
    _require_equal("numbers of rows", x.dims[0], index.dims[0], 1, (x, index))
    return [x.with_dims(index.dims)]


def _infer_scatter_add(types: Sequence[Type], params: ScatterParams) -> Sequence[Type]:
    x, index = _matrices(types)
    _require_equal("dims of x and index", x.dims[0], index.dims[0], 1, (x, index))
    _require_equal("dims of x and index", x.dims[1], index.dims[1], 1, (x, index))
    _require_size(params.size)
    return [x.with_dims((x.dims[0], params.size))]


def _require_size(size: Dim) -> None:
    if isinstance(size, int) and size < 0:
        raise TypeRuleError(f"requires a size of at least 0, got {size}", slug="bad-value")


def _infer_sparse_product(types: Sequence[Type], params: LookupParams) -> Sequence[Type]:
    x, table, index = _matrices(types)
    _require_equal("dims of x and index", x.dims[0], index.dims[0], 2, (x, index))
    _require_equal("dims of x and index", x.dims[1], index.dims[1], 2, (x, index))
    return [x.with_dims((x.dims[0], table.dims[0 if params.columns else 1]))]


def _infer_sampled_product(types: Sequence[Type], params: LookupParams) -> Sequence[Type]:
    x, table, index = _matrices(types)
    _require_equal("numbers of rows", x.dims[0], index.dims[0], 2, (x, index))
    width = table.dims[0 if params.columns else 1]
    _require_equal("widths of x and table", x.dims[1], width, 1, (x, table))
    return [x.with_dims(index.dims)]


def _infer_transposed_sparse_product(types: Sequence[Type], params: OuterParams) -> Sequence[Type]:
    x, y, index = _matrices(types)
    _require_equal("dims of x and index", x.dims[0], index.dims[0], 2, (x, index))
    _require_equal("dims of x and index", x.dims[1], index.dims[1], 2, (x, index))
    _require_equal("numbers of rows", x.dims[0], y.dims[0], 1, (x, y))
    _require_size(params.size)
    size, width = params.size, y.dims[1]
    return [x.with_dims((width, size) if params.columns else (size, width))]


# --- references ----------------------------------------------------------------------------------


def _hits(index: Array, size: int) -> tuple[Array, Array, Array]:
    """(n, k, i) of every index that is inside, in order."""
    n, k = np.nonzero((index >= 0) & (index < size))
    return n, k, index[n, k]


def _gather_reference(_p: NoParams, x: Array, index: Array) -> Array:
    result = np.zeros(index.shape, x.dtype)
    n, k, i = _hits(index, x.shape[1])
    result[n, k] = x[n, i]
    return result


def _scatter_add_reference(params: ScatterParams, x: Array, index: Array) -> Array:
    size = fixed_size(params.size)  # the evaluator has put it in
    result = np.zeros((x.shape[0], size), x.dtype)
    n, k, i = _hits(index, size)
    np.add.at(result, (n, i), x[n, k])
    return result


def _sparse_product_reference(params: LookupParams, x: Array, table: Array, index: Array) -> Array:
    rows = table.T if params.columns else table
    result = np.zeros((x.shape[0], rows.shape[1]), x.dtype)
    n, k, i = _hits(index, rows.shape[0])
    np.add.at(result, n, x[n, k, None] * rows[i])
    return result


def _sampled_product_reference(params: LookupParams, x: Array, table: Array, index: Array) -> Array:
    rows = table.T if params.columns else table
    result = np.zeros(index.shape, x.dtype)
    n, k, i = _hits(index, rows.shape[0])
    result[n, k] = np.sum(x[n] * rows[i], axis=1)
    return result


def _transposed_sparse_product_reference(
    params: OuterParams, x: Array, y: Array, index: Array
) -> Array:
    size = fixed_size(params.size)  # the evaluator has put it in
    result = np.zeros((size, y.shape[1]), x.dtype)
    n, k, i = _hits(index, size)
    np.add.at(result, i, x[n, k, None] * y[n])
    return np.ascontiguousarray(result.T) if params.columns else result


# --- gradients -----------------------------------------------------------------------------------


def _gather_vjp(b: IRBuilder, op: Operation, dy: Value) -> Sequence[Value | None]:
    x, index = op.operands
    return [scatter_add(b, dy, index, x.tensor.dims[1]), None]


def _scatter_add_vjp(b: IRBuilder, op: Operation, dy: Value) -> Sequence[Value | None]:
    return [gather(b, dy, op.operands[1]), None]


def _sparse_product_vjp(b: IRBuilder, op: Operation, dy: Value) -> Sequence[Value | None]:
    x, table, index = op.operands
    columns = op.params_as(LookupParams).columns
    size = table.tensor.dims[1 if columns else 0]
    dx = sampled_product(b, dy, table, index, columns=columns)
    return [dx, transposed_sparse_product(b, x, dy, index, size, columns=columns), None]


def _sampled_product_vjp(b: IRBuilder, op: Operation, dy: Value) -> Sequence[Value | None]:
    x, table, index = op.operands
    columns = op.params_as(LookupParams).columns
    size = table.tensor.dims[1 if columns else 0]
    dx = sparse_product(b, dy, table, index, columns=columns)
    return [dx, transposed_sparse_product(b, dy, x, index, size, columns=columns), None]


def _transposed_sparse_product_vjp(
    b: IRBuilder, op: Operation, dt: Value
) -> Sequence[Value | None]:
    x, y, index = op.operands
    columns = op.params_as(OuterParams).columns
    dx = sampled_product(b, y, dt, index, columns=columns)
    return [dx, sparse_product(b, x, dt, index, columns=columns), None]


GATHER = OpDef(
    name="gather",
    summary="elements of each row, by index",
    operands=("x", "index"),
    infer=_infer_gather,
    reference=_gather_reference,
    codegen=IndexedSum(lambda _p: ("ni", "nk")),
    vjp=_gather_vjp,
    jvp=multilinear_jvp,
    equation="y[n, k] = x[n, index[n, k]], 0 for an index outside",
)
SCATTER_ADD = OpDef(
    name="scatter_add",
    summary="elements added into each row, by index",
    operands=("x", "index"),
    params=ScatterParams,
    infer=_infer_scatter_add,
    reference=_scatter_add_reference,
    codegen=IndexedSum(lambda _p: ("nk", "ni")),
    vjp=_scatter_add_vjp,
    jvp=multilinear_jvp,
    equation="y[n, i] = Σ_k x[n, k] over index[n, k] = i",
)
SPARSE_PRODUCT = OpDef(
    name="sparse_product",
    summary="weighted sums of a table's rows or columns, by index: sparse matrix times matrix",
    operands=("x", "table", "index"),
    params=LookupParams,
    infer=_infer_sparse_product,
    reference=_sparse_product_reference,
    codegen=IndexedSum(lambda p: ("nk", "di" if p.columns else "id", "nd")),
    vjp=_sparse_product_vjp,
    jvp=multilinear_jvp,
    equation="y[n, d] = Σ_k x[n, k] t[index[n, k], d]",
)
SAMPLED_PRODUCT = OpDef(
    name="sampled_product",
    summary="scalar products with a table's rows or columns, by index: parts of a product",
    operands=("x", "table", "index"),
    params=LookupParams,
    infer=_infer_sampled_product,
    reference=_sampled_product_reference,
    codegen=IndexedSum(lambda p: ("nd", "di" if p.columns else "id", "nk")),
    vjp=_sampled_product_vjp,
    jvp=multilinear_jvp,
    equation="y[n, k] = Σ_d x[n, d] t[index[n, k], d]",
)
TRANSPOSED_SPARSE_PRODUCT = OpDef(
    name="transposed_sparse_product",
    summary="outer products added into a table's rows or columns, by index",
    operands=("x", "y", "index"),
    params=OuterParams,
    infer=_infer_transposed_sparse_product,
    reference=_transposed_sparse_product_reference,
    codegen=IndexedSum(lambda p: ("nk", "nd", "di" if p.columns else "id")),
    vjp=_transposed_sparse_product_vjp,
    jvp=multilinear_jvp,
    equation="t[i, d] = Σ_{n,k} x[n, k] y[n, d] over index[n, k] = i",
)

OPS = (GATHER, SCATTER_ADD, SPARSE_PRODUCT, SAMPLED_PRODUCT, TRANSPOSED_SPARSE_PRODUCT)
