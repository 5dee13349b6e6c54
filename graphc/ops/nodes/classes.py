"""Cross entropy over a vocabulary that is split into classes (Goodman, "Classes for fast maximum
entropy training", 2001): the probability of a class, times that of a word among its class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.core import Array, IRBuilder, Operation, Value
from graphc.ir.types import DType, MatrixType, TensorType, Type, TypeRuleError, fixed_size
from graphc.ops import composites
from graphc.ops.constant import constant, full_like, iota
from graphc.ops.elementwise import (
    EQUAL,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LOGICAL_AND,
    MINIMUM,
    add,
    cast,
    compare,
    maximum,
    neg,
    select,
    stop_gradient,
    sub,
)
from graphc.ops.functions import exp, log
from graphc.ops.indexed import gather, sampled_product
from graphc.ops.movement import slice_axis
from graphc.ops.nodes.layout import (
    MAX_ROWS,
    SCALAR,
    NodeParams,
    by_column,
    matrix,
    merged,
    node_def,
    operand_types,
    require_no_samples,
)
from graphc.ops.reduction import broadcast, reduce_max, reduce_sum

LABEL_ROWS = 4
"""Word, class, first word of the class, first word after it."""
LOG_NEVER = math.log(composites.LOG_FLOOR)
"""The logarithm of the probability of a word or class that is not there."""


@dataclass(frozen=True)
class ClassParams(NodeParams):
    """max_class_size: most words of a class, 0 for as many as the vocabulary has; more give nan"""

    max_class_size: int = 0
    tags: tuple[str, ...] = ()


def _infer_class_based(types: Sequence[Type], params: ClassParams) -> Sequence[Type]:
    label, hidden, weight, score = (matrix(t) for t in types)
    if not 0 <= params.max_class_size <= MAX_ROWS:
        raise TypeRuleError(f"requires a class size of at least 0, got {params.max_class_size}")
    if label.rows not in (None, LABEL_ROWS):
        _mismatch(f"a label of 4 rows (word, class, first word, first word after), got {label}", 0)
    require_no_samples(weight, "a weight", 2)
    if None not in (hidden.rows, weight.rows) and hidden.rows != weight.rows:
        _mismatch(f"a weight with a row for each row of {hidden}, got {weight}", 2)
    for operand, type in ((1, hidden), (3, score)):
        if None not in (label.cols, type.cols) and type.cols != label.cols:
            _mismatch(f"operands with the columns of the label {label}, got {type}", operand)
    return [SCALAR]


def _mismatch(message: str, operand: int) -> None:
    raise TypeRuleError(f"requires {message}", operand=operand, slug="shape-mismatch")


def _refine_class_based(types: Sequence[MatrixType], _params: ClassParams) -> Sequence[MatrixType]:
    label, hidden, weight, score = types
    cols = next((t.cols for t in (label, hidden, score) if t.cols is not None), None)
    return [
        merged(label, MatrixType(LABEL_ROWS, cols)),
        merged(hidden, MatrixType(weight.rows, cols)),
        merged(weight, MatrixType(hidden.rows, None)),
        merged(score, MatrixType(None, cols)),
    ]


def _expand_class_based(
    b: IRBuilder, op: Operation, operands: Sequence[Value], dtype: DType
) -> Value:
    types = operand_types(op)
    label, hidden, score = (by_column(b, operands[i], types[i]) for i in (0, 1, 3))
    # Saturates, so no label wraps around to a good one; nan is no word and no class.
    is_number = compare(b, EQUAL, label, label)
    ids = cast(b, select(b, is_number, label, full_like(b, -1.0, label)), DType.I32)
    word, label_class, start, end = (slice_axis(b, ids, 1, i, i + 1) for i in range(LABEL_ROWS))
    of_class = _log_class(b, score, label_class)
    most = op.params_as(ClassParams).max_class_size
    of_word = _log_word(b, hidden, operands[2], (word, start, end), most)
    return neg(b, reduce_sum(b, add(b, of_class, of_word), (0, 1)))


def _log_class(b: IRBuilder, score: Value, label: Value) -> Value:
    """[n, 1]: the logarithm of the probability of the label's class."""
    log_probability = composites.log_softmax(b, score, 1)
    classes = fixed_size(score.tensor.dims[1])
    is_class = _within(b, label, full_like(b, 0, label), full_like(b, classes, label))
    found = gather(b, log_probability, _or_none(b, is_class, label))
    return select(b, is_class, found, full_like(b, LOG_NEVER, found))


