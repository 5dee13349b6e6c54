"""Nodes that repeat, move or pick elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from graphc.ir.core import Array, IRBuilder, Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import (
    Dim,
    DType,
    Image,
    MatrixDim,
    MatrixType,
    Samples,
    Symbol,
    Type,
    TypeRuleError,
    fixed_size,
)
from graphc.ops.constant import full_like, iota
from graphc.ops.elementwise import EQUAL, compare, select
from graphc.ops.movement import concat, reshape, reverse, slice_axis, transpose
from graphc.ops.nodes.layout import (
    MAX_ROWS,
    NodeParams,
    by_column,
    columns_dim,
    counted_rows,
    from_columns,
    matrix,
    merged,
    node_def,
    node_type,
    operand_types,
    require_no_samples,
    row_axis,
    unary,
)
from graphc.ops.nodes.sequence_columns import SequenceColumns
from graphc.ops.reduction import broadcast, reduce_sum


@dataclass(frozen=True)
class RowRepeatParams(NodeParams):
    """`num_repeats`: how many times the block of all rows stands there."""

    num_repeats: int
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class RowSliceParams(NodeParams):
    """The rows from `start_row`, counted from 0, on."""

    start_row: int
    num_rows: int
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReshapeParams(NodeParams):
    """`num_rows` 0: as many as before. One of the image's sizes may be 0, it follows from the rest;
    all of them 0: the columns are no images."""

    num_rows: int
    image_width: int = 0
    image_height: int = 0
    image_channels: int = 0
    tags: tuple[str, ...] = ()


# --- RowRepeat -----------------------------------------------------------------------------------


def _infer_row_repeat(types: Sequence[Type], params: RowRepeatParams) -> Sequence[Type]:
    x = matrix(types[0])
    if params.num_repeats < 1:
        raise TypeRuleError(f"requires at least 1 repeat, got {params.num_repeats}")
    return [MatrixType(counted_rows(x.rows, params.num_repeats), x.cols)]


def _expand_row_repeat(
    b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType
) -> Value:
    (x,) = operands
    count = op.params_as(RowRepeatParams).num_repeats
    (type,) = operand_types(op)
    assert type.rows is not None
    if type.has_samples:
        (n, rows) = x.tensor.dims
        repeated = broadcast(b, reshape(b, x, (n, 1, rows)), (n, count, rows))
        return reshape(b, repeated, (n, count * type.rows))
    (rows, cols) = x.tensor.dims
    repeated = broadcast(b, reshape(b, x, (1, rows, cols)), (count, rows, cols))
    return reshape(b, repeated, (count * type.rows, cols))


# --- Transpose and Diagonal ----------------------------------------------------------------------


def _infer_transpose(types: Sequence[Type], _params: Params) -> Sequence[Type]:
    x = matrix(types[0])
    require_no_samples(x, "a matrix")
    assert x.cols is None or isinstance(x.cols, int)
    return [MatrixType(x.cols, x.rows)]


def _expand_transpose(
    b: IRBuilder, _op: Operation, operands: Sequence[Value], _dtype: DType
) -> Value:
    return transpose(b, operands[0], (1, 0))


def _infer_diagonal(types: Sequence[Type], _params: Params) -> Sequence[Type]:
    x = matrix(types[0])
    require_no_samples(x, "a matrix")
    if x.is_known and x.rows != x.cols:
        raise TypeRuleError(f"requires a square matrix, got {x}", operand=0, slug="shape-mismatch")
    return [MatrixType(1, x.rows if x.cols is None else x.cols)]


def _expand_diagonal(
    b: IRBuilder, _op: Operation, operands: Sequence[Value], _dtype: DType
) -> Value:
    (x,) = operands
    index = x.tensor.with_dtype(DType.I32)
    on_it = compare(b, EQUAL, iota(b, 0, index), iota(b, 1, index))
    return reduce_sum(b, select(b, on_it, x, full_like(b, 0.0, x)), [0])


# --- RowSlice and RowStack -----------------------------------------------------------------------


def _infer_row_slice(types: Sequence[Type], params: RowSliceParams) -> Sequence[Type]:
    x = matrix(types[0])
    start, count = params.start_row, params.num_rows
    if start < 0 or count < 1:
        raise TypeRuleError(
            f"requires a start row from 0 on and at least 1 row, got {start} and {count}"
        )
    if x.rows is not None and start + count > x.rows:
        raise TypeRuleError(
            f"requires rows {start} to {start + count - 1}, counted from 0, got {x}",
            operand=0,
            slug="shape-mismatch",
        )
    return [MatrixType(count, x.cols)]


def _expand_row_slice(
    b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType
) -> Value:
    params = op.params_as(RowSliceParams)
    start, stop = params.start_row, params.start_row + params.num_rows
    return slice_axis(b, operands[0], row_axis(node_type(op)), start, stop)


def _infer_row_stack(types: Sequence[Type], _params: Params) -> Sequence[Type]:
    parts = [matrix(t) for t in types]
    if len(parts) < 2:
        raise TypeRuleError(f"requires at least 2 nodes, got {len(parts)}")
    cols = next((t.cols for t in parts if t.cols is not None), None)
    for index, part in enumerate(parts):
        if part.cols not in (None, cols):
            raise TypeRuleError(
                f"requires nodes with the same columns, got {parts[0]} and {part}",
                operand=index,
                slug="shape-mismatch",
            )
    rows = 0
    for part in parts:
        if part.rows is None:
            return [MatrixType(None, cols)]
        rows += part.rows
    if rows > MAX_ROWS:
        raise TypeRuleError(f"requires a result of at most {MAX_ROWS} rows, got {rows}")
    return [MatrixType(rows, cols)]


def _refine_row_stack(types: Sequence[MatrixType], _params: Params) -> Sequence[MatrixType]:
    """All have the same columns."""
    cols = next((t.cols for t in types if t.cols is not None), None)
    return [merged(t, MatrixType(None, cols)) for t in types]


def _expand_row_stack(
    b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType
) -> Value:
    return concat(b, operands, row_axis(node_type(op)))


# --- Reshape -------------------------------------------------------------------------------------


def _infer_reshape(types: Sequence[Type], params: ReshapeParams) -> Sequence[Type]:
    x = matrix(types[0])
    if not 0 <= params.num_rows <= MAX_ROWS:
        raise TypeRuleError(f"requires 0 to {MAX_ROWS} rows, got {params.num_rows}")
    rows = params.num_rows or x.rows
    return [MatrixType(rows, _reshaped_cols(x, rows), _declared_image(params, rows))]


def _reshaped_cols(x: MatrixType, rows: int | None) -> MatrixDim:
    """As many columns as there are elements for; of samples a call decides how many that is."""
    if x.rows is None or rows is None or x.cols is None:
        return None
    if isinstance(x.cols, Samples):
        return Samples.of(x.cols.ratio * Fraction(x.rows, rows))
    elements = x.rows * x.cols
    if elements % rows:
        raise TypeRuleError(
            f"requires a number of rows that divides the {elements} elements of {x}, got {rows}",
            operand=0,
            slug="shape-mismatch",
        )
    return elements // rows


def _declared_image(params: ReshapeParams, rows: int | None) -> Image | None:
    """What the settings say that a column is an image of."""
    sizes = [params.image_width, params.image_height, params.image_channels]
    if min(sizes) < 0 or sizes.count(0) == 2:
        raise TypeRuleError(
            "requires at least two of imageWidth, imageHeight and imageChannels, or none, "
            f"got {sizes[0]}, {sizes[1]} and {sizes[2]}"
        )
    if not any(sizes) or rows is None:
        return None
    known = math.prod(size for size in sizes if size)
    image = Image(*(size or rows // known for size in sizes))
    if image.rows != rows or 0 in (image.width, image.height, image.channels):
        text = "x".join(str(size or "?") for size in sizes)
        raise TypeRuleError(f"requires an image of {rows} rows, got {text}", slug="shape-mismatch")
    return image


def _expand_reshape(b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType) -> Value:
    (x,), (source,), target = operands, operand_types(op), node_type(op)
    if source.size == target.size:
        return x
    assert target.rows is not None
    if isinstance(target.cols, Samples):
        return reshape(b, x, (columns_dim(target.cols, _samples_of(x)), target.rows))
    columns = reshape(b, by_column(b, x, source), (fixed_size(target.cols), target.rows))
    return from_columns(b, columns, target)


def _reshape_reference(params: ReshapeParams, x: Array) -> Array:
    rows = params.num_rows or x.shape[0]
    return x.reshape((rows, x.size // rows), order="F")


def _samples_of(columns: Value) -> Dim:
    """The samples that a node's columns are so many times as many as."""
    (dim, _) = columns.tensor.dims
    return dim.factors[0] if isinstance(dim, Symbol) and dim.factors else dim


