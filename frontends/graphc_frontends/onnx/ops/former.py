"""Operators as they were in former versions, told in terms of what they are now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import graphc as gc
from graphc_frontends.onnx.graph import Context
from graphc_frontends.onnx.operators import handler_of, operator
from graphc_frontends.onnx.ops.elementwise import OF_TWO
from graphc_frontends.onnx.ops.lookups import top_k
from graphc_frontends.onnx.ops.normalization import batch_normalization
from graphc_frontends.onnx.ops.products import gemm
from graphc_frontends.onnx.ops.resizing import upsample
from graphc_frontends.onnx.values import axis_of, of, rank_of, shape_of


def _of_two(name: str) -> None:
    @operator(name)
    def handler(
        x: Any,
        y: Any,
        *,
        axis: int | None = None,
        broadcast: int = 0,
        consumed_inputs: object = None,
    ) -> object:
        """With `broadcast` the axes of y are those of x from `axis` on, or the last ones."""
        if broadcast and axis is not None:
            after = rank_of(x) - axis_of(axis, rank_of(x)) - rank_of(y)
            y = of(y).reshape(y, (*shape_of(y), *[1] * after))
        now = handler_of("", name, 7)
        assert now is not None
        return now.function(x, y)


for _name in OF_TWO:
    _of_two(_name)


@operator("PRelu")
def prelu(x: Any, slope: Any, *, consumed_inputs: object = None) -> object:
    """A vector of slopes has one for each channel."""
    if rank_of(slope) == 1:
        slope = gc.reshape(slope, (shape_of(slope)[0], *[1] * (rank_of(x) - 2)))
    return gc.where(x < 0, slope * x, x)


@operator("Gemm")
def gemm_1(
    a: Any,
    b: Any,
    c: Any,
    *,
    alpha: float,
    beta: float,
    transA: int,  # ONNX's names
    transB: int,
    broadcast: int,
) -> object:
    return gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


@operator("BatchNormalization")
def batch_normalization_1(
    x: Any,
    scale: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    *,
    epsilon: float,
    momentum: float,
    is_test: int,
    consumed_inputs: object = None,
    context: Context,
) -> object:
    return batch_normalization(
        x,
        scale,
        bias,
        mean,
        variance,
        epsilon=epsilon,
        momentum=momentum,
        training_mode=not is_test,
        context=context,
    )


@operator("Upsample", 7)
def upsample_7(x: Any, *, mode: str, scales: Sequence[float]) -> object:
    return upsample(x, np.array(scales), mode=mode)


@operator("TopK")
def top_k_1(x: Any, *, axis: int, k: int) -> object:
    return top_k(x, np.array(k), axis=axis)
