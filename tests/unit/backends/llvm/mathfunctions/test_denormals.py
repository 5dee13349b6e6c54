"""Functions whose results are denormals: machines on which they are slow, or one instruction."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from graphc.backends.llvm import engine
from graphc.backends.llvm.target import X86_64, X86_64_V3, X86_64_V4, Target, host_target
from graphc.backends.loops import mathfunctions
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import Val
from graphc.ir.types import DType
from tests.support.llvm_probe import probe, probe_in_place, probe_text

UNDERFLOW, DENORMAL = 0x10, 0x02
"""Flags of x86-64 that stay up: a result was inexact and denormal or 0, an operand was denormal."""

Function = Callable[[LaneScalars, Val], Val]


def exp_of_at_most_zero(s: LaneScalars, x: Val) -> Val:
    return mathfunctions.exp_of_at_most_zero(s, x)


def power_of_two(s: LaneScalars, x: Val) -> Val:
    return s.power(s.const(2.0, x), x)


FUNCTIONS: list[Function] = [
    LaneScalars.exp,
    LaneScalars.sigmoid,
    exp_of_at_most_zero,
    power_of_two,
]

SMALL: list[Function] = [LaneScalars.tanh, LaneScalars.erf, LaneScalars.log1p]

FLAGS = """
define i32 @flags() {
  %place = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %place)
  %word = load i32, ptr %place
  %cleared = and i32 %word, -64
  store i32 %cleared, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  ret i32 %word
}
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
"""
"""The flags that are up, which it takes down; the C library does not tell of denormal operands."""


SCALED: list[Function] = [LaneScalars.exp, exp_of_at_most_zero, power_of_two]


def scaling(target: Target, *, has_scalef: bool) -> Target:
    """A machine that is quick with denormals."""
    machine = replace(target.machine, slow_denormals=False, has_scalef=has_scalef)
    return replace(target, machine=machine)


def host(*, slow_denormals: bool) -> Target:
    target = host_target()
    return replace(target, machine=replace(target.machine, slow_denormals=slow_denormals))


def operands(dtype: DType) -> np.ndarray:
    """All f32 whose exp is a denormal or 0 by rounding, as many f64, others, special values."""
    rng = np.random.default_rng(2)
    if dtype is DType.F32:
        first, last = np.array([-87.0, -104.5], np.float32).view(np.uint32)
        edge = np.arange(first, last, dtype=np.uint32).view(np.float32)
    else:
        edge = rng.uniform(-750, -700, 1_000_000)
    around = rng.uniform(-2000, 1000, 100_000).astype(dtype.numpy)
    small = rng.normal(size=100_000).astype(dtype.numpy)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1e30, 1e30, 1e-40], dtype.numpy)
    return np.concatenate([edge, around, small, special])


def small_operands(dtype: DType) -> np.ndarray:
    """Bit patterns from zero to infinity, both signs, many where an odd function begins to bend."""
    types = {DType.F32: np.uint32, DType.F64: np.uint64}
    top, near, far = (np.array(v, dtype.numpy).view(types[dtype]) for v in (np.inf, 2e-10, 2e-3))
    everywhere = np.linspace(0, int(top), 1_000_003).astype(types[dtype]).view(dtype.numpy)
    bend = np.linspace(int(near), int(far), 1_000_003).astype(types[dtype]).view(dtype.numpy)
    powers = 2.0 ** np.arange(-40, 0)
    edges = np.concatenate(
        [np.nextafter(powers.astype(dtype.numpy), np.array(v, dtype.numpy)) for v in (0, 1)]
    )
    positive = np.concatenate([everywhere, bend, powers.astype(dtype.numpy), edges])
    return np.concatenate([positive, -positive, np.array([np.nan, -np.inf], dtype.numpy)])


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("function", SMALL, ids=lambda f: f.__name__)
def test_no_bit_of_a_small_operand_depends_on_it_either(function: Function, dtype: DType) -> None:
    x = small_operands(dtype)
    found, other = (
        probe(host(slow_denormals=slow), function, [dtype], dtype)(x) for slow in (True, False)
    )
    np.testing.assert_array_equal(np.isnan(found), np.isnan(other))
    integer = f"i{dtype.numpy.itemsize}"
    is_number = ~np.isnan(found)
    assert np.array_equal(found[is_number].view(integer), other[is_number].view(integer))


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_no_bit_depends_on_how_denormals_are_made(function: Function, dtype: DType) -> None:
    x = operands(dtype)
    if function is exp_of_at_most_zero:
        x = -np.abs(x)
    found, other = (
        probe(host(slow_denormals=slow), function, [dtype], dtype)(x) for slow in (True, False)
    )
    np.testing.assert_array_equal(np.isnan(found), np.isnan(other))
    assert np.array_equal(found[~np.isnan(found)], other[~np.isnan(other)])
    denormal = (found != 0) & (np.abs(found) < np.finfo(dtype.numpy).tiny)
    assert np.count_nonzero(denormal) > 100


@pytest.mark.parametrize("vectors", [1, 4])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("function", SCALED, ids=lambda f: f.__name__)
def test_no_bit_depends_on_the_instruction_for_powers_of_two(
    function: Function, dtype: DType, vectors: int
) -> None:
    if not host_target().machine.has_scalef:
        pytest.skip("requires a processor that has it")
    x = operands(dtype)
    if function is exp_of_at_most_zero:
        x = -np.abs(x)
    lanes = vectors * host_target().machine.lanes(dtype)
    found, other = (
        probe(scaling(host_target(), has_scalef=has), function, [dtype], dtype, lanes)(x)
        for has in (True, False)
    )
    np.testing.assert_array_equal(np.isnan(found), np.isnan(other))
    assert np.array_equal(found[~np.isnan(found)], other[~np.isnan(other)])
    assert np.count_nonzero((found != 0) & (np.abs(found) < np.finfo(dtype.numpy).tiny)) > 100


@pytest.mark.skipif(platform.machine() != "x86_64", reason="code for another processor")
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("function", SCALED[:2], ids=lambda f: f.__name__)
def test_the_instruction_is_used_of_whole_vectors_where_denormals_are_quick(
    function: Function, dtype: DType
) -> None:
    def text(target: Target, lanes: int) -> str:
        return probe_text(target, function, [dtype], dtype, lanes)

    target, lanes = scaling(X86_64_V4, has_scalef=True), X86_64_V4.machine.lanes(dtype)
    for vectors in (1, 4):
        made = text(target, vectors * lanes)
        assert made.count("scalef") == vectors + 1  # and a declaration
        assert engine.object_code(made, target)
    assert "scalef" not in text(target, lanes // 2)
    assert "scalef" not in text(X86_64_V4, lanes)


def test_machines_say_whether_denormals_are_slow() -> None:
    assert X86_64_V3.machine.slow_denormals
    assert X86_64.machine.slow_denormals


@pytest.mark.skipif(platform.machine() != "x86_64", reason="flags of other processors differ")
@pytest.mark.parametrize("slow", [True, False])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("function", [*FUNCTIONS[:3], *SMALL], ids=lambda f: f.__name__)
def test_no_instruction_gives_or_takes_a_denormal(
    function: Function, dtype: DType, slow: bool
) -> None:
    loaded = engine.load(engine.object_code(FLAGS, host_target()), ["flags"], host_target())
    flags = engine.function(loaded, "flags", ctypes.c_int32)
    if function in SMALL:
        least = 2 * np.finfo(dtype.numpy).tiny
        x = np.geomspace(least, 1e-3, 4096).astype(dtype.numpy)
    else:
        low, high = (-104.0, -87.0) if dtype is DType.F32 else (-746.0, -708.0)
        x = np.linspace(low, high, 4096).astype(dtype.numpy)
        x[::7] = -1e9
    run = probe_in_place(host(slow_denormals=slow), function, [dtype], dtype)(x, np.empty_like(x))
    flags()
    run()
    raised = flags() & (UNDERFLOW | DENORMAL)
    assert bool(raised) is not slow
    assert loaded.keep
