"""Criteria over whole sequences: the linear-chain conditional random field.

Where columns are steps of sequences, each sequence is a chain, and a loop over time runs along all
of them: the forward algorithm, T·L² for L labels. Where they are plain samples, the minibatch is
one chain. Then the recurrence over time is a product of matrices in the semiring (logadd, +).
Products may be bracketed at will, so the chain is multiplied in pairs, in log2(T) rounds over the
largest T of a call; steps that a call does not have are the identity (Särkkä and García-Fernández,
"Temporal parallelization of Bayesian smoothers", 2021). The work is T·L³.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphc.ir.core import Array, IRBuilder, Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import (
    Dim,
    DType,
    MatrixType,
    TensorType,
    Type,
    TypeRuleError,
    bound_of,
    fixed_size,
)
from graphc.ops import composites
from graphc.ops.constant import constant, extent, full_like, iota
from graphc.ops.contraction import matmul
from graphc.ops.elementwise import EQUAL, LESS, add, cast, compare, mul, select, sub
from graphc.ops.indexed import sparse_product
from graphc.ops.loop import element_type, loop
from graphc.ops.movement import reshape, slice_axis, transpose
from graphc.ops.nodes.layout import (
    SCALAR,
    matrix,
    merged,
    node_def,
    operand_types,
    require_equal_sizes,
    require_no_samples,
)
from graphc.ops.nodes.sequence_columns import SequenceColumns
from graphc.ops.reduction import broadcast, reduce_sum
from graphc.ops.rules import tensor

NEVER = -1e30
"""The logarithm of a step that does not happen: finite, so that no difference of two is nan."""


def _infer_crf(types: Sequence[Type], _params: Params) -> Sequence[Type]:
    label, score, transition = (matrix(t) for t in types)
    require_equal_sizes(label, score, "label and score")
    require_no_samples(transition, "a transition score", 2)
    labels = label.rows if score.rows is None else score.rows
    for size in (transition.rows, transition.cols):
        if labels is not None and size not in (None, labels):
            raise TypeRuleError(
                f"requires a transition score of {labels}x{labels}, one row and one column per "
                f"label, got {transition}",
                operand=2,
                slug="shape-mismatch",
            )
    return [SCALAR]


def _refine_crf(types: Sequence[MatrixType], _params: Params) -> Sequence[MatrixType]:
    label, score, transition = types
    both = merged(label, score)
    return [
        merged(label, both),
        merged(score, both),
        merged(transition, MatrixType(both.rows, both.rows)),
    ]


def _expand_crf(b: IRBuilder, op: Operation, operands: Sequence[Value], dtype: DType) -> Value:
    label, score = (
        v if t.has_samples else transpose(b, v, (1, 0))
        for v, t in zip(operands[:2], operand_types(op), strict=False)
    )
    steps = score.tensor.dims[0]
    total = sub(
        b,
        _log_partition(b, score, operands[2], steps, dtype),
        _path_score(b, label, score, operands[2], steps, dtype),
    )
    is_empty = compare(
        b, EQUAL, extent(b, steps, TensorType((1, 1), dtype)), full_like(b, 0.0, total)
    )
    return select(b, is_empty, full_like(b, 0.0, total), total)


def _path_score(
    b: IRBuilder, label: Value, score: Value, transition: Value, steps: Dim, dtype: DType
) -> Value:
    """Σ_t h_t(l_t) + a(l_{t-1}, l_t)."""
    before = _rows(b, label, steps, -1, dtype)
    return add(b, _weighted_sum(b, label, score), _move_score(b, before, label, transition))


def _move_score(b: IRBuilder, before: Value, label: Value, transition: Value) -> Value:
    """The transition scores, each times how often the labels [n, L] move so."""
    counts = matmul(b, transpose(b, before, (1, 0)), label)
    return _weighted_sum(b, counts, transition)


def _weighted_sum(b: IRBuilder, weight: Value, score: Value) -> Value:
    """Σ weight score, where what never happens and has no weight counts as 0."""
    score = composites.finite_if_unused(b, score, weight)
    return reduce_sum(b, mul(b, weight, score), (0, 1))


def _rows(b: IRBuilder, x: Value, count: Dim, shift: int, dtype: DType) -> Value:
    """Row t + shift of `x` for `count` steps t; zeros where `x` has no such row."""
    index = iota(b, 0, TensorType((count, 1), DType.I32))
    index = add(b, index, full_like(b, shift, index))
    return sparse_product(b, constant(b, 1.0, TensorType((count, 1), dtype)), x, index)


def _log_partition(
    b: IRBuilder, score: Value, transition: Value, steps: Dim, dtype: DType
) -> Value:
    """log Σ over all paths of exp(path score)."""
    labels = fixed_size(score.tensor.dims[1])
    count = 1
    while count < bound_of(steps) - 1:
        count *= 2
    chain = _steps(b, score, transition, steps, count, dtype)
    while count > 1:
        count //= 2
        pairs = reshape(b, chain, (count, 2, labels, labels))
        first, second = (
            reshape(b, slice_axis(b, pairs, 1, i, i + 1), (count, labels, labels)) for i in (0, 1)
        )
        chain = _log_product(b, first, second, count, labels)
    first_score = reshape(b, _rows(b, score, 1, 0, dtype), (labels, 1))
    chain = reshape(b, chain, (labels, labels))
    paths = add(b, broadcast(b, first_score, (labels, labels)), chain)
    return composites.log_sum_exp(b, paths, (0, 1))


def _steps(
    b: IRBuilder, score: Value, transition: Value, steps: Dim, count: int, dtype: DType
) -> Value:
    """[count, L, L]: a(i, j) + h_t(j) for t = 1, 2, …, and the identity from step T on."""
    (labels,) = score.tensor.dims[1:]
    dims = (count, labels, labels)
    scores = reshape(b, _rows(b, score, count, 1, dtype), (count, 1, labels))
    moves = reshape(b, transition, (1, labels, labels))
    step = add(b, broadcast(b, moves, dims), broadcast(b, scores, dims))
    square = TensorType((1, labels, labels), DType.I32)
    diagonal = compare(b, EQUAL, iota(b, 1, square), iota(b, 2, square))
    zero = constant(b, 0.0, square.with_dtype(dtype))
    identity = select(b, diagonal, zero, full_like(b, NEVER, zero))
    time = iota(b, 0, TensorType((count, 1, 1), DType.I32))
    last = extent(b, steps, TensorType((1, 1, 1), DType.F64))  # exact for any number of samples
    end = sub(b, cast(b, last, DType.I32), constant(b, 1, TensorType((1, 1, 1), DType.I32)))
    happens = compare(b, LESS, time, broadcast(b, end, (count, 1, 1)))
    return select(b, broadcast(b, happens, dims), step, broadcast(b, identity, dims))


def _expand_crf_sequences(
    b: IRBuilder, op: Operation, operands: Sequence[Value], columns: SequenceColumns
) -> Value:
    """The sum over the sequences of the call; of one that goes on elsewhere, its steps here."""
    label, score, transition = operands
    if not operand_types(op)[1].has_samples:
        return _expand_crf(b, op, operands, score.tensor.dtype)
    label = columns.masked(b, label)
    moves = _move_score(b, columns.shifted(b, label, -1, 0.0), label, transition)
    path = add(b, _weighted_sum(b, label, score), moves)
    first, end = columns.span(b)
    time = iota(b, 0, columns.table)
    is_first = compare(b, EQUAL, time, first)
    is_last = compare(b, EQUAL, add(b, time, full_like(b, 1, time)), end)
    alpha = columns.as_columns(b, _forward_variables(b, score, transition, is_first, columns))
    total = composites.log_sum_exp(b, alpha, (1,))
    is_last = reshape(b, is_last, total.tensor.dims)
    total = select(b, is_last, total, full_like(b, 0.0, total))
    return sub(b, reduce_sum(b, total, (0, 1)), path)


def _forward_variables(
    b: IRBuilder, score: Value, transition: Value, is_first: Value, columns: SequenceColumns
) -> Value:
    """[T, S, L]: α_t(i), the logadd of the scores of all paths to label i at step t."""
    labels = score.tensor.dims[1]
    score = columns.over_time(b, score)
    is_first = reshape(b, is_first, (*is_first.tensor.dims, 1))
    before = constant(b, 0.0, element_type(tensor(score.type)))

    def step(
        inner: IRBuilder,
        shared: Sequence[Value],
        elements: Sequence[Value],
        before: Sequence[Value],
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        here, start = elements
        slots = here.tensor.dims[0]
        pairs = (slots, labels, labels)
        paths = add(
            inner,
            broadcast(inner, reshape(inner, before[0], (slots, labels, 1)), pairs),
            broadcast(inner, reshape(inner, shared[0], (1, labels, labels)), pairs),
        )
        arrived = reshape(inner, composites.log_sum_exp(inner, paths, (1,)), (slots, labels))
        start = broadcast(inner, start, (slots, labels))
        arrived = select(inner, start, full_like(inner, 0.0, arrived), arrived)
        alpha = add(inner, here, arrived)
        return [alpha], [alpha]

    made = loop(b, columns.time, step, [transition], [score, is_first], [before])
    return made.results[1]


def _log_product(b: IRBuilder, x: Value, y: Value, count: int, labels: int) -> Value:
    """[n, i, j]: logadd_k (x[n, i, k] + y[n, k, j])."""
    dims = (count, labels, labels, labels)
    left = broadcast(b, reshape(b, x, (count, labels, 1, labels)), dims)
    right = reshape(b, transpose(b, y, (0, 2, 1)), (count, 1, labels, labels))
    total = composites.log_sum_exp(b, add(b, left, broadcast(b, right, dims)), (3,))
    return reshape(b, total, (count, labels, labels))


def _used(weight: Array, score: Array) -> Array:
    """Σ weight score over what has a weight or is finite."""
    counts = (weight != 0) | (score != -np.inf)
    return np.sum(weight[counts] * score[counts])


def _crf_reference(_p: Params, label: Array, score: Array, transition: Array) -> Array:
    if score.shape[1] == 0:
        return np.zeros((1, 1), score.dtype)
    alpha = score[:, 0]
    path = _used(label[:, 0], score[:, 0])
    for t in range(1, score.shape[1]):
        alpha = score[:, t] + np.logaddexp.reduce(alpha[:, None] + transition, axis=0)
        path += _used(label[:, t], score[:, t])
        path += _used(np.outer(label[:, t - 1], label[:, t]), transition)
    return np.reshape(np.logaddexp.reduce(alpha) - path, (1, 1)).astype(score.dtype)


CRF = node_def(
    "crf",
    "minus the log likelihood of a label sequence under a linear-chain conditional random field, "
    "summed over the sequences; without sequences the minibatch is one",
    ("label", "score", "transition"),
    infer=_infer_crf,
    refine=_refine_crf,
    reference=_crf_reference,
    expand=_expand_crf,
    expand_sequences=_expand_crf_sequences,
    looks_ahead=True,
    constraints=("transition has one row (from) and one column (to) per label",),
    equation="V = logadd_i α_T(i) - Σ_t (h_t(l_t) + a(l_t-1, l_t)),  "
    "α_t(i) = h_t(i) + logadd_k (α_t-1(k) + a(k, i))",
    source="book equations 2.149 to 2.153",
    ndl=("CRF",),
)

OPS = (CRF,)
