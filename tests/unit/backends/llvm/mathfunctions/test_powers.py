"""x^y: the cases that C99 names, pairs of special values, and both ends of the range."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graphc.backends.llvm.target import X86_64, Target, host_target
from graphc.ir.types import DType
from tests.support.llvm_probe import probe
from tests.support.ulp import exact, ulp_distance

INF, NAN = math.inf, math.nan
FLOATS = [DType.F32, DType.F64]
RUNNABLE = [X86_64, host_target()]

C99 = [
    # x^0 and 1^y, even of nan
    *((x, y, 1.0) for x in (0.0, -2.0, INF, -INF, NAN) for y in (0.0, -0.0)),
    *((1.0, y, 1.0) for y in (3.5, -INF, INF, NAN)),
    (-1.0, INF, 1.0),
    (-1.0, -INF, 1.0),
    # zero
    (0.0, -3.0, INF),
    (-0.0, -3.0, -INF),
    (-0.0, -2.0, INF),
    (-0.0, -2.5, INF),
    (0.0, -INF, INF),
    (-0.0, 3.0, -0.0),
    (0.0, 3.0, 0.0),
    (-0.0, 2.0, 0.0),
    (-0.0, 0.5, 0.0),
    (0.0, 1e-300, 0.0),
    # infinite exponents
    (0.5, INF, 0.0),
    (0.5, -INF, INF),
    (-2.0, INF, INF),
    (2.0, -INF, 0.0),
    # infinite bases
    (-INF, -3.0, -0.0),
    (-INF, -2.0, 0.0),
    (-INF, -0.5, 0.0),
    (-INF, 3.0, -INF),
    (-INF, 2.0, INF),
    (-INF, 0.5, INF),
    (INF, -0.5, 0.0),
    (INF, 0.5, INF),
    # negative bases
    (-2.0, 3.0, -8.0),
    (-2.0, 2.0, 4.0),
    (-2.0, 0.5, NAN),
    (-2.0, -1.5, NAN),
    # nan
    (NAN, 1.0, NAN),
    (2.0, NAN, NAN),
    (-1.0, NAN, NAN),
    (0.0, NAN, NAN),
]


def own(target: Target, dtype: DType, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return probe(target, lambda s, a, b: s.power(a, b), [dtype, dtype], dtype)(x, y)


@pytest.mark.parametrize("target", RUNNABLE, ids=["baseline", "host"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_cases_of_the_standard_come_out_exactly(dtype: DType, target: Target) -> None:
    table = [row for row in C99 if dtype is DType.F64 or row[1] != 1e-300]
    x, y, expected = (np.array(column, dtype.numpy) for column in zip(*table, strict=True))
    got = own(target, dtype, x, y)
    np.testing.assert_array_equal(got, expected)
    number = ~np.isnan(expected)
    assert (np.signbit(got) == np.signbit(expected))[number].all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_all_pairs_of_corners_agree_with_the_wider_type(dtype: DType) -> None:
    info = np.finfo(dtype.numpy)
    odd = 2.0 ** (info.nmant + 1) - 1  # the largest odd number
    sizes = [0.0, 1.0, 0.5, 2.0, 3.0, 1.5, 10.0, odd, odd + 1, 2.0 * odd, INF, NAN]
    sizes += [1 + float(info.eps), 1 - float(info.epsneg), float(info.max), float(info.tiny)]
    sizes += [float(info.smallest_subnormal), 1e-3, 127.5, 1e30]
    corners = np.array([*sizes, *(-v for v in sizes)], dtype.numpy)
    x, y = (v.ravel() for v in np.meshgrid(corners, corners))
    got, wanted = own(host_target(), dtype, x, y), exact("power", x, y)
    distance = ulp_distance(got, wanted)
    worst = int(np.argmax(np.nan_to_num(distance, nan=np.inf)))
    assert distance[worst] <= 1.15, f"{x[worst]!r} to the power {y[worst]!r} is {got[worst]!r}"
    number = ~np.isnan(got)
    assert (np.signbit(got) == np.signbit(wanted))[number].all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_powers_of_two_are_exact_down_to_the_smallest_denormal(dtype: DType) -> None:
    info = np.finfo(dtype.numpy)
    y = np.arange(info.minexp - info.nmant, info.maxexp, dtype=dtype.numpy)
    got = own(host_target(), dtype, np.full_like(y, 2), y)
    np.testing.assert_array_equal(got, np.ldexp(dtype.numpy.type(1), y.astype(np.int64)))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_overflow_and_underflow_go_to_infinity_and_zero(dtype: DType) -> None:
    info = np.finfo(dtype.numpy)
    top, bottom = float(info.maxexp), float(info.minexp - info.nmant - 1)
    y = np.array([top, bottom - 1, 1e30, -1e30], dtype.numpy)
    assert own(host_target(), dtype, np.full_like(y, 2), y).tolist() == [INF, 0, INF, 0]
    odd = np.array([top + 1, bottom - 1], dtype.numpy)
    odd += odd % 2 == 0
    got = own(host_target(), dtype, np.full_like(odd, -2), odd)
    assert got.tolist() == [-INF, 0] and np.signbit(got).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_power_of_one_is_its_base(dtype: DType) -> None:
    x = np.exp(np.random.default_rng(6).uniform(-80, 80, 5000)).astype(dtype.numpy)
    got = own(host_target(), dtype, x, np.ones_like(x))
    assert ulp_distance(got, x.astype(np.longdouble)).max() <= 1


@pytest.mark.parametrize("target", RUNNABLE, ids=["baseline", "host"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_whole_powers_that_the_type_holds_are_exact(dtype: DType, target: Target) -> None:
    limit = 2 ** (np.finfo(dtype.numpy).nmant + 1)
    pairs = [(x, y) for x in range(2, 300) for y in range(1, 53) if x**y < limit]
    x, y = (np.array(column, dtype.numpy) for column in zip(*pairs, strict=True))
    wanted = np.array([base**exponent for base, exponent in pairs], dtype.numpy)
    np.testing.assert_array_equal(own(target, dtype, x, y), wanted)
