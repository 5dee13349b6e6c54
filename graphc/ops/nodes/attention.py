"""Scaled dot product attention over the steps of a sequence: a weighted mean of other columns.

Each query is compared with all keys of its sequence, and gets the mean of the values that belong to
them, weighted by the softmax of the comparisons. Where columns are no steps of sequences, a
minibatch is one. Scores are [slots, heads, T, T]; a step that a query may not see has the weight 0.
Gaps are read as 0, since 0 times what stands there could be nan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.core import Array, IRBuilder, Operation, Value
from graphc.ir.types import Dim, DType, MatrixType, TensorType, Type, TypeRuleError
from graphc.ops import composites
from graphc.ops.constant import full_like, iota
from graphc.ops.contraction import matmul
from graphc.ops.elementwise import (
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    LOGICAL_AND,
    compare,
    mul,
    select,
)
from graphc.ops.movement import reshape, transpose
from graphc.ops.nodes.layout import (
    NodeParams,
    by_column,
    from_columns,
    matrix,
    merged,
    node_def,
    node_type,
    operand_types,
)
from graphc.ops.nodes.sequence_columns import SequenceColumns
from graphc.ops.reduction import broadcast

NEVER = -1e30
"""The score of a step that is not seen: finite, so that a query that sees none is no nan."""


@dataclass(frozen=True)
class AttentionParams(NodeParams):
    """heads   blocks of rows that attend each for itself
    causal  a step sees itself and the steps before it alone
    """

    heads: int = 1
    causal: bool = False
    tags: tuple[str, ...] = ()


# --- sizes ---------------------------------------------------------------------------------------


def _infer(types: Sequence[Type], params: AttentionParams) -> Sequence[Type]:
    if params.heads < 1:
        raise TypeRuleError(f"requires at least one head, got {params.heads}", slug="bad-value")
    query, key, value = (matrix(t) for t in types)
    if None not in (query.rows, key.rows) and query.rows != key.rows:
        raise _misfit("queries and keys of as many rows", query, key, 1)
    for index, other in ((1, key), (2, value)):
        if None not in (query.cols, other.cols) and query.cols != other.cols:
            raise _misfit("queries, keys and values of the same columns", query, other, index)
    for index, type in enumerate((query, key, value)):
        if type.rows is not None and type.rows % params.heads:
            message = f"requires rows that {params.heads} heads can share evenly, got {type}"
            raise TypeRuleError(message, operand=index, slug="shape-mismatch")
    cols = next((t.cols for t in (query, key, value) if t.cols is not None), None)
    return [MatrixType(value.rows, cols)]


def _misfit(what: str, a: MatrixType, b: MatrixType, operand: int) -> TypeRuleError:
    message = f"requires {what}, got {a} and {b}"
    return TypeRuleError(message, operand=operand, slug="shape-mismatch")


def _refine(types: Sequence[MatrixType], params: AttentionParams) -> Sequence[MatrixType]:
    (result,) = _infer(types, params)
    cols = MatrixType(None, matrix(result).cols)
    query, key, value = types
    both = merged(merged(query, key), cols)
    return [merged(query, both), merged(key, both), merged(value, cols)]


# --- what it computes ----------------------------------------------------------------------------


def _expand(b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType) -> Value:
    """All columns are one sequence: [1, N, rows]."""
    types = operand_types(op)
    rows = [by_column(b, x, t) for x, t in zip(operands, types, strict=True)]
    steps = rows[0].tensor.dims[0]
    seen = _not_later(b, (1, 1, steps, steps)) if _params(op).causal else None
    slots = [reshape(b, x, (1, *x.tensor.dims)) for x in rows]
    found = _attended(b, slots, seen, _params(op).heads)
    return from_columns(b, reshape(b, found, found.tensor.dims[1:]), node_type(op))


def _expand_sequences(
    b: IRBuilder, op: Operation, operands: Sequence[Value], columns: SequenceColumns
) -> Value:
    if not node_type(op).has_samples:
        return _expand(b, op, operands, operands[0].tensor.dtype)
    time, slots, _ = columns.dims
    slotted = [transpose(b, columns.over_time(b, x), (1, 0, 2)) for x in operands]
    seen = _same_sequence(b, columns, (slots, 1, time, time))
    if _params(op).causal:
        seen = b.emit_one(LOGICAL_AND, seen, _not_later(b, seen.tensor.dims))
    found = _attended(b, slotted, seen, _params(op).heads)
    return columns.as_columns(b, transpose(b, found, (1, 0, 2)))


def _params(op: Operation) -> AttentionParams:
    return op.params_as(AttentionParams)


def _attended(b: IRBuilder, operands: Sequence[Value], seen: Value | None, heads: int) -> Value:
    """[S, T, rows] of queries, keys and values [S, T, rows]; `seen` i1[S, 1, T, T]: which steps,
    the last dim, a step looks at."""
    query, key, value = (_by_head(b, x, heads) for x in operands)
    size = key.tensor.dims[-1]
    assert isinstance(size, int)
    query = mul(b, query, full_like(b, size**-0.5, query))
    scores = matmul(b, query, key, transpose_b=True, batch=2)
    if seen is not None:
        seen = broadcast(b, seen, scores.tensor.dims)
        scores = select(b, seen, scores, full_like(b, NEVER, scores))
    found = matmul(b, composites.softmax(b, scores, 3), value, batch=2)
    found = transpose(b, found, (0, 2, 1, 3))
    return reshape(b, found, operands[2].tensor.dims)


def _by_head(b: IRBuilder, x: Value, heads: int) -> Value:
    """[S, T, rows] as [S, heads, T, rows of a head]."""
    slots, time, rows = x.tensor.dims
    assert isinstance(rows, int)
    return transpose(b, reshape(b, x, (slots, time, heads, rows // heads)), (0, 2, 1, 3))


def _same_sequence(b: IRBuilder, columns: SequenceColumns, dims: Sequence[Dim]) -> Value:
    """i1[S, 1, T, T]: whether the step of the last dim is in the sequence of the one before it."""
    slots, _, time, _ = dims
    first, end = (
        broadcast(b, reshape(b, transpose(b, table, (1, 0)), (slots, 1, time, 1)), dims)
        for table in columns.span(b)
    )
    other = iota(b, 3, first.tensor)
    begun = compare(b, GREATER_EQUAL, other, first)
    return b.emit_one(LOGICAL_AND, begun, compare(b, LESS, other, end))


def _not_later(b: IRBuilder, dims: Sequence[Dim]) -> Value:
    """i1[S, 1, T, T]: whether the step of the last dim is not after the one before it."""
    type = TensorType(tuple(dims), DType.I32)
    return compare(b, LESS_EQUAL, iota(b, 3, type), iota(b, 2, type))


def _reference(params: AttentionParams, query: Array, key: Array, value: Array) -> Array:
    """Step by step."""
    found = np.zeros_like(value)
    size, made = query.shape[0] // params.heads, value.shape[0] // params.heads
    for head in range(params.heads):
        q, k = (x[head * size : (head + 1) * size] for x in (query, key))
        v = value[head * made : (head + 1) * made]
        for step in range(query.shape[1]):
            seen = step + 1 if params.causal else query.shape[1]
            score = k[:, :seen].T @ q[:, step] / np.sqrt(query.dtype.type(size))
            weight = np.exp(score - score.max())
            found[head * made : (head + 1) * made, step] = v[:, :seen] @ weight / weight.sum()
    return found


ATTENTION = node_def(
    "attention",
    "of each step the mean of its sequence's values, weighted by how its query fits their keys; "
    "without sequences a minibatch is one",
    ("query", "key", "value"),
    params=AttentionParams,
    infer=_infer,
    refine=_refine,
    reference=_reference,
    expand=_expand,
    expand_sequences=_expand_sequences,
    gap_values=(0.0, 0.0, 0.0),
    looks_ahead=True,
    constraints=(
        "C1 query and key have as many rows, and all three the same columns",
        "C2 the heads divide the rows of each",
    ),
    equation="V = value softmax(keyᵀ query / √rows), the softmax over the steps that are seen; by "
    "heads for each block of rows",
    source="Vaswani et al., Attention Is All You Need, 2017, equation 1",
    ndl=("Attention",),
)

OPS = (ATTENTION,)
