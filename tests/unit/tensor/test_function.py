"""`gc.function`: arguments and results, what is compiled when, what is held from outside."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.ir.traversal import walk
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import RUN_HERE

EVERYWHERE = pytest.mark.parametrize("backend", RUN_HERE)


def counted(**options: Any) -> tuple[Any, list[int]]:
    """A function of two arguments, and a list that grows whenever it is traced."""
    traced: list[int] = []

    def python(x: Any, y: Any) -> Any:
        traced.append(1)
        return x * y

    return gc.function(python, **{"backend": "numpy", **options}), traced


def test_what_a_call_runs_is_made_once_for_both() -> None:
    f, traced = counted()
    x = np.arange(3.0)
    call, arrays = f.compiled_for(x, 2.0)
    np.testing.assert_array_equal(call(arrays), f(x, 2.0))
    assert len(traced) == 1


def test_it_is_traced_once_for_each_kind_of_arguments() -> None:
    f, traced = counted()
    for x in (np.ones(3), np.zeros(3), np.ones((2, 3)), np.ones(3, np.float32), np.ones(3)):
        f(x, 2.0)
        f(x, 3.0)
    assert len(traced) == 3


def test_whole_numbers_are_known_while_it_is_traced() -> None:
    f, traced = counted()
    assert f(np.ones(3), 2).tolist() == [2, 2, 2]
    assert f(np.ones(3), 3).tolist() == [3, 3, 3]
    assert f(np.ones(3), True).tolist() == [1, 1, 1]
    assert f(np.ones(3), 1).tolist() == [1, 1, 1]
    assert len(traced) == 4

    power = gc.function(lambda x, n: sum((x**i for i in range(n)), 0.0), backend="numpy")
    assert power(np.array(2.0), 4) == 15


def test_containers_of_arguments_are_told_apart() -> None:
    traced: list[object] = []

    def total(given: Any, more: Any = 0.0) -> Any:
        traced.append(given)
        parts = given.values() if isinstance(given, dict) else given
        return sum(parts, 0.0) + more

    f = gc.function(total, backend="numpy")
    for _ in range(2):
        assert f((1.0, 2.0)) == 3
        assert f([1.0, 2.0]) == 3
        assert f((1.0,), 2.0) == 3
        assert f({"a": 1.0, "b": 2.0}) == 3
        assert f({"b": 1.0, "a": 2.0}) == 3
        assert f((), 3.0) == 3
        assert f((1, 2.0)) == 3
        assert f((True, 2.0)) == 3
        assert f((np.int64(1), 2.0)) == 3
    assert len(traced) == 9


@EVERYWHERE
def test_arguments_and_results_may_be_nested(backend: str) -> None:
    @gc.function(backend=backend)
    def f(pair: tuple[Any, Any], table: dict[str, Any]) -> Any:
        x, y = pair
        return {"sum": x + y, "parts": [x, (table["w"] * y,)], "none": None}

    got = f((np.arange(2.0), 3.0), {"w": np.ones(2)})
    assert list(got) == ["sum", "parts", "none"]
    assert got["sum"].tolist() == [3, 4]
    assert isinstance(got["parts"], list)
    assert got["parts"][0].tolist() == [0, 1]
    assert isinstance(got["parts"][1], tuple)
    assert got["parts"][1][0].tolist() == [3, 3]
    assert got["none"] is None


@EVERYWHERE
def test_results_do_not_share_memory_with_arguments(backend: str) -> None:
    x = np.arange(4.0)
    same, again = gc.function(lambda v: (v, v), backend=backend)(x)
    same[:] = 7
    assert x.tolist() == [0, 1, 2, 3]
    assert again.tolist() == [0, 1, 2, 3]


@EVERYWHERE
def test_arrays_need_not_be_contiguous_or_writable(backend: str) -> None:
    whole = np.arange(24.0).reshape(4, 6)
    f = gc.function(lambda v: v + 1, backend=backend)
    for x in (whole.T, whole[::-2, 1::2], np.broadcast_to(whole[0], (3, 6))):
        np.testing.assert_array_equal(f(x), x + 1)
    swapped = whole.astype(">f8")
    np.testing.assert_array_equal(f(swapped), whole + 1)


@EVERYWHERE
def test_a_result_may_be_a_constant(backend: str) -> None:
    number, array = gc.function(lambda x: (3, gc.eye(2)), backend=backend)(1.0)
    assert number == 3
    np.testing.assert_array_equal(array, np.eye(2))


@EVERYWHERE
def test_arrays_from_outside_are_held_as_they_were(backend: str) -> None:
    large, small = np.arange(200.0), np.arange(3.0)
    f = gc.function(lambda x: gc.sum(x * large) + gc.sum(x * small[2]), backend=backend)
    assert f(1.0) == 19900 + 2
    large[:], small[:] = 0, 0
    assert f(1.0) == 19900 + 2
    assert "parameter" in f.ir(1.0)


@EVERYWHERE
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_depends_on_held_arrays_alone_is_no_part_of_a_call(backend: str, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    w = rng.normal(size=(300, 70)).astype(dtype)
    scaled = gc.function(lambda w, x: x @ (w / gc.sum(w * w)).T, backend=backend)
    f = gc.function(lambda x: scaled(w, x) * gc.sum(gc.exp(w)), backend=backend)
    for rows in (0, 1, 5):
        x = rng.normal(size=(rows, 70)).astype(dtype)
        exact = (
            x.astype(float) @ (w / (w.astype(float) ** 2).sum()).T * np.exp(w, dtype=float).sum()
        )
        np.testing.assert_allclose(f(x), exact, rtol=1e-3 if dtype is np.float32 else 1e-9)
    computed = {op.opdef.name for op in walk(f.module_at("tensor", x))}
    assert computed.isdisjoint({"exp", "reduce_sum", "transpose", "div"})


@EVERYWHERE
def test_a_held_matrix_lies_as_products_read_it(backend: str) -> None:
    rng = np.random.default_rng(4)
    w, x = rng.normal(size=(600, 300)), rng.normal(size=(20, 300))
    f = gc.function(lambda x: x @ gc.transpose(w), backend=backend)
    before = f(x)
    np.testing.assert_allclose(before, x @ w.T, rtol=1e-9, atol=1e-9)
    w[:] = 0
    np.testing.assert_array_equal(f(x), before)
    np.testing.assert_array_equal(f(np.zeros((3, 300))), np.zeros((3, 600)))


def test_a_held_matrix_is_packed_before_all_calls() -> None:
    w, x = np.random.default_rng(6).normal(size=(300, 600)), np.ones((20, 300))
    f = gc.function(lambda x: x @ w)
    g = gc.function(lambda x, w: x @ w)
    np.testing.assert_array_equal(f(x), g(x, w))
    assert '"panels"' in str(f.module_at("schedule", x))
    assert '"panels"' not in str(g.module_at("schedule", x, w))


def test_a_derivative_knows_held_arrays_too() -> None:
    w, x = np.random.default_rng(5).normal(size=(200, 30)), np.ones(30)
    loss = gc.function(lambda x: gc.sum((w @ x) ** 2))
    np.testing.assert_allclose(gc.grad(loss)(x), 2 * w.T @ (w @ x), rtol=1e-9)
    np.testing.assert_allclose(gc.hessian(loss)(x), 2 * w.T @ w, rtol=1e-9)


def test_functions_call_each_other() -> None:
    square = gc.function(lambda x: x * x, backend="numpy")
    f = gc.function(lambda x: square(x) + square((lambda y: 2 * y)(x)), backend="llvm")
    assert f(3.0) == 45


def test_a_function_inside_may_use_values_of_the_function_around_it() -> None:
    @gc.function(backend="numpy")
    def outer(w: Any, x: Any) -> Any:
        inner = gc.function(lambda t: gc.sum(w * t) + gc.sum(gc.function(lambda s: s * w)(x)))
        return inner(x) + inner(2 * x)

    w, x = np.arange(3.0), np.ones(3)
    assert outer(w, x) == pytest.approx(5 * w.sum())


def test_it_may_do_so_when_its_arguments_are_plain_numbers() -> None:
    outer = gc.function(lambda w: gc.function(lambda s: w * s)(3.0) + w, backend="numpy")
    for _ in range(2):
        assert outer(np.arange(3.0)).tolist() == [0, 4, 8]


def test_without_traced_values_functions_compute_at_once() -> None:
    assert isinstance(gc.exp(np.zeros(2)), np.ndarray)
    assert gc.exp(0.0) == 1
    assert gc.sum([1, 2][0]) == 1
    np.testing.assert_array_equal(gc.concatenate([np.ones(2), np.zeros(1)]), [1, 1, 0])
    np.testing.assert_array_equal(gc.sum(np.ones((100, 2)), 0), [100, 100])


@EVERYWHERE
def test_an_array_may_be_filled_with_a_traced_number(backend: str) -> None:
    made = gc.function(
        lambda t: (gc.full((2, 3), t), gc.full(2, t, "i32"), gc.broadcast_to(t, 4)), backend=backend
    )
    filled, whole, repeated = made(1.5)
    np.testing.assert_array_equal(filled, np.full((2, 3), 1.5), strict=True)
    np.testing.assert_array_equal(whole, np.ones(2, np.int32), strict=True)
    np.testing.assert_array_equal(repeated, np.full(4, 1.5), strict=True)
    assert gc.grad(lambda t: gc.sum(gc.full((2, 3), t)))(1.0) == 6


def test_numpy_on_the_left_is_as_good_as_on_the_right() -> None:
    a = np.arange(6.0).reshape(2, 3)
    f = gc.function(
        lambda x: (a + x, a - x, a * x, a / x, a**x, a @ x, a < x, np.float64(2) * x, a[0] == x),
        backend="reference",
    )
    x = np.array([1.0, 2.0, 4.0])
    wanted = (a + x, a - x, a * x, a / x, a**x, a @ x, a < x, 2 * x, a[0] == x)
    for got, right in zip(f(x), wanted, strict=True):
        np.testing.assert_allclose(got, right)


def test_a_traced_value_says_what_it_is() -> None:
    seen: list[Any] = []

    def look(x: Any) -> Any:
        seen.extend([x.shape, x.dtype, x.ndim, x.size, len(x), repr(x), isinstance(x, gc.Tensor)])
        return x

    gc.function(look, backend="reference")(np.zeros((2, 3), np.float32))
    assert seen == [(2, 3), np.float32, 2, 6, 2, "Tensor(tensor<2x3xf32>)", True]


def test_it_keeps_the_name_and_the_text_of_the_python_function() -> None:
    @gc.function
    def half(x: Any) -> Any:
        """Half of it."""
        return x / 2

    assert half.__name__ == "half"
    assert half.__doc__ == "Half of it."
    assert repr(half) == "<gc.function half>"


def test_a_loop_of_known_length_is_unrolled() -> None:
    @gc.function(backend="numpy")
    def newton(a: Any, steps: int) -> Any:
        x = a
        for _ in range(steps):
            x = (x + a / x) / 2
        return x

    assert newton(2.0, 6) == pytest.approx(np.sqrt(2))


def test_the_ir_of_a_function_can_be_looked_at() -> None:
    text = gc.function(lambda x: gc.exp(x) + 1).ir(np.zeros(3))
    assert "func @main(%x0: tensor<3xf64> input) -> (result0: tensor<3xf64>)" in text
    assert "exp %x0" in text


def test_every_public_name_leads_somewhere() -> None:
    for name in gc.__all__:
        assert getattr(gc, name) is not None
    assert sorted(gc.__all__) == dir(gc)


def test_compiled_functions_may_be_called_from_several_threads() -> None:
    f = gc.function(lambda x, y: gc.sum(x * y), backend="llvm")
    x = np.arange(50.0)
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda i: f(x, float(i)), range(200)))
    assert got == [i * x.sum() for i in range(200)]


@EVERYWHERE
def test_many_operands_are_joined(backend: str) -> None:
    f = gc.function(lambda x: gc.stack([x[i] * i for i in range(len(x))][::-1]), backend=backend)
    x = np.arange(40.0)
    np.testing.assert_array_equal(f(x), (x * x)[::-1])


# --- threads and frozen arguments ------------------------------------------------------------


def _scores(weights: Any, x: Any, power: Any = 1) -> Any:
    return gc.tanh(x @ gc.transpose(weights["W"])) ** power + gc.exp(weights["b"])


def test_frozen_arguments_are_those_of_the_call_and_change_no_result() -> None:
    rng = np.random.default_rng(0)
    some = [{"W": rng.standard_normal((3, 4)), "b": rng.standard_normal(3)} for _ in range(12)]
    frozen = gc.function(_scores, freeze="weights", threads=1)
    for weights in [*some, *some[::-1]]:  # more than are kept
        for n, power in ((2, 1), (0, 1), (5, 2)):
            x = rng.standard_normal((n, 4))
            expected = np.tanh(x @ weights["W"].T) ** power + np.exp(weights["b"])
            np.testing.assert_allclose(frozen(weights, x, power), expected, 1e-14, 1e-15)


def test_frozen_arguments_have_gradients_and_are_traced_by_others() -> None:
    frozen = gc.function(lambda W, x: gc.sum(x @ W * (x @ W)), freeze=["W"])
    W, x = np.arange(6.0).reshape(2, 3), np.array([1.0, -2.0])
    np.testing.assert_allclose(gc.grad(frozen)(W, x), 2 * np.outer(x, x @ W))
    around = gc.function(lambda W, x: frozen(W * 2, x) + frozen(W, x))
    assert around(W, x) == pytest.approx(5 * np.sum((x @ W) ** 2))
    bound = gc.function(lambda x: frozen(W, x))
    assert bound(x) == pytest.approx(np.sum((x @ W) ** 2))


def test_an_array_that_is_frozen_is_told_apart_by_itself_and_not_by_its_numbers() -> None:
    frozen = gc.function(lambda W, x: W * x, freeze="W")
    W = np.ones(3)
    assert frozen(W, 2.0).tolist() == [2, 2, 2]
    assert frozen(W * 3, 2.0).tolist() == [6, 6, 6]
    W[...] = 5  # said not to be written to
    assert frozen(W, 2.0).tolist() == [2, 2, 2]


def test_frozen_arrays_are_those_in_their_container_at_the_call() -> None:
    frozen = gc.function(lambda weights, x: weights["W"] * x, freeze="weights")
    weights = {"W": np.zeros(3)}
    for k in range(4):  # arrays that are gone leave their addresses to later ones
        weights["W"] = np.full(3, float(k))
        assert frozen(weights, 2.0).tolist() == [2 * k] * 3


def test_a_frozen_container_that_was_changed_is_not_traced_again() -> None:
    frozen = gc.function(lambda weights, x: weights["W"] * x, freeze="weights")
    W = np.ones(3)
    changed = {"W": W}
    assert frozen(changed, 2.0).tolist() == [2, 2, 2]
    changed["W"] = np.full(3, 5.0)
    assert frozen({"W": W}, np.array([1.0, 2, 3])).tolist() == [1, 2, 3]


def test_frozen_numbers_are_told_apart_by_their_sign() -> None:
    frozen = gc.function(lambda low, x: x / low, freeze="low")
    assert [frozen(zero, 1.0) for zero in (0.0, -0.0)] == [np.inf, -np.inf]


def test_threads_are_those_asked_for_and_change_no_bit() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((300, 300)).astype(np.float32)
    f = gc.function(lambda x: gc.sum(gc.tanh(x @ x), axis=0), threads=2)
    total = gc.function(lambda x: gc.sum(f(x)), threads=2)
    slope = gc.grad(total)
    assert (f.threads, slope.threads) == (2, 2)
    first, gradient = f(x), slope(x)
    f.threads = total.threads = 1
    assert (f.threads, slope.threads) == (1, 1)
    assert np.array_equal(f(x), first)
    assert np.array_equal(slope(x), gradient)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"threads": 0}, "threads requires a whole number from 1 to 1024, got 0"),
        ({"threads": 1.5}, "threads requires a whole number from 1 to 1024, got 1.5"),
        ({"freeze": "weight"}, "freeze requires names of arguments (weights, x, power), got `we"),
        ({"freeze": [1]}, "freeze requires"),
    ],
)
def test_wrong_threads_and_frozen_arguments_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(GraphcError) as caught:
        gc.function(_scores, **options)
    assert said in str(caught.value)
    with pytest.raises(GraphcError):
        gc.function(_scores).threads = 0


def test_dropout_of_nothing_is_no_operation() -> None:
    x = np.ones((4, 3))
    assert "drop" in str(gc.function(lambda x: gc.dropout(x, 0.5) + x).ir(x))
    assert "drop" not in str(gc.function(lambda x: gc.dropout(x, 0.0) + x).ir(x))
