"""Sequences and optional values: Python lists, and None, while a graph is read."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from graphc_frontends.onnx.graph import Body
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.values import (
    axis_of,
    fixed,
    is_known,
    known_ints,
    known_number,
    mistake,
    of,
    rank_of,
    shape_of,
)


@operator("SequenceEmpty")
def sequence_empty(*, dtype: int | None = None) -> object:
    return []


@operator("SequenceConstruct")
def sequence_construct(*parts: Any) -> object:
    return [*parts]


@operator("SequenceLength")
def sequence_length(sequence: list[Any]) -> object:
    return np.array(len(sequence), np.int64)


@operator("SequenceAt")
def sequence_at(sequence: list[Any], position: Any) -> object:
    return sequence[int(known_number(position, "the position"))]


@operator("SequenceInsert")
def sequence_insert(sequence: list[Any], part: Any, position: Any = None) -> object:
    place = len(sequence) if position is None else int(known_number(position, "the position"))
    place = place + len(sequence) if place < 0 else place
    return [*sequence[:place], part, *sequence[place:]]


@operator("SequenceErase")
def sequence_erase(sequence: list[Any], position: Any = None) -> object:
    place = -1 if position is None else int(known_number(position, "the position"))
    place = place + len(sequence) if place < 0 else place
    return [*sequence[:place], *sequence[place + 1 :]]


@operator("SequenceMap")
def sequence_map(sequence: list[Any], *others: Any, body: Body) -> object:
    """The graph on every element, with the same element of other sequences."""
    rows = [
        body(part, *(o[i] if isinstance(o, list) else o for o in others))
        for i, part in enumerate(sequence)
    ]
    return tuple([*column] for column in zip(*rows, strict=True))


@operator("ConcatFromSequence")
def concat_from_sequence(sequence: list[Any], *, axis: int, new_axis: int = 0) -> object:
    xp = of(*sequence)
    return xp.stack(sequence, axis) if new_axis else xp.concatenate(sequence, axis)


@operator("SplitToSequence")
def split_to_sequence(x: Any, parts: Any = None, *, axis: int, keepdims: int = 1) -> object:
    place = axis_of(axis, rank_of(x))
    size = fixed(shape_of(x), "a split")[place]
    at = (slice(None),) * place
    if parts is None:
        if keepdims:
            return [x[(*at, slice(i, i + 1))] for i in range(size)]
        return [x[(*at, i)] for i in range(size)]
    lengths = known_ints(parts, "the parts")
    if is_known(parts) and parts.ndim == 0:
        length = lengths[0]
        lengths = [min(length, size - i) for i in range(0, size, length)]
    ends = np.cumsum([0, *lengths])
    return [x[(*at, slice(int(a), int(b)))] for a, b in pairwise(ends)]


@operator("Optional")
def optional(x: Any = None, *, type: object = None) -> object:
    return x


@operator("OptionalHasElement")
def optional_has_element(x: Any = None) -> object:
    return np.array(x is not None)


@operator("OptionalGetElement")
def optional_get_element(x: Any = None) -> object:
    if x is None:
        raise mistake("bad-value", "the optional value has no element")
    return x


@operator("ReverseSequence")
def reverse_sequence(x: Any, lengths: Any, *, batch_axis: int, time_axis: int) -> object:
    """The first so many steps of each sample backwards."""
    counts = known_ints(lengths, "the lengths")
    rows = []
    for i, count in enumerate(counts):
        at: list[object] = [slice(None)] * rank_of(x)
        at[batch_axis] = slice(i, i + 1)
        row = x[tuple(at)]
        index = [slice(None)] * rank_of(x)
        first, rest = [*index], [*index]
        first[time_axis], rest[time_axis] = slice(0, count), slice(count, None)
        head = of(row).flip(row[tuple(first)], time_axis)
        rows.append(of(row).concatenate([head, row[tuple(rest)]], time_axis))
    return of(*rows).concatenate(rows, batch_axis)
