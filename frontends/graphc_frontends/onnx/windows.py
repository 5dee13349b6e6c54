"""Windows that walk over the spatial axes of images: what Conv and the poolings share.

ONNX's images are [samples, channels, extents…]; graphc's windows walk over images whose channels
are last, which is what `channels_last` and `channels_first` change between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import graphc as gc
from graphc.tensor.tensor import Tensor, quotient
from graphc_frontends.onnx.values import Dim, fixed, mistake, rank_of, shape_of


@dataclass(frozen=True)
class Walk:
    """One number for each spatial axis.

    before, after  how many elements are put around
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[Dim, ...]
    after: tuple[Dim, ...]

    @property
    def spans(self) -> tuple[int, ...]:
        """From the first to the last element of a window."""
        return tuple((s - 1) * d + 1 for s, d in zip(self.sizes, self.dilations, strict=True))

    @property
    def is_padded(self) -> bool:
        return any((*self.before, *self.after))

    def without_first(self) -> Walk:
        """Over the axes behind the first."""
        sizes, strides, dilations = (n[1:] for n in (self.sizes, self.strides, self.dilations))
        return Walk(sizes, strides, dilations, self.before[1:], self.after[1:])

    def places(self, extents: Sequence[int]) -> tuple[int, ...]:
        """How many windows there are along each axis."""
        return tuple(n for n in self.open_places(extents) if isinstance(n, int))

    def open_places(self, extents: Sequence[Dim]) -> tuple[Dim, ...]:
        """The same where calls decide extents."""
        walked = zip(extents, self.before, self.after, self.spans, self.strides, strict=True)
        return tuple((e + a + b - s) // t + 1 for e, a, b, s, t in walked)


@dataclass(frozen=True, kw_only=True)
class WindowSettings:
    """The attributes of a node that say how its windows walk; None: what ONNX takes then.

    kernel_shape  the sizes of windows
    pads          before each axis, then behind each; nothing where `auto_pad` says it
    """

    auto_pad: str = "NOTSET"
    kernel_shape: Sequence[int] | None = None
    strides: Sequence[int] | None = None
    pads: Sequence[int] | None = None
    dilations: Sequence[int] | None = None

    @property
    def is_same(self) -> bool:
        """Whether there are as many windows as strides in the image, whatever lies around it."""
        return self.auto_pad.startswith("SAME")

    def require_kernel(self, sizes: Sequence[int]) -> None:
        """Windows as large as the weights."""
        if self.kernel_shape is not None and [*self.kernel_shape] != [*sizes]:
            message = (
                f"requires the kernel_shape of the weights, {[*sizes]}, got {[*self.kernel_shape]}"
            )
            raise mistake("shape-mismatch", message)

    def walk(self, x: Any, sizes: Sequence[int] | None = None) -> Walk:
        """The walk of a convolution over images [samples, channels, extents…].

        sizes  of windows, where weights say them
        """
        walk = self.unpadded(x, sizes)
        count = len(walk.sizes)
        if self.is_same:
            spans = zip(shape_of(x)[2:], walk.spans, walk.strides, strict=True)
            before, after = self.shared([_same_padding(*s) for s in spans])
        else:
            before, after = self.ends(count)
        return replace(walk, before=before, after=after)

    def ends(self, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What lies before and behind each axis by the node; nothing where `auto_pad` says it."""
        says = self.auto_pad in ("NOTSET", "")
        given = (self.pads if says else None) or [0] * (2 * count)
        return tuple(given[:count]), tuple(given[count:])

    def unpadded(self, x: Any, sizes: Sequence[int] | None = None) -> Walk:
        """The same with nothing around the images."""
        count = rank_of(x) - 2
        sizes = self.kernel_shape or () if sizes is None else sizes
        if len(sizes) != count:
            raise mistake("shape-mismatch", f"requires {count} sizes of windows, got {[*sizes]}")
        ones, zeros = (1,) * count, (0,) * count
        steps, apart = tuple(self.strides or ones), tuple(self.dilations or ones)
        return Walk(tuple(sizes), steps, apart, zeros, zeros)

    def shared(self, totals: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Of as many elements on each axis those before and those behind; of an odd number more on
        one side. Calls may compute them."""
        halves = [quotient(t, 2) if isinstance(t, Tensor) else t // 2 for t in totals]
        less, more = tuple(halves), tuple(t - h for t, h in zip(totals, halves, strict=True))
        return (less, more) if self.auto_pad == "SAME_UPPER" else (more, less)


def _same_padding(extent: Dim, span: int, stride: int) -> Dim:
    """What has to be put around for as many windows as there are strides in the extent."""
    if stride == 1:
        return span - 1
    missing = ((extent + stride - 1) // stride - 1) * stride + span - extent
    if isinstance(missing, int):
        return max(missing, 0)
    if span < stride:
        message = f"auto_pad over an axis of the size {extent} with windows shorter than the stride"
        raise mistake("not-supported", message)
    return missing


def with_whole_windows(walk: Walk, extents: Sequence[Dim]) -> Walk:
    """The walk of `ceil_mode`: the last window may end outside, if it begins inside."""
    before, behind = fixed(walk.before, "ceil_mode"), fixed(walk.after, "ceil_mode")
    after: list[int] = []
    for i, extent in enumerate(extents):
        if not isinstance(extent, int):
            after.append(behind[i] + _whole_window(walk, i, behind[i], extent))
            continue
        length = extent + before[i] + behind[i]
        rest = (length - walk.spans[i]) % walk.strides[i]
        more = walk.strides[i] - rest if rest else 0
        last = length + more - walk.spans[i]
        after.append(behind[i] + (more if last < extent + before[i] else 0))
    return replace(walk, after=tuple(after))


def _whole_window(walk: Walk, axis: int, after: int, extent: Dim) -> int:
    """The same for an axis that calls decide: with one element less than a stride more there are as
    many windows as when the last one is whole, and that begins inside where windows are so long."""
    if walk.strides[axis] + after > walk.spans[axis]:
        message = f"ceil_mode over an axis of the size {extent} with windows that short"
        raise mistake("not-supported", message)
    return walk.strides[axis] - 1


# --- images --------------------------------------------------------------------------------------


def channels_last(x: Any) -> Any:
    return gc.transpose(x, (0, *range(2, rank_of(x)), 1))


def channels_first(x: Any) -> Any:
    return gc.transpose(x, (0, rank_of(x) - 1, *range(1, rank_of(x) - 1)))


def padded(images: Any, walk: Walk, value: float = 0.0) -> Any:
    """Images with channels last, with what the walk puts around them."""
    if not walk.is_padded:
        return images
    pairs = [(0, 0), *zip(walk.before, walk.after, strict=True), (0, 0)]
    return gc.pad(images, pairs, value)


def windows(images: Any, walk: Walk) -> Any:
    """[samples, places…, sizes…, channels] of padded images with channels last."""
    seen = gc.windows(images, walk.spans, walk.strides, 1)
    if max(walk.dilations) == 1:
        return seen
    count = len(walk.sizes)
    return seen[(slice(None),) * (1 + count) + tuple(slice(None, None, d) for d in walk.dilations)]
