"""Depthwise convolution: each channel of images has a kernel of its own. It and its two gradients:

    depthwise              x [.., E.., C], w [S.., C]       -> y [.., P.., C]
    depthwise_data_grad    y [.., P.., C], w [S.., C]       -> x [.., E.., C]
    depthwise_weight_grad  x [.., E.., C], y [.., P.., C]   -> w [S.., C]

P windows over each of one or two walked extents E, `strides` apart, whose S elements are
`dilations` apart. `low` and `high` elements around an image belong to its windows but hold nothing:
what would be read there is left out of the sums, so that a weight of infinity gives no nan at the
edge.

Each of the three is what the derivatives of the other two need.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.codegen import ChannelProduct
from graphc.ir.core import Array, IRBuilder, OpDef, Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import Dim, DType, TensorType, Type, TypeRuleError
from graphc.ops.patches import positions
from graphc.ops.rules import FLOATS, dims_text, multilinear_jvp, require_dtype, tensor

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class DepthwiseParams(Params):
    """`axis`: the first of the axes that are walked; the others have a number for each of them."""

    axis: int
    strides: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    dilations: tuple[int, ...]


@dataclass(frozen=True)
class DepthwiseDataGradParams(Params):
    """`extents`: those of the walked axes in the result."""

    axis: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    dilations: tuple[int, ...]


@dataclass(frozen=True)
class DepthwiseWeightGradParams(Params):
    """`sizes`: of the windows."""

    axis: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    dilations: tuple[int, ...]


AnyDepthwise = DepthwiseParams | DepthwiseDataGradParams | DepthwiseWeightGradParams


@dataclass(frozen=True, slots=True)
class DepthwiseShape:
    """What the operands' types and the settings say, whichever of the three it is.

    lead     dims before the walked ones
    extents  of an image along the walked axes, without what is around it
    places   how many windows there are along them
    """

    lead: tuple[Dim, ...]
    extents: Sizes
    places: Sizes
    sizes: Sizes
    strides: Sizes
    low: Sizes
    dilations: Sizes
    channels: int

    @property
    def images(self) -> tuple[Dim, ...]:
        """Dims of the images."""
        return (*self.lead, *self.extents, self.channels)

    @property
    def results(self) -> tuple[Dim, ...]:
        """Dims of what is made of their windows."""
        return (*self.lead, *self.places, self.channels)

    @property
    def weights(self) -> Sizes:
        """Dims of the kernels."""
        return (*self.sizes, self.channels)


def depthwise(
    b: IRBuilder,
    x: Value,
    w: Value,
    axis: int,
    strides: Sizes,
    low: Sizes,
    high: Sizes,
    dilations: Sizes,
) -> Value:
    """x [.., E.., C] with a kernel w [S.., C] for each channel; the walked axes begin at `axis`."""
    params = DepthwiseParams(axis, strides, low, high, dilations)
    return b.emit_one(DEPTHWISE, x, w, params=params)


def depthwise_shape(params: Params, types: Sequence[Type]) -> DepthwiseShape:
    """What the operands' types and the settings say. Raises TypeRuleError."""
    first, second = tensor(types[0], 0), tensor(types[1], 1)
    require_dtype(first, FLOATS)
    if first.dtype != second.dtype:
        raise TypeRuleError(
            f"requires operands of one element type, got {first} and {second}", operand=1
        )
    assert isinstance(params, AnyDepthwise)
    axis, walked = params.axis, len(params.strides)
    if walked not in (1, 2) or axis < 0 or first.rank != axis + walked + 1:
        raise TypeRuleError(
            f"requires one or two walked axes from {axis} on, then one of channels, "
            f"got {walked} of {first}"
        )
    _require_walk(params, walked)
    inner = _known(first, 0, axis)
    extents = params.extents if isinstance(params, DepthwiseDataGradParams) else inner[:walked]
    if isinstance(params, DepthwiseWeightGradParams):
        sizes = params.sizes
    else:
        sizes = _known(second, 1, 0)[:-1]
    if len(sizes) != walked or len(extents) != walked or min((*sizes, 1)) < 1:
        raise TypeRuleError(
            f"requires sizes of at least 1 and extents for {walked} axes, got {dims_text(sizes)} "
            f"and {dims_text(extents)}",
            slug="bad-value",
        )
    spans = tuple((s - 1) * d + 1 for s, d in zip(sizes, params.dilations, strict=True))
    whole = tuple(map(sum, zip(extents, params.low, params.high, strict=True)))
    if any(span > extent for span, extent in zip(spans, whole, strict=True)):
        raise TypeRuleError(
            f"requires windows that fit into {dims_text(whole)}, got {dims_text(spans)}",
            slug="bad-value",
        )
    places = tuple(map(positions, whole, spans, params.strides))
    return DepthwiseShape(
        first.dims[:axis],
        extents,
        places,
        sizes,
        params.strides,
        params.low,
        params.dilations,
        inner[-1],
    )


