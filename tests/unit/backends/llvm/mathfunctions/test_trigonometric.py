"""sin and cos of angles near multiples of pi/2 and of huge angles, against mpmath."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import mp, mpf

from graphc.backends.llvm.target import X86_64, Target, host_target
from graphc.backends.loops.mathfunctions import angles
from graphc.ir.types import DType
from tests.support.llvm_probe import probe

FUNCTIONS = {"sin": mp.sin, "cos": mp.cos}
BITS = 1300
"""Enough for the fraction of the largest f64 over pi/2."""
RUNNABLE = [X86_64, host_target()]


def own(target: Target, name: str, dtype: DType, x: np.ndarray) -> np.ndarray:
    return probe(target, lambda s, v: getattr(s, name)(v), [dtype], dtype)(x)


def worst_error(name: str, x: np.ndarray, got: np.ndarray) -> float:
    """In units in the last place of the exact values."""
    worst = 0.0
    with mp.workprec(BITS):
        for angle, y in zip(x.tolist(), got, strict=True):
            wanted = FUNCTIONS[name](mpf(angle))
            unit = mpf(float(np.spacing(np.abs(y.dtype.type(float(wanted))))))
            worst = max(worst, float(abs(mpf(float(y)) - wanted) / unit))
    return worst


def near_multiples(dtype: DType, largest: int) -> np.ndarray:
    """The numbers next to multiples of pi/2, where the first parts of the difference cancel."""
    rng = np.random.default_rng(3)
    counts = [*range(1, 100), *np.exp2(rng.uniform(6, largest, 400)).astype(np.int64).tolist()]
    with mp.workprec(BITS):
        return np.array([float(k * mp.pi / 2) for k in counts]).astype(dtype.numpy)


@pytest.mark.parametrize("target", RUNNABLE, ids=["baseline", "host"])
@pytest.mark.parametrize(("dtype", "largest"), [(DType.F32, 40), (DType.F64, 62)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_angles_next_to_a_multiple_of_a_quarter_turn_keep_their_places(
    name: str, dtype: DType, largest: int, target: Target
) -> None:
    x = near_multiples(dtype, largest)
    assert worst_error(name, x, own(target, name, dtype, x)) < 0.85


@pytest.mark.parametrize("target", RUNNABLE, ids=["baseline", "host"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_huge_angles_are_reduced_exactly(name: str, target: Target) -> None:
    rng = np.random.default_rng(4)
    # The f64 that comes nearest to a multiple of pi/2, and both ends of the slow path.
    known = [6381956970095103 * 2.0**797, np.finfo(np.float64).max, 2.0**20, 1e22]
    x = np.concatenate([known, np.exp2(rng.uniform(20, 1023, 400))])
    assert worst_error(name, x, own(target, name, DType.F64, x)) < 0.85


@pytest.mark.parametrize("name", FUNCTIONS)
def test_huge_angles_of_f32_are_reduced_exactly(name: str) -> None:
    rng = np.random.default_rng(5)
    known = [16367173 * 2.0**72, float(np.finfo(np.float32).max), 2.0**22]
    x = np.concatenate([known, np.exp2(rng.uniform(22, 127.9, 400))]).astype(np.float32)
    assert worst_error(name, x, own(host_target(), name, DType.F32, x)) < 0.51


@pytest.mark.parametrize("limit", [2.0**20, 2.0**22])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
def test_both_reductions_meet_at_the_limit(dtype: DType, limit: float) -> None:
    type_ = dtype.numpy.type
    x = np.array([np.nextafter(type_(limit), type_(0)), limit, limit + 1], dtype.numpy)
    for name in FUNCTIONS:
        assert worst_error(name, x, own(host_target(), name, dtype, x)) < 0.85


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
def test_a_lane_does_not_feel_that_its_neighbours_are_huge_or_not_numbers(dtype: DType) -> None:
    x = np.array([0.5, 1e30, math.inf, 2.0, math.nan, -1e9, -0.0, 3.0], dtype.numpy)
    for name in FUNCTIONS:
        alone = [own(host_target(), name, dtype, x[i : i + 1])[0] for i in range(x.size)]
        np.testing.assert_array_equal(own(host_target(), name, dtype, x), alone)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
def test_the_sine_of_a_denormal_is_itself(dtype: DType) -> None:
    x = np.finfo(dtype.numpy).smallest_subnormal * np.array([1, -2, 3, -1000], dtype.numpy)
    np.testing.assert_array_equal(own(host_target(), "sin", dtype, x), x)


def test_the_table_holds_the_bits_of_two_over_pi() -> None:
    with mp.workprec(BITS + 100):
        bits = int(mp.floor(2 / mp.pi * mpf(2) ** (8 * len(angles.TWO_OVER_PI))))
    assert bits.to_bytes(len(angles.TWO_OVER_PI)) == angles.TWO_OVER_PI
