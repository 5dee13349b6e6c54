"""Conv and ConvTranspose, over any number of axes, with groups and dilations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

import graphc as gc
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.values import Dim, fixed, mistake, rank_of, shape_of
from graphc_frontends.onnx.windows import (
    Walk,
    WindowSettings,
    channels_first,
    channels_last,
    padded,
    windows,
)


@dataclass(frozen=True, kw_only=True)
class ConvSettings(WindowSettings):
    """group: how many groups of channels there are, each with weights of its own."""

    group: int = 1


@operator("Conv", settings=ConvSettings)
def conv(x: Any, w: Any, bias: Any = None, *, settings: ConvSettings) -> object:
    """x [samples, channels, extents…], w [features, channels of a group, sizes…]."""
    sizes = fixed(shape_of(w), "weights")
    channels, group = fixed([shape_of(x)[1]], "a convolution")[0], settings.group
    if sizes[1] * group != channels or sizes[0] % group:
        raise mistake(
            "shape-mismatch",
            f"requires weights for {channels} channels in {group} groups, got {sizes}",
        )
    settings.require_kernel(sizes[2:])
    made = _convolved(channels_last(x), w, settings.walk(x, sizes[2:]), group)
    return channels_first(made if bias is None else made + bias)


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


@dataclass(frozen=True, kw_only=True)
class TransposedSettings(ConvSettings):
    """What the images are larger by behind each axis, or how large they are, without pads then."""

    output_padding: Sequence[int] | None = None
    output_shape: Sequence[int] | None = None


@operator("ConvTranspose", settings=TransposedSettings)
def conv_transpose(x: Any, w: Any, bias: Any = None, *, settings: TransposedSettings) -> object:
    """x [samples, channels, extents…], w [channels, features of a group, sizes…]: the images of
    whose convolution with w the slope is x."""
    sizes = fixed(shape_of(w), "weights")
    settings.require_kernel(sizes[2:])
    walk = settings.unpadded(x, sizes[2:])
    if sizes[0] == settings.group:
        made = _each_channel(channels_last(x), w, walk.strides, walk.dilations)
    else:
        made = _added_windows(channels_last(x), w, walk, settings.group)
    for axis, (first, size) in enumerate(_kept(shape_of(x)[2:], walk, settings), start=1):
        made = _from(made, axis, first, size)
    return channels_first(made if bias is None else made + bias)


def _kept(
    extents: Sequence[Dim], walk: Walk, settings: TransposedSettings
) -> list[tuple[Any, Dim]]:
    """Of all that the windows reach and `output_padding`, for each axis: the first element of the
    result, traced where calls decide it, and how many it has."""
    count = len(extents)
    more = settings.output_padding or [0] * count
    parts = zip(extents, walk.strides, walk.spans, more, strict=True)
    whole: list[Dim] = [(e - 1) * s + k + m for e, s, k, m in parts]
    if settings.output_shape is not None:
        wanted: list[Dim] = [*settings.output_shape[-count:]]
        first, _ = settings.shared([_excess(*n) for n in zip(whole, wanted, strict=True)])
        return [*zip(first, wanted, strict=True)]
    if settings.is_same:
        ends = settings.shared(
            [_excess(n, e * s) for n, e, s in zip(whole, extents, walk.strides, strict=True)]
        )
    else:
        ends = settings.ends(count)
    left = [n - a - b for n, a, b in zip(whole, *ends, strict=True)]
    if any(isinstance(n, int) and n < 1 for n in left):
        raise mistake("shape-mismatch", f"requires pads that leave something, got sizes {left}")
    return [*zip(ends[0], left, strict=True)]


def _excess(whole: Dim, wanted: Dim) -> Any:
    """How many elements are more than wanted; none where there are less."""
    more = whole - wanted
    if isinstance(more, int):
        return max(more, 0)
    many, few = (gc.cast(n, "i64") for n in (whole, wanted))  # as a size it could not be negative
    return gc.maximum(many - few, 0)


def _from(images: Any, axis: int, first: Any, size: Dim) -> Any:
    """So many elements of an axis from one on, with zeros behind its end."""
    extent = shape_of(images)[axis]
    if isinstance(first, int):
        behind = first + size - extent
        if not isinstance(behind, int) or behind > 0:
            images = _behind(images, axis, behind)
        return images[(*(slice(None),) * axis, slice(first, first + size))]
    return gc.take(images, gc.arange(size) + first, axis)  # which gives zeros for those outside


def _added_windows(images: Any, w: Any, walk: Walk, group: int) -> Any:
    """What each place gives to its window, added; nothing is spread or turned round."""
    inputs = int(fixed(shape_of(w), "weights")[0]) // group
    order = (*range(2, rank_of(w)), 1, 0)
    parts = [
        _added_phases(
            images[..., g * inputs : (g + 1) * inputs],
            gc.transpose(w[g * inputs : (g + 1) * inputs], order),
            walk.strides,
            walk.dilations,
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
