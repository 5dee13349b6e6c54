"""What windows become: convolutions and pooling where `fuse-patches` finds them, else elements
that are picked by place.

ONNX has channels first, the IR has them last: both sides of a convolution are transposed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from graphc.artifacts.onnx.graph import Graph, Writer
from graphc.ir.core import OpDef, Operation
from graphc.ir.dims import size_product
from graphc.ir.types import Dim, DType
from graphc.ops import convolution, patches, pooling
from graphc.ops.convolution import ConvShape, conv_shape

# --- windows by place ----------------------------------------------------------------------------


def _places(g: Graph, positions: Dim, size: int, stride: int) -> str:
    """[positions, size]: where the elements of each window lie along its axis, i64."""
    if isinstance(positions, int):
        found = np.arange(positions)[:, None] * stride + np.arange(size)
        return g.file.array(found.astype(np.int64))
    first = g.node("Mul", g.positions(positions), g.number(stride, DType.I64))
    first = g.reshape(first, [positions, 1])
    return g.node("Add", first, g.positions(size))


def _patches(g: Graph, op: Operation) -> None:
    p, dims = op.params_as(patches.PatchesParams), op.result.tensor.dims
    count, made = len(p.sizes), g.whole(op.operands[0])
    for i, (size, stride) in enumerate(zip(p.sizes, p.strides, strict=True)):
        axis = p.axis + 2 * i  # each axis before it has become two
        places = _places(g, dims[p.axis + i], size, stride)
        made = g.node("Gather", made, places, axis=axis)
    paired = [p.axis + 2 * i for i in range(count)]
    order = [*range(p.axis), *paired, *(a + 1 for a in paired)]
    g.hold(op.result, g.transpose(made, [*order, *range(len(order), len(dims))]))


def _overlap_add(g: Graph, op: Operation) -> None:
    """One walked axis after the other, the last one first: windows lie along the first axis while
    they are added."""
    p, dims = op.params_as(patches.OverlapAddParams), list(op.operands[0].tensor.dims)
    made, dtype = g.whole(op.operands[0]), op.operands[0].tensor.dtype
    for i in reversed(range(len(p.extents))):
        places_axis, size_axis = p.axis + i, p.axis + len(p.extents)
        size_axis += i
        positions, size = dims[places_axis], dims[size_axis]
        assert isinstance(size, int)
        rest = [a for a in range(len(dims)) if a not in (places_axis, size_axis)]
        kept = [dims[a] for a in rest]
        rows = g.transpose(made, [places_axis, size_axis, *rest])
        rows = g.reshape(rows, [size_product([positions, size]), *kept])
        index = _places(g, positions, size, p.strides[i])
        index = g.reshape(index, [size_product([positions, size]), 1])
        zeros = g.full(g.number(0, dtype), [p.extents[i], *kept])
        added = g.node("ScatterND", zeros, index, rows, reduction="add")
        # the extent takes the place of the positions
        made = g.transpose(
            added, [*range(1, places_axis + 1), 0, *range(places_axis + 1, len(rest) + 1)]
        )
        dims = [*kept[:places_axis], p.extents[i], *kept[places_axis:]]
    g.hold(op.result, made)


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


WRITERS: Mapping[OpDef, Writer] = {
    patches.PATCHES: _patches,
    patches.OVERLAP_ADD: _overlap_add,
    convolution.CONV: _conv,
    convolution.CONV_DATA_GRAD: _conv_data_grad,
    pooling.POOL: _pool,
}