def _log_word(
    b: IRBuilder, hidden: Value, weight: Value, ids: tuple[Value, Value, Value], most: int
) -> Value:
    """[n, 1]: the logarithm of the probability of the word among the words of its class."""
    word, start, end = ids
    n, vocabulary = hidden.tensor.dims[0], fixed_size(weight.tensor.dims[1])
    zero = full_like(b, 0, start)
    start = maximum(b, start, zero)
    end = maximum(b, b.emit_one(MINIMUM, end, full_like(b, vocabulary, end)), zero)
    is_word = _within(b, word, start, end)
    count = select(b, is_word, sub(b, end, start), zero)
    dims = (n, min(most or vocabulary, vocabulary))
    place = iota(b, 1, TensorType(dims, DType.I32))
    is_member = compare(b, LESS, place, broadcast(b, count, dims))
    index = _or_none(b, is_member, add(b, broadcast(b, start, dims), place))
    score = sampled_product(b, hidden, weight, index, columns=True)
    found = gather(b, score, _or_none(b, is_word, sub(b, word, start)))
    value = sub(b, found, _log_sum(b, score, is_member, is_word))
    value = select(b, is_word, value, full_like(b, LOG_NEVER, value))
    # Words beyond the largest class were left out of the sum: no number is better than a wrong one.
    too_many = compare(b, GREATER, count, full_like(b, dims[1], count))
    return select(b, too_many, full_like(b, math.nan, value), value)


def _log_sum(b: IRBuilder, score: Value, is_member: Value, is_word: Value) -> Value:
    """[n, 1]: log Σ exp(score) over the members, 0 where there is no word.

    What is chosen is finite everywhere, so that the gradient of what is not chosen is 0, not nan.
    """
    kept = select(b, is_member, score, full_like(b, -math.inf, score))
    top = stop_gradient(b, reduce_max(b, kept, [1]))
    top = select(b, is_word, top, full_like(b, 0.0, top))
    total = reduce_sum(b, exp(b, sub(b, kept, broadcast(b, top, score.tensor.dims))), [1])
    return add(b, top, log(b, select(b, is_word, total, full_like(b, 1.0, total))))


def _within(b: IRBuilder, x: Value, low: Value, high: Value) -> Value:
    """Whether low <= x < high."""
    return b.emit_one(LOGICAL_AND, compare(b, GREATER_EQUAL, x, low), compare(b, LESS, x, high))


def _or_none(b: IRBuilder, condition: Value, index: Value) -> Value:
    """The index where the condition holds, one outside of every table elsewhere."""
    return select(b, condition, index, constant(b, -1, index.tensor))


def _class_based_reference(
    params: ClassParams, label: Array, hidden: Array, weight: Array, score: Array
) -> Array:
    total = np.zeros((), hidden.dtype)
    never = np.log(composites.LOG_FLOOR)
    for t in range(label.shape[1]):
        word, label_class, start, end = (int(v) for v in label[:, t])
        classes = {c: float(s) for c, s in enumerate(score[:, t])}
        total -= _reference_log_softmax(classes, label_class) if label_class in classes else never
        members = range(max(start, 0), min(end, weight.shape[1]))
        scores = {w: float(weight[:, w] @ hidden[:, t]) for w in members}
        if word not in scores:
            total -= never
        elif params.max_class_size and len(members) > params.max_class_size:
            total += np.nan
        else:
            total -= _reference_log_softmax(scores, word)
    return np.asarray(total).reshape(1, 1)


def _reference_log_softmax(scores: Mapping[int, float], chosen: int) -> float:
    top = max(scores.values())
    return scores[chosen] - top - np.log(sum(np.exp(s - top) for s in scores.values()))


CLASS_BASED_CROSS_ENTROPY_WITH_SOFTMAX = node_def(
    "class_based_cross_entropy_with_softmax",
    "cross entropy of words as the probability of their class times that among its words",
    ("label", "hidden", "weight", "class_score"),
    params=ClassParams,
    infer=_infer_class_based,
    refine=_refine_class_based,
    reference=_class_based_reference,
    expand=_expand_class_based,
    constraints=(
        "C1 rows of label: word, class, first word of the class, first word after it",
        "C2 rows of weight = rows of hidden, one column of weight per word",
        "C3 label, hidden and class_score have the same columns",
    ),
    equation="V = -Σ_j ln softmax(q_j)[class] + ln softmax(Wᵀ h_j over the words of the class)"
    "[word]; ln 1e-37 for a word or class that is not there",
    source="book equations 2.132 to 2.148, with the sign of a cross entropy",
    ndl=("ClassBasedCrossEntropyWithSoftmax", "CBCEWithSM"),
)

OPS = (CLASS_BASED_CROSS_ENTROPY_WITH_SOFTMAX,)
