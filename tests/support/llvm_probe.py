"""One scalar op as a function over arrays, straight from the LLVM emitter.

Tests and the accuracy benchmark judge the scalar ops by themselves with it, before any kernel is
built.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from graphc.backends.llvm import engine
from graphc.backends.llvm.target import Target
from graphc.backends.llvm.text import Code, Module
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import (
    ELEMENT_BYTES,
    I1,
    I64,
    PTR,
    Val,
    element_of,
    lane_type,
    memory_element,
)
from graphc.ir.types import DType

Formula = Callable[..., Val]


def probe_text(
    target: Target, formula: Formula, inputs: Sequence[DType], output: DType, lanes: int
) -> str:
    """`void probe(inputs..., output, n)`: the formula on every `lanes` elements up to n."""
    module = Module(target.triple)
    code = Code(module)
    scalars = LaneScalars.of(code, target.machine)
    code.do("br label %loop")
    code.enter("loop")
    hole, i = code.hole(), code.fresh(I64)
    values = [_load(scalars, f"%x{k}", dtype, i, lanes) for k, dtype in enumerate(inputs)]
    _store(scalars, formula(scalars, *values), output, i)
    following = code.value(I64, f"add i64 {i.ref}, {lanes}")
    more = code.value(I1, f"icmp ult i64 {following.ref}, %n")
    code.fill(hole, f"  {i.ref} = phi i64 [ 0, %entry ], [ {following.ref}, %{code.block} ]")
    code.do(f"br {more}, label %loop, label %done")
    code.enter("done")
    code.do("ret void")
    parameters = [f"ptr %x{k}" for k in range(len(inputs))]
    header = f"define void @probe({', '.join([*parameters, 'ptr %y', 'i64 %n'])})"
    module.add_function(header, code)
    return module.text()


def probe_in_place(
    target: Target,
    formula: Formula,
    inputs: Sequence[DType],
    output: DType,
    lanes: int | None = None,
) -> Callable[..., Callable[[], None]]:
    """Flat arrays of a multiple of `lanes` elements, the result last -> the call that fills it."""
    lanes = lanes or target.machine.lanes(inputs[0])
    text = probe_text(target, formula, inputs, output, lanes)
    loaded = engine.load(engine.object_code(text, target), ["probe"], target)
    arguments = [ctypes.c_void_p] * (len(inputs) + 1)
    run = engine.function(loaded, "probe", None, *arguments, ctypes.c_int64)

    def prepare(*arrays: np.ndarray) -> Callable[[], None]:
        size = arrays[0].size
        assert all(a.size == size and a.size % lanes == 0 for a in arrays)
        pointers = [a.ctypes.data for a in arrays]

        def call() -> None:
            run(*pointers, size)
            assert loaded.keep and arrays

        return call

    return prepare


def probe(
    target: Target,
    formula: Formula,
    inputs: Sequence[DType],
    output: DType,
    lanes: int | None = None,
) -> Callable[..., np.ndarray]:
    """The formula as a numpy function of flat arrays of one size, any size."""
    lanes = lanes or target.machine.lanes(inputs[0])
    prepare = probe_in_place(target, formula, inputs, output, lanes)

    def call(*arrays: np.ndarray) -> np.ndarray:
        size = arrays[0].size
        padded = -(-max(size, 1) // lanes) * lanes
        held = [np.ones(padded, d.numpy) for d in inputs]
        for target_array, array in zip(held, arrays, strict=True):
            target_array[:size] = array
        result = np.empty(padded, output.numpy)
        prepare(*held, result)()
        return result[:size]

    return call


def _load(s: LaneScalars, base: str, dtype: DType, i: Val, lanes: int) -> Val:
    element = element_of(dtype)
    memory = lane_type(memory_element(element), lanes)
    pointer = s.code.value(PTR, f"getelementptr {memory.element}, ptr {base}, {i}")
    align = ELEMENT_BYTES[memory.element]
    value = s.code.value(memory, f"load {memory.text}, ptr {pointer.ref}, align {align}")
    if memory.element == element:
        return value
    return s.convert("trunc", value, lane_type(element, lanes))


def _store(s: LaneScalars, value: Val, dtype: DType, i: Val) -> None:
    element = element_of(dtype)
    memory = lane_type(memory_element(element), value.type.lanes)
    pointer = s.code.value(PTR, f"getelementptr {memory.element}, ptr %y, {i}")
    if memory != value.type:
        value = s.convert("zext", value, memory)
    s.code.do(f"store {value}, ptr {pointer.ref}, align {ELEMENT_BYTES[memory.element]}")
