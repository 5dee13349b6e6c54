"""Images at places between their elements: GridSample, DeformConv and the poolings of regions.

An image is a table, a row of channels for each element of each sample. What is between elements is
a sum of the rows around, each with its share along every axis; rows outside are zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

import graphc as gc
from graphc.tensor.program_builder import Symbol
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.ops.elementwise import round_
from graphc_frontends.onnx.values import (
    Dim,
    dtype_of,
    fixed,
    mistake,
    product_of,
    rank_of,
    shape_of,
    unsupported,
)
from graphc_frontends.onnx.windows import channels_first, channels_last

OUTSIDE = np.int32(2**31 - 1)
"""The number of no row."""

Taps = Sequence[tuple[Any, Any]]
"""Along one axis the whole places that count, each with its share."""


def _table(x: Any) -> Any:
    """[samples · elements, channels] of images [samples, channels, extents…]."""
    samples, channels, *extents = shape_of(x)
    return gc.reshape(channels_last(x), (product_of((samples, *extents)), channels))


def _number(size: Dim, dtype: Any) -> Any:
    """A size to compute with."""
    return gc.cast(size, dtype) if isinstance(size, Symbol) else np.dtype(dtype).type(size)


def _first_rows(samples: Dim, extents: Sequence[Dim], rank: int) -> Any:
    """The first row of each sample, along the first of so many axes."""
    numbers = gc.cast(gc.arange(samples), "i32") * _number(product_of(extents), np.int32)
    return gc.reshape(numbers, (samples, *[1] * (rank - 1)))


def _corners(table: Any, first: Any, extents: Sequence[Dim], taps: Sequence[Taps]) -> list[Any]:
    """For each combination of places the rows there, times their shares: [places…, channels]."""
    found: list[Any] = []
    for corner in product(*taps):
        number: Any = np.int32(0)
        share: Any = 1.0
        inside: Any = None
        for (place, part), extent in zip(corner, extents, strict=True):
            there = (place >= 0) & (place <= _number(extent, dtype_of(place)) - 1)
            inside = there if inside is None else inside & there
            number = number * _number(extent, np.int32) + gc.cast(place, "i32")
            share = share * part
        share = gc.where(inside, share, 0)  # which is nan where a place is infinite
        rows = gc.take(table, gc.where(inside, number + first, OUTSIDE), 0)
        found.append(rows * gc.expand_dims(share, -1))
    return found


def _sum(parts: Sequence[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _linear(at: Any) -> Taps:
    low = gc.floor(at)
    return [(low, 1 - (at - low)), (low + 1, at - low)]


def _cubic(at: Any) -> Taps:
    """By Keys's cubic convolution with a = -0.75, as PyTorch has it."""
    low, a = gc.floor(at), -0.75
    d = at - low

    def near(d: Any) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Any) -> Any:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    shares = (far(d + 1), near(d), near(1 - d), far(2 - d))
    return [(low + (i - 1), share) for i, share in enumerate(shares)]


def _nearest(at: Any) -> Taps:
    return [(round_(at), gc.full(shape_of(at), 1.0, dtype_of(at)))]


_TAPS: dict[str, Callable[[Any], Taps]] = {
    "linear": _linear,
    "bilinear": _linear,
    "cubic": _cubic,
    "bicubic": _cubic,
    "nearest": _nearest,
}


# --- grids ---------------------------------------------------------------------------------------


@operator("GridSample")
def grid_sample(x: Any, grid: Any, *, mode: str, padding_mode: str, align_corners: int) -> object:
    """Images [samples, channels, extents…] at the places that a grid [samples, …, axes] says, from
    -1 to 1 along each axis, the last axis first."""
    extents = shape_of(x)[2:]
    if mode not in _TAPS:
        raise unsupported(f"the mode {mode}")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise unsupported(f"the padding {padding_mode}")
    if shape_of(grid)[-1] != len(extents) or rank_of(grid) != rank_of(x):
        message = f"requires places on {len(extents)} axes, got a grid {shape_of(grid)}"
        raise mistake("shape-mismatch", message)
    taps: list[Taps] = []
    grid = gc.cast(grid, dtype_of(x))
    for axis, size in enumerate(extents):
        extent = size if isinstance(size, int) else _number(size, dtype_of(x))
        share = grid[..., len(extents) - 1 - axis] + 1
        at = share * ((extent - 1) / 2) if align_corners else (share * extent - 1) / 2
        if _TAPS[mode] is not _cubic:  # which PyTorch and ONNX Runtime take of places as they are
            at = round_(at) if mode == "nearest" else at
            at = _brought_inside(at, extent, padding_mode, bool(align_corners))
        taps.append(
            [
                (_brought_inside(place, extent, padding_mode, bool(align_corners)), part)
                for place, part in _TAPS[mode](at)
            ]
        )
    first = _first_rows(shape_of(x)[0], extents, rank_of(grid) - 1)
    return channels_first(_sum(_corners(_table(x), first, extents, taps)))


