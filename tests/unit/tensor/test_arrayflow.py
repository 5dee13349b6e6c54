"""ArrayFlow's names, against numpy and the examples of its paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.tensor import arrayflow

X, Y = np.array([3.0, 1.0, -5.0, 4.0]), np.array([0.5, 2.0, 1.0, -3.0])
M = np.arange(6.0).reshape(2, 3)

CALLS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "matrix_multiply": ((M, M.T), M @ M.T),
    "cross_correlate": ((X, np.array([1.0, -1.0])), X[:-1] - X[1:]),
    "times": ((X, Y), X * Y),
    "divide": ((X, Y), X / Y),
    "max": ((X, Y), np.maximum(X, Y)),
    "min": ((X, Y), np.minimum(X, Y)),
    "maxpool": ((np.array([3.0, 1, -5, 0, 2, 2, 9, 5]), 2), np.array([3.0, 0, 2, 9])),
    "sum": ((M,), M.sum()),
    "add": ((X, Y, X, 1.0), 2 * X + Y + 1),
    "subtract": ((X, Y), X - Y),
    "power": ((X, 3), X**3),
    "exponential": ((X,), np.exp(X)),
    "log": ((abs(X),), np.log(abs(X))),
    "sqrt": ((abs(X),), np.sqrt(abs(X))),
    "sin": ((X,), np.sin(X)),
    "cos": ((X,), np.cos(X)),
    "tanh": ((X,), np.tanh(X)),
    "mean": ((M,), M.mean()),
    "absolute_value": ((X,), abs(X)),
    "concatenate": ((X, Y, X), np.concatenate([X, Y, X])),
    "expand": ((X,), X[:, None]),
    "slice": ((X, 1, 3), X[1:3]),
}


@pytest.mark.parametrize("name", arrayflow.NAMES)
def test_every_name_does_what_the_paper_says(name: str) -> None:
    arguments, wanted = CALLS[name]
    function = getattr(arrayflow, name)
    got = gc.function(lambda *given: function(*given), backend="numpy")(*arguments)
    np.testing.assert_allclose(got, wanted, 1e-14)


def test_the_gradient_of_maxpool_goes_to_the_largest_of_each_cell() -> None:
    x = np.array([3.0, 1, -5, 0, 2, 2.5, 9, 5])
    weights = np.array([1.0, 2, 3, 4])
    f = gc.function(lambda v: arrayflow.sum(arrayflow.maxpool(v, 2) * weights), backend="numpy")
    assert gc.grad(f)(x).tolist() == [1, 0, 0, 2, 0, 3, 4, 0]


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert dir(arrayflow) == sorted(arrayflow.NAMES)
    with pytest.raises(AttributeError, match="convolve"):
        _ = arrayflow.convolve
