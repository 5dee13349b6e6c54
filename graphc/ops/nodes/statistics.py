"""Statistics over a whole data set, and normalisation by them.

Mean and InvStdDev are computed once over all data (`precompute`), then hold their value like a
parameter that does not train; the model file keeps it, and `computed` says that it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphc.ir.core import InferRule, IRBuilder, OpDef, Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import DType, MatrixType, Type, TypeRuleError
from graphc.ops.elementwise import add, div, mul, sub
from graphc.ops.nodes.layout import (
    NodeParams,
    matrix,
    merged,
    node_def,
    operand_types,
    spread,
)

VARIANCE_FLOOR = 1e-10
"""Smallest variance that InvStdDev takes, so that a constant row gives 1e5 and not infinity."""


@dataclass(frozen=True)
class StatisticParams(NodeParams):
    """Of a node that needs `precompute`, until its value is `computed`."""

    computed: bool = False
    tags: tuple[str, ...] = ()


def _infer_statistic(types: Sequence[Type], _params: Params) -> Sequence[Type]:
    x = matrix(types[0])
    if x.cols is not None and not x.is_per_sample:
        raise TypeRuleError(f"requires a node with one column per sample, got {x}", operand=0)
    return [MatrixType(x.rows, 1)]


def with_two_columns(what: str) -> InferRule:
    """A node and two columns of as many rows; `what` names these in the message."""

    def infer(types: Sequence[Type], _params: Params) -> Sequence[Type]:
        x = matrix(types[0])
        for index in (1, 2):
            column = matrix(types[index])
            if column.is_known and x.rows is not None and column.size != (x.rows, 1):
                raise TypeRuleError(
                    f"requires {what} of size {x.rows}x1 for {x}, got {column}",
                    operand=index,
                    slug="shape-mismatch",
                )
        return [x]

    return infer


def refine_two_columns(types: Sequence[MatrixType], _params: Params) -> Sequence[MatrixType]:
    column = MatrixType(types[0].rows, 1)
    return [types[0], merged(types[1], column), merged(types[2], column)]


def _expand_normalization(
    b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType
) -> Value:
    x, mean, inverse = columns_of(b, op, operands)
    return mul(b, sub(b, x, mean), inverse)


def _expand_denormalization(
    b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType
) -> Value:
    x, mean, inverse = columns_of(b, op, operands)
    return add(b, div(b, x, inverse), mean)


def columns_of(
    b: IRBuilder, op: Operation, operands: Sequence[Value]
) -> tuple[Value, Value, Value]:
    """The matrix and two columns, all of the matrix's size."""
    source = operand_types(op)
    x, mean, inverse = operands
    dims = x.tensor.dims
    return (
        x,
        spread(b, mean, source[1], source[0], dims),
        spread(b, inverse, source[2], source[0], dims),
    )


def _statistic(name: str, summary: str, equation: str) -> OpDef:
    return node_def(
        name,
        summary,
        ("feature",),
        params=StatisticParams,
        infer=_infer_statistic,
        equation=equation,
        source="book 2.4.4",
    )


MEAN = _statistic("mean", "mean of each row over the whole data set", "V = (1/N) Σ X")
INV_STD_DEV = _statistic(
    "inv_std_dev",
    "reciprocal standard deviation of each row over the whole data set (population variance)",
    "V = 1 / √max((1/N) Σ (X - mean)², 1e-10)",
)
PER_DIM_MEAN_VAR_NORMALIZATION = node_def(
    "per_dim_mean_var_normalization",
    "each row minus its mean, times its reciprocal standard deviation",
    ("x", "mean", "inv_std_dev"),
    infer=with_two_columns("a mean and a deviation"),
    refine=refine_two_columns,
    reference=lambda _p, x, m, s: (x - m) * s,
    expand=_expand_normalization,
    equation="V = (X - mean) ∘ invStdDev",
    source="book 2.4.4",
    ndl=("PerDimMeanVarNormalization", "PerDimMVNorm"),
)
PER_DIM_MEAN_VAR_DE_NORMALIZATION = node_def(
    "per_dim_mean_var_de_normalization",
    "each row divided by its reciprocal standard deviation, plus its mean",
    ("x", "mean", "inv_std_dev"),
    infer=with_two_columns("a mean and a deviation"),
    refine=refine_two_columns,
    reference=lambda _p, x, m, s: x / s + m,
    expand=_expand_denormalization,
    equation="V = X ⊘ invStdDev + mean",
    source="book 4.1.4.32",
    ndl=("PerDimMeanVarDeNormalization", "PerDimMVDeNorm"),
)

OPS = (
    MEAN,
    INV_STD_DEV,
    PER_DIM_MEAN_VAR_NORMALIZATION,
    PER_DIM_MEAN_VAR_DE_NORMALIZATION,
)
