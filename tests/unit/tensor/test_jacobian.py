"""All first and second derivatives against closed forms and differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gc
from tests.support.compiling import RUN_HERE

Array = np.ndarray
EVERYWHERE = pytest.mark.parametrize("backend", RUN_HERE)
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
RNG = np.random.default_rng(5)
A = RNG.standard_normal((4, 4))
A.setflags(write=False)
X = RNG.standard_normal(4)


def on(backend: str, python: Callable[..., Any], **options: Any) -> Any:
    return gc.function(python, backend=backend, **options)


def close(got: Any, wanted: Any) -> None:
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape
    tolerance = 1e-4 if got.dtype == np.float32 else 1e-11
    np.testing.assert_allclose(got, wanted, tolerance, tolerance)


@EVERYWHERE
@DTYPES
@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_the_jacobian_of_a_map(mode: Any, dtype: Any, backend: str) -> None:
    a, x = A[:3].astype(dtype), X.astype(dtype)
    f = on(backend, lambda v: gc.stack([gc.sin(a @ v), (a @ v) ** 2]))
    z = a @ x
    wanted = np.stack([np.cos(z)[:, None] * a, 2 * z[:, None] * a])
    close(gc.jacobian(f, mode=mode)(x), wanted)


MAPS: dict[str, Callable[..., Any]] = {
    "reductions": lambda x: gc.stack([gc.sum(x, 0), gc.max(x, 1)[:2], gc.min(x, 0), x.mean(0)]),
    "movement": lambda x: gc.concatenate([x[::-1, None, 1:], gc.flip(x, 0)[:, None, :1]], -1) ** 2,
    "padding": lambda x: gc.pad(x.T, ((1, 0), (0, 2)), 3.0) ** 3,
    "products": lambda x: (x @ x.T) @ x,
    "product with a constant": lambda x: (np.arange(6.0).reshape(2, 3) @ x) @ x.T,
    "batches": lambda x: gc.stack([x, x * 2]) @ gc.stack([x.T, x.T]),
    "patches": lambda x: gc.cross_correlate(x, x[:2, :1]),
    "choices": lambda x: gc.where(x > 0.1, x**2, gc.exp(x)),
    "softmax": lambda x: gc.softmax(x) * gc.log_softmax(x, 0),
    "vectors": lambda x: x[0] @ x[1] * (x[:, 0] @ x),
}


@pytest.mark.parametrize("name", MAPS)
def test_both_modes_give_the_same_jacobian_and_that_of_differences(name: str) -> None:
    f = on("numpy", MAPS[name])
    x = RNG.standard_normal((3, 2))
    forward, reverse = (gc.jacobian(f, mode=mode)(x) for mode in ("forward", "reverse"))
    assert forward.shape == (*f(x).shape, 3, 2)
    close(forward, reverse)
    for index in np.ndindex(x.shape):
        moved = np.zeros_like(x)
        moved[index] = 1e-6
        difference = (f(x + moved) - f(x - moved)) / 2e-6
        np.testing.assert_allclose(forward[(..., *index)], difference, 1e-5, 1e-6)


def test_the_jacobian_of_a_structure() -> None:
    f = on("numpy", lambda p, s: {"y": p[0] * s, "z": gc.sum(p[1])})
    got = gc.jacobian(f, (0, 1))((X, X[:2]), 3.0)
    (by_x, by_part), by_s = got["y"]
    close(by_x, 3 * np.eye(4))
    close(by_part, np.zeros((4, 2)))
    close(by_s, X)
    (by_x, by_part), by_s = got["z"]
    close(by_x, np.zeros(4))
    close(by_part, np.ones(2))
    close(by_s, 0.0)


@EVERYWHERE
@DTYPES
def test_the_hessian_of_a_quadratic_form(dtype: Any, backend: str) -> None:
    a, x = A.astype(dtype), X.astype(dtype)
    close(gc.hessian(on(backend, lambda v: v @ a @ v))(x), a + a.T)


@EVERYWHERE
def test_the_hessian_of_rosenbrock_s_function(backend: str) -> None:
    f = on(backend, lambda x: gc.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))
    x = np.array([-1.2, 1.0, 0.7])
    wanted = np.diag([2 + 1200 * x[0] ** 2 - 400 * x[1], 202 + 1200 * x[1] ** 2 - 400 * x[2], 200])
    wanted[0, 1] = wanted[1, 0] = -400 * x[0]
    wanted[1, 2] = wanted[2, 1] = -400 * x[1]
    close(gc.hessian(f)(x), wanted)


def test_the_hessian_with_respect_to_a_matrix() -> None:
    f = on("numpy", lambda w: gc.sum(gc.log(gc.sum(gc.exp(w), axis=0))))
    w = RNG.standard_normal((3, 2))
    p = np.exp(w) / np.exp(w).sum(0)
    wanted = np.zeros((3, 2, 3, 2))
    for j in range(2):
        wanted[:, j, :, j] = np.diag(p[:, j]) - np.outer(p[:, j], p[:, j])
    close(gc.hessian(f)(w), wanted)


def test_a_jacobian_over_nothing_is_empty() -> None:
    f = on("numpy", lambda x: x * 2)
    assert gc.jacobian(f)(np.zeros((0, 2))).shape == (0, 2, 0, 2)


def test_the_mode_of_a_jacobian_has_to_be_known() -> None:
    with pytest.raises(gc.GraphcError, match=r"bad-option.*backward"):
        gc.jacobian(lambda x: x, mode="backward")  # type: ignore[arg-type]  # the mistake
