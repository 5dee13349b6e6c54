"""Nodes that repeat, move or pick elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.core import IRBuilder, Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import DType, MatrixType, TensorType, Type, TypeRuleError
from graphc.ops.constant import full_like, iota
from graphc.ops.elementwise import EQUAL, compare, select
from graphc.ops.movement import reshape, transpose
from graphc.ops.nodes.layout import (
    NodeParams,
    counted_rows,
    matrix,
    node_def,
    operand_types,
    require_no_samples,
    tensor_dims,
)
from graphc.ops.reduction import broadcast, reduce_sum


@dataclass(frozen=True)
class RowRepeatParams(NodeParams):
    """`num_repeats`: how many times the block of all rows stands there."""

    num_repeats: int
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
    assert isinstance(op.params, RowRepeatParams)
    count = op.params.num_repeats
    (type,) = operand_types(op)
    assert type.rows is not None
    if type.has_samples:
        (n, rows) = tensor_dims(x)
        repeated = broadcast(b, reshape(b, x, (n, 1, rows)), (n, count, rows))
        return reshape(b, repeated, (n, count * type.rows))
    (rows, cols) = tensor_dims(x)
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
    assert isinstance(x.type, TensorType)
    index = x.type.with_dtype(DType.I32)
    on_it = compare(b, EQUAL, iota(b, 0, index), iota(b, 1, index))
    return reduce_sum(b, select(b, on_it, x, full_like(b, 0.0, x)), [0])


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
    ("m",),
    infer=_infer_transpose,
    reference=lambda _p, x: np.ascontiguousarray(x.T),
    expand=_expand_transpose,
    constraints=("C1 m has a fixed number of columns",),
    equation="V = mᵀ",
    source="toolkit, beyond the book",
)
DIAGONAL = node_def(
    "diagonal",
    "the diagonal of a square matrix as a row vector",
    ("m",),
    infer=_infer_diagonal,
    reference=lambda _p, x: np.diagonal(x).reshape(1, -1).copy(),
    expand=_expand_diagonal,
    constraints=("C1 m has a fixed number of columns", "C2 rows of m = columns of m"),
    equation="V_1j = m_jj",
    source="toolkit of January 2016, beyond the book",
)

OPS = (ROW_REPEAT, TRANSPOSE, DIAGONAL)
