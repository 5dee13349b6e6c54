"""What windows become: convolutions and pooling where `fuse-patches` finds them, else elements
that are picked by place.

ONNX has channels first, the IR has them last: both sides of a convolution are transposed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.artifacts.onnx.graph import Graph, Writer
from graphc.ir.core import OpDef, Operation
from graphc.ir.dims import size_product
from graphc.ir.types import Dim, DType, TensorType, fixed_size
from graphc.ops import convolution, depthwise, patches, pooling
from graphc.ops.convolution import ConvShape, conv_shape

# --- windows by place ----------------------------------------------------------------------------


def _places(g: Graph, positions: Dim, size: int, stride: int, dilation: int = 1) -> str:
    """[positions, size]: where the elements of each window lie along its axis, i64."""
    if isinstance(positions, int):
        found = np.arange(positions)[:, None] * stride + np.arange(size) * dilation
        return g.file.array(found.astype(np.int64))
    first = g.node("Mul", g.positions(positions), g.number(stride, DType.I64))
    first = g.reshape(first, [positions, 1])
    within = g.file.array(np.arange(size, dtype=np.int64) * dilation)
    return g.node("Add", first, within)


@dataclass(frozen=True)
class _Walk:
    """Windows over neighbouring axes from `axis` on, `positions` of them along each."""

    axis: int
    positions: Sequence[Dim]
    sizes: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]

    def places(self, g: Graph, i: int) -> str:
        return _places(g, self.positions[i], self.sizes[i], self.strides[i], self.dilations[i])


def _windows(g: Graph, x: str, rank: int, walk: _Walk) -> str:
    """[.., E.., ..] of that rank as [.., P.., S.., ..]."""
    count = len(walk.sizes)
    paired = [walk.axis + 2 * i for i in range(count)]  # each axis becomes two
    for i, axis in enumerate(paired):
        x = g.node("Gather", x, walk.places(g, i), axis=axis)
    order = [*range(walk.axis), *paired, *(a + 1 for a in paired)]
    return g.transpose(x, [*order, *range(len(order), rank + count)])


def _overlapped(g: Graph, y: str, type: TensorType, walk: _Walk, extents: Sequence[Dim]) -> str:
    """[.., P.., S.., ..] added into [.., E.., ..].

    One walked axis after the other, the last one first: windows lie along the first axis while
    they are added.
    """
    dims = list(type.dims)
    for i in reversed(range(len(extents))):
        positions, sizes = walk.axis + i, walk.axis + len(extents) + i
        rest = [a for a in range(len(dims)) if a not in (positions, sizes)]
        kept, count = [dims[a] for a in rest], size_product([dims[positions], dims[sizes]])
        rows = g.reshape(g.transpose(y, [positions, sizes, *rest]), [count, *kept])
        zeros = g.full(g.number(0, type.dtype), [extents[i], *kept])
        index = g.reshape(walk.places(g, i), [count, 1])
        added = g.node("ScatterND", zeros, index, rows, reduction="add")
        order = [*range(1, positions + 1), 0, *range(positions + 1, len(kept) + 1)]
        y = g.transpose(added, order)  # the extent takes the place of the positions
        dims = [*kept[:positions], extents[i], *kept[positions:]]
    return y


def _patches(g: Graph, op: Operation) -> None:
    p, (x,) = op.params_as(patches.PatchesParams), op.operands
    count = len(p.sizes)
    positions = op.result.tensor.dims[p.axis : p.axis + count]
    walk = _Walk(p.axis, positions, p.sizes, p.strides, (1,) * count)
    g.hold(op.result, _windows(g, g.whole(x), x.tensor.rank, walk))


def _overlap_add(g: Graph, op: Operation) -> None:
    p, (y,) = op.params_as(patches.OverlapAddParams), op.operands
    count = len(p.extents)
    inner = y.tensor.dims[p.axis : p.axis + 2 * count]
    sizes = [fixed_size(d) for d in inner[count:]]
    walk = _Walk(p.axis, inner[:count], sizes, p.strides, (1,) * count)
    g.hold(op.result, _overlapped(g, g.whole(y), y.tensor, walk, p.extents))


# --- convolutions --------------------------------------------------------------------------------


def _channels_first(
    g: Graph, x: str, lead: Sequence[Dim], extents: Sequence[int], channels: int
) -> str:
    """[lead.., E.., C..] as [N, C, E..]."""
    walked = len(extents)
    x = g.reshape(x, [size_product(lead), *extents, channels])
    return g.transpose(x, [0, walked + 1, *range(1, walked + 1)])


def _channels_last(g: Graph, y: str, walked: int, dims: Sequence[Dim]) -> str:
    """[N, F, P..] as [lead.., P.., F..]."""
    return g.reshape(g.transpose(y, [0, *range(2, walked + 2), 1]), dims)


def _convolution(g: Graph, op: Operation) -> tuple[ConvShape, str, int]:
    """The sizes of a convolution, its first operand with channels first, and how many axes."""
    shape = conv_shape(op.params, [v.type for v in op.operands])
    x, walked = op.operands[0], len(shape.strides)
    behind = x.tensor.dims[len(shape.lead) + walked :]
    count = math.prod(d for d in behind if isinstance(d, int))
    middle = [d for d in x.tensor.dims[len(shape.lead) :][:walked] if isinstance(d, int)]
    return shape, _channels_first(g, g.whole(x), shape.lead, middle, count), walked


def _conv(g: Graph, op: Operation) -> None:
    shape, x, walked = _convolution(g, op)
    channels, features = math.prod(shape.channels), math.prod(shape.features)
    weights = g.reshape(g.whole(op.operands[1]), [*shape.sizes, channels, features])
    weights = g.transpose(weights, [walked + 1, walked, *range(walked)])
    made = g.node(
        "Conv",
        x,
        weights,
        kernel_shape=list(shape.sizes),
        strides=list(shape.strides),
        pads=[*shape.low, *shape.high],
    )
    g.hold(op.result, _channels_last(g, made, walked, op.result.tensor.dims))


def _conv_data_grad(g: Graph, op: Operation) -> None:
    """A transposed convolution. Places behind the last window are zeros: they are padded on."""
    shape, y, walked = _convolution(g, op)
    channels, features = math.prod(shape.channels), math.prod(shape.features)
    # [S.., F.., S, C..]
    weights = g.reshape(
        g.whole(op.operands[1]), [*shape.sizes[:-1], features, shape.sizes[-1], channels]
    )
    weights = g.transpose(weights, [walked - 1, walked + 1, *range(walked - 1), walked])
    reached = [
        (n - 1) * stride + size
        for n, stride, size in zip(shape.output_positions, shape.strides, shape.sizes, strict=True)
    ]
    rest = [e - r for e, r in zip(shape.extents, reached, strict=True)]
    made = g.node(
        "ConvTranspose",
        y,
        weights,
        kernel_shape=list(shape.sizes),
        strides=list(shape.strides),
        pads=[0] * (2 * walked),
    )
    if any(rest):
        ends = [0] * (walked + 4) + rest
        number = g.number(0.0, op.result.tensor.dtype)
        made = g.node("Pad", made, g.sizes(ends), number, mode="constant")
    for i, (low, high, extent) in enumerate(zip(shape.low, shape.high, shape.extents, strict=True)):
        if low or high:
            made = g.cut(made, i + 2, low, extent - high)
    g.hold(op.result, _channels_last(g, made, walked, op.result.tensor.dims))


def _pool(g: Graph, op: Operation) -> None:
    p = op.params_as(pooling.PoolParams)
    shape, x = pooling.pool_shape(p, [v.type for v in op.operands]), op.operands[0]
    dtype, walked = x.tensor.dtype, len(p.sizes)
    made = _channels_first(g, g.whole(x), shape.lead, shape.extents, math.prod(shape.channels))
    walk = {"kernel_shape": list(p.sizes), "strides": list(p.strides)}
    match p.scalar_op:
        case "add":
            made = g.node("AveragePool", made, **walk)
            made = g.node("Mul", made, g.number(math.prod(p.sizes), dtype))
        case "maximum":
            made = g.node("MaxPool", made, **walk)
        case _:
            made = g.node("Neg", g.node("MaxPool", g.node("Neg", made), **walk))
    g.hold(op.result, _channels_last(g, made, walked, op.result.tensor.dims))


# --- depthwise convolutions ----------------------------------------------------------------------


def _depthwise(g: Graph, op: Operation) -> None:
    """A convolution in groups of one channel; of f64, which ONNX Runtime has none of, a sum."""
    p, (x, w) = op.params_as(depthwise.DepthwiseParams), op.operands
    shape = depthwise.depthwise_shape(p, [x.tensor, w.tensor])
    walked = len(shape.sizes)
    if x.tensor.dtype is DType.F64 or not shape.channels:
        found = _padded_windows(g, op, shape, p.high)
        made = g.node("ReduceSum", g.node("Mul", found, g.whole(w)), _inner(g, p.axis, walked))
        g.hold(op.result, g.reshape(made, shape.results))
        return
    weights = g.reshape(g.whole(w), [*shape.sizes, 1, shape.channels])
    made = g.node(
        "Conv",
        _channels_first(g, g.whole(x), shape.lead, shape.extents, shape.channels),
        g.transpose(weights, [walked + 1, walked, *range(walked)]),
        group=shape.channels,
        kernel_shape=list(shape.sizes),
        strides=list(shape.strides),
        dilations=list(shape.dilations),
        pads=[*p.low, *p.high],
    )
    g.hold(op.result, _channels_last(g, made, walked, shape.results))


def _depthwise_data_grad(g: Graph, op: Operation) -> None:
    """Each element times the kernel, put where its window lies; the border is cut off."""
    p, (y, w) = op.params_as(depthwise.DepthwiseDataGradParams), op.operands
    shape = depthwise.depthwise_shape(p, [y.tensor, w.tensor])
    walked = len(shape.sizes)
    spread = g.reshape(g.whole(y), [*shape.lead, *shape.places, *[1] * walked, shape.channels])
    products = g.node("Mul", spread, g.whole(w))
    dims = (*shape.lead, *shape.places, *shape.sizes, shape.channels)
    walk = _Walk(p.axis, shape.places, shape.sizes, shape.strides, shape.dilations)
    whole = [sum(n) for n in zip(shape.extents, p.low, p.high, strict=True)]
    made = _overlapped(g, products, TensorType(dims, y.tensor.dtype), walk, whole)
    for i, (low, extent) in enumerate(zip(p.low, shape.extents, strict=True)):
        if whole[i] != extent:
            made = g.cut(made, p.axis + i, low, low + extent)
    g.hold(op.result, made)


def _depthwise_weight_grad(g: Graph, op: Operation) -> None:
    """Of every window its elements times the one that it made, added up."""
    p, (x, y) = op.params_as(depthwise.DepthwiseWeightGradParams), op.operands
    shape = depthwise.depthwise_shape(p, [x.tensor, y.tensor])
    walked = len(shape.sizes)
    spread = g.reshape(g.whole(y), [*shape.lead, *shape.places, *[1] * walked, shape.channels])
    products = g.node("Mul", _padded_windows(g, op, shape, p.high), spread)
    made = g.node("ReduceSum", products, g.sizes([*range(p.axis + walked)]))
    g.hold(op.result, g.reshape(made, shape.weights))


def _padded_windows(
    g: Graph, op: Operation, shape: depthwise.DepthwiseShape, high: Sequence[int]
) -> str:
    """[.., P.., S.., C] of the first operand with zeros around it."""
    x, before = op.operands[0], [0] * len(shape.lead)
    made = g.whole(x)
    if any((*shape.low, *high)):
        ends = g.sizes([*before, *shape.low, 0, *before, *high, 0])
        made = g.node("Pad", made, ends, g.number(0.0, x.tensor.dtype), mode="constant")
    walk = _Walk(len(before), shape.places, shape.sizes, shape.strides, shape.dilations)
    return _windows(g, made, x.tensor.rank, walk)


def _inner(g: Graph, axis: int, walked: int) -> str:
    """The axes of a window's elements."""
    return g.sizes([*range(axis + walked, axis + 2 * walked)])


WRITERS: Mapping[OpDef, Writer] = {
    depthwise.DEPTHWISE: _depthwise,
    depthwise.DEPTHWISE_DATA_GRAD: _depthwise_data_grad,
    depthwise.DEPTHWISE_WEIGHT_GRAD: _depthwise_weight_grad,
    patches.PATCHES: _patches,
    patches.OVERLAP_ADD: _overlap_add,
    convolution.CONV: _conv,
    convolution.CONV_DATA_GRAD: _conv_data_grad,
    pooling.POOL: _pool,
}
