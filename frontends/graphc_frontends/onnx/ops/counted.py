"""Results whose size values decide: what is not zero, what is chosen, which boxes are kept.

Of values that are known when the model is compiled they have their size. Otherwise the user gives
the size that one has in every call; what lies behind the last place found is -1, and what there is
no room for is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc as gc
from graphc_frontends.onnx.graph import Context
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.ops.lookups import gather
from graphc_frontends.onnx.ops.reductions import cum_sum
from graphc_frontends.onnx.values import (
    axis_of,
    fixed,
    is_known,
    known,
    known_number,
    mistake,
    of,
    product_of,
    rank_of,
    shape_of,
)


@operator("Compress", 9)
def compress(x: Any, condition: Any, *, axis: int | None = None) -> object:
    """What is chosen has to be known, for the size of the result depends on it."""
    chosen = known(condition, "the condition")
    flat = of(x).reshape(x, -1) if axis is None else x
    return gather(flat, np.flatnonzero(chosen), axis=axis or 0)


@operator("Unique", 11)
def unique(x: Any, *, axis: int | None = None, sorted: int) -> object:
    """Of an array that is known: the values, their first places, and how often each is there."""
    array = known(x, "the array")
    array = array.reshape(-1) if axis is None else array
    place = 0 if axis is None else axis_of(axis, array.ndim)
    made = np.unique(array, return_index=True, return_inverse=True, return_counts=True, axis=place)
    values, first, inverse, counts = made
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        values, first, counts = np.take(values, order, place), first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return values, *(v.astype(np.int64) for v in (first, inverse, counts))


@operator("NonZero")
def non_zero(x: Any, *, context: Context) -> object:
    """[axes of x, elements that are not zero]."""
    room = context.count(1)
    if room is not None and not is_known(x):
        found = _places_found(x != 0, room)
        return gc.stack(found) if found else np.zeros((0, room), np.int64)
    array = known(x, "the array", context.count_name(1))
    if not array.ndim:
        return np.zeros((0, int(array != 0)), np.int64)
    return np.stack(np.nonzero(array)).astype(np.int64)


def _places_found(found: Any, room: int) -> list[Any]:
    """For each axis, [room]: the places of what is true in row-major order, then -1."""
    lead, *sizes = shape_of(found) or (1,)
    rest = fixed(sizes, "a search")
    row = product_of(rest)
    flat = gc.reshape(found, (lead, row))
    hits = gc.cast(flat, "i64")
    before: Any = cum_sum(hits, np.array(1), exclusive=1, reverse=0)
    above: Any = cum_sum(gc.sum(hits, 1), np.array(0), exclusive=1, reverse=0)
    place = gc.where(flat, before + gc.expand_dims(above, 1), np.int64(room))  # others are outside
    place = gc.reshape(place, (-1,))

    def brought(numbers: Any) -> Any:
        """From where it is true to its place; -1 where nothing comes."""
        spread = gc.zeros((lead, row), "f64") + gc.cast(numbers, "f64") + 1.0
        zeros = gc.zeros((room,), "f64")
        made = gc.add_along_axis(zeros, place, gc.reshape(spread, (-1,)), 0)
        return gc.cast(made, "i64") - np.int64(1)

    others = np.unravel_index(np.arange(row), rest) if rest else ()
    leading = gc.expand_dims(gc.arange(lead), 1)
    made = [brought(leading), *(brought(places[None]) for places in others)]
    return made if rank_of(found) else []


# --- boxes ---------------------------------------------------------------------------------------


@operator("NonMaxSuppression")
def non_max_suppression(
    boxes: Any,
    scores: Any,
    most: Any = None,
    overlap: Any = None,
    least: Any = None,
    *,
    center_point_box: int,
    context: Context,
) -> object:
    """[kept, (sample, class, box)] of boxes [samples, boxes, 4] and scores [samples, classes,
    boxes]: the one of the highest score, of those that overlap it too much none, and so on.

    most     boxes of a class
    overlap  the share that two boxes may have in common of what both cover
    least    a score has to be above it
    """
    room = context.count(0)
    if room is None:
        name = context.count_name(0)
        message = (
            f"the number of boxes that are kept follows from the values of each call: say how many "
            f"rows the result `{context.node.output[0]}` has, `--dim {name}=100!` or "
            f"sizes={{{name!r}: 100}}; those behind the last box are -1"
        )
        raise mistake("input", message)
    boxes, scores = (gc.cast(v, "f32") for v in (boxes, scores))
    classes, count = fixed(shape_of(scores)[1:], "boxes")
    limit = 0 if most is None else int(known_number(most, "the number of boxes of a class"))
    steps = max(0, min(limit, count))
    share = 0.0 if overlap is None else gc.reshape(overlap, ())
    alive = scores == scores if least is None else scores > gc.reshape(least, ())
    if not steps:
        return np.full((room, 3), -1, np.int64)
    edges = [gc.expand_dims(edge, 1) for edge in _edges(boxes, center_point_box)]
    numbers = np.arange(count, dtype=np.int64)

    def step(alive: Any, _x: None) -> tuple[Any, Any]:
        best = gc.max(gc.where(alive, scores, -np.inf), -1, keepdims=True)
        is_best = gc.logical_and(alive, scores == best)
        box = gc.min(gc.where(is_best, numbers, np.int64(count)), -1, keepdims=True)
        is_it = box == numbers
        its = [gc.sum(gc.where(is_it, edge, 0.0), -1, keepdims=True) for edge in edges]
        goes = gc.logical_or(is_it, _share_in_common(edges, its) > share)
        return gc.logical_and(alive, gc.logical_not(goes)), gc.squeeze(box, -1)

    _, kept = gc.scan(step, alive, length=steps)
    kept = gc.transpose(kept, (1, 2, 0))
    samples, of_class, turns = _places_found(kept < np.int64(count), room)
    at = (samples * np.int64(classes) + of_class) * np.int64(steps) + turns
    box = gc.take(gc.reshape(kept, (-1,)), gc.maximum(at, np.int64(0)))
    return gc.stack([samples, of_class, gc.where(at < 0, np.int64(-1), box)], 1)


def _edges(boxes: Any, is_center: int) -> list[Any]:
    """The lower edges of boxes on both axes, then the upper ones."""
    first, second, third, fourth = (boxes[..., i] for i in range(4))
    if is_center:
        halves = (third / 2.0, fourth / 2.0)
        return [first - halves[0], second - halves[1], first + halves[0], second + halves[1]]
    ends = ((first, third), (second, fourth))
    return [gc.minimum(*e) for e in ends] + [gc.maximum(*e) for e in ends]


def _share_in_common(boxes: list[Any], others: list[Any]) -> Any:
    """What both cover of what either does; 0 where one has no area."""
    low = [gc.maximum(boxes[i], others[i]) for i in range(2)]
    high = [gc.minimum(boxes[2 + i], others[2 + i]) for i in range(2)]
    wide = [gc.maximum(high[i] - low[i], 0.0) for i in range(2)]
    common = wide[1] * wide[0]
    areas = [(b[3] - b[1]) * (b[2] - b[0]) for b in (boxes, others)]
    either = areas[0] + areas[1] - common
    is_some = gc.logical_and(common > 0.0, gc.logical_and(areas[0] > 0.0, areas[1] > 0.0))
    is_some = gc.logical_and(is_some, either > 0.0)
    return gc.where(is_some, common / gc.where(is_some, either, 1.0), 0.0)
