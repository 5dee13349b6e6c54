"""Conv and ConvTranspose, over any number of axes, with groups and dilations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import graphc as gc
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.values import fixed, mistake, rank_of, shape_of
from graphc_frontends.onnx.windows import (
    Walk,
    channels_first,
    channels_last,
    padded,
    walk_of,
    windows,
)


@operator("Conv")
def conv(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    auto_pad: str,
    group: int,
    kernel_shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
) -> object:
    """x [samples, channels, extents…], w [features, channels of a group, sizes…]."""
    sizes = fixed(shape_of(w), "weights")
    channels = fixed([shape_of(x)[1]], "a convolution")[0]
    if sizes[1] * group != channels or sizes[0] % group:
        raise mistake(
            "shape-mismatch",
            f"requires weights for {channels} channels in {group} groups, got {sizes}",
        )
    _require_kernel(kernel_shape, sizes[2:])
    walk = walk_of(x, sizes[2:], strides, pads, dilations, auto_pad)
    made = _convolved(channels_last(x), w, walk, group)
    return channels_first(made if bias is None else made + bias)


def _require_kernel(given: Sequence[int] | None, sizes: Sequence[int]) -> None:
    if given is not None and [*given] != [*sizes]:
        message = f"requires the kernel_shape of the weights, {[*sizes]}, got {[*given]}"
        raise mistake("shape-mismatch", message)


def _convolved(images: Any, w: Any, walk: Walk, group: int) -> Any:
    """Of images with channels last, which the result has too."""
    features, inputs = (int(n) for n in fixed(shape_of(w), "weights")[:2])
    if inputs == 1 and group > 1:
        return _depthwise(_repeated(images, features // group), w, walk)
    images = padded(images, walk)
    if group == 1:
        return _of_group(images, w, walk)
    each = features // group
    parts = [
        _of_group(images[..., g * inputs : (g + 1) * inputs], w[g * each : (g + 1) * each], walk)
        for g in range(group)
    ]
    return gc.concatenate(parts, -1)


def _by_phases(images: Any, kernel: Any, walk: Walk) -> Any:
    """With gaps in the windows: what is a multiple of the dilations apart are images of their own,
    whose windows have none. Elements move once there and once back."""
    samples, *dims, channels = shape_of(images)
    extents = fixed(dims, "a convolution")
    count, apart = len(walk.sizes), walk.dilations
    places = [e - k + 1 for e, k in zip(extents, walk.spans, strict=True)]
    if min(places) < 1:
        message = f"requires windows of {[*walk.spans]} inside of {[*extents]} with what is around"
        raise mistake("shape-mismatch", message)
    cells = [-(-e // d) for e, d in zip(extents, apart, strict=True)]
    rest = [n * d - e for n, d, e in zip(cells, apart, extents, strict=True)]
    images = gc.pad(images, [(0, 0), *((0, n) for n in rest), (0, 0)])
    halves = [n for pair in zip(cells, apart, strict=True) for n in pair]
    images = gc.reshape(images, (samples, *halves, channels))
    phases, inner = [*range(2, 2 * count + 1, 2)], [*range(1, 2 * count, 2)]
    made = gc.conv(gc.transpose(images, (0, *phases, *inner, 2 * count + 1)), kernel)
    wide = [n - s + 1 for n, s in zip(cells, walk.sizes, strict=True)]
    back = [i for axis in range(1, 1 + count) for i in (axis + count, axis)]
    made = gc.transpose(made, (0, *back, 1 + 2 * count))
    sizes = [n * d for n, d in zip(wide, apart, strict=True)]
    made = gc.reshape(made, (samples, *sizes, shape_of(kernel)[-1]))
    return made[(slice(None), *(slice(0, p) for p in places))]


def _repeated(images: Any, times: int) -> Any:
    """Each channel so many times, one after the other."""
    if times == 1:
        return images
    sizes = shape_of(images)
    apart = gc.broadcast_to(gc.expand_dims(images, len(sizes)), (*sizes, times))
    channels = fixed(sizes[-1:], "a convolution")[0]
    return gc.reshape(apart, (*sizes[:-1], channels * times))


def _of_group(images: Any, w: Any, walk: Walk) -> Any:
    order = (*range(2, rank_of(w)), 1, 0)
    kernel = gc.transpose(w, order)
    if max(walk.dilations) == 1:
        return gc.conv(images, kernel, walk.strides)
    if max(walk.strides) == 1 and all(isinstance(e, int) for e in shape_of(images)[1:-1]):
        return _by_phases(images, kernel, walk)
    seen = windows(images, walk)
    count = len(walk.sizes)
    rows = fixed(shape_of(w), "weights")
    length = 1
    for n in rows[1:]:
        length *= n
    flat = gc.reshape(seen, (*shape_of(seen)[: 1 + count], length))
    return flat @ gc.reshape(kernel, (length, rows[0]))


def _depthwise(images: Any, w: Any, walk: Walk) -> Any:
    """A kernel for each channel, w [channels, 1, sizes…]."""
    order = (*range(2, rank_of(w)), 0, 1)
    kernel = gc.reshape(gc.transpose(w, order), (*walk.sizes, shape_of(images)[-1]))
    extents, count = shape_of(images)[1:-1], len(walk.sizes)
    if not all(isinstance(e, int) for e in extents):
        seen = windows(padded(images, walk), walk) * kernel
        return gc.sum(seen, tuple(range(1 + count, 1 + 2 * count)))
    if min(walk.places([int(e) for e in extents if isinstance(e, int)])) < 1:
        message = f"requires windows of {[*walk.spans]} inside of {[*extents]} with what is around"
        raise mistake("shape-mismatch", message)
    return _by_planes(images, kernel, walk)


def _by_planes(images: Any, kernel: Any, walk: Walk) -> Any:
    """Over the last two axes at once, over those before by sums of shifted images."""
    count = len(walk.sizes)
    around = [*zip(walk.before, walk.after, strict=True)]
    if count <= 2:
        return gc.depthwise_conv(images, kernel, walk.strides, around, walk.dilations)
    axis = rank_of(images) - 1 - count
    rest = walk.without_first()
    edges = [(0, 0)] * rank_of(images)
    edges[axis] = around[0]
    images = gc.pad(images, edges)
    extent = fixed(shape_of(images)[axis : axis + 1], "a convolution")[0]
    places = (extent - walk.spans[0]) // walk.strides[0] + 1
    lead = (slice(None),) * axis
    made: Any = None
    for i in range(walk.sizes[0]):
        start = i * walk.dilations[0]
        stop = start + (places - 1) * walk.strides[0] + 1
        some = _by_planes(images[(*lead, slice(start, stop, walk.strides[0]))], kernel[i], rest)
        made = some if made is None else made + some
    return made


@operator("ConvTranspose")
def conv_transpose(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    auto_pad: str,
    group: int,
    kernel_shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
) -> object:
    """x [samples, channels, extents…], w [channels, features of a group, sizes…]: the images of
    whose convolution with w the slope is x."""
    count = rank_of(x) - 2
    sizes = fixed(shape_of(w)[2:], "weights")
    _require_kernel(kernel_shape, sizes)
    extents = fixed(shape_of(x)[2:], "a transposed convolution")
    steps = [*(strides or [1] * count)]
    apart = [*(dilations or [1] * count)]
    more = [*(output_padding or [0] * count)]
    spans = [(s - 1) * d + 1 for s, d in zip(sizes, apart, strict=True)]
    full = [(e - 1) * s + k for e, s, k in zip(extents, steps, spans, strict=True)]
    if output_shape is not None:  # which may be larger than what the windows reach
        wanted = output_shape[-count:]
        more = [max(m, w - n) for m, w, n in zip(more, wanted, full, strict=True)]
    low, high = _cut(full, more, steps, extents, pads, auto_pad, output_shape)
    images = channels_last(x)
    if max(apart) == 1 and fixed(shape_of(w), "weights")[0] != group:
        made = _added_windows(images, w, steps, more, group)
    else:
        made = _of_spread(images, w, Walk(tuple(sizes), *_inside(steps, apart)), more, group)
    left = [n + m - a - b for a, b, n, m in zip(low, high, full, more, strict=True)]
    if min(left) < 1:
        raise mistake("shape-mismatch", f"requires pads that leave something, got sizes {left}")
    index = [slice(None)]
    index += [slice(a, n + m - b) for a, b, n, m in zip(low, high, full, more, strict=True)]
    made = made[tuple(index)]
    return channels_first(made if bias is None else made + bias)


def _inside(steps: Sequence[int], apart: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Strides, dilations and no padding of a walk."""
    zeros = (0,) * len(steps)
    return tuple(steps), tuple(apart), zeros, zeros


