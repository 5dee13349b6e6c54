"""Normalisations: each row, or each channel of an image, or each column to mean 0 and variance 1.

BatchNormalization goes by rows or channels, LayerNormalization by columns. Training of the former
normalises with mean and variance of the minibatch and moves two running parameters
towards them; otherwise the running parameters are what is normalised with. Channels are the fastest
index of a column, so a column of C·P rows holds P positions of C channels each, and what belongs
to a channel is a column of C numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.core import Array, IRBuilder, Operation, Value
from graphc.ir.types import DType, MatrixType, TensorType, Type, TypeRuleError
from graphc.ops import composites
from graphc.ops.constant import extent, full_like
from graphc.ops.elementwise import add, div, mul, sub
from graphc.ops.functions import sqrt, tanh
from graphc.ops.movement import reshape
from graphc.ops.nodes.layout import (
    NodeParams,
    matrix,
    merged,
    node_def,
    node_type,
    operand_types,
    row_axis,
    spread,
)
from graphc.ops.nodes.statistics import columns_of, refine_two_columns, with_two_columns
from graphc.ops.nodes.training import MINIBATCH_SAMPLES, TrainingCall
from graphc.ops.reduction import broadcast

RUNNING = (3, 4)
"""The operands that training moves without a gradient."""


@dataclass(frozen=True)
class BatchNormalizationParams(NodeParams):
    """eval_mode                    use and keep the running parameters in training too
    spatial                      one mean for each channel in place of each row
    normalization_time_constant  T > 0: a minibatch of N samples counts 1 - e^(-N/T)
    exp_avg_factor               how much a minibatch counts where T is 0; 1: it alone does
    epsilon                      added to the variance
    """

    eval_mode: bool = False
    spatial: bool = False
    normalization_time_constant: float = 0.0
    exp_avg_factor: float = 1.0
    epsilon: float = 1e-5
    tags: tuple[str, ...] = ()


def running_parameters(op: Operation) -> tuple[Value, ...]:
    """What training gives new values without a gradient; none for other nodes."""
    return tuple(op.operands[i] for i in RUNNING) if op.opdef is BATCH_NORMALIZATION else ()


def normalises_by_minibatch(op: Operation) -> bool:
    """Whether the node takes, in training, mean and variance of the minibatch's columns."""
    return isinstance(op.params, BatchNormalizationParams) and not op.params.eval_mode


# --- sizes ---------------------------------------------------------------------------------------


def _infer(types: Sequence[Type], params: BatchNormalizationParams) -> Sequence[Type]:
    _check_settings(params)
    x, *columns = (matrix(t) for t in types)
    if x.cols is not None and not x.is_per_sample:
        raise TypeRuleError(f"requires a node with one column per sample, got {x}", operand=0)
    channels = _channels([x, *columns], params)
    for index, column in enumerate(columns, start=1):
        fits = column.rows in (None, channels) and column.cols in (None, 1)
        if channels is not None and not fits:
            what = "channels" if params.spatial else "rows"
            raise TypeRuleError(
                f"requires {BATCH_NORMALIZATION.operands[index]} of size {channels}x1, as many as "
                f"{what}, for {x}, got {column}",
                operand=index,
                slug="shape-mismatch",
            )
    if x.rows is not None and channels is not None and x.rows % channels:
        raise TypeRuleError(
            f"requires rows that are a multiple of the {channels} channels, got {x}",
            operand=0,
            slug="shape-mismatch",
        )
    return [x]


def _check_settings(params: BatchNormalizationParams) -> None:
    if not 0 <= params.exp_avg_factor <= 1:
        raise TypeRuleError(
            f"requires expAvgFactor from 0 to 1, got {params.exp_avg_factor:g}", slug="bad-value"
        )
    if not params.normalization_time_constant >= 0:
        raise TypeRuleError(
            "requires a normalizationTimeConstant of at least 0, got "
            f"{params.normalization_time_constant:g}",
            slug="bad-value",
        )
    _check_epsilon(params.epsilon)


def _check_epsilon(epsilon: float) -> None:
    if not 0 <= epsilon < float("inf"):
        raise TypeRuleError(
            f"requires a finite epsilon of at least 0, got {epsilon:g}", slug="bad-value"
        )


def _channels(types: Sequence[MatrixType], params: BatchNormalizationParams) -> int | None:
    """How many means there are, as far as the sizes tell."""
    x, *columns = types
    if not params.spatial:
        return x.rows
    if x.image is not None:
        return x.image.channels
    return next((c.rows for c in columns if c.rows is not None), None)


def _refine(types: Sequence[MatrixType], params: BatchNormalizationParams) -> Sequence[MatrixType]:
    column = MatrixType(_channels(types, params), 1)
    return [types[0], *(merged(t, column) for t in types[1:])]


# --- what it computes ----------------------------------------------------------------------------


def _reference(
    _params: BatchNormalizationParams,
    x: Array,
    scale: Array,
    bias: Array,
    run_mean: Array,
    run_inv_std_dev: Array,
) -> Array:
    positions = x.shape[0] // scale.shape[0]
    tiled = [np.tile(v, (positions, 1)) for v in (scale, bias, run_mean, run_inv_std_dev)]
    return tiled[0] * ((x - tiled[2]) * tiled[3]) + tiled[1]


