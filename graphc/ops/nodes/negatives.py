"""Columns compared with other columns of the minibatch, as deep structured semantic models do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.core import Array, IRBuilder, Operation, Value
from graphc.ir.types import Dim, DType, MatrixType, TensorType, Type, TypeRuleError
from graphc.ops import lengths
from graphc.ops.constant import constant, extent, full_like, iota
from graphc.ops.elementwise import (
    EQUAL,
    add,
    cast,
    compare,
    div,
    maximum,
    mul,
    select,
    sub,
)
from graphc.ops.indexed import sampled_product
from graphc.ops.movement import reshape
from graphc.ops.nodes.columns import directions
from graphc.ops.nodes.layout import (
    MAX_ROWS,
    NodeParams,
    by_column,
    equal_sizes,
    from_columns,
    matrix,
    node_def,
    node_type,
    operand_types,
    refine_equal,
)
from graphc.ops.nodes.sequence_columns import SequenceColumns
from graphc.ops.reduction import broadcast


@dataclass(frozen=True)
class NegativesParams(NodeParams):
    """`shift`: how far the first of `negatives` other columns is from a column."""

    shift: int
    negatives: int
    tags: tuple[str, ...] = ()


def _infer_negatives(types: Sequence[Type], params: NegativesParams) -> Sequence[Type]:
    if not 0 <= params.shift <= MAX_ROWS or not 1 <= params.negatives < MAX_ROWS:
        raise TypeRuleError(
            "requires a shift of at least 0 and at least 1 negative sample, "
            f"got {params.shift} and {params.negatives}"
        )
    (both,) = equal_sizes("operands")(types, params)
    return [MatrixType(params.negatives + 1, matrix(both).cols)]


def _expand_negatives(
    b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType
) -> Value:
    x, y = (
        lengths.unit(b, by_column(b, v, t), 1)
        for v, t in zip(operands, operand_types(op), strict=True)
    )
    index = _columns(b, x.tensor.dims[0], op.params_as(NegativesParams))
    return from_columns(b, sampled_product(b, x, y, index), node_type(op))


def _expand_negatives_sequences(
    b: IRBuilder, op: Operation, operands: Sequence[Value], columns: SequenceColumns
) -> Value:
    """Within its sequence: so what a column is compared with does not depend on the minibatch."""
    params = op.params_as(NegativesParams)
    if not node_type(op).has_samples:
        return _expand_negatives(b, op, operands, operands[0].tensor.dtype)
    x, y = (lengths.unit(b, v, 1) for v in operands)
    count = params.negatives + 1
    type = TensorType((columns.time, columns.sequences, count), DType.I64)
    first, end = (_spread_steps(b, v, type) for v in columns.span(b))
    length = maximum(b, sub(b, end, first), constant(b, 1, type))
    target = add(b, sub(b, iota(b, 0, type), first), _distances(b, type, 2, params))
    target = add(b, first, sub(b, target, mul(b, div(b, target, length), length)))
    return sampled_product(b, x, y, columns.places(b, cast(b, target, DType.I32), count))


def _spread_steps(b: IRBuilder, steps: Value, type: TensorType) -> Value:
    """A table [T, S] for every place of `type`, in i64."""
    return broadcast(b, cast(b, reshape(b, steps, (*steps.tensor.dims, 1)), DType.I64), type.dims)


def _distances(b: IRBuilder, type: TensorType, axis: int, params: NegativesParams) -> Value:
    """How far the columns that a column is compared with are from it; itself is the first."""
    place = iota(b, axis, type)
    is_own = compare(b, EQUAL, place, full_like(b, 0, place))
    away = add(b, place, full_like(b, params.shift - 1, place))
    return select(b, is_own, constant(b, 0, type), away)


def _columns(b: IRBuilder, n: Dim, params: NegativesParams) -> Value:
    """[n, 1 + negatives] of i32: the columns that column j is compared with, itself first.

    In i64, so that no shift overflows.
    """
    type = TensorType((n, params.negatives + 1), DType.I64)
    target = add(b, iota(b, 0, type), _distances(b, type, 1, params))
    # The extent as f64, which holds every number of samples exactly.
    count = cast(b, extent(b, n, TensorType((1, 1), DType.F64)), DType.I64)
    count = broadcast(b, count, type.dims)
    return cast(b, sub(b, target, mul(b, div(b, target, count), count)), DType.I32)


def _negatives_reference(params: NegativesParams, x: Array, y: Array) -> Array:
    x, y = directions(x), directions(y)
    n = x.shape[1]
    result = np.empty((params.negatives + 1, n), x.dtype)
    for j in range(n):
        result[0, j] = x[:, j] @ y[:, j]
        for i in range(1, params.negatives + 1):
            result[i, j] = x[:, j] @ y[:, (j + params.shift + i - 1) % n]
    return result


COS_DISTANCE_WITH_NEGATIVE_SAMPLES = node_def(
    "cos_distance_with_negative_samples",
    "the cosine between columns, and between each column and others of the second operand; a "
    "column of a sequence is compared with others of its sequence",
    ("X", "Y"),
    params=NegativesParams,
    infer=_infer_negatives,
    refine=refine_equal,
    reference=_negatives_reference,
    expand=_expand_negatives,
    expand_sequences=_expand_negatives_sequences,
    looks_ahead=True,
    equation="V_0j = cos(x_j, y_j), V_ij = cos(x_j, y_((j + shift + i - 1) mod n)), n "
    "the columns of the minibatch or sequence; 0, with slope 0, where a column is zero",
    source="book 4.1.4.27",
)

OPS = (COS_DISTANCE_WITH_NEGATIVE_SAMPLES,)
