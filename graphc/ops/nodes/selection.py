"""The largest elements of each column, and the rows that they are in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.core import Array, IRBuilder, Operation, Value
from graphc.ir.types import DType, MatrixType, Type, TypeRuleError
from graphc.ops.elementwise import cast
from graphc.ops.indexed import gather
from graphc.ops.nodes.layout import (
    NodeParams,
    by_column,
    from_columns,
    matrix,
    node_def,
    node_type,
    operand_types,
)
from graphc.ops.selection import top_indices


@dataclass(frozen=True)
class TopParams(NodeParams):
    """k: how many of each column"""

    k: int = 1
    tags: tuple[str, ...] = ()


def _infer(types: Sequence[Type], params: TopParams) -> Sequence[Type]:
    x = matrix(types[0])
    if params.k < 1 or (x.rows is not None and params.k > x.rows):
        most = "" if x.rows is None else f" to {x.rows}"
        raise TypeRuleError(f"requires k from 1{most} for {x}, got {params.k}", slug="bad-value")
    return [MatrixType(params.k, x.cols)]


def _expand(b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType) -> Value:
    x, found = _found(b, op, operands[0])
    return from_columns(b, gather(b, x, found), node_type(op))


def _expand_rows(b: IRBuilder, op: Operation, operands: Sequence[Value], dtype: DType) -> Value:
    _, found = _found(b, op, operands[0])
    return from_columns(b, cast(b, found, dtype), node_type(op))


def _found(b: IRBuilder, op: Operation, x: Value) -> tuple[Value, Value]:
    """The columns one after the other, and of each the places of its largest elements."""
    x = by_column(b, x, operand_types(op)[0])
    return x, top_indices(b, x, op.params_as(TopParams).k)


def _rows_of(params: TopParams, x: Array) -> Array:
    return np.lexsort((-x, ~np.isnan(x)), axis=0)[: params.k]


TOP_K = node_def(
    "top_k",
    "the largest elements of each column, in order; nan counts as the largest",
    ("x",),
    params=TopParams,
    infer=_infer,
    reference=lambda p, x: np.take_along_axis(x, _rows_of(p, x), axis=0),
    expand=_expand,
    constraints=("C1 k is from 1 to the rows of x",),
    equation="V_kj = the k-th largest of x_j; of equal ones the first, which also gets the slope",
    source="toolkit, later than NDL",
    ndl=("TopK",),
)
TOP_K_ROWS = node_def(
    "top_k_rows",
    "the rows of the largest elements of each column, counted from 0, in the order of TopK",
    ("x",),
    params=TopParams,
    infer=_infer,
    reference=lambda p, x: _rows_of(p, x).astype(x.dtype),
    expand=_expand_rows,
    constraints=("C1 k is from 1 to the rows of x",),
    equation="V_kj = the row of the k-th largest of x_j; no gradient flows",
    source="toolkit, later than NDL",
    ndl=("TopKRows",),
)

OPS = (TOP_K, TOP_K_ROWS)