def _require_walk(params: AnyDepthwise, walked: int) -> None:
    steps, around = (params.strides, params.dilations), (params.low, params.high)
    if any(len(n) != walked for n in (*steps, *around)):
        raise TypeRuleError(
            f"requires a stride, a dilation, low and high for each of {walked} axes, got "
            f"{', '.join(map(dims_text, (*steps, *around)))}"
        )
    if min(map(min, steps)) < 1 or min(map(min, around)) < 0:
        raise TypeRuleError(
            "requires strides and dilations of at least 1, low and high of at least 0, got "
            f"{', '.join(map(dims_text, (*steps, *around)))}",
            slug="bad-value",
        )


def _known(type: TensorType, operand: int, start: int) -> Sizes:
    dims = type.dims[start:]
    if not dims or not all(isinstance(d, int) for d in dims):
        raise TypeRuleError(f"requires known extents, got {type}", operand=operand)
    return tuple(d for d in dims if isinstance(d, int))


def _infer(types: Sequence[Type], params: Params) -> Sequence[Type]:
    shape = depthwise_shape(params, types)
    match params:
        case DepthwiseParams():
            dims, wanted, result = shape.images, shape.weights, shape.results
        case DepthwiseDataGradParams():
            dims, wanted, result = shape.results, shape.weights, shape.images
        case _:
            dims, wanted, result = shape.images, shape.results, shape.weights
    for index, needed in enumerate((dims, wanted)):
        if tensor(types[index]).dims != needed:
            raise TypeRuleError(
                f"requires dims {dims_text(needed)}, got {types[index]}",
                operand=index,
                slug="shape-mismatch",
            )
    return [tensor(types[0]).with_dims(result)]


# --- references: the elements of a window one after the other -------------------------------------

Taps = Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]]


