"""Nodes that make one number of each column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphc.ir.core import Array, IRBuilder, Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import DType, MatrixType, Type
from graphc.ops import lengths
from graphc.ops.nodes.layout import (
    equal_sizes,
    matrix,
    node_def,
    operand_types,
    refine_equal,
    row_axis,
)
from graphc.ops.reduction import reduce_sum


def _infer_sum(types: Sequence[Type], _params: Params) -> Sequence[Type]:
    return [MatrixType(1, matrix(types[0]).cols)]


def _expand_sum(b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType) -> Value:
    return reduce_sum(b, operands[0], [row_axis(operand_types(op)[0])])


def _infer_cosine(types: Sequence[Type], params: Params) -> Sequence[Type]:
    (both,) = equal_sizes("operands")(types, params)
    return [MatrixType(1, matrix(both).cols)]


def _expand_cosine(b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType) -> Value:
    x, y = operands
    return lengths.cosine(b, x, y, row_axis(operand_types(op)[0]))


def _cosine_reference(_p: Params, x: Array, y: Array) -> Array:
    return np.sum(directions(x) * directions(y), axis=0, keepdims=True)


def directions(x: Array) -> Array:
    """Each column divided by its length, for references; the largest number first becomes 1."""
    top = np.abs(x).max(axis=0, initial=0)
    x = x / np.where(top == 0, 1, top)
    length = np.sqrt(np.sum(x * x, axis=0))
    return x / np.where(length == 0, 1, length)


SUM_COLUMN_ELEMENTS = node_def(
    "sum_column_elements",
    "the sum of each column",
    ("x",),
    infer=_infer_sum,
    reference=lambda _p, x: np.sum(x, axis=0, keepdims=True),
    expand=_expand_sum,
    equation="V_1j = Σ_i x_ij",
    source="book 4.1.4.9",
    ndl=("SumColumnElements",),
)
COS_DISTANCE = node_def(
    "cos_distance",
    "the cosine of the angle between columns (1 for the same direction); 0 where a column is zero",
    ("x", "y"),
    infer=_infer_cosine,
    refine=refine_equal,
    reference=_cosine_reference,
    expand=_expand_cosine,
    equation="V_1j = x_jᵀ y_j / (‖x_j‖ ‖y_j‖); slope 0 where a column is zero",
    source="book equation 2.103",
    ndl=("CosDistance", "CosDist"),
)

OPS = (SUM_COLUMN_ELEMENTS, COS_DISTANCE)
