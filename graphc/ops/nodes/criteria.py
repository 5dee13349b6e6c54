"""Nodes whose value is one number for the whole minibatch: training criteria and their evaluation.

All are sums over the minibatch's columns, not means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphc.ir.core import Array, InferRule, IRBuilder, OpDef, Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import DType, MatrixType, Type, TypeRuleError
from graphc.ops import composites, lengths
from graphc.ops.constant import full_like
from graphc.ops.elementwise import NOT_EQUAL, absolute, add, cast, compare, mul, neg, sub
from graphc.ops.nodes.layout import (
    SCALAR,
    matrix,
    merged,
    node_def,
    operand_types,
    refine_equal,
    require_equal_sizes,
    row_axis,
    spread,
)
from graphc.ops.reduction import reduce_sum


def _of_equal_sizes(what: str) -> InferRule:
    def infer(types: Sequence[Type], _params: Params) -> Sequence[Type]:
        require_equal_sizes(matrix(types[0]), matrix(types[1]), what)
        return [SCALAR]

    return infer


def _total(b: IRBuilder, x: Value) -> Value:
    """The sum of all elements, as 1x1."""
    return reduce_sum(b, x, (0, 1))


def _expand_sum(b: IRBuilder, _op: Operation, operands: Sequence[Value], _dtype: DType) -> Value:
    return _total(b, operands[0])


def _expand_square_error(
    b: IRBuilder, _op: Operation, operands: Sequence[Value], dtype: DType
) -> Value:
    difference = sub(b, operands[0], operands[1])
    total = _total(b, mul(b, difference, difference))
    return mul(b, total, full_like(b, 0.5, total))


def _expand_cross_entropy(
    b: IRBuilder, _op: Operation, operands: Sequence[Value], _dtype: DType
) -> Value:
    label, probability = operands
    return neg(b, _total(b, mul(b, label, composites.clamped_log(b, probability))))


def _expand_cross_entropy_with_softmax(
    b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType
) -> Value:
    label, score = operands
    axis = row_axis(operand_types(op)[1])
    return neg(b, _total(b, composites.weighted_log_softmax(b, label, score, axis)))


def _infer_logistic(types: Sequence[Type], _params: Params) -> Sequence[Type]:
    label, probability, *weights = (matrix(t) for t in types)
    require_equal_sizes(label, probability, "label and probability")
    if len(weights) > 1:
        raise TypeRuleError(f"requires at most one weight, got {len(weights)}", operand=3)
    both = merged(label, probability)
    for weight in weights:
        rows = None in (weight.rows, both.rows) or weight.rows in (1, both.rows)
        cols = None in (weight.cols, both.cols) or weight.cols == both.cols
        if not (rows and cols):
            raise TypeRuleError(
                f"requires a weight for each column or each element of {both}, got {weight}",
                operand=2,
                slug="shape-mismatch",
            )
    return [SCALAR]


def _refine_logistic(types: Sequence[MatrixType], _params: Params) -> Sequence[MatrixType]:
    both = merged(types[0], types[1])
    weights = [merged(t, MatrixType(1, both.cols)) for t in types[2:]]
    return [*(merged(t, both) for t in types[:2]), *weights]


def _expand_logistic(
    b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType
) -> Value:
    label, probability, *weights = operands
    one = full_like(b, 1.0, label)
    holds = mul(b, label, composites.clamped_log(b, probability))
    fails = mul(b, sub(b, one, label), composites.clamped_log(b, sub(b, one, probability)))
    terms = add(b, holds, fails)
    if weights:
        types = operand_types(op)
        weight = spread(b, weights[0], types[2], types[0], label.tensor.dims)
        terms = mul(b, terms, weight)
    return neg(b, _total(b, terms))


def _expand_error_prediction(
    b: IRBuilder, op: Operation, operands: Sequence[Value], dtype: DType
) -> Value:
    first, second = (
        composites.argmax(b, v, row_axis(t))
        for v, t in zip(operands, operand_types(op), strict=True)
    )
    return _total(b, cast(b, compare(b, NOT_EQUAL, first, second), dtype))


def _expand_l1(b: IRBuilder, _op: Operation, operands: Sequence[Value], _dtype: DType) -> Value:
    return _total(b, absolute(b, operands[0]))


def _expand_l2(b: IRBuilder, _op: Operation, operands: Sequence[Value], _dtype: DType) -> Value:
    return lengths.norm(b, operands[0], (0, 1))


def _scalar(value: float | Array) -> Array:
    return np.asarray(value).reshape(1, 1)


def _cross_entropy_reference(_p: Params, label: Array, probability: Array) -> Array:
    return _scalar(-np.sum(label * np.log(np.maximum(probability, composites.LOG_FLOOR))))


def _cross_entropy_with_softmax_reference(_p: Params, label: Array, score: Array) -> Array:
    shifted = score - score.max(axis=0, keepdims=True, initial=-np.inf)
    return _scalar(-np.sum(label * (shifted - np.log(np.exp(shifted).sum(axis=0)))))


def _logistic_reference(_p: Params, label: Array, probability: Array, *weights: Array) -> Array:
    holds = np.log(np.maximum(probability, composites.LOG_FLOOR))
    fails = np.log(np.maximum(1 - probability, composites.LOG_FLOOR))
    terms = label * holds + (1 - label) * fails
    return _scalar(-np.sum(terms * weights[0] if weights else terms))


def _error_prediction_reference(_p: Params, label: Array, score: Array) -> Array:
    return _scalar(np.sum(label.argmax(axis=0) != score.argmax(axis=0)).astype(score.dtype))


def _l2_reference(_p: Params, x: Array) -> Array:
    top = np.abs(x).max(initial=0)
    top = top if 0 < top < np.inf else 1
    return _scalar(top * np.sqrt(np.sum((x / top) ** 2)))


def _criterion(
    name: str,
    summary: str,
    operands: tuple[str, ...],
    expand: Callable[..., Value],
    reference: Callable[..., Array],
    equation: str,
    source: str,
    ndl: tuple[str, ...],
) -> OpDef:
    pair = len(operands) == 2
    return node_def(
        name,
        summary,
        operands,
        infer=_of_equal_sizes(" and ".join(operands)) if pair else lambda _t, _p: [SCALAR],
        refine=refine_equal if pair else None,
        reference=reference,
        expand=expand,
        equation=equation,
        source=source,
        ndl=ndl,
    )


SUM_ELEMENTS = _criterion(
    "sum_elements",
    "the sum of all elements",
    ("x",),
    _expand_sum,
    lambda _p, x: _scalar(np.sum(x)),
    "V = Σ X",
    "book 2.4.2",
    ndl=("SumElements",),
)
SQUARE_ERROR = _criterion(
    "square_error",
    "half the sum of squared differences",
    ("target", "prediction"),
    _expand_square_error,
    lambda _p, t, y: _scalar(0.5 * np.sum((t - y) ** 2)),
    "V = ½ Σ (A - B)²",
    "book 2.4.3; the ½ is the toolkit's",
    ndl=("SquareError", "SE"),
)
CROSS_ENTROPY = _criterion(
    "cross_entropy",
    "cross entropy of probabilities",
    ("label", "probability"),
    _expand_cross_entropy,
    _cross_entropy_reference,
    "V = -Σ label ln(max(p, 1e-37))",
    "book 2.4.3",
    ndl=("CrossEntropy",),
)
CROSS_ENTROPY_WITH_SOFTMAX = _criterion(
    "cross_entropy_with_softmax",
    "cross entropy of the softmax of scores",
    ("label", "prediction"),
    _expand_cross_entropy_with_softmax,
    _cross_entropy_with_softmax_reference,
    "V = -Σ label ln softmax(prediction)",
    "book 2.4.3",
    ndl=("CrossEntropyWithSoftmax", "CEWithSM"),
)
ERROR_PREDICTION = _criterion(
    "error_prediction",
    "number of columns whose largest label and largest prediction are in different rows",
    ("label", "prediction"),
    _expand_error_prediction,
    _error_prediction_reference,
    "V = Σ [argmax label ≠ argmax prediction], first maximum on ties",
    "book 2.4.3",
    ndl=("ErrorPrediction", "ClassificationError"),
)
LOGISTIC = node_def(
    "logistic",
    "cross entropy of the probabilities of yes or no, weighted by column or element on request",
    ("label", "probability", "weight*"),
    infer=_infer_logistic,
    refine=_refine_logistic,
    reference=_logistic_reference,
    expand=_expand_logistic,
    equation="V = -Σ w (y ln max(p, 1e-37) + (1 - y) ln max(1 - p, 1e-37)), w = 1 if not given",
    source="toolkit of January 2016, beyond the book",
)
MATRIX_L1_REG = _criterion(
    "matrix_l1_reg",
    "the sum of absolute values",
    ("x",),
    _expand_l1,
    lambda _p, x: _scalar(np.sum(np.abs(x))),
    "V = Σ |x|; slope 0 at 0",
    "book 4.1.4.28",
    ndl=("MatrixL1Reg", "L1Reg", "L1Norm"),
)
MATRIX_L2_REG = _criterion(
    "matrix_l2_reg",
    "the Frobenius norm, not squared",
    ("x",),
    _expand_l2,
    _l2_reference,
    "V = √Σ x²; slope 0 where all of x is 0, and where Σ x² is beyond the element type",
    "book 4.1.4.28",
    ndl=("MatrixL2Reg", "L2Reg", "L2Norm"),
)

OPS = (
    SUM_ELEMENTS,
    SQUARE_ERROR,
    CROSS_ENTROPY,
    CROSS_ENTROPY_WITH_SOFTMAX,
    ERROR_PREDICTION,
    LOGISTIC,
    MATRIX_L1_REG,
    MATRIX_L2_REG,
)