# --- TimeReverse ---------------------------------------------------------------------------------


def _expand_time_reverse(
    b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType
) -> Value:
    return reverse(b, operands[0], [1 - row_axis(node_type(op))])


def _expand_time_reverse_sequences(
    b: IRBuilder, op: Operation, operands: Sequence[Value], columns: SequenceColumns
) -> Value:
    if not node_type(op).has_samples:
        return reverse(b, operands[0], [1])
    return columns.reversed(b, operands[0])


ROW_REPEAT = node_def(
    "row_repeat",
    "the rows of a matrix, as a block, several times below each other",
    ("m",),
    params=RowRepeatParams,
    infer=_infer_row_repeat,
    reference=lambda p, x: np.tile(x, (p.num_repeats, 1)),
    expand=_expand_row_repeat,
    equation="V_(i + k rows(m)),j = m_ij for k from 0 to numRepeats - 1",
    source="toolkit, beyond the book",
)
TRANSPOSE = node_def(
    "transpose",
    "a matrix with rows and columns exchanged",
    ("x",),
    infer=_infer_transpose,
    reference=lambda _p, x: np.ascontiguousarray(x.T),
    expand=_expand_transpose,
    constraints=("C1 x has a fixed number of columns",),
    equation="V = xᵀ",
    source="toolkit, beyond the book",
    ndl=("Transpose",),
)
DIAGONAL = node_def(
    "diagonal",
    "the diagonal of a square matrix as a row vector",
    ("x",),
    infer=_infer_diagonal,
    reference=lambda _p, x: np.diagonal(x).reshape(1, -1).copy(),
    expand=_expand_diagonal,
    constraints=("C1 x has a fixed number of columns", "C2 rows of x = columns of x"),
    equation="V_1j = x_jj",
    source="toolkit of January 2016, beyond the book",
    ndl=("Diagonal",),
)

