"""Uses of depthwise convolution and its gradients, for the operation table: dims and settings."""

from __future__ import annotations

from collections.abc import Iterable

from graphc.ir.types import Symbol
from graphc.ops.depthwise import (
    DepthwiseDataGradParams,
    DepthwiseParams,
    DepthwiseWeightGradParams,
)
from tests.support.movement_cases import Dims, Use

_Sizes = tuple[int, ...]
_Walk = tuple[Dims, _Sizes, _Sizes, _Sizes, _Sizes, _Sizes, _Sizes, int]

_WALKS: tuple[_Walk, ...] = (
    # before, extents, sizes, strides, low, high, dilations, channels
    ((), (1,), (1,), (1,), (0,), (0,), (1,), 1),
    ((2,), (4,), (3,), (1,), (0,), (0,), (1,), 3),
    ((), (9,), (3,), (2,), (1,), (0,), (2,), 3),
    ((0,), (4,), (2,), (1,), (0,), (0,), (1,), 3),
    ((), (40,), (30,), (1,), (14,), (15,), (1,), 2),
    ((1,), (3, 4), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1),
    ((2,), (6, 19), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 37),
    ((1,), (3, 4), (2, 2), (1, 3), (0, 2), (2, 1), (2, 1), 1),
    ((), (5, 6), (2, 3), (3, 4), (4, 3), (0, 5), (1, 2), 3),
    ((2, 1), (4, 3), (4, 3), (1, 1), (0, 0), (0, 0), (1, 1), 1),
    ((2,), (3, 3), (2, 2), (1, 1), (0, 1), (1, 0), (1, 1), 0),
    ((3,), (9, 23), (5, 5), (1, 1), (2, 2), (2, 2), (1, 1), 6),
    ((1,), (2, 3), (5, 7), (1, 1), (2, 4), (3, 3), (1, 1), 2),
    ((2,), (1, 6), (1, 1), (1, 2), (0, 0), (0, 0), (1, 1), 2),
    ((), (2, 17), (2, 2), (1, 1), (0, 0), (0, 0), (1, 1), 2),
)


def _all(n: Symbol) -> Iterable[tuple[_Walk, Dims, Dims, Dims]]:
    """Each walk, and the dims of images, weights and results."""
    for i, walk in enumerate(_WALKS):
        before, extents, sizes, strides, low, high, dilations, channels = walk
        lead = (n, *before[1:]) if before and i % 2 else before
        numbers = zip(extents, sizes, strides, low, high, dilations, strict=True)
        places = [(e + a + z - (s - 1) * d - 1) // t + 1 for e, s, t, a, z, d in numbers]
        images, results = (*lead, *extents, channels), (*lead, *places, channels)
        yield (lead, *walk[1:]), images, (*sizes, channels), results


def results(n: Symbol) -> Iterable[Use]:
    """Inside, padded on one side and both, with gaps in the windows and between them."""
    for (lead, _, _, *numbers, _), images, weights, _ in _all(n):
        strides, low, high, dilations = numbers
        yield (images, weights), DepthwiseParams(len(lead), strides, low, high, dilations)


def data_grads(n: Symbol) -> Iterable[Use]:
    """The same, back to images."""
    for (lead, extents, _, *numbers, _), _, weights, made in _all(n):
        strides, low, high, dilations = numbers
        params = DepthwiseDataGradParams(len(lead), extents, strides, low, high, dilations)
        yield (made, weights), params


def weight_grads(n: Symbol) -> Iterable[Use]:
    """The same, to weights."""
    for (lead, _, sizes, *numbers, _), images, _, made in _all(n):
        strides, low, high, dilations = numbers
        params = DepthwiseWeightGradParams(len(lead), sizes, strides, low, high, dilations)
        yield (images, made), params
