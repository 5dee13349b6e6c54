"""What this machine can do at most: multiply-adds a second, and bytes copied a second, on one core.

Measured by loops of our own, in the vectors that all code is written in: enough independent
multiply-adds to fill the pipelines, and a copy between arrays that no cache holds. Both are the
best of several short rounds, so a busy machine shows them too low, not too high.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

from graphc.backends.base import MachinePeak, aligned_bytes
from graphc.backends.llvm import engine
from graphc.backends.llvm.target import Target, host_target
from graphc.backends.llvm.text import Code, Module
from graphc.backends.loops.control import loop, mul, offset
from graphc.backends.loops.values import I64, PTR, LaneType, Val, constant, index, lane_type
from graphc.ir.types import DType

CHAINS = 10
"""Multiply-adds that do not wait for each other: more than a latency of 4 or 5 times 2 a cycle."""
STEPS = 1_000_000
UNROLLED = 4
COPIED_BYTES = 64 * 2**20
ROUNDS = 7


def measure_machine_peak(target: Target | None = None) -> MachinePeak:
    """The peak of f32 on one core; f64 has half the elements in a vector, so half of it."""
    target = target or host_target()
    module = Module(target.triple)
    lanes = target.machine.lanes(DType.F32)
    _add_multiply(module, target, lane_type("float", lanes))
    _add_copy(module, lane_type("float", lanes))
    loaded = engine.load(engine.object_code(module.text(), target), ["multiply", "copy"], target)
    multiply = engine.function(loaded, "multiply", None, ctypes.c_int64, ctypes.c_void_p)
    copy = engine.function(loaded, "copy", None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    workspace = aligned_bytes(CHAINS * lanes * 4, ())
    workspace[...] = 0
    source, copied = aligned_bytes(COPIED_BYTES, ()), aligned_bytes(COPIED_BYTES, ())
    source[...] = 1
    vectors = COPIED_BYTES // (4 * lanes)
    seconds = _best(lambda: multiply(STEPS, workspace.ctypes.data))
    moved = _best(lambda: copy(vectors, source.ctypes.data, copied.ctypes.data))
    return MachinePeak(2.0 * CHAINS * lanes * STEPS / seconds, 2.0 * COPIED_BYTES / moved)


def _best(call: Callable[[], object]) -> float:
    call()
    found = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        found = min(found, time.perf_counter() - start)
    return found


def _add_multiply(module: Module, target: Target, type_: LaneType) -> None:
    """multiply(steps, ptr workspace): CHAINS vectors at `workspace`, each times 1/2 plus 1, `steps`
    times."""
    code = Code(module)
    half, one = constant(0.5, type_), constant(1.0, type_)
    bytes_ = 4 * type_.lanes
    places = [offset(code, Val("%workspace", PTR), "i8", index(i * bytes_)) for i in range(CHAINS)]
    chains = [code.value(type_, f"load {type_.text}, {p}, align {bytes_}") for p in places]
    with loop(code, index(0), Val("%steps", I64), 1, chains) as state:
        for i, value in enumerate(state.carried):
            if target.machine.has_fma:
                kinds = (type_.text,) * 3
                fma = module.intrinsic(f"llvm.fma.{type_.mangled}", type_.text, *kinds)
                state.carried[i] = code.call(type_, fma, (value, half, one))
            else:
                state.carried[i] = code.binary("fadd", code.binary("fmul", value, half), one)
    for place, value in zip(places, state.carried, strict=True):
        code.do(f"store {value}, {place}, align {bytes_}")
    code.leave()
    module.add_function("define void @multiply(i64 %steps, ptr %workspace) nounwind", code)


def _add_copy(module: Module, type_: LaneType) -> None:
    """copy(vectors, ptr source, ptr target), a multiple of UNROLLED of them."""
    code = Code(module)
    bytes_ = 4 * type_.lanes
    with loop(code, index(0), Val("%vectors", I64), UNROLLED) as state:
        first = mul(code, state.index, index(bytes_))
        source = offset(code, Val("%source", PTR), "i8", first)
        target = offset(code, Val("%target", PTR), "i8", first)
        for i in range(UNROLLED):
            there = offset(code, source, "i8", index(i * bytes_))
            here = offset(code, target, "i8", index(i * bytes_))
            value = code.value(type_, f"load {type_.text}, {there}, align {bytes_}")
            code.do(f"store {value}, {here}, align {bytes_}")
    code.leave()
    header = "define void @copy(i64 %vectors, ptr %source, ptr %target) nounwind"
    module.add_function(header, code)
