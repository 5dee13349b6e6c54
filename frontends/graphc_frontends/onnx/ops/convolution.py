"""Conv and ConvTranspose, over any number of axes, with groups and dilations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd
from typing import Any

import graphc as gc
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.values import Dim, fixed, mistake, rank_of, shape_of
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
    """With gaps in the windows: places a multiple of the dilation apart are images of their own,
    whose windows have none.

    What stride and dilation have in common only skips elements. Then window a * q + r, of stride s
    and dilation a, reads from element s * r on every a-th: it is window q of phase r, with the same
    stride and no dilation.
    """
    count, axes = len(walk.sizes), range(1, 1 + len(walk.sizes))
    extents = fixed(shape_of(images)[1:-1], "a convolution")
    zeros = (0,) * count  # they are there already
    places = replace(walk, before=zeros, after=zeros).places([int(e) for e in extents])
    if min(places) < 1:
        message = f"requires windows of {[*walk.spans]} inside of {[*extents]} with what is around"
        raise mistake("shape-mismatch", message)
    common = [*map(gcd, walk.strides, walk.dilations)]
    steps = [s // g for s, g in zip(walk.strides, common, strict=True)]
    apart = [d // g for d, g in zip(walk.dilations, common, strict=True)]
    if max(common) > 1:
        images = images[(slice(None), *(slice(None, None, g) for g in common))]
    for axis in reversed(axes):
        i = axis - 1
        cells = steps[i] * (-(-places[i] // apart[i]) - 1) + walk.sizes[i]
        images = _phases(images, axis, cells, steps[i], apart[i])
    phases, inner = [*range(2, 2 * count + 1, 2)], [*range(1, 2 * count, 2)]
    images = gc.transpose(images, (0, *phases, *inner, 2 * count + 1))
    return _interleaved(gc.conv(images, kernel, steps))[
        (slice(None), *(slice(0, p) for p in places))
    ]


def _phases(images: Any, axis: int, cells: Dim, step: int, apart: int) -> Any:
    """Of one axis two, [cells, phases]: phase r begins at element `step * r`, and has every
    `apart`-th; zeros behind the end. Of an axis that calls decide there are cells for all of it."""
    lead, sizes = (slice(None),) * axis, shape_of(images)
    length, extent = step * (apart - 1) + apart * (cells - 1) + 1, sizes[axis]
    if not (isinstance(extent, int) and isinstance(length, int)):
        images = _behind(images, axis, length - extent)
    elif extent > length:
        images = images[(*lead, slice(0, length))]
    elif extent < length:
        images = _behind(images, axis, length - extent)
    if step == 1:
        return gc.reshape(images, (*sizes[:axis], cells, apart, *sizes[axis + 1 :]))
    firsts = [step * r for r in range(apart)]
    parts = [images[(*lead, slice(f, f + apart * (cells - 1) + 1, apart))] for f in firsts]
    return gc.concatenate([gc.expand_dims(part, axis + 1) for part in parts], axis + 1)


def _interleaved(made: Any) -> Any:
    """[samples, phases.., places.., features] of phases as images with all places."""
    count = (rank_of(made) - 2) // 2
    back = [i for axis in range(1, 1 + count) for i in (axis + count, axis)]
    made = gc.transpose(made, (0, *back, 1 + 2 * count))
    samples, *halves, features = shape_of(made)
    sizes = [a * b for a, b in zip(halves[::2], halves[1::2], strict=True)]
    return gc.reshape(made, (samples, *sizes, features))


def _behind(images: Any, axis: int, after: Dim, before: int = 0) -> Any:
    """Images with so many zeros at the ends of an axis."""
    edges: list[tuple[Dim, Dim]] = [(0, 0)] * rank_of(images)
    edges[axis] = (before, after)
    return gc.pad(images, edges)


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
    if all(isinstance(e, int) for e in shape_of(images)[1:-1]):
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
    ends = (fixed(n, "a convolution") for n in (walk.before, walk.after))
    around = [*zip(*ends, strict=True)]
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
    extents = shape_of(x)[2:]
    steps = [*(strides or [1] * count)]
    apart = [*(dilations or [1] * count)]
    more = [*(output_padding or [0] * count)]
    spans = [(s - 1) * d + 1 for s, d in zip(sizes, apart, strict=True)]
    full = [(e - 1) * s + k for e, s, k in zip(extents, steps, spans, strict=True)]
    if output_shape is not None:  # which may be larger than what the windows reach
        wanted, known = output_shape[-count:], fixed(full, "output_shape")
        more = [max(m, w - n) for m, w, n in zip(more, wanted, known, strict=True)]
    low, high = _cut(full, more, steps, extents, pads, auto_pad, output_shape)
    images = channels_last(x)
    if fixed(shape_of(w), "weights")[0] == group:
        made = _each_channel(images, w, steps, apart)
    else:
        made = _added_windows(images, w, steps, apart, group)
    if max(more) > 0:
        made = gc.pad(made, [(0, 0), *((0, max(m, 0)) for m in more), (0, 0)])
    left = [n + m - a - b for a, b, n, m in zip(low, high, full, more, strict=True)]
    if any(isinstance(n, int) and n < 1 for n in left):
        raise mistake("shape-mismatch", f"requires pads that leave something, got sizes {left}")
    index = [slice(None)]
    index += [slice(a, n + m - b) for a, b, n, m in zip(low, high, full, more, strict=True)]
    made = made[tuple(index)]
    return channels_first(made if bias is None else made + bias)


def _added_windows(
    images: Any, w: Any, steps: Sequence[int], apart: Sequence[int], group: int
) -> Any:
    """What each place gives to its window, added; nothing is spread or turned round."""
    inputs = int(fixed(shape_of(w), "weights")[0]) // group
    order = (*range(2, rank_of(w)), 1, 0)
    parts = [
        _added_phases(
            images[..., g * inputs : (g + 1) * inputs],
            gc.transpose(w[g * inputs : (g + 1) * inputs], order),
            steps,
            apart,
        )
        for g in range(group)
    ]
    return parts[0] if group == 1 else gc.concatenate(parts, -1)


def _added_phases(images: Any, kernel: Any, steps: Sequence[int], apart: Sequence[int]) -> Any:
    """The same with gaps in the windows: `_by_phases` the other way round."""
    if max(apart) == 1:
        return gc.conv_transpose(images, kernel, steps)
    count = len(steps)
    extents = shape_of(images)[1:-1]
    common = [*map(gcd, steps, apart)]
    steps = [s // g for s, g in zip(steps, common, strict=True)]
    apart = [d // g for d, g in zip(apart, common, strict=True)]
    for axis in range(count, 0, -1):
        gap = apart[axis - 1]
        images = _phases(images, axis, (extents[axis - 1] + gap - 1) // gap, 1, gap)
    phases, inner = [*range(2, 2 * count + 1, 2)], [*range(1, 2 * count, 2)]
    images = gc.transpose(images, (0, *phases, *inner, 2 * count + 1))
    made = (
        _with_all_edges(images, kernel)
        if max(steps) == 1
        else gc.conv_transpose(images, kernel, steps)
    )
    for axis in range(1, 1 + count):
        made = _shifted(made, axis, axis + count, steps[axis - 1])
    spans = [(k - 1) * d + 1 for k, d in zip(shape_of(kernel)[:count], apart, strict=True)]
    full = [(e - 1) * s + k for e, s, k in zip(extents, steps, spans, strict=True)]
    made = _interleaved(made)[(slice(None), *(slice(0, n) for n in full))]
    return _spread(made, common)


def _with_all_edges(images: Any, kernel: Any) -> Any:
    """`gc.conv_transpose` with strides of 1, as the faster convolution with the kernel turned
    round."""
    sizes = fixed(shape_of(kernel)[:-2], "weights")
    count = len(sizes)
    none = [(0, 0)] * (rank_of(images) - 1 - count)
    edges = [*none, *((int(n) - 1, int(n) - 1) for n in sizes), (0, 0)]
    turned = gc.flip(gc.transpose(kernel, (*range(count), count + 1, count)), tuple(range(count)))
    return gc.conv(gc.pad(images, edges), turned)


def _shifted(made: Any, phases: int, places: int, step: int) -> Any:
    """Phase r, which begins at element `step * r`, at its place among the phases, and behind so
    many whole steps of all of them."""
    count = int(fixed([shape_of(made)[phases]], "phases")[0])
    if step == 1:
        return made
    most, lead = step * (count - 1) // count, (slice(None),) * phases
    parts: dict[int, Any] = {}
    for r in range(count):
        whole, place = divmod(step * r, count)
        parts[place] = _behind(made[(*lead, slice(r, r + 1))], places, most - whole, whole)
    return gc.concatenate([parts[place] for place in range(count)], phases)


def _each_channel(images: Any, w: Any, steps: Sequence[int], apart: Sequence[int]) -> Any:
    """Of groups of one channel, w [channels, features of a channel, sizes…]: the slope of a
    depthwise convolution; over a third axis a sum of those, spread along it."""
    channels, times, *sizes = (int(n) for n in fixed(shape_of(w), "weights"))
    order = (*range(2, rank_of(w)), 0, 1)
    kernel = gc.reshape(gc.transpose(w, order), (*sizes, channels * times))
    return _each_plane(_repeated(images, times), kernel, steps, apart)


def _each_plane(images: Any, kernel: Any, steps: Sequence[int], apart: Sequence[int]) -> Any:
    if len(steps) <= 2:
        return gc.depthwise_conv_transpose(images, kernel, steps, apart)
    axis = rank_of(images) - 1 - len(steps)
    last = int(fixed(shape_of(kernel)[:1], "weights")[0]) - 1
    made: Any = None
    for i in range(last + 1):
        some = _each_plane(images, kernel[i], steps[1:], apart[1:])
        some = _spread(some, [*(1,) * (axis - 1), steps[0]])
        some = _behind(some, axis, (last - i) * apart[0], i * apart[0])
        made = some if made is None else made + some
    return made


def _cut(
    full: Sequence[Dim],
    more: Sequence[int],
    steps: Sequence[int],
    extents: Sequence[Dim],
    pads: Sequence[int] | None,
    auto_pad: str,
    output_shape: Sequence[int] | None,
) -> tuple[list[int], list[int]]:
    """How many elements of the whole result are left out before and after, on each axis."""
    count = len(full)
    wanted: Sequence[Dim] | None = output_shape
    if wanted is None and auto_pad.startswith("SAME"):
        wanted = [e * s for e, s in zip(extents, steps, strict=True)]
    if wanted is None:
        given = pads or [0] * (2 * count)
        return [*given[:count]], [*given[count:]]
    low: list[int] = []
    high: list[int] = []
    for n, m, size in zip(full, more, wanted[-count:], strict=True):
        total = max(fixed([n + m - size], "output_shape")[0], 0)
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
            n = sizes[axis]
            flat = gc.reshape(gc.pad(apart, zeros), (*sizes[:axis], n * step, *sizes[axis + 1 :]))
            images = flat[(slice(None),) * axis + (slice(0, (n - 1) * step + 1),)]
    return images
