"""`gc.check_gradient`: it accepts right derivatives and finds wrong ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gc

X = np.random.default_rng(1).standard_normal((3, 4))


def test_right_derivatives_pass_and_are_reported() -> None:
    report = gc.check_gradient(lambda x, s: gc.sum(gc.tanh(x) * s), X, 2.0)
    assert report.passed
    assert len(report.comparisons) == 13
    assert "13 derivatives compared with central differences" in str(report)
    assert report.worst in report.comparisons


def test_results_of_any_structure_are_weighted() -> None:
    assert gc.check_gradient(lambda p: {"a": p[0] @ p[1], "n": p[0] > 0}, (X, X.T)).passed


def test_large_arguments_are_checked_along_random_directions() -> None:
    report = gc.check_gradient(lambda x: gc.exp(x), np.zeros((20, 20)))
    assert len(report.comparisons) == 16
    assert {c.index for c in report.comparisons} == {None}


@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm"])
def test_f32_functions_are_checked_in_f64(backend: str) -> None:
    f = gc.function(lambda x: gc.sum(x**3), backend=backend, precision="f32")
    assert gc.check_gradient(f, X.astype(np.float32)).passed


def test_a_gradient_is_a_function_to_check_like_any_other() -> None:
    f = gc.function(lambda x: gc.sum(gc.exp(x) * x), backend="numpy", precision="f32")
    assert gc.check_gradient(gc.grad(f), X).passed


def test_a_wrong_derivative_is_named_with_its_element() -> None:
    def cut(x: Any) -> Any:
        return gc.sum(x**2) + gc.stop_gradient(x[1, 2]) ** 2

    with pytest.raises(gc.GraphcError, match=r"not-differentiable.*`cut`.*element \[1, 2\]"):
        gc.check_gradient(cut, X)


def test_a_kink_is_found() -> None:
    with pytest.raises(gc.GraphcError, match=r"worst is array 0, element \[1\]"):
        gc.check_gradient(lambda x: gc.sum(gc.relu(x)), np.array([1.0, 0.0, -1.0]))


def test_something_has_to_be_differentiable() -> None:
    with pytest.raises(gc.GraphcError, match="an argument of floats"):
        gc.check_gradient(lambda x: x, np.arange(3))


@pytest.mark.parametrize("step", [0.0, -1e-6, np.nan])
def test_a_step_has_to_be_above_zero(step: float) -> None:
    with pytest.raises(gc.GraphcError, match="step requires a finite number above 0"):
        gc.check_gradient(lambda x: x, 1.0, step=step)
