"""Parts of an array before a place that each call computes, and from it on, as `torch.roll` is
exported over an axis whose size each call decides:

    place = Mod(-shift, length)
    y = Concat(Slice(x, place, length), Slice(x, 0, place))

How large a part is cannot be said before the call. What joins both is as large as the array, whose
elements it has in another order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import graphc as gc
from graphc.tensor.program_builder import ProgramBuilder, Symbol
from graphc.tensor.tensor import Tensor
from graphc_frontends.onnx.values import axis_of, is_known, numbered, rank_of, shape_of

FAR = 1 << 30
"""An end of a Slice that lies behind every array."""

OF_A_PART = "a Slice up to or from a place that each call computes"


@dataclass(frozen=True, eq=False)
class Part:
    """Elements of an axis of `x` before a place, or from it on. Nothing but `Concat` takes it."""

    x: Any
    axis: int
    place: Tensor
    is_before: bool


def part_of(x: Any, starts: Any, ends: Any, axis: int, builder: ProgramBuilder) -> Part | None:
    """What a Slice along one axis is, each element of it, whose start or end each call computes.

    None for other slices, and for places that are computed of inputs, whose values could be given.
    """
    axis = axis_of(axis, rank_of(x))
    if is_known(starts) and starts.tolist() == [0] and isinstance(ends, Tensor):
        place, is_before = ends, True
    elif isinstance(starts, Tensor) and is_known(ends) and _is_end(ends, shape_of(x)[axis]):
        place, is_before = starts, False
    else:
        return None
    is_sizes = place.shape == (1,) and not builder.inputs_behind(place)
    return Part(x, axis, place, is_before) if is_sizes else None


def _is_end(ends: Any, size: object) -> bool:
    (end,) = ends.tolist() if ends.shape == (1,) else (None,)
    return end == size or (not isinstance(end, Symbol | None) and end >= FAR)


def is_whole(behind: Part, before: Part, axis: int) -> bool:
    """Whether these are the elements from a place on and those before it, along this axis."""
    is_one = behind.x is before.x and behind.place is before.place
    along = behind.axis == before.axis == axis_of(axis, rank_of(before.x))
    return is_one and along and before.is_before and not behind.is_before


def turned(before: Part) -> Any:
    """The array's elements from the place on, then those before it.

    A place outside of the array is its end, as ONNX has it; a negative one counts from the end.
    """
    size = shape_of(before.x)[before.axis]
    count = gc.cast(size, "i64")
    place = gc.maximum(gc.minimum(gc.reshape(before.place, ()), count), -count)
    first = gc.where(place > 0, place - count, place)  # negative places count from the end
    return gc.take(before.x, numbered(size) + first, before.axis)