def _brought_inside(at: Any, extent: Any, mode: str, align_corners: bool) -> Any:
    """Places beyond the border, brought to the last element or mirrored at it."""
    if mode == "zeros":
        return at
    if mode == "border":
        return gc.maximum(gc.minimum(at, extent - 1.0), 0.0)
    low, high = (0.0, extent - 1.0) if align_corners else (-0.5, extent - 0.5)
    length = high - low
    if not isinstance(length, float):
        is_one, length = length == 0, gc.maximum(length, 1.0)
        at = gc.where(is_one, low, at)
    elif not length:
        return at * 0
    off = gc.abs(at - low)
    off = off - 2 * length * gc.floor(off / (2 * length))
    return gc.where(off > length, 2 * length - off, off) + low


# --- deformed windows ----------------------------------------------------------------------------


@operator("DeformConv")
def deform_conv(
    x: Any,
    weights: Any,
    offset: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    dilations: Sequence[int] | None = None,
    group: int,
    kernel_shape: Sequence[int] | None = None,
    offset_group: int,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> object:
    """A convolution whose windows have an offset for each of their elements and each place."""
    samples, channels = shape_of(x)[:2]
    extents = fixed(shape_of(x)[2:], "deformed windows")
    (features, each), sizes = fixed(shape_of(weights)[:2], "weights"), kernel_shape
    rank = len(extents)
    sizes = fixed(shape_of(weights)[2:], "weights") if sizes is None else list(sizes)
    places = fixed(shape_of(offset)[2:], "deformed windows")
    count = prod(sizes)
    if shape_of(offset)[1] != offset_group * count * rank:
        message = f"requires {offset_group * count * rank} offsets, got {shape_of(offset)[1]}"
        raise mistake("shape-mismatch", message)
    split = gc.reshape(offset, (samples * offset_group, count, rank, *places))
    taps = [
        _linear(split[:, :, axis] + start.astype(dtype_of(x)))
        for axis, start in enumerate(_starts(sizes, places, strides, pads, dilations))
    ]
    parts = channels // offset_group
    table = _table(gc.reshape(x, (samples * offset_group, parts, *extents)))
    first = _first_rows(samples * offset_group, extents, 2 + rank)
    seen = _sum(_corners(table, first, extents, taps))
    if mask is not None:
        seen = seen * gc.reshape(mask, (samples * offset_group, count, *places, 1))
    # [samples, group of offsets, elements, places…, channels] to [places…, channels, elements]
    seen = gc.reshape(seen, (samples, offset_group, count, *places, parts))
    order = (0, *range(3, 3 + rank), 1, 3 + rank, 2)
    seen = gc.reshape(gc.transpose(seen, order), (samples, *places, group, each * count))
    flat = gc.reshape(weights, (group, features // group, each * count))
    made = [seen[..., g, :] @ gc.transpose(flat[g]) for g in range(group)]
    result = channels_first(gc.concatenate(made, -1))
    return result if bias is None else result + gc.reshape(bias, (-1, *[1] * rank))


def _starts(
    sizes: Sequence[int],
    places: Sequence[int],
    strides: Sequence[int] | None,
    pads: Sequence[int] | None,
    dilations: Sequence[int] | None,
) -> list[Any]:
    """Along each axis where the elements of windows are without offsets: [elements, places…]."""
    rank = len(sizes)
    steps, apart = strides or [1] * rank, dilations or [1] * rank
    before = (pads or [0] * rank)[:rank]
    inside = np.indices(sizes).reshape(rank, -1)
    across = np.indices(places)
    return [
        inside[a].reshape(-1, *[1] * rank) * apart[a] + across[a] * steps[a] - before[a]
        for a in range(rank)
    ]


# --- regions -------------------------------------------------------------------------------------


@operator("RoiAlign", 10)
def roi_align_10(
    x: Any,
    regions: Any,
    samples: Any,
    *,
    mode: str,
    output_height: int,
    output_width: int,
    sampling_ratio: int,
    spatial_scale: float,
) -> object:
    return roi_align(
        x,
        regions,
        samples,
        mode=mode,
        output_height=output_height,
        output_width=output_width,
        sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
        coordinate_transformation_mode="output_half_pixel",
    )


@operator("RoiAlign", 16)
def roi_align(
    x: Any,
    regions: Any,
    samples: Any,
    *,
    mode: str,
    output_height: int,
    output_width: int,
    sampling_ratio: int,
    spatial_scale: float,
    coordinate_transformation_mode: str,
) -> object:
    """[regions, channels, height, width]: means or maxima of `sampling_ratio`² points a cell."""
    if sampling_ratio < 1:
        raise unsupported("sampling_ratio=0, with which regions decide how many points they have,")
    extents = fixed(shape_of(x)[2:], "regions")
    aligned = coordinate_transformation_mode == "half_pixel"
    cells, taps, inside = (output_height, output_width), [], []
    for axis, (extent, count) in enumerate(zip(extents, cells, strict=True)):
        edges = [regions[:, i] * spatial_scale - 0.5 * aligned for i in (1 - axis, 3 - axis)]
        length = edges[1] - edges[0]
        length = length if aligned else gc.maximum(length, 1.0)
        points = (np.arange(count * sampling_ratio, dtype=dtype_of(x)) + 0.5) / sampling_ratio
        at = gc.expand_dims(edges[0], 1) + gc.expand_dims(length / count, 1) * points
        at = gc.expand_dims(at, 2 - axis)  # [regions, points of the height, of the width]
        inside.append((at >= -1.0) & (at <= float(extent)))
        taps.append(_linear(gc.clip(at, 0.0, extent - 1.0)))
    size = np.int32(prod(extents))
    first = gc.reshape(gc.cast(samples, "i32") * size, (-1, 1, 1))
    corners = _corners(_table(x), first, extents, taps)
    there = gc.expand_dims(inside[0] & inside[1], -1)
    folded = _sum(corners) if mode == "avg" else _largest(corners)
    points = gc.where(there, folded, 0)
    shape = (-1, output_height, sampling_ratio, output_width, sampling_ratio, shape_of(x)[1])
    points = gc.reshape(points, (shape_of(regions)[0], *shape[1:]))
    made = gc.mean(points, (2, 4)) if mode == "avg" else gc.max(points, (2, 4))
    return channels_first(made)


def _largest(parts: Sequence[Any]) -> Any:
    """Of the rows with their shares, not of what is between them: so ONNX says."""
    best = parts[0]
    for part in parts[1:]:
        best = gc.maximum(best, part)
    return best


def _rounded(x: Any) -> Any:
    """To the nearest whole number, from the middle away from zero."""
    return gc.where(x < 0, -gc.floor(0.5 - x), gc.floor(x + 0.5))


@operator("MaxRoiPool")
def max_roi_pool(
    x: Any, regions: Any, *, pooled_shape: Sequence[int], spatial_scale: float
) -> object:
    """[regions, channels, cells…]: the largest element of every cell, 0 of an empty one."""
    extents = fixed(shape_of(x)[2:], "regions")
    made = gc.take(x, gc.cast(regions[:, 0], "i32"), 0)
    for axis, (extent, count) in enumerate(zip(extents, pooled_shape, strict=True)):
        first, last = (_rounded(regions[:, i] * spatial_scale) for i in (2 - axis, 4 - axis))
        each = gc.expand_dims(gc.maximum(last - first + 1, 1.0) / count, 1)
        cells = np.arange(count, dtype=dtype_of(x))
        low = gc.expand_dims(gc.floor(cells * each) + gc.expand_dims(first, 1), 2)
        high = gc.expand_dims(-gc.floor(-((cells + 1) * each)) + gc.expand_dims(first, 1), 2)
        places = np.arange(extent, dtype=dtype_of(x))
        inside = (places >= low) & (places < high)  # [regions, cells, places]
        # [regions, channels, (cells of the height), cells, places, …]
        before, after = 1 + axis, len(extents) - 1 - axis
        sizes = (shape_of(regions)[0], *[1] * before, count, extent, *[1] * after)
        wide = gc.expand_dims(made, 2 + axis)
        made = gc.max(gc.where(gc.reshape(inside, sizes), wide, -np.inf), 3 + axis)
    return gc.where(made == -np.inf, 0, made)