ROW_SLICE = node_def(
    "row_slice",
    "some neighbouring rows of a matrix",
    ("m",),
    params=RowSliceParams,
    infer=_infer_row_slice,
    reference=lambda p, x: x[p.start_row : p.start_row + p.num_rows].copy(),
    expand=_expand_row_slice,
    constraints=("C1 the rows are there",),
    equation="V_ij = m_(i + startRow),j for i from 0 to numRows - 1",
    source="book 4.1.4.12",
)
ROW_STACK = node_def(
    "row_stack",
    "matrices below each other",
    ("m*",),
    infer=_infer_row_stack,
    refine=_refine_row_stack,
    reference=lambda _p, *parts: np.concatenate(parts),
    expand=_expand_row_stack,
    constraints=("C1 two nodes or more", "C2 all have the same columns"),
    equation="V = [m1; m2; …]",
    source="book 4.1.4.13",
)
RESHAPE = node_def(
    "reshape",
    "the elements, column after column, under another number of rows; what columns are images of",
    ("m",),
    params=ReshapeParams,
    infer=_infer_reshape,
    reference=_reshape_reference,
    expand=_expand_reshape,
    constraints=(
        "C1 numRows divides the number of elements",
        "C2 numRows = imageWidth · imageHeight · imageChannels, where they are given",
    ),
    equation="V_ij = m_kl with i + numRows j = k + rows(m) l",
    source="book 4.1.4.11",
)
TIME_REVERSE = node_def(
    "time_reverse",
    "the columns of each sequence in reverse order; without sequences a minibatch is one",
    ("x",),
    infer=unary,
    reference=lambda _p, x: x[:, ::-1].copy(),
    expand=_expand_time_reverse,
    expand_sequences=_expand_time_reverse_sequences,
    looks_ahead=True,
    equation="V_ij = x_i,(columns - 1 - j)",
    source="book equation 2.57",
    ndl=("TimeReverse",),
)

OPS = (ROW_REPEAT, TRANSPOSE, DIAGONAL, ROW_SLICE, ROW_STACK, RESHAPE, TIME_REVERSE)
