"""Control flow: If, Loop and Scan, whose graphs are traced like functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import graphc as gc
from graphc.tensor.program_builder import Symbol
from graphc.tensor.tensor import Tensor
from graphc_frontends.onnx.graph import Body
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.values import (
    axis_of,
    dtype_of,
    is_known,
    known,
    known_number,
    mistake,
    rank_of,
    shape_of,
)

MAX_UNROLLED = 64
"""Steps up to which a loop whose values change their shapes is written out."""


@operator("If")
def if_(condition: Any, *, then_branch: Body, else_branch: Body) -> object:
    """One branch where the condition is known; else both are computed and one is chosen."""
    if is_known(condition):
        return tuple((then_branch if bool(condition.reshape(-1)[0]) else else_branch)())
    chosen = []
    for yes, no in zip(then_branch(), else_branch(), strict=True):
        chosen.append(_chosen(gc.reshape(condition, ()), yes, no))
    return tuple(chosen)


def _chosen(condition: Any, yes: Any, no: Any) -> object:
    kinds = [(shape_of(v), dtype_of(v)) if hasattr(v, "shape") else None for v in (yes, no)]
    if None in kinds or kinds[0] != kinds[1]:
        known(condition, "the condition between values of different types")
    return gc.where(condition, yes, no)


@operator("Loop")
def loop(count: Any = None, condition: Any = None, *carried: Any, body: Body) -> object:
    """A loop over so many steps, written out where it is short and known."""
    if condition is not None and not bool(known(condition, "the condition").reshape(-1)[0]):
        count = np.int64(0).reshape(())
    if count is None:
        raise mistake("not-supported", "requires a number of steps: a condition is computed")
    steps = known_number(count, "the number of steps")
    if isinstance(steps, int) and steps <= MAX_UNROLLED:
        return _unrolled(steps, carried, body)
    return _looped(steps, carried, body)


def _unrolled(steps: int, carried: Sequence[Any], body: Body) -> object:
    """The steps one after the other."""
    values, scanned = [*carried], []
    for i in range(steps):
        going, *made = body(np.array(i, np.int64), np.array(True), *values)
        values = made[: len(carried)]
        scanned.append(made[len(carried) :])
        if not bool(known(going, "the condition").reshape(-1)[0]):
            break
    if not scanned:
        return tuple(_no_steps(values, body))
    stacked = [_stacked([row[k] for row in scanned]) for k in range(len(scanned[0]))]
    return (*values, *stacked)


def _no_steps(values: Sequence[Any], body: Body) -> list[Any]:
    """Of a loop without steps: what it begins with, and nothing of what its steps give."""
    empty: list[Any] = []
    for output in body.graph.output[1 + len(values) :]:
        tensor = output.type.tensor_type
        dims = [int(d.dim_value) for d in tensor.shape.dim]
        kind = body.reader.onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        empty.append(np.zeros((0, *dims), kind))
    return [*values, *empty]


def _stacked(parts: Sequence[Any]) -> object:
    if all(is_known(p) for p in parts):
        return np.stack(parts)
    return gc.stack(parts)


def _looped(steps: Any, carried: Sequence[Any], body: Body) -> object:
    """A loop of the IR, whose carried values keep their types."""
    for value in carried:
        if isinstance(value, list):
            raise mistake("not-supported", "a sequence cannot be carried through a long loop")

    def step(before: Any, _x: Any) -> tuple[Any, Any]:
        at, *values = before
        going, *made = body.repeated(at, np.array(True), *values)
        if not is_known(going) or not bool(going.reshape(-1)[0]):
            raise mistake("not-supported", "requires a condition that is always true")
        after = made[: len(carried)]
        return (at + 1, *after), tuple(made[len(carried) :])

    first = (_traced(np.int64(0), steps), *(_traced(v, steps) for v in carried))
    (_, *last), ys = gc.scan(step, first, length=steps)
    return (*last, *ys)


def _traced(value: Any, _steps: object) -> object:
    return value if isinstance(value, Tensor) else np.asarray(value)


@operator("Scan", 9)
def scan(
    *inputs: Any,
    body: Body,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None,
    scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
) -> object:
    """A loop over axes of arrays, which lie first and run forwards in the loop itself."""
    count = len(inputs) - num_scan_inputs
    carried, scanned = inputs[:count], inputs[count:]
    axes = scan_input_axes or [0] * num_scan_inputs
    ways = scan_input_directions or [0] * num_scan_inputs
    xs = [_first(x, a, bool(w)) for x, a, w in zip(scanned, axes, ways, strict=True)]

    def step(before: Any, elements: Any) -> tuple[Any, Any]:
        made = body.repeated(*before, *elements)
        return tuple(made[:count]), tuple(made[count:])

    last, ys = gc.scan(step, tuple(carried), tuple(xs))
    outputs = len(ys)
    places = scan_output_axes or [0] * outputs
    ways = scan_output_directions or [0] * outputs
    return (*last, *(_back(y, a, bool(w)) for y, a, w in zip(ys, places, ways, strict=True)))


@operator("Scan", 8)
def scan_8(
    lengths: Any = None,
    *inputs: Any,
    body: Body,
    num_scan_inputs: int,
    directions: Sequence[int] | None = None,
) -> object:
    """Of version 8: a loop for each sample of a minibatch."""
    if lengths is not None:
        raise mistake("not-supported", "sequence lengths are not supported in version 8")
    samples = shape_of(inputs[0])[0]
    if isinstance(samples, Symbol):
        raise mistake("not-supported", "requires a number of samples that is known")
    rows = [
        scan(
            *(x[i] for x in inputs),
            body=body,
            num_scan_inputs=num_scan_inputs,
            scan_input_directions=directions,
        )
        for i in range(samples)
    ]
    return tuple(_stacked(column) for column in zip(*rows, strict=True))  # type: ignore[misc]


def _first(x: Any, axis: int, backwards: bool) -> object:
    place = axis_of(axis, rank_of(x))
    order = [place, *(i for i in range(rank_of(x)) if i != place)]
    moved = gc.transpose(x, order) if place else x
    return gc.flip(moved, 0) if backwards else moved


def _back(y: Any, axis: int, backwards: bool) -> object:
    place = axis_of(axis, rank_of(y))
    flipped = gc.flip(y, 0) if backwards else y
    order = [*range(1, place + 1), 0, *range(place + 1, rank_of(y))]
    return gc.transpose(flipped, order) if place else flipped