def _expand(b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType) -> Value:
    """Outside training: every column of four numbers is repeated over positions and samples."""
    x, *columns = operands
    types = operand_types(op)
    scale, bias, mean, inverse = (
        spread(b, v, t, types[0], x.tensor.dims) for v, t in zip(columns, types[1:], strict=True)
    )
    return add(b, mul(b, scale, mul(b, sub(b, x, mean), inverse)), bias)


def _expand_training(
    b: IRBuilder, op: Operation, operands: Sequence[Value], call: TrainingCall
) -> Value:
    params = op.params_as(BatchNormalizationParams)
    if params.eval_mode:
        return _expand(b, op, operands, call.dtype)
    x, scale, bias, run_mean, run_inverse = operands
    shown = x.tensor.dims
    channels, rows = operand_types(op)[1].rows, node_type(op).rows
    assert channels is not None and rows is not None
    positions = rows // channels
    dims = (shown[0], positions, channels)
    pixels = reshape(b, x, dims)
    mean, variance, centred = call.moments(b, pixels, (0, 1), positions)
    deviation = sqrt(b, add(b, variance, full_like(b, params.epsilon, variance)))
    inverse = div(b, full_like(b, 1.0, deviation), deviation)
    for index, run, seen in ((3, run_mean, mean), (4, run_inverse, inverse)):
        new = _moved(b, run, reshape(b, seen, run.tensor.dims), params, call)
        if new is not run:
            call.update(op, index, run, new)
    factor = mul(b, reshape(b, scale, (1, 1, channels)), inverse)
    offset = broadcast(b, reshape(b, bias, (1, 1, channels)), dims)
    return reshape(b, add(b, mul(b, broadcast(b, factor, dims), centred), offset), shown)


def _moved(
    b: IRBuilder, run: Value, seen: Value, params: BatchNormalizationParams, call: TrainingCall
) -> Value:
    """The running value after a minibatch in which `seen` was seen."""
    time = params.normalization_time_constant
    if time == 0 and params.exp_avg_factor == 1:
        return seen  # whatever the old value was, even nan
    if time == float("inf") or (time == 0 and params.exp_avg_factor == 0):
        return run
    if time > 0:
        factor = _share(b, call, time)
    else:
        factor = full_like(b, params.exp_avg_factor, run)
    step = mul(b, broadcast(b, factor, run.tensor.dims), sub(b, seen, run))
    return add(b, run, step)


def _share(b: IRBuilder, call: TrainingCall, time: float) -> Value:
    """1 - e^(-N/T) = 2 h / (1 + h) with h = tanh(N / 2T), which cancels nothing for small N/T."""
    if call.shards != 1:
        count = call.hyperparameter(MINIBATCH_SAMPLES)
    else:
        count = extent(b, call.samples, TensorType((1, 1), call.dtype))
    half = tanh(b, mul(b, count, full_like(b, 0.5 / time, count)))
    return div(b, add(b, half, half), add(b, full_like(b, 1.0, half), half))


BATCH_NORMALIZATION = node_def(
    "batch_normalization",
    "each row or channel to mean 0 and variance 1, then scaled and moved",
    ("x", "scale", "bias", "run_mean", "run_inv_std_dev"),
    params=BatchNormalizationParams,
    infer=_infer,
    refine=_refine,
    reference=_reference,
    expand=_expand,
    expand_training=_expand_training,
    constraints=(
        "C1 the columns of x are samples",
        "C2 the other operands have one row per row of x; with `spatial` one per channel, and the "
        "rows of x are a multiple of them, channels fastest",
        "C3 in training, run_mean and run_inv_std_dev are parameters of this node alone",
    ),
    equation="V = scale ∘ (X - mean) / √(var + ε) + bias in training; "
    "V = scale ∘ (X - runMean) ∘ runInvStdDev + bias otherwise",
    source="Ioffe and Szegedy, Batch Normalization, 2015; arguments of the toolkit's release 16",
)


# --- by columns ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LayerNormalizationParams(NodeParams):
    """epsilon: added to the variance"""

    epsilon: float = 1e-5
    tags: tuple[str, ...] = ()


def _infer_layer(types: Sequence[Type], params: LayerNormalizationParams) -> Sequence[Type]:
    _check_epsilon(params.epsilon)
    return with_two_columns("a scale and a bias")(types, params)


def _expand_layer(b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType) -> Value:
    x, scale, bias = columns_of(b, op, operands)
    epsilon = op.params_as(LayerNormalizationParams).epsilon
    made = composites.normalized(b, x, row_axis(node_type(op)), epsilon)
    return add(b, mul(b, made, scale), bias)


def _layer_reference(
    params: LayerNormalizationParams, x: Array, scale: Array, bias: Array
) -> Array:
    variance = np.var(x, axis=0, keepdims=True)
    return (x - np.mean(x, axis=0)) / np.sqrt(
        variance + x.dtype.type(params.epsilon)
    ) * scale + bias


LAYER_NORMALIZATION = node_def(
    "layer_normalization",
    "each column to mean 0 and variance 1, then scaled and moved",
    ("x", "scale", "bias"),
    params=LayerNormalizationParams,
    infer=_infer_layer,
    refine=refine_two_columns,
    reference=_layer_reference,
    expand=_expand_layer,
    gap_values=(0.0, None, None),
    constraints=("C1 scale and bias are columns with the rows of x",),
    equation="V = scale ∘ (X - mean) / √(var + ε) + bias, mean and variance of each column",
    source="Ba, Kiros and Hinton, Layer Normalization, 2016",
    ndl=("LayerNormalization",),
)

OPS = (BATCH_NORMALIZATION, LAYER_NORMALIZATION)
