"""Operators that draw random numbers, which follow from the input `random.step` of the program.

A call with the same step draws the same numbers, on every backend. Without a seed each node has
numbers of its own; nodes with the same seed have the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import graphc as gc
from graphc_frontends.onnx.graph import Context
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.ops.elementwise import cast_to
from graphc_frontends.onnx.reading import element_type
from graphc_frontends.onnx.values import (
    Dim,
    Weight,
    dtype_of,
    fixed,
    is_known,
    known_number,
    rank_of,
    shape_of,
    unsupported,
)

SEEDED = 2**32
"""Seeds of graphc's from here on are those that a node gives."""


def _uniform(context: Context, sizes: Sequence[Dim], seed: float | None) -> Any:
    """f32 numbers k / 2^24 in [0, 1)."""
    reader = context.reader
    if reader.loops:
        raise unsupported("a random number in a step of a loop")
    reader.drawn += 1
    if seed is None:
        return gc.random_uniform(tuple(sizes), reader.step, stream=reader.drawn)
    bits = int(np.float32(seed).view(np.uint32))
    return gc.random_uniform(tuple(sizes), reader.step, seed=SEEDED + bits)


def _normal(context: Context, sizes: Sequence[Dim], seed: float | None) -> Any:
    """f32 numbers of mean 0 and variance 1, each of two uniform ones. (Box and Muller, 1958)"""
    both = _uniform(context, (2, *sizes), seed)
    return gc.sqrt(-2.0 * gc.log(1.0 - both[0])) * gc.cos(2 * math.pi * both[1])


def _type(dtype: int | None, like: Any = None) -> np.dtype[Any]:
    if dtype is not None:
        return element_type(dtype)
    return np.dtype(np.float32) if like is None else dtype_of(like)


@operator("RandomUniform")
def random_uniform(
    *,
    dtype: int,
    high: float,
    low: float,
    seed: float | None = None,
    shape: Sequence[int],
    context: Context,
) -> object:
    return cast_to(low + (high - low) * _uniform(context, shape, seed), _type(dtype))


@operator("RandomUniformLike")
def random_uniform_like(
    x: Any,
    *,
    dtype: int | None = None,
    high: float,
    low: float,
    seed: float | None = None,
    context: Context,
) -> object:
    numbers = low + (high - low) * _uniform(context, shape_of(x), seed)
    return cast_to(numbers, _type(dtype, x))


@operator("RandomNormal")
def random_normal(
    *,
    dtype: int,
    mean: float,
    scale: float,
    seed: float | None = None,
    shape: Sequence[int],
    context: Context,
) -> object:
    return cast_to(mean + scale * _normal(context, shape, seed), _type(dtype))


@operator("RandomNormalLike")
def random_normal_like(
    x: Any,
    *,
    dtype: int | None = None,
    mean: float,
    scale: float,
    seed: float | None = None,
    context: Context,
) -> object:
    return cast_to(mean + scale * _normal(context, shape_of(x), seed), _type(dtype, x))


@operator("Bernoulli")
def bernoulli(
    x: Any, *, dtype: int | None = None, seed: float | None = None, context: Context
) -> object:
    """1 as often as an element says."""
    return cast_to(_uniform(context, shape_of(x), seed) < gc.cast(x, "f32"), _type(dtype, x))


@operator("Multinomial")
def multinomial(
    x: Any, *, dtype: int, sample_size: int, seed: float | None = None, context: Context
) -> object:
    """[rows, samples] of the logarithms of shares [rows, classes]: a class where the shares up to
    it are more than a uniform number of all."""
    (classes,) = fixed([shape_of(x)[1]], "a choice of classes")
    shares = gc.softmax(gc.cast(x, "f32"))
    upto = shares @ np.triu(np.ones((classes, classes), np.float32))
    drawn = _uniform(context, (shape_of(x)[0], sample_size), seed)
    is_passed = gc.expand_dims(upto, 1) <= gc.expand_dims(drawn, 2)
    place = gc.sum(gc.cast(is_passed, "i64"), 2)
    numbers = np.arange(classes, dtype=np.int64)
    last = gc.max(gc.where(shares > 0.0, numbers, np.int64(0)), 1, keepdims=True)
    return cast_to(gc.minimum(place, last), element_type(dtype))


# --- Dropout -------------------------------------------------------------------------------------


@operator("Dropout", 7)
def dropout_7(x: Any, *, ratio: float) -> object:
    return gc.dropout(x, ratio), _all_true(x)


@operator("Dropout", 12)
def dropout(
    x: Any,
    ratio: Any = None,
    training: Any = None,
    *,
    seed: int | None = None,
    context: Context,
) -> object:
    """For inference x itself, until the program is trained; in training mode it keeps 1 - ratio of
    x, times 1 / (1 - ratio)."""
    if training is None or not bool(known_number(training, "training_mode")):
        rate = 0.5 if ratio is None else known_number(ratio, "a ratio of dropout for inference")
        return gc.dropout(x, rate), _all_true(x)
    if isinstance(ratio, Weight) or is_known(ratio):
        ratio = np.float32(known_number(ratio, "a ratio of dropout"))
        if ratio == 0:
            return x, _all_true(x)
    share = gc.cast(np.float32(0.5) if ratio is None else gc.reshape(ratio, ()), "f32")
    kept = _uniform(context, shape_of(x), seed) >= share
    scale = gc.where(share < 1.0, 1.0 / gc.where(share < 1.0, 1.0 - share, 1.0), 0.0)
    scaled = cast_to(cast_to(x, np.dtype(np.float32)) * scale, dtype_of(x))
    return gc.where(kept, scaled, cast_to(np.zeros([1] * rank_of(x)), dtype_of(x))), kept


def _all_true(x: Any) -> object:
    sizes = shape_of(x)
    if all(isinstance(n, int) for n in sizes):
        return np.ones(sizes, bool)  # type: ignore[arg-type]
    return gc.cast(gc.ones(sizes), "i1")
