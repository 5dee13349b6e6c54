"""Accuracy and special values of the functions of one operand; budgets as in docs/numerics.md."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graphc.backends.llvm.target import X86_64, Target, host_target
from graphc.ir.types import DType
from tests.support.llvm_probe import probe
from tests.support.ulp import FUNCTIONS, WORST, exact, limit_of, samples, ulp_distance

INF, NAN = math.inf, math.nan
SPECIAL = {
    "exp": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (NAN, NAN)],
    "log": [
        (0.0, -INF),
        (-0.0, -INF),
        (INF, INF),
        (-INF, NAN),
        (NAN, NAN),
        (-1.0, NAN),
        (1.0, 0.0),
    ],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0), (-1e4, -1.0), (NAN, NAN)],
    "log1p": [
        (0.0, 0.0),
        (-0.0, -0.0),
        (INF, INF),
        (-INF, NAN),
        (NAN, NAN),
        (-1.0, -INF),
        (-1.5, NAN),
    ],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (30.0, 1.0), (NAN, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (INF, 1.0), (-INF, 0.0), (NAN, NAN)],
    "arctan": [
        (0.0, 0.0),
        (-0.0, -0.0),
        (INF, math.pi / 2),
        (-INF, -math.pi / 2),
        (1.0, math.pi / 4),
        (NAN, NAN),
    ],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
}


def own(target: Target, name: str, dtype: DType, *operands: np.ndarray) -> np.ndarray:
    inputs = [dtype] * len(operands)
    return probe(target, lambda s, *v: getattr(s, name)(*v), inputs, dtype)(*operands)


@pytest.mark.parametrize("target", [X86_64, host_target()], ids=["baseline", "host"])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_stays_within_the_budget(name: str, dtype: DType, target: Target) -> None:
    operands = samples(name, dtype, stride=25_703)
    distance = ulp_distance(own(target, name, dtype, *operands), exact(name, *operands))
    assert not np.isnan(distance).any()
    worst = int(np.argmax(distance))
    assert distance[worst] <= limit_of(name, dtype), f"at {[x[worst] for x in operands]}"


@pytest.mark.parametrize("target", [X86_64, host_target()], ids=["baseline", "host"])
@pytest.mark.parametrize("name", WORST)
def test_the_worst_operands_of_all_stay_within_the_budget(name: str, target: Target) -> None:
    x = np.array(WORST[name], np.float32)
    distance = ulp_distance(own(target, name, DType.F32, x), exact(name, x))
    assert distance.max() <= limit_of(name, DType.F32), x[np.argmax(distance)]


@pytest.mark.parametrize("target", [X86_64, host_target()], ids=["baseline", "host"])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values_come_out_right(name: str, dtype: DType, target: Target) -> None:
    x, expected = (np.array(column, dtype.numpy) for column in zip(*SPECIAL[name], strict=True))
    got = own(target, name, dtype, x)
    np.testing.assert_array_equal(got, expected)
    number = ~np.isnan(expected)
    assert (np.signbit(got) == np.signbit(expected))[number].all()


@pytest.mark.parametrize(
    ("dtype", "last_finite", "first_infinite"),
    [(DType.F32, 88.72283, 88.72284), (DType.F64, 709.782712893384, 709.7827128933841)],
    ids=str,
)
@pytest.mark.parametrize("name", ["exp", "expm1"])
def test_exponentials_overflow_exactly_where_they_must(
    name: str, dtype: DType, last_finite: float, first_infinite: float
) -> None:
    x = np.array([last_finite, first_infinite, 1e4], dtype.numpy)
    assert np.isfinite(own(host_target(), name, dtype, x)).tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("dtype", "low", "zero"), [(DType.F32, -103.97, -104.0), (DType.F64, -745.13, -745.2)], ids=str
)
def test_exp_goes_through_denormals_to_zero(dtype: DType, low: float, zero: float) -> None:
    x = np.array([low, zero, -1e4], dtype.numpy)
    got = own(host_target(), "exp", dtype, x)
    assert got.tolist() == [float(np.finfo(dtype.numpy).smallest_subnormal), 0.0, 0.0]


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
def test_log_takes_denormals(dtype: DType) -> None:
    x = np.finfo(dtype.numpy).smallest_subnormal * np.array([1, 2, 3, 1000], dtype.numpy)
    assert ulp_distance(own(host_target(), "log", dtype, x), exact("log", x)).max() < 1


@pytest.mark.parametrize("name", ["tanh", "expm1", "log1p"])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
def test_of_a_denormal_these_functions_are_itself(dtype: DType, name: str) -> None:
    x = np.finfo(dtype.numpy).smallest_subnormal * np.array([1, -2, 3, -1001], dtype.numpy)
    np.testing.assert_array_equal(own(host_target(), name, dtype, x), x)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
def test_log1p_takes_the_largest_number_and_the_neighbours_of_its_pole(dtype: DType) -> None:
    info = np.finfo(dtype.numpy)
    x = np.array([info.max, info.max / 3, info.epsneg - 1, 2 * info.epsneg - 1], dtype.numpy)
    for target in (X86_64, host_target()):
        assert ulp_distance(own(target, "log1p", dtype, x), exact("log1p", x)).max() < 1


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
def test_sigmoid_keeps_denormal_results(dtype: DType) -> None:
    x = np.array([-100.0 if dtype is DType.F32 else -740.0], dtype.numpy)
    got = own(host_target(), "sigmoid", dtype, x)
    assert 0 < got[0] < np.finfo(dtype.numpy).tiny


@pytest.mark.parametrize("name", ["exp", "expm1", "tanh", "sigmoid", "erf"])
def test_growing_functions_never_step_down_by_more_than_their_error(name: str) -> None:
    x = np.linspace(-20, 20, 100_001, dtype=np.float32)
    y = own(host_target(), name, DType.F32, x)
    assert (np.diff(y) >= -2 * np.spacing(np.abs(y[1:]))).all()
