"""Loads and stores of one or many lanes, whole or masked. A truth value is one byte in memory."""

from __future__ import annotations

from graphc.backends.llvm.loops import loop_if_any, number_of, offset, sub
from graphc.backends.llvm.scalars import LlvmScalars
from graphc.backends.llvm.text import (
    ELEMENT_BYTES,
    Code,
    LaneType,
    Val,
    constant,
    element_of,
    index,
    lane_type,
    memory_element,
)
from graphc.ir.types import DType


def load(
    s: LlvmScalars, base: Val, position: Val, dtype: DType, lanes: int, mask: Val | None = None
) -> Val:
    """The elements from `position` on; with a mask, zeros where it is false and nothing is read."""
    element = element_of(dtype)
    memory = lane_type(memory_element(element), lanes)
    pointer = offset(s.code, base, memory.element, position)
    align = ELEMENT_BYTES[memory.element]
    if mask is None:
        value = s.code.value(memory, f"load {memory.text}, ptr {pointer.ref}, align {align}")
    else:
        name, mask_type = f"llvm.masked.load.{memory.mangled}.p0", mask.type.text
        function = s.code.module.intrinsic(name, memory.text, "ptr", "i32", mask_type, memory.text)
        arguments = f"ptr {pointer.ref}, i32 {align}, {mask}, {memory.text} zeroinitializer"
        value = s.code.value(memory, f"call {memory.text} {function}({arguments})")
    return s.not_equal(value, constant(0, memory)) if dtype is DType.I1 else value


def store(s: LlvmScalars, value: Val, base: Val, position: Val, mask: Val | None = None) -> None:
    """Writes the lanes from `position` on; with a mask, those where it is true."""
    memory = lane_type(memory_element(value.type.element), value.type.lanes)
    pointer = offset(s.code, base, memory.element, position)
    align = ELEMENT_BYTES[memory.element]
    if memory != value.type:
        value = s.convert("zext", value, memory)
    if mask is None:
        s.code.do(f"store {value}, ptr {pointer.ref}, align {align}")
        return
    name, mask_type = f"llvm.masked.store.{memory.mangled}.p0", mask.type.text
    function = s.code.module.intrinsic(name, "void", memory.text, "ptr", "i32", mask_type)
    s.code.do(f"call void {function}({value}, ptr {pointer.ref}, i32 {align}, {mask})")


def clear(s: LlvmScalars, base: Val, elements: int, lanes: int, element: str) -> None:
    """Zeros in an array: by whole vectors, then one by one."""
    whole = elements // lanes * lanes
    for start, stop, width in ((0, whole, lanes), (whole, elements, 1)):
        zero = constant(0, lane_type(element, width))
        with loop_if_any(s.code, index(start), index(stop), width, []) as state:
            if state is not None:
                store(s, zero, base, state.index)


def add_to(s: LlvmScalars, goal: Val, source: Val, elements: int, lanes: int, dtype: DType) -> None:
    """Adds one array to another: by whole vectors, then one by one."""
    whole = elements // lanes * lanes
    for start, stop, width in ((0, whole, lanes), (whole, elements, 1)):
        with loop_if_any(s.code, index(start), index(stop), width, []) as state:
            if state is not None:
                a, b = (load(s, base, state.index, dtype, width) for base in (goal, source))
                store(s, s.add(a, b), goal, state.index)


def first_lanes(s: LlvmScalars, count: Val, lanes: int) -> Val:
    """A mask of `lanes` truth values, the first `count` of them true."""
    mask = lane_type("i1", lanes)
    known = number_of(count)
    if known is not None:
        bits = ", ".join("i1 true" if i < known else "i1 false" for i in range(lanes))
        return Val(f"<{bits}>", mask)
    counts = lane_type("i32", lanes)
    narrow = s.convert("trunc", count, lane_type("i32"))
    return s.compare("slt", steps(counts), s.splat(narrow, lanes))


def rest_mask(s: LlvmScalars, position: Val, stop: Val, lanes: int) -> Val:
    """The mask of the lanes from `position` that lie before `stop`."""
    return first_lanes(s, sub(s.code, stop, position), lanes)


def steps(type_: LaneType) -> Val:
    """0, 1, 2, … in the lanes of an integer type."""
    if type_.lanes == 1:
        return constant(0, type_)
    return Val(f"<{', '.join(f'{type_.element} {i}' for i in range(type_.lanes))}>", type_)


LONG_STACK = 'nounwind "probe-stack"="inline-asm"'
"""Attributes of functions whose arrays on the stack are longer than the page that guards its end:
each page is touched."""


def stack_array(code: Code, element: str, count: int, align: int) -> Val:
    """An array on the stack of the current function. Call it in the entry block only."""
    type_ = lane_type("ptr")
    return code.value(type_, f"alloca [{count} x {memory_element(element)}], align {align}")


def prefetch(s: LlvmScalars, base: Val, element: str, position: Val) -> None:
    """Asks for the line of an element that will be read; it may lie outside the array."""
    text = f"getelementptr {element}, ptr {base.ref}, {position}"
    address = s.code.value(base.type, text)
    function = s.code.module.intrinsic("llvm.prefetch.p0", "void", "ptr", "i32", "i32", "i32")
    s.code.do(f"call void {function}({address}, i32 0, i32 2, i32 1)")
