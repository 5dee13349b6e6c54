"""Gradients of powers where the formulas are 0 times infinity, and the exact exponents."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graphc.ir.core import Function, IRBuilder, RegionKind, ResultInfo
from graphc.ir.evaluate import evaluate
from graphc.ir.params import NoParams
from graphc.ir.types import DType, TensorType
from graphc.ops.constant import constant
from graphc.ops.control import RETURN
from graphc.ops.functions import POWER, power
from tests.support.differentiate import differentiate, vjp_function

INF, NAN = math.inf, math.nan


def slopes(x: float, y: float) -> tuple[float, float]:
    """The partial derivatives of x^y that the rule gives."""
    type = TensorType((1,), DType.F64)
    function = vjp_function(POWER, NoParams(), (type, type))
    given = {"x0": np.array([x]), "x1": np.array([y]), "dy": np.ones(1)}
    made = evaluate(function, given, {})
    return float(made["dx0"][0]), float(made["dx1"][0])


@pytest.mark.parametrize(
    ("x", "y", "by_base", "by_exponent"),
    [
        (2.0, 3.0, 12.0, 8 * math.log(2)),
        (4.0, 0.5, 0.25, 2 * math.log(4)),
        (2.0, 0.0, 0.0, math.log(2)),
        # x = 0: flat in the exponent, and no 0 * infinity in the base
        (0.0, 2.0, 0.0, 0.0),
        (0.0, 1.0, 1.0, 0.0),
        (0.0, 0.5, INF, 0.0),
        (0.0, 0.0, 0.0, 0.0),
        (-0.0, 3.0, 0.0, 0.0),
        (INF, 0.0, 0.0, INF),
        # a negative base has powers at whole exponents only: no slope along them
        (-2.0, 3.0, 12.0, NAN),
        (-2.0, 0.0, 0.0, NAN),
    ],
)
def test_slopes_of_a_power(x: float, y: float, by_base: float, by_exponent: float) -> None:
    got = slopes(x, y)
    np.testing.assert_allclose(got, [by_base, by_exponent], 1e-15)


@pytest.mark.parametrize(
    ("exponent", "first", "second"),
    [(2.0, [-4.0, 0.0, 6.0], [2.0, 2.0, 2.0]), (1.0, [1, 1, 1], None), (0.0, [0, 0, 0], None)],
)
def test_a_constant_exponent_gives_no_nan_at_zero_and_below(
    exponent: float, first: list[float], second: list[float] | None
) -> None:
    """x is an argument, the exponent is not: the undefined slope along it must not be felt."""
    type = TensorType((3,), DType.F64)
    function = Function("f", RegionKind.SSA)
    x = function.add_argument("x", type, "input")
    b = IRBuilder(function.block)
    b.emit(RETURN, [power(b, x, constant(b, exponent, type))])
    function.results.append(ResultInfo("y"))
    differentiate(function)
    given = {"x": np.array([-2.0, 0.0, 3.0]), "dy": np.ones(3)}
    np.testing.assert_array_equal(evaluate(function, given, {})["dx"], first)
    if second is not None:
        differentiate(function)
        made = evaluate(function, {**given, "ddx": np.ones(3)}, {})
        np.testing.assert_array_equal(made["dx"], second)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_squares_and_reciprocals_are_rounded_once(dtype: type) -> None:
    assert POWER.reference is not None
    x = np.random.default_rng(1).standard_normal(10_000).astype(dtype)
    for exponent, wanted in ((2, x * x), (-1, 1 / x), (1, x)):
        got = POWER.reference(NoParams(), x, np.full_like(x, exponent))
        np.testing.assert_array_equal(got, wanted)