def _added_windows(
    images: Any, w: Any, steps: Sequence[int], more: Sequence[int], group: int
) -> Any:
    """What each place gives to its window, added; nothing is spread or turned round."""
    inputs = int(fixed(shape_of(w), "weights")[0]) // group
    order = (*range(2, rank_of(w)), 1, 0)
    parts = [
        gc.conv_transpose(
            images[..., g * inputs : (g + 1) * inputs],
            gc.transpose(w[g * inputs : (g + 1) * inputs], order),
            steps,
        )
        for g in range(group)
    ]
    made = parts[0] if group == 1 else gc.concatenate(parts, -1)
    if max(more) > 0:
        made = gc.pad(made, [(0, 0), *((0, max(m, 0)) for m in more), (0, 0)])
    return made


def _of_spread(images: Any, w: Any, walk: Walk, more: Sequence[int], group: int) -> Any:
    """A convolution of images with zeros between their elements."""
    count = len(walk.sizes)
    sides = [(k - 1, k - 1 + max(m, 0)) for k, m in zip(walk.spans, more, strict=True)]
    spread = gc.pad(_spread(images, walk.strides), [(0, 0), *sides, (0, 0)])
    return _convolved(spread, _turned(w, group), replace(walk, strides=(1,) * count), group)


def _cut(
    full: Sequence[int],
    more: Sequence[int],
    steps: Sequence[int],
    extents: Sequence[int],
    pads: Sequence[int] | None,
    auto_pad: str,
    output_shape: Sequence[int] | None,
) -> tuple[list[int], list[int]]:
    """How many elements of the whole result are left out before and after, on each axis."""
    count = len(full)
    if output_shape is None and auto_pad.startswith("SAME"):
        output_shape = [e * s for e, s in zip(extents, steps, strict=True)]
    if output_shape is None:
        given = pads or [0] * (2 * count)
        return [*given[:count]], [*given[count:]]
    low: list[int] = []
    high: list[int] = []
    for n, m, wanted in zip(full, more, output_shape[-count:], strict=True):
        total = max(n + m - wanted, 0)
        half = total // 2
        first = half if auto_pad == "SAME_UPPER" else total - half
        low.append(first)
        high.append(total - first)
    return low, high


def _spread(images: Any, steps: Sequence[int]) -> Any:
    """Images with zeros between their elements."""
    for axis, step in enumerate(steps, start=1):
        if step > 1:
            sizes = shape_of(images)
            apart = gc.expand_dims(images, axis + 1)
            zeros = [(0, 0)] * rank_of(apart)
            zeros[axis + 1] = (0, step - 1)
            n = fixed([sizes[axis]], "a transposed convolution")[0]
            flat = gc.reshape(gc.pad(apart, zeros), (*sizes[:axis], n * step, *sizes[axis + 1 :]))
            images = flat[(slice(None),) * axis + (slice(0, (n - 1) * step + 1),)]
    return images


def _turned(w: Any, group: int) -> Any:
    """[features, channels of a group, sizes…], with the windows turned round."""
    channels, each, *sizes = fixed(shape_of(w), "weights")
    count = len(sizes)
    apart = gc.reshape(w, (group, channels // group, each, *sizes))
    order = (0, 2, 1, *range(3, 3 + count))
    turned = gc.flip(gc.transpose(apart, order), tuple(range(3, 3 + count)))
    return gc.reshape(turned, (group * each, channels // group, *sizes))
