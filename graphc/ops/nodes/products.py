"""Nodes that are matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.core import IRBuilder, Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import DType, MatrixType, Type, TypeRuleError
from graphc.ops.contraction import matmul
from graphc.ops.nodes.layout import matrix, node_def, operand_types


def _infer_times(types: Sequence[Type], _params: Params) -> Sequence[Type]:
    a, b = matrix(types[0]), matrix(types[1])
    if a.has_samples:
        raise TypeRuleError(
            f"requires a left operand whose columns are not samples, got {a}",
            operand=0,
            slug="shape-mismatch",
        )
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
)

OPS = (TIMES,)
