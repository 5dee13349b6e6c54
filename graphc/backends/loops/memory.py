"""Loads and stores of one or many lanes, whole or masked. A truth value is one byte in memory."""

from __future__ import annotations

from graphc.backends.loops.control import loop_if_any, offset, sub
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import (
    ELEMENT_BYTES,
    LaneType,
    Val,
    constant,
    constant_lanes,
    element_of,
    index,
    lane_type,
    memory_element,
    number_of,
)
from graphc.backends.loops.writer import Writer
from graphc.ir.types import DType


def load(
    s: LaneScalars, base: Val, position: Val, dtype: DType, lanes: int, mask: Val | None = None
) -> Val:
    """The elements from `position` on; with a mask, zeros where it is false and nothing is read."""
    element = element_of(dtype)
    memory = lane_type(memory_element(element), lanes)
    pointer = offset(s.code, base, memory.element, position)
    align = ELEMENT_BYTES[memory.element]
    if mask is None:
        value = s.code.load(memory, pointer, align)
    else:
        value = s.code.load_masked(memory, pointer, align, mask)
    return s.not_equal(value, constant(0, memory)) if dtype is DType.I1 else value


def store(s: LaneScalars, value: Val, base: Val, position: Val, mask: Val | None = None) -> None:
    """Writes the lanes from `position` on; with a mask, those where it is true."""
    memory = lane_type(memory_element(value.type.element), value.type.lanes)
    pointer = offset(s.code, base, memory.element, position)
    align = ELEMENT_BYTES[memory.element]
    if memory != value.type:
        value = s.convert("zext", value, memory)
    if mask is None:
        s.code.store(value, pointer, align)
    else:
        s.code.store_masked(value, pointer, align, mask)


def clear(s: LaneScalars, base: Val, elements: int, lanes: int, element: str) -> None:
    """Zeros in an array: by whole vectors, then one by one."""
    whole = elements // lanes * lanes
    for start, stop, width in ((0, whole, lanes), (whole, elements, 1)):
        zero = constant(0, lane_type(element, width))
        with loop_if_any(s.code, index(start), index(stop), width, []) as state:
            if state is not None:
                store(s, zero, base, state.index)


def copy(s: LaneScalars, goal: Val, source: Val, elements: int, lanes: int, dtype: DType) -> None:
    """Copies one array to another: by whole vectors, then one by one."""
    whole = elements // lanes * lanes
    for start, stop, width in ((0, whole, lanes), (whole, elements, 1)):
        with loop_if_any(s.code, index(start), index(stop), width, []) as state:
            if state is not None:
                store(s, load(s, source, state.index, dtype, width), goal, state.index)


def add_to(s: LaneScalars, goal: Val, source: Val, elements: int, lanes: int, dtype: DType) -> None:
    """Adds one array to another: by whole vectors, then one by one."""
    whole = elements // lanes * lanes
    for start, stop, width in ((0, whole, lanes), (whole, elements, 1)):
        with loop_if_any(s.code, index(start), index(stop), width, []) as state:
            if state is not None:
                a, b = (load(s, base, state.index, dtype, width) for base in (goal, source))
                store(s, s.add(a, b), goal, state.index)


def first_lanes(s: LaneScalars, count: Val, lanes: int) -> Val:
    """A mask of `lanes` truth values, the first `count` of them true."""
    mask = lane_type("i1", lanes)
    known = number_of(count)
    if known is not None:
        return constant_lanes([i < known for i in range(lanes)], mask)
    counts = lane_type("i32", lanes)
    narrow = s.convert("trunc", count, lane_type("i32"))
    return s.compare("slt", steps(counts), s.splat(narrow, lanes))


def rest_mask(s: LaneScalars, position: Val, stop: Val, lanes: int) -> Val:
    """The mask of the lanes from `position` that lie before `stop`."""
    return first_lanes(s, sub(s.code, stop, position), lanes)


def steps(type_: LaneType) -> Val:
    """0, 1, 2, … in the lanes of an integer type."""
    if type_.lanes == 1:
        return constant(0, type_)
    return constant_lanes(range(type_.lanes), type_)


def stack_array(code: Writer, element: str, count: int, align: int) -> Val:
    """An array on the stack of the current function. Call it in the entry block only."""
    return code.stack_array(memory_element(element), count, align)


def prefetch(s: LaneScalars, base: Val, element: str, position: Val, level: int = 2) -> None:
    """Prefetches the cache line of an element into the cache of a level; it may be outside the
    array."""
    s.code.prefetch(s.code.offset(base, element, position, inside=False), level=level)
