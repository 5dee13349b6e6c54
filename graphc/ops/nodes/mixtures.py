"""Likelihoods of mixtures of distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from graphc.ir.core import Array, IRBuilder, Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import DType, MatrixDim, MatrixType, Type, TypeRuleError, fixed_size
from graphc.ops import composites
from graphc.ops.constant import full_like
from graphc.ops.elementwise import MINIMUM, add, maximum, mul, neg, stop_gradient, sub
from graphc.ops.functions import exp
from graphc.ops.movement import reshape
from graphc.ops.nodes.layout import (
    by_column,
    counted_rows,
    from_columns,
    matrix,
    merged,
    node_def,
    node_type,
    operand_types,
)
from graphc.ops.reduction import broadcast, reduce_sum

LOG_TWO_PI = math.log(2 * math.pi)


def _infer_gmm(types: Sequence[Type], _params: Params) -> Sequence[Type]:
    prior, mean, deviation, feature = (matrix(t) for t in types)
    components = prior.rows if deviation.rows is None else deviation.rows
    _require_rows(prior, components, "as many priors as log deviations", 0)
    if mean.rows is not None and components is not None and feature.rows is not None:
        wanted = counted_rows(components, feature.rows)
        what = f"means of {wanted} rows, {components} components of {feature.rows} numbers"
        _require_rows(mean, wanted, what, 1)
    _require_columns((prior, mean, deviation), feature.cols)
    return [MatrixType(1, feature.cols)]


def _require_rows(type: MatrixType, rows: int | None, what: str, operand: int) -> None:
    if None not in (type.rows, rows) and type.rows != rows:
        raise TypeRuleError(f"requires {what}, got {type}", operand=operand, slug="shape-mismatch")


def _require_columns(parameters: Sequence[MatrixType], samples: MatrixDim) -> None:
    """One column for all columns of the feature, or one for each, in all three alike."""
    known = [(i, t) for i, t in enumerate(parameters) if t.cols is not None]
    for operand, type in known:
        if type.cols != known[0][1].cols or (samples is not None and type.cols not in (1, samples)):
            raise TypeRuleError(
                "requires priors, means and log deviations that all have one column or as many as "
                f"the feature, got {', '.join(map(str, parameters))}",
                operand=operand,
                slug="shape-mismatch",
            )


def _refine_gmm(types: Sequence[MatrixType], _params: Params) -> Sequence[MatrixType]:
    prior, mean, deviation, feature = types
    cols = next((t.cols for t in (prior, mean, deviation) if t.cols is not None), 1)
    components = MatrixType(prior.rows if deviation.rows is None else deviation.rows, cols)
    rows: int | None = None
    if components.rows is not None and feature.rows is not None:
        rows = components.rows * feature.rows
    return [
        merged(prior, components),
        merged(mean, MatrixType(rows, cols)),
        merged(deviation, components),
        feature,
    ]


def _expand_gmm(b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType) -> Value:
    prior, mean, log_deviation, feature = (
        by_column(b, v, t) for v, t in zip(operands, operand_types(op), strict=True)
    )
    n, size = feature.tensor.dims
    given, components = prior.tensor.dims  # `given` is 1 or n
    size = fixed_size(size)
    cube = (n, components, size)
    x = broadcast(b, reshape(b, feature, (n, 1, size)), cube)
    difference = sub(b, x, broadcast(b, reshape(b, mean, (given, components, size)), cube))
    # In deviations before they are squared: so no square of usual deviations is lost or infinite.
    scale = _finite(b, log_deviation)
    fixed = stop_gradient(b, scale)
    inverse = reshape(b, exp(b, neg(b, fixed)), (given, components, 1))
    deviations = mul(b, difference, broadcast(b, inverse, cube))
    squares = reduce_sum(b, mul(b, deviations, deviations), [2])
    # 1, with the slope of e^(-2 scale) / e^(-2 fixed): no cube of differences is kept for it.
    moved = sub(b, scale, fixed)
    factor = sub(b, full_like(b, 1.0, scale), add(b, moved, moved))
    factor = broadcast(b, factor, (n, components))
    distance = mul(b, reshape(b, squares, (n, components)), factor)
    weight = sub(
        b,
        sub(
            b,
            composites.log_softmax(b, prior, 1),
            mul(b, log_deviation, full_like(b, size, log_deviation)),
        ),
        full_like(b, 0.5 * size * LOG_TWO_PI, log_deviation),
    )
    joint = sub(
        b,
        broadcast(b, weight, (n, components)),
        mul(b, distance, full_like(b, 0.5, distance)),
    )
    return from_columns(b, composites.log_sum_exp(b, joint, [1]), node_type(op))


def _finite(b: IRBuilder, log_deviation: Value) -> Value:
    """The logarithm of a deviation as far as that and its inverse are numbers: so a difference of
    none is 0 deviations and not nan."""
    most = math.log(float(np.finfo(log_deviation.tensor.dtype.numpy).max)) * (1 - 2.0**-20)
    low, high = (full_like(b, c, log_deviation) for c in (-most, most))
    return b.emit_one(MINIMUM, maximum(b, log_deviation, low), high)


def _gmm_reference(_p: Params, prior: Array, mean: Array, deviation: Array, x: Array) -> Array:
    result = np.empty((1, x.shape[1]), x.dtype)
    size = x.shape[0]
    for t in range(x.shape[1]):
        column = 0 if prior.shape[1] == 1 else t
        weight = np.exp(prior[:, column] - prior[:, column].max())
        weight = weight / weight.sum()
        terms = [
            np.log(weight[c])
            - 0.5
            * np.sum(
                ((x[:, t] - mean[c * size : (c + 1) * size, column]) / np.exp(deviation[c, column]))
                ** 2
            )
            - size * (deviation[c, column] + 0.5 * np.log(2 * np.pi))
            for c in range(prior.shape[0])
        ]
        result[0, t] = np.logaddexp.reduce(np.array(terms))
    return result


GMM_LOG_LIKELIHOOD = node_def(
    "gmm_log_likelihood",
    "log likelihood of each column under a mixture of Gaussians",
    ("unnormed_prior", "mean", "log_std_dev", "feature"),
    infer=_infer_gmm,
    refine=_refine_gmm,
    reference=_gmm_reference,
    expand=_expand_gmm,
    gap_values=(None, None, 0.0, None),  # its exponential is taken
    constraints=(
        "C1 unnormed_prior and log_std_dev have a row per component",
        "C2 rows of mean = components times rows of feature, one component after the other",
        "C3 unnormed_prior, mean and log_std_dev have one column, or as many as feature",
    ),
    equation="V_1j = ln Σ_c softmax(prior)_c N(x_j; mean_c, e^(2 log_std_dev_c) I)",
    source="book 4.1.4.21; the toolkit's constant has the components in place of rows(feature)",
    ndl=("GMMLogLikelihood", "GMMLL"),
)

OPS = (GMM_LOG_LIKELIHOOD,)
