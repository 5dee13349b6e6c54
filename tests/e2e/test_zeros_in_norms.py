"""Norms and cosines of zeros through the whole compiler: no pass may turn their slope into nan."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

import graphc as gc

BACKENDS = ("reference", "numpy", "llvm")
PRECISIONS: tuple[Literal["f32", "f64"], ...] = ("f32", "f64")
SAMPLES, ROWS = 21, 13  # no multiple of a vector's width


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("norm", ["MatrixL1Reg", "MatrixL2Reg"])
def test_the_norm_of_a_zero_parameter_has_slope_zero(
    norm: str, precision: Literal["f32", "f64"], backend: str
) -> None:
    net = gc.loads(f"W = Parameter(5, 3, init=zero)\nc = {norm}(W)")
    results = gc.compile(net, ["c"], gradients=["W"], backend=backend, precision=precision)()
    assert results["c"] == 0
    assert np.array_equal(results.gradients["W"], np.zeros((5, 3)))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_zero_columns_have_cosine_and_slope_zero_beside_others_that_do_not(
    precision: Literal["f32", "f64"], backend: str
) -> None:
    net = gc.loads(f"""
        x = Input({ROWS})
        y = Input({ROWS})
        v = CosDistance(x, y)
        c = SumElements(v)
    """)
    generator = np.random.default_rng(0)
    x, y = generator.standard_normal((2, SAMPLES, ROWS)).astype(precision.replace("f", "float"))
    x[::3] = 0
    y[::5] = 0
    exe = gc.compile(
        net, ["c", "v"], gradients=["x", "y"], backend=backend, precision=precision, batch=SAMPLES
    )
    results = exe(x=x, y=y)
    zero = ~(x.any(axis=1) & y.any(axis=1))
    lengths = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    expected = np.sum(x * y, axis=1) / np.where(zero, 1, lengths)
    tolerance = 1e-5 if precision == "f32" else 1e-13
    np.testing.assert_allclose(results["v"][:, 0], expected, rtol=tolerance, atol=tolerance)
    for name in ("x", "y"):
        gradient = results.gradients[name]
        assert np.isfinite(gradient).all()
        assert not gradient[zero].any()
        assert gradient[~zero].any(axis=1).all()
