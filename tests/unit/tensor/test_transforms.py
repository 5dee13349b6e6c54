"""Derivatives of functions of arrays against closed forms, alone and of one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.driver.compile import passed
from graphc.driver.options import CompileOptions
from graphc.driver.program import tensor_passes
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


# --- grad, value_and_grad ----------------------------------------------------------------------


@EVERYWHERE
@DTYPES
def test_the_gradient_of_a_quadratic_form(dtype: Any, backend: str) -> None:
    a, x = A.astype(dtype), X.astype(dtype)
    f = on(backend, lambda v, m: v @ m @ v / 2)
    got = gc.grad(f)(x, a)
    assert got.dtype == dtype
    close(got, (a + a.T) @ x / 2)
    value, both = gc.value_and_grad(f, (0, 1))(x, a)
    close(value, x @ a @ x / 2)
    close(both[0], got)
    close(both[1], np.outer(x, x) / 2)


@EVERYWHERE
def test_a_gradient_has_the_structure_of_its_argument(backend: str) -> None:
    f = on(backend, lambda p: gc.sum(p["w"] * p["b"][0]) + p["b"][1])
    got = gc.grad(f)({"w": X, "b": [2.0, 3.0]})
    assert list(got) == ["w", "b"]
    close(got["w"], np.full(4, 2.0))
    close(got["b"][0], X.sum())
    close(got["b"][1], 1.0)


def test_negative_argnums_count_from_the_end() -> None:
    f = on("numpy", lambda x, y: x * y**2)
    close(gc.grad(f, -1)(3.0, 2.0), 12.0)


def test_what_does_not_matter_has_a_gradient_of_zeros() -> None:
    f = on("numpy", lambda x, y: gc.sum(gc.stop_gradient(x) * y) + gc.sum(gc.floor(x)))
    close(gc.grad(f)(X, X), np.zeros(4))


def thirds(x: Any, w: Any) -> Any:
    """As people write the projections of attention: the same product three times."""
    return gc.sum((x @ w)[:, :2] * (x @ w)[:, 2:4] * (x @ w)[:, 4:])


def test_what_is_computed_twice_is_differentiated_once() -> None:
    x, w = (np.random.default_rng(7).standard_normal(shape) for shape in ((3, 5), (5, 6)))
    gradient = gc.grad(thirds, argnums=(0, 1))
    made = gradient.module_at("tensor", x, w).functions[0]
    assert [op.opdef.name for op in made.block].count("matmul") == 3  # of x w, dx and dw
    y = x @ w
    a, b, c = y[:, :2], y[:, 2:4], y[:, 4:]
    dy = np.hstack([b * c, a * c, a * b])
    dx, dw = gradient(x, w)
    close(dx, dy @ w.T)
    close(dw, x.T @ dy)
    along = gc.jvp(thirds, (x, w), (np.ones_like(x), np.zeros_like(w)))[1]
    close(along, (dy @ w.T).sum())


@EVERYWHERE
def test_what_a_program_computes_twice_is_differentiated_once(backend: str) -> None:
    x, w = (np.random.default_rng(7).standard_normal(shape) for shape in ((3, 5), (5, 6)))
    program = gc.program(thirds, {"x": "Nx5xf64"}, parameters={"w": w})
    passes = tensor_passes(program, CompileOptions(backend), ["w"])
    module, _ = passed(program.module, passes, CompileOptions(backend))
    assert [op.opdef.name for op in module.functions[0].block].count("matmul") == 2
    wanted = gc.grad(thirds, argnums=1)(x, w)
    close(gc.compile(program, gradients=["w"], backend=backend)(x=x)["gradient.w"], wanted)


def test_a_gradient_goes_through_a_conversion_of_type() -> None:
    f = on("numpy", lambda x: gc.sum(gc.cast(x, "f64") ** 2))
    got = gc.grad(f)(X.astype(np.float32))
    assert got.dtype == np.float32
    close(got, 2 * X.astype(np.float32))


@EVERYWHERE
def test_higher_derivatives_of_a_function_of_one_number(backend: str) -> None:
    f = on(backend, lambda x: gc.sin(x) * x**3)
    x = 0.7
    s, c = np.sin(x), np.cos(x)
    first, second = gc.grad(f), gc.grad(gc.grad(f))
    close(f(x), s * x**3)
    close(first(x), c * x**3 + 3 * x**2 * s)
    close(second(x), -s * x**3 + 6 * x**2 * c + 6 * x * s)
    close(gc.grad(second)(x), -c * x**3 - 9 * x**2 * s + 18 * x * c + 6 * s)


def test_transforms_of_one_function_are_made_once() -> None:
    f = on("numpy", lambda x: gc.sum(x))
    assert gc.grad(f) is gc.grad(f)
    assert gc.grad(f) is not gc.grad(f, (0,))
    assert isinstance(gc.grad(f, (0,))(X), tuple)


@EVERYWHERE
def test_a_gradient_may_be_taken_inside_a_function(backend: str) -> None:
    @gc.function(backend=backend)
    def step(w: Any, rate: float) -> Any:
        return w - rate * gc.grad(lambda v: gc.sum((A @ v - w) ** 2))(w)

    wanted = X - 0.1 * (2 * A.T @ (A @ X - X))
    close(step(X, 0.1), wanted)


def test_the_gradient_of_a_function_with_a_gradient_inside() -> None:
    def inner(x: Any, w: Any) -> Any:
        return gc.sum(gc.grad(lambda v: gc.sum(gc.exp(v * w)))(x) ** 2)

    # inner = Σ (w e^(xw))², so d/dw = Σ 2 w e^(2xw) + 2 w² x e^(2xw)
    f = on("numpy", inner)
    x, w = X, np.array([0.5, -1.0, 2.0, 1.0])
    e = np.exp(2 * x * w)
    close(gc.grad(f, 1)(x, w), 2 * w * e + 2 * w**2 * x * e)
    close(gc.grad(f, 0)(x, w), 2 * w**3 * e)


def test_a_derivative_inside_does_not_take_the_variable_around_it_for_its_own() -> None:
    # d/dx (x · d/dy (x + y)) = 1, and not 2; likewise forward
    assert gc.grad(lambda x: x * gc.grad(lambda y: x + y)(1.0))(2.0) == 1
    inner = gc.jvp(lambda x: x * gc.jvp(lambda y: x * y, (1.0,), (1.0,))[1], (3.0,), (1.0,))
    assert inner == (9, 6)


# --- vjp, jvp ------------------------------------------------------------------------------------


@EVERYWHERE
@DTYPES
def test_vjp_and_jvp_of_a_linear_map(dtype: Any, backend: str) -> None:
    a, x = A.astype(dtype), X.astype(dtype)
    f = on(backend, lambda m, v: m @ v)
    y, pullback = gc.vjp(f, a, x)
    close(y, a @ x)
    u = np.arange(4).astype(dtype)
    to_a, to_x = pullback(u)
    close(to_a, np.outer(u, x))
    close(to_x, a.T @ u)
    y, tangent = gc.jvp(f, (a, x), (np.zeros_like(a), u))
    close(tangent, a @ u)
    _, tangent = gc.jvp(f, (a, x), (a, None))
    close(tangent, a @ x)


def test_results_and_arguments_without_floats_are_left_out() -> None:
    def f(x: Any, n: int) -> Any:
        return {"power": x**n, "positive": x > 0}

    y, pullback = gc.vjp(on("numpy", f), X, 3)
    assert y["positive"].dtype == bool
    to_x, to_n = pullback({"power": np.ones(4), "positive": None})
    close(to_x, 3 * X**2)
    assert to_n is None
    _, tangent = gc.jvp(on("numpy", f), (X, 3), (np.ones(4), None))
    close(tangent["power"], 3 * X**2)
    assert tangent["positive"] is None


def test_a_cotangent_may_be_a_plain_number() -> None:
    y, pullback = gc.vjp(on("numpy", lambda x: gc.sum(x**2)), X)
    close(y, np.sum(X**2))
    close(pullback(1)[0], 2 * X)


def test_a_cotangent_of_none_is_zeros() -> None:
    _, pullback = gc.vjp(on("numpy", lambda x: (x**2, gc.sum(x))), X)
    close(pullback((X, None))[0], 2 * X**2)
    close(pullback((None, 3.0))[0], np.full(4, 3.0))


@pytest.mark.parametrize("number", [2.0, np.float32(2), np.float64(2)])
def test_a_plain_number_beside_f32_has_a_tangent_of_f32(number: Any) -> None:
    x = X.astype(np.float32)
    f = on("numpy", lambda v, s: v * s)
    y, tangent = gc.jvp(f, (x, number), (x, 1.0))
    assert (y.dtype, tangent.dtype) == (np.float32, np.float32)
    close(tangent, 3 * x)
    y, pullback = gc.vjp(f, x, number)
    close(pullback(x)[1], np.sum(x * x, dtype=np.float32))
    with pytest.raises(gc.GraphcError, match=r"ill-typed.*gc\.cast"):
        gc.jvp(f, (x, X), (x, X))


def test_constants_without_a_type_have_the_tangent_of_what_they_meet() -> None:
    x = X.astype(np.float32)
    y, tangent = gc.jvp(on("numpy", lambda v, s: v * s), (x, gc.ones(4)), (x, gc.ones(4)))
    assert y.dtype == np.float32
    close(tangent, 2 * x)


def test_a_derivative_along_a_direction_of_a_gradient() -> None:
    f = on("numpy", lambda x: gc.sum(gc.exp(x)))
    gradient, product = gc.jvp(gc.grad(f), (X,), (np.ones(4),))
    close(gradient, np.exp(X))
    close(product, np.exp(X))
    along = on("numpy", lambda x: gc.jvp(f, (x,), (x,))[1])
    close(gc.grad(along)(X), np.exp(X) * (1 + X))


def test_vjp_inside_a_function() -> None:
    @gc.function(backend="numpy")
    def f(x: Any) -> Any:
        y, pullback = gc.vjp(gc.tanh, x)
        return pullback(y)[0]

    t = np.tanh(X)
    close(f(X), t * (1 - t * t))


# --- errors --------------------------------------------------------------------------------------


def test_a_gradient_is_of_one_number() -> None:
    for f in (lambda x: x, lambda x: (gc.sum(x), gc.sum(x)), lambda x: gc.sum(x) > 0):
        with pytest.raises(gc.GraphcError, match=r"not-differentiable.*gc\.jacobian"):
            gc.grad(f)(X)


def test_a_gradient_is_with_respect_to_floats() -> None:
    with pytest.raises(gc.GraphcError, match=r"2\.0 in place of 2"):
        gc.grad(lambda x: gc.sum(x * X))(2)
    with pytest.raises(gc.GraphcError, match="an array of i64"):
        gc.grad(lambda x, y: gc.sum(x * y))(np.arange(3), X[:3])


@pytest.mark.parametrize("argnums", ["x", 1.0, True, (0, "x"), None])
def test_argnums_are_whole_numbers(argnums: Any) -> None:
    for transform in (gc.grad, gc.value_and_grad, gc.jacobian, gc.hessian):
        with pytest.raises(gc.GraphcError, match="an int or a tuple of ints"):
            transform(lambda x: gc.sum(x), argnums)


def test_argnums_have_to_exist() -> None:
    with pytest.raises(gc.GraphcError, match=r"bad-value.*argnums"):
        gc.grad(lambda x: gc.sum(x), 1)(X)


def test_cotangents_and_tangents_fit_what_they_belong_to() -> None:
    _, pullback = gc.vjp(on("numpy", lambda x: (x, x)), X)
    with pytest.raises(gc.GraphcError, match="structure"):
        pullback(X)
    with pytest.raises(gc.GraphcError, match=r"shape-mismatch.*\(4,\), got \(2,\)"):
        pullback((X, X[:2]))
    with pytest.raises(gc.GraphcError, match="requires numbers"):
        pullback((X, "text"))
    with pytest.raises(gc.GraphcError, match="tuple of tangents"):
        gc.jvp(lambda x: x, X, X)  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(gc.GraphcError, match=r"shape-mismatch.*\(4,\), got \(\)"):
        gc.jvp(lambda x: x, (X,), (1.0,))
