"""Nodes that are products: of matrices, with vectors, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.core import Array, IRBuilder, OpDef, Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import DType, MatrixType, Type, TypeRuleError
from graphc.ops.contraction import matmul
from graphc.ops.elementwise import mul
from graphc.ops.movement import reshape
from graphc.ops.nodes.layout import (
    NodeParams,
    by_column,
    counted_rows,
    from_columns,
    matrix,
    merged,
    node_def,
    node_type,
    operand_types,
    require_no_samples,
    spread,
)
from graphc.ops.reduction import broadcast

# --- matrix products -----------------------------------------------------------------------------


def _infer_times(types: Sequence[Type], _params: Params) -> Sequence[Type]:
    a, b = matrix(types[0]), matrix(types[1])
    if a.has_samples and b.has_samples:
        raise TypeRuleError(
            f"requires a left operand whose columns are not samples, got {a}; ElementTimes, "
            "ColumnTimes and Attention multiply two nodes with a column for each sample",
            operand=0,
            slug="shape-mismatch",
        )
    require_no_samples(a, "a left operand")
    if None not in (a.cols, b.rows) and a.cols != b.rows:
        raise TypeRuleError(
            f"requires the columns of A to match the rows of B, got {a.cols} and {b.rows} "
            f"({a} times {b})",
            operand=1,
            slug="shape-mismatch",
        )
    return [MatrixType(a.rows, b.cols)]


def _refine_times(types: Sequence[MatrixType], _params: Params) -> Sequence[MatrixType]:
    a, b = types
    inner = b.rows if a.cols is None else a.cols
    assert inner is None or isinstance(inner, int)
    return [MatrixType(a.rows, inner), MatrixType(inner, b.cols)]


def _expand_times(b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType) -> Value:
    left, right = operands
    if operand_types(op)[1].has_samples:
        return matmul(b, right, left, transpose_b=True)  # [N, k] · [rows, k]ᵀ
    return matmul(b, left, right)


def _infer_transpose_times(types: Sequence[Type], _params: Params) -> Sequence[Type]:
    a, b = matrix(types[0]), matrix(types[1])
    require_no_samples(a, "a left operand")
    if None not in (a.rows, b.rows) and a.rows != b.rows:
        raise TypeRuleError(
            f"requires the rows of A to match the rows of B, got {a.rows} and {b.rows} "
            f"({a} transposed times {b})",
            operand=1,
            slug="shape-mismatch",
        )
    assert a.cols is None or isinstance(a.cols, int)
    return [MatrixType(a.cols, b.cols)]


def _refine_transpose_times(types: Sequence[MatrixType], _params: Params) -> Sequence[MatrixType]:
    a, b = types
    inner = b.rows if a.rows is None else a.rows
    return [MatrixType(inner, a.cols), MatrixType(inner, b.cols)]


def _expand_transpose_times(
    b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType
) -> Value:
    left, right = operands
    if operand_types(op)[1].has_samples:
        return matmul(b, right, left)  # [N, k] · [k, cols]
    return matmul(b, left, right, transpose_a=True)


TIMES = node_def(
    "times",
    "matrix product",
    ("A", "B"),
    infer=_infer_times,
    refine=_refine_times,
    reference=lambda _p, a, b: a @ b,
    expand=_expand_times,
    constraints=("C1 A has a fixed number of columns", "C2 columns of A = rows of B"),
    equation="V = A B",
    source="book 2.4.3",
    ndl=("Times",),
)
TRANSPOSE_TIMES = node_def(
    "transpose_times",
    "matrix product with the first operand transposed",
    ("A", "B"),
    infer=_infer_transpose_times,
    refine=_refine_transpose_times,
    reference=lambda _p, a, b: a.T @ b,
    expand=_expand_transpose_times,
    constraints=("C1 A has a fixed number of columns", "C2 rows of A = rows of B"),
    equation="V = Aᵀ B",
    source="book 4.1.4.16",
    ndl=("TransposeTimes",),
)


# --- products with a vector ----------------------------------------------------------------------


def _vector_product(
    name: str,
    summary: str,
    operands: tuple[str, str],
    *,
    matrix_at: int,
    by_row: bool,
    equation: str,
    source: str,
    ndl: tuple[str, ...],
) -> OpDef:
    """A matrix, operand `matrix_at`, times a row or column vector that is repeated to its size."""
    vector_at = 1 - matrix_at

    def wanted(x: MatrixType) -> MatrixType:
        return MatrixType(1, x.cols) if by_row else MatrixType(x.rows, 1)

    def told(vector: MatrixType) -> MatrixType:
        return MatrixType(None, vector.cols) if by_row else MatrixType(vector.rows, None)

    def infer(types: Sequence[Type], _params: Params) -> Sequence[Type]:
        x, vector = matrix(types[matrix_at]), matrix(types[vector_at])
        if merged(wanted(x), vector) != merged(vector, wanted(x)):
            raise TypeRuleError(
                f"requires a vector {wanted(x)} for {x}, got {vector}",
                operand=vector_at,
                slug="shape-mismatch",
            )
        return [merged(x, told(vector))]

    def refine(types: Sequence[MatrixType], _params: Params) -> Sequence[MatrixType]:
        x, vector = types[matrix_at], types[vector_at]
        refined = [merged(x, told(vector)), merged(vector, wanted(x))]
        return refined if matrix_at == 0 else refined[::-1]

    def expand(b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType) -> Value:
        types = operand_types(op)
        x, vector = operands[matrix_at], operands[vector_at]
        dims = x.tensor.dims
        return mul(b, x, spread(b, vector, types[vector_at], types[matrix_at], dims))

    return node_def(
        name,
        summary,
        operands,
        infer=infer,
        refine=refine,
        reference=lambda _p, a, b: a * b,
        expand=expand,
        equation=equation,
        source=source,
        ndl=ndl,
    )


ROW_ELEMENT_TIMES = _vector_product(
    "row_element_times",
    "each row of a matrix times a row vector, element by element",
    ("x", "row"),
    matrix_at=0,
    by_row=True,
    equation="V_ij = x_ij row_j",
    source="book 4.1.4.19",
    ndl=("RowElementTimes",),
)
COLUMN_ELEMENT_TIMES = _vector_product(
    "column_element_times",
    "each column of a matrix times a column vector, element by element",
    ("x", "column"),
    matrix_at=0,
    by_row=False,
    equation="V_ij = x_ij column_i",
    source="book 4.1.4.19",
    ndl=("ColumnElementTimes",),
)
DIAG_TIMES = _vector_product(
    "diag_times",
    "a diagonal matrix, given by its diagonal as a column vector, times a matrix",
    ("diagonal", "x"),
    matrix_at=1,
    by_row=False,
    equation="V_ij = diagonal_i x_ij",
    source="book equation 2.88",
    ndl=("DiagTimes",),
)


# --- columnwise ----------------------------------------------------------------------------------


def _infer_khatri_rao(types: Sequence[Type], _params: Params) -> Sequence[Type]:
    a, b = matrix(types[0]), matrix(types[1])
    if None not in (a.cols, b.cols) and a.cols != b.cols:
        raise TypeRuleError(
            f"requires operands with the same columns, got {a} and {b}",
            operand=1,
            slug="shape-mismatch",
        )
    return [MatrixType(counted_rows(a.rows, b.rows), b.cols if a.cols is None else a.cols)]


def _refine_khatri_rao(types: Sequence[MatrixType], _params: Params) -> Sequence[MatrixType]:
    a, b = types
    return [merged(a, MatrixType(None, b.cols)), merged(b, MatrixType(None, a.cols))]


def _expand_khatri_rao(
    b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType
) -> Value:
    x, y = operands
    type_x, type_y = operand_types(op)
    assert type_x.rows is not None and type_y.rows is not None
    rows = (type_y.rows, type_x.rows)  # the second varies fastest in memory
    if type_x.has_samples:
        (n, _) = x.tensor.dims
        dims, flat = (n, *rows), (n, rows[0] * rows[1])
        x, y = reshape(b, x, (n, 1, rows[1])), reshape(b, y, (n, rows[0], 1))
    else:
        (_, cols) = x.tensor.dims
        dims, flat = (*rows, cols), (rows[0] * rows[1], cols)
        x, y = reshape(b, x, (1, rows[1], cols)), reshape(b, y, (rows[0], 1, cols))
    return reshape(b, mul(b, broadcast(b, x, dims), broadcast(b, y, dims)), flat)


def _khatri_rao_reference(_p: Params, x: Array, y: Array) -> Array:
    value = np.empty((x.shape[0] * y.shape[0], x.shape[1]), x.dtype)
    for column in range(x.shape[1]):
        value[:, column] = np.kron(y[:, column], x[:, column])
    return value


KHATRI_RAO_PRODUCT = node_def(
    "khatri_rao_product",
    "all products of an element of x and one of y in the same column; the row of x varies fastest",
    ("x", "y"),
    infer=_infer_khatri_rao,
    refine=_refine_khatri_rao,
    reference=_khatri_rao_reference,
    expand=_expand_khatri_rao,
    equation="V_(i + k rows(x)),j = x_ij y_kj, rows counted from 0",
    source="book equation 2.98; the order of rows is that of 2.99 and of the toolkit",
    ndl=("KhatriRaoProduct", "ColumnwiseCrossProduct"),
)


@dataclass(frozen=True)
class ColumnTimesParams(NodeParams):
    """inner: columns of the matrices in A, rows of those in B"""

    inner: int = 1
    tags: tuple[str, ...] = ()


def _infer_column_times(types: Sequence[Type], params: ColumnTimesParams) -> Sequence[Type]:
    a, b = matrix(types[0]), matrix(types[1])
    if params.inner < 1:
        raise TypeRuleError(f"requires inner of at least 1, got {params.inner}", slug="bad-value")
    for index, type in enumerate((a, b)):
        if type.rows is not None and type.rows % params.inner:
            message = f"requires rows that are a multiple of inner = {params.inner}, got {type}"
            raise TypeRuleError(message, operand=index, slug="shape-mismatch")
    if None not in (a.cols, b.cols) and a.cols != b.cols:
        message = f"requires operands with the same columns, got {a} and {b}"
        raise TypeRuleError(message, operand=1, slug="shape-mismatch")
    cols = b.cols if a.cols is None else a.cols
    if a.rows is None or b.rows is None:
        return [MatrixType(None, cols)]
    return [MatrixType(counted_rows(a.rows // params.inner, b.rows // params.inner), cols)]


def _expand_column_times(
    b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType
) -> Value:
    """By columns, a column of a matrix after the other: [N, n, k] times [N, k, m]."""
    inner = op.params_as(ColumnTimesParams).inner
    rows = []
    for x, type in zip(operands, operand_types(op), strict=True):
        columns = by_column(b, x, type)
        assert type.rows is not None
        rows.append((columns, columns.tensor.dims[0], type.rows // inner))
    (x, n, height), (y, _, width) = rows
    left, right = reshape(b, y, (n, width, inner)), reshape(b, x, (n, inner, height))
    made = reshape(b, matmul(b, left, right, batch=1), (n, width * height))
    return from_columns(b, made, node_type(op))


def _column_times_reference(params: ColumnTimesParams, x: Array, y: Array) -> Array:
    pairs = [
        a.reshape(-1, params.inner, order="F") @ b.reshape(params.inner, -1, order="F")
        for a, b in zip(x.T, y.T, strict=True)
    ]
    rows = x.shape[0] * y.shape[0] // params.inner**2
    columns = [np.zeros((rows, 0), x.dtype), *(p.reshape(rows, 1, order="F") for p in pairs)]
    return np.concatenate(columns, axis=1)


COLUMN_TIMES = node_def(
    "column_times",
    "in each column the product of two matrices, which stand there column after column; of vectors "
    "(inner = all rows) their inner product",
    ("A", "B"),
    params=ColumnTimesParams,
    infer=_infer_column_times,
    refine=_refine_khatri_rao,
    reference=_column_times_reference,
    expand=_expand_column_times,
    gap_values=(0.0, 0.0),
    constraints=("C1 A and B have the same columns", "C2 inner divides the rows of both"),
    equation="V_j = A_j B_j, column j read as matrices m x inner and inner x n; rows i + m k",
    source="numpy.matmul of stacks of matrices",
    ndl=("ColumnTimes",),
)

OPS = (
    TIMES,
    TRANSPOSE_TIMES,
    ROW_ELEMENT_TIMES,
    COLUMN_ELEMENT_TIMES,
    DIAG_TIMES,
    KHATRI_RAO_PRODUCT,
    COLUMN_TIMES,
)
