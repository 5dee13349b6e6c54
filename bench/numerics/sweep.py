"""All bit patterns of f32 through one function, judged by the same function of f64, in one loop.

Both and the judge are compiled together, so a function takes about a minute. The f64 functions are
judged by themselves, by another library: `python -m bench.numerics.ulp --dtypes f64`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from graphc.backends.llvm import engine
from graphc.backends.llvm.target import Target, host_target
from graphc.backends.llvm.text import Code, Module
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import I1, I64, Val, lane_type
from graphc.ir.types import DType

LANES = 8
PATTERNS = 2**32
PART = 2**24

Formula = Callable[[LaneScalars, Val], Val]


class Part(NamedTuple):
    """The worst of `size` patterns: how far off, in units in the last place, and the operand."""

    worst: float
    at: float
    total: float
    size: int


def sweep(formula: Formula, target: Target, stride: int = 1) -> Iterator[Part]:
    """Every part of the range, each `stride`-th pattern; f32 as it is computed for `target`."""
    host = host_target()
    text = _text(formula, stride, has_fma=target.machine.has_fma, host=host)
    loaded = engine.load(engine.object_code(text, host), ["sweep"], host)
    run = engine.function(
        loaded, "sweep", None, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 3
    )
    for first in range(0, PATTERNS, PART * stride):
        worst, total = np.zeros(LANES), np.zeros(LANES)
        at = np.zeros(LANES, np.int32)
        end = min(first + PART * stride, PATTERNS)
        run(first, end, worst.ctypes.data, total.ctypes.data, at.ctypes.data)
        k = int(np.argmax(worst))
        yield Part(
            float(worst[k]),
            float(at.view(np.float32)[k]),
            float(total.sum()),
            (end - first) // stride,
        )


def distance(s: LaneScalars, got: Val, wanted: Val) -> Val:
    """abs(got - wanted) in units in the last place of the rounded result, f64.

    Numbers beyond f32 count as 2^128. 0 for nan against nan, infinite for nan against a number.
    """
    rounded = s.cast(wanted, DType.F32)
    bits = s.bits(s.cast(s.abs(rounded), DType.F64))
    exponent = s.code.binary("and", bits, s.const(0x7FF << 52, bits))
    unit = s.bits(s.sub(exponent, s.const(23 << 52, exponent)))
    unit = s.maximum(s.minimum(unit, s.const(2.0**104, unit)), s.const(2.0**-149, unit))
    top = s.const(2.0**128, unit)
    value, exact, nearest = (
        s.maximum(s.minimum(s.cast(v, DType.F64), top), s.neg(top)) for v in (got, wanted, rounded)
    )
    size = s.div(s.abs(s.sub(value, exact)), unit)
    # The same infinity, or two that are no numbers.
    both = s.logical_and(s.equal(value, nearest), s.equal(s.abs(value), top))
    neither = s.logical_and(s.compare("uno", got, got), s.compare("uno", wanted, wanted))
    size = s.select(s.compare("uno", size, size), s.const(float("inf"), size), size)
    return s.select(s.logical_or(both, neither), s.const(0.0, size), size)


def _text(formula: Formula, stride: int, *, has_fma: bool, host: Target) -> str:
    """`void sweep(i64 first, i64 end, ptr worst, ptr total, ptr at)`, LANES patterns a turn."""
    module = Module(host.triple)
    code = Code(module)
    narrow, wide = (
        LaneScalars(code, has_fma=has_fma),
        LaneScalars(code, has_fma=host.machine.has_fma),
    )
    sizes, patterns = lane_type("double", LANES), lane_type("i32", LANES)
    code.do("br label %loop")
    code.enter("loop")
    hole, i = code.hole(), code.fresh(I64)
    worst, total, at = code.fresh(sizes), code.fresh(sizes), code.fresh(patterns)
    start = code.value(lane_type("i32"), f"trunc {i} to i32")
    one = code.value(patterns, f"insertelement {patterns.text} poison, {start}, i64 0")
    zeros = f"<{LANES} x i32> zeroinitializer"
    splat = code.value(patterns, f"shufflevector {one}, {patterns.text} poison, {zeros}")
    steps = ", ".join(f"i32 {k * stride}" for k in range(LANES))
    x = narrow.bits(narrow.add(splat, Val(f"<{steps}>", patterns)))
    size = distance(wide, formula(narrow, x), formula(wide, wide.cast(x, DType.F64)))
    is_worse = wide.greater(size, worst)
    new_worst = wide.select(is_worse, size, worst)
    new_at = wide.select(is_worse, narrow.bits(x), at)
    new_total = wide.add(total, size)
    following = code.value(I64, f"add i64 {i.ref}, {LANES * stride}")
    more = code.value(I1, f"icmp ult i64 {following.ref}, %end")
    carried = [(i, following, "%first")]
    carried += [(v, n, "zeroinitializer") for v, n in ((worst, new_worst), (total, new_total))]
    carried += [(at, new_at, "zeroinitializer")]
    phis = [
        f"  {v.ref} = phi {v.type.text} [ {begin}, %entry ], [ {n.ref}, %{code.block} ]"
        for v, n, begin in carried
    ]
    code.fill(hole, "\n".join(phis))
    code.do(f"br {more}, label %loop, label %done")
    code.enter("done")
    for value, name in ((new_worst, "worst"), (new_total, "total"), (new_at, "at")):
        code.do(f"store {value}, ptr %{name}, align 4")
    code.do("ret void")
    header = "define void @sweep(i64 %first, i64 %end, ptr %worst, ptr %total, ptr %at)"
    module.add_function(header, code)
    return module.text()