def _taps(p: AnyDepthwise, extents: Sequence[int], sizes: Sequence[int], places: Sizes) -> Taps:
    """For each element of a window its index, where it is in an image, and of which windows."""
    lead = (slice(None),) * p.axis
    for index in np.ndindex(*sizes):
        here: list[slice] = []
        there: list[slice] = []
        for axis, i in enumerate(index):
            shift, step = i * p.dilations[axis] - p.low[axis], p.strides[axis]
            first = max(0, math.ceil(-shift / step))
            count = min(places[axis], (extents[axis] - 1 - shift) // step + 1) - first
            if count < 1:
                break
            start = first * step + shift
            here.append(slice(start, start + (count - 1) * step + 1, step))
            there.append(slice(first, first + count))
        else:
            yield index, (*lead, *here), (*lead, *there)


def _shape_of(p: AnyDepthwise, *arrays: Array) -> DepthwiseShape:
    return depthwise_shape(p, [TensorType(a.shape, DType.F64) for a in arrays])


def _depthwise_reference(p: DepthwiseParams, x: Array, w: Array) -> Array:
    s = _shape_of(p, x, w)
    y = np.zeros((*x.shape[: p.axis], *s.places, s.channels), x.dtype)
    for index, here, there in _taps(p, s.extents, s.sizes, s.places):
        y[there] += x[here] * w[index]
    return y


def _data_grad_reference(p: DepthwiseDataGradParams, y: Array, w: Array) -> Array:
    s = _shape_of(p, y, w)
    x = np.zeros((*y.shape[: p.axis], *s.extents, s.channels), y.dtype)
    for index, here, there in _taps(p, s.extents, s.sizes, s.places):
        x[here] += y[there] * w[index]
    return x


def _weight_grad_reference(p: DepthwiseWeightGradParams, x: Array, y: Array) -> Array:
    s = _shape_of(p, x, y)
    w = np.zeros(s.weights, x.dtype)
    for index, here, there in _taps(p, s.extents, s.sizes, s.places):
        products = x[here] * y[there]
        while products.ndim > 1:  # axis by axis, or rounding errors grow with their product
            products = products.sum(-2)
        w[index] = products
    return w


# --- derivatives ----------------------------------------------------------------------------------


def _result(b: IRBuilder, p: AnyDepthwise, x: Value, w: Value) -> Value:
    return depthwise(b, x, w, p.axis, p.strides, p.low, p.high, p.dilations)


def _data_grad(b: IRBuilder, p: AnyDepthwise, y: Value, w: Value, extents: Sizes) -> Value:
    params = DepthwiseDataGradParams(p.axis, extents, p.strides, p.low, p.high, p.dilations)
    return b.emit_one(DEPTHWISE_DATA_GRAD, y, w, params=params)


def _weight_grad(b: IRBuilder, p: AnyDepthwise, x: Value, y: Value, sizes: Sizes) -> Value:
    params = DepthwiseWeightGradParams(p.axis, sizes, p.strides, p.low, p.high, p.dilations)
    return b.emit_one(DEPTHWISE_WEIGHT_GRAD, x, y, params=params)


def _slopes(b: IRBuilder, op: Operation, slope: Value) -> Sequence[Value | None]:
    """Of all three: what is linear in the two others."""
    assert isinstance(op.params, AnyDepthwise)
    p, (first, second) = op.params, op.operands
    s = depthwise_shape(p, [v.type for v in op.operands])
    match p:
        case DepthwiseParams():
            back = _data_grad(b, p, slope, second, s.extents)
            return [back, _weight_grad(b, p, first, slope, s.sizes)]
        case DepthwiseDataGradParams():
            return [_result(b, p, slope, second), _weight_grad(b, p, slope, first, s.sizes)]
        case _:
            return [_data_grad(b, p, second, slope, s.extents), _result(b, p, first, slope)]


DEPTHWISE = OpDef(
    name="depthwise",
    summary="windows of each channel of images, times a kernel of its own",
    operands=("x", "w"),
    params=DepthwiseParams,
    infer=_infer,
    reference=_depthwise_reference,
    codegen=ChannelProduct("result"),
    vjp=_slopes,
    jvp=multilinear_jvp,
    equation="y[.., p, c] = Σ x[.., stride p + dilation s - low, c] w[s, c]",
)
DEPTHWISE_DATA_GRAD = OpDef(
    name="depthwise_data_grad",
    summary="results times the kernels of their channels, added where their windows lie",
    operands=("y", "w"),
    params=DepthwiseDataGradParams,
    infer=_infer,
    reference=_data_grad_reference,
    codegen=ChannelProduct("data_grad"),
    vjp=_slopes,
    jvp=multilinear_jvp,
    equation="x[.., e, c] = Σ y[.., p, c] w[s, c] over stride p + dilation s - low = e",
)
DEPTHWISE_WEIGHT_GRAD = OpDef(
    name="depthwise_weight_grad",
    summary="products of windows and results of each channel, added over all places",
    operands=("x", "y"),
    params=DepthwiseWeightGradParams,
    infer=_infer,
    reference=_weight_grad_reference,
    codegen=ChannelProduct("weight_grad"),
    vjp=_slopes,
    jvp=multilinear_jvp,
    equation="w[s, c] = Σ x[.., stride p + dilation s - low, c] y[.., p, c]",
)

OPS = (DEPTHWISE, DEPTHWISE_DATA_GRAD, DEPTHWISE_WEIGHT_GRAD)
