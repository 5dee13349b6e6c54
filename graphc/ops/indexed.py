"""Sums of products in which one axis is looked up: sparse columns, embeddings, parts of a softmax.

Each takes an index [N, K] of i32 as its last operand; `i` is index[n, k]. An index outside its axis
(such as -1) reads zeros and adds nothing, so short lists are padded with it.

    take          y[n, k] = x[n, i]                put_add      y[n, i] += x[n, k]
    lookup_sum    y[n, d] = Σ_k x[n, k] t[i, d]    lookup_dot   y[n, k] = Σ_d x[n, d] t[i, d]
    lookup_outer  t[i, d] += x[n, k] y[n, d]

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
class PutParams(Params):
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


def take(b: IRBuilder, x: Value, index: Value) -> Value:
    """x[n, index[n, k]]."""
    return b.emit_one(TAKE, x, index)


def put_add(b: IRBuilder, x: Value, index: Value, size: Dim) -> Value:
    """[N, size] in which x[n, k] is added at column index[n, k]."""
    return b.emit_one(PUT_ADD, x, index, params=PutParams(size))


def lookup_sum(
    b: IRBuilder, x: Value, table: Value, index: Value, *, columns: bool = False
) -> Value:
    """The rows index[n, :] of the table, weighted by x[n, :] and added."""
    return b.emit_one(LOOKUP_SUM, x, table, index, params=LookupParams(columns))


def lookup_dot(
    b: IRBuilder, x: Value, table: Value, index: Value, *, columns: bool = False
) -> Value:
    """The scalar products of x[n, :] with the rows index[n, :] of the table."""
    return b.emit_one(LOOKUP_DOT, x, table, index, params=LookupParams(columns))


def lookup_outer(
    b: IRBuilder, x: Value, y: Value, index: Value, size: Dim, *, columns: bool = False
) -> Value:
    """A table of `size` rows in which x[n, k] y[n, :] is added at row index[n, k]."""
    return b.emit_one(LOOKUP_OUTER, x, y, index, params=OuterParams(size, columns))


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


def _infer_take(types: Sequence[Type], _params: NoParams) -> Sequence[Type]:
    x, index = _matrices(types)
    _require_equal("numbers of rows", x.dims[0], index.dims[0], 1, (x, index))
    return [x.with_dims(index.dims)]


def _infer_put_add(types: Sequence[Type], params: PutParams) -> Sequence[Type]:
    x, index = _matrices(types)
    _require_equal("dims of x and index", x.dims[0], index.dims[0], 1, (x, index))
    _require_equal("dims of x and index", x.dims[1], index.dims[1], 1, (x, index))
    _require_size(params.size)
    return [x.with_dims((x.dims[0], params.size))]


def _require_size(size: Dim) -> None:
    if isinstance(size, int) and size < 0:
        raise TypeRuleError(f"requires a size of at least 0, got {size}", slug="bad-value")


def _infer_lookup_sum(types: Sequence[Type], params: LookupParams) -> Sequence[Type]:
    x, table, index = _matrices(types)
    _require_equal("dims of x and index", x.dims[0], index.dims[0], 2, (x, index))
    _require_equal("dims of x and index", x.dims[1], index.dims[1], 2, (x, index))
    return [x.with_dims((x.dims[0], table.dims[0 if params.columns else 1]))]


def _infer_lookup_dot(types: Sequence[Type], params: LookupParams) -> Sequence[Type]:
    x, table, index = _matrices(types)
    _require_equal("numbers of rows", x.dims[0], index.dims[0], 2, (x, index))
    width = table.dims[0 if params.columns else 1]
    _require_equal("widths of x and table", x.dims[1], width, 1, (x, table))
    return [x.with_dims(index.dims)]


def _infer_lookup_outer(types: Sequence[Type], params: OuterParams) -> Sequence[Type]:
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


def _take_reference(_p: NoParams, x: Array, index: Array) -> Array:
    result = np.zeros(index.shape, x.dtype)
    n, k, i = _hits(index, x.shape[1])
    result[n, k] = x[n, i]
    return result


def _put_add_reference(params: PutParams, x: Array, index: Array) -> Array:
    size = fixed_size(params.size)  # the evaluator has put it in
    result = np.zeros((x.shape[0], size), x.dtype)
    n, k, i = _hits(index, size)
    np.add.at(result, (n, i), x[n, k])
    return result


def _lookup_sum_reference(params: LookupParams, x: Array, table: Array, index: Array) -> Array:
    rows = table.T if params.columns else table
    result = np.zeros((x.shape[0], rows.shape[1]), x.dtype)
    n, k, i = _hits(index, rows.shape[0])
    np.add.at(result, n, x[n, k, None] * rows[i])
    return result


def _lookup_dot_reference(params: LookupParams, x: Array, table: Array, index: Array) -> Array:
    rows = table.T if params.columns else table
    result = np.zeros(index.shape, x.dtype)
    n, k, i = _hits(index, rows.shape[0])
    result[n, k] = np.sum(x[n] * rows[i], axis=1)
    return result


def _lookup_outer_reference(params: OuterParams, x: Array, y: Array, index: Array) -> Array:
    size = fixed_size(params.size)  # the evaluator has put it in
    result = np.zeros((size, y.shape[1]), x.dtype)
    n, k, i = _hits(index, size)
    np.add.at(result, i, x[n, k, None] * y[n])
    return np.ascontiguousarray(result.T) if params.columns else result


# --- gradients -----------------------------------------------------------------------------------


def _take_vjp(b: IRBuilder, op: Operation, dy: Value) -> Sequence[Value | None]:
    x, index = op.operands
    return [put_add(b, dy, index, x.tensor.dims[1]), None]


def _put_add_vjp(b: IRBuilder, op: Operation, dy: Value) -> Sequence[Value | None]:
    return [take(b, dy, op.operands[1]), None]


def _lookup_sum_vjp(b: IRBuilder, op: Operation, dy: Value) -> Sequence[Value | None]:
    x, table, index = op.operands
    columns = op.params_as(LookupParams).columns
    size = table.tensor.dims[1 if columns else 0]
    dx = lookup_dot(b, dy, table, index, columns=columns)
    return [dx, lookup_outer(b, x, dy, index, size, columns=columns), None]


def _lookup_dot_vjp(b: IRBuilder, op: Operation, dy: Value) -> Sequence[Value | None]:
    x, table, index = op.operands
    columns = op.params_as(LookupParams).columns
    size = table.tensor.dims[1 if columns else 0]
    dx = lookup_sum(b, dy, table, index, columns=columns)
    return [dx, lookup_outer(b, dy, x, index, size, columns=columns), None]


def _lookup_outer_vjp(b: IRBuilder, op: Operation, dt: Value) -> Sequence[Value | None]:
    x, y, index = op.operands
    columns = op.params_as(OuterParams).columns
    dx = lookup_dot(b, y, dt, index, columns=columns)
    return [dx, lookup_sum(b, x, dt, index, columns=columns), None]


TAKE = OpDef(
    name="take",
    summary="elements of each row, by index",
    operands=("x", "index"),
    infer=_infer_take,
    reference=_take_reference,
    codegen=IndexedSum(lambda _p: ("ni", "nk")),
    vjp=_take_vjp,
    jvp=multilinear_jvp,
    equation="y[n, k] = x[n, index[n, k]], 0 for an index outside",
)
PUT_ADD = OpDef(
    name="put_add",
    summary="elements added into each row, by index",
    operands=("x", "index"),
    params=PutParams,
    infer=_infer_put_add,
    reference=_put_add_reference,
    codegen=IndexedSum(lambda _p: ("nk", "ni")),
    vjp=_put_add_vjp,
    jvp=multilinear_jvp,
    equation="y[n, i] = Σ_k x[n, k] over index[n, k] = i",
)
LOOKUP_SUM = OpDef(
    name="lookup_sum",
    summary="weighted sums of a table's rows or columns, by index: sparse matrix times matrix",
    operands=("x", "table", "index"),
    params=LookupParams,
    infer=_infer_lookup_sum,
    reference=_lookup_sum_reference,
    codegen=IndexedSum(lambda p: ("nk", "di" if p.columns else "id", "nd")),
    vjp=_lookup_sum_vjp,
    jvp=multilinear_jvp,
    equation="y[n, d] = Σ_k x[n, k] t[index[n, k], d]",
)
LOOKUP_DOT = OpDef(
    name="lookup_dot",
    summary="scalar products with a table's rows or columns, by index: parts of a product",
    operands=("x", "table", "index"),
    params=LookupParams,
    infer=_infer_lookup_dot,
    reference=_lookup_dot_reference,
    codegen=IndexedSum(lambda p: ("nd", "di" if p.columns else "id", "nk")),
    vjp=_lookup_dot_vjp,
    jvp=multilinear_jvp,
    equation="y[n, k] = Σ_d x[n, d] t[index[n, k], d]",
)
LOOKUP_OUTER = OpDef(
    name="lookup_outer",
    summary="outer products added into a table's rows or columns, by index",
    operands=("x", "y", "index"),
    params=OuterParams,
    infer=_infer_lookup_outer,
    reference=_lookup_outer_reference,
    codegen=IndexedSum(lambda p: ("nk", "nd", "di" if p.columns else "id")),
    vjp=_lookup_outer_vjp,
    jvp=multilinear_jvp,
    equation="t[i, d] = Σ_{n,k} x[n, k] y[n, d] over index[n, k] = i",
)

OPS = (TAKE, PUT_ADD, LOOKUP_SUM, LOOKUP_DOT, LOOKUP_OUTER)
