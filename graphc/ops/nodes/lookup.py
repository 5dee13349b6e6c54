"""Embeddings: a table of vectors, and columns that say which of them are meant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphc.ir.core import Array, IRBuilder, Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import DType, MatrixType, Type, TypeRuleError, fixed_size
from graphc.ops.contraction import matmul
from graphc.ops.movement import concat, slice_axis
from graphc.ops.nodes.layout import (
    counted_rows,
    matrix,
    node_def,
    operand_types,
    require_no_samples,
    row_axis,
)


def _infer_lookup_table(types: Sequence[Type], _params: Params) -> Sequence[Type]:
    table, x = matrix(types[0]), matrix(types[1])
    require_no_samples(table, "a table")
    assert table.cols is None or isinstance(table.cols, int)
    if table.rows is None or table.cols is None or x.rows is None:
        return [MatrixType(None, x.cols)]
    if x.rows % table.cols:
        raise TypeRuleError(
            f"requires rows that are a multiple of the table's {table.cols} columns, got {x}",
            operand=1,
            slug="shape-mismatch",
        )
    return [MatrixType(counted_rows(x.rows // table.cols, table.rows), x.cols)]


def _expand_lookup_table(
    b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType
) -> Value:
    """A product per block: of an operand given by indices, each becomes a lookup."""
    table, x = operands
    table_type, type = operand_types(op)
    words, rows = fixed_size(table_type.cols), fixed_size(type.rows)
    axis = row_axis(type)
    blocks = [slice_axis(b, x, axis, i, i + words) for i in range(0, rows, words)]
    if type.has_samples:
        return concat(b, [matmul(b, block, table, transpose_b=True) for block in blocks], axis)
    return concat(b, [matmul(b, table, block) for block in blocks], axis)


def _lookup_table_reference(_p: Params, table: Array, x: Array) -> Array:
    blocks = np.split(x, x.shape[0] // table.shape[1])
    return np.concatenate([table @ block for block in blocks])


LOOKUP_TABLE = node_def(
    "lookup_table",
    "the table times each block of rows of a matrix: the vectors that one-hot blocks point at",
    ("table", "x"),
    infer=_infer_lookup_table,
    reference=_lookup_table_reference,
    expand=_expand_lookup_table,
    constraints=(
        "C1 table has a fixed number of columns",
        "C2 rows of x = a multiple of the columns of table",
    ),
    equation="V = the blocks table·x_k below each other, x_k the k-th cols(table) rows of x",
    source="toolkit, beyond the book",
    ndl=("LookupTable",),
)

OPS = (LOOKUP_TABLE,)
