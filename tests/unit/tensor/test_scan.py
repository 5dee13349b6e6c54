"""`gc.scan` gives what the same steps give one after the other, and so do its derivatives."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import graphc as gc
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import RUN_HERE

Array = np.ndarray
Step = Callable[[Any, Any], tuple[Any, Any]]
EVERYWHERE = pytest.mark.parametrize("backend", RUN_HERE)
RNG = np.random.default_rng(11)
W = RNG.standard_normal((3, 3)) / 2
TABLE = RNG.standard_normal((30, 3))  # too large for a constant


def unrolled(f: Step, initial: Any, xs: Any, *, reverse: bool = False) -> tuple[Any, Any]:
    """`scan` with a Python loop: the judge. `xs` and ys are trees of arrays of two levels."""
    count = len(next(iter(_parts(xs))))
    carry, made = initial, {}
    for t in reversed(range(count)) if reverse else range(count):
        carry, made[t] = f(carry, _mapped(lambda x, t=t: x[t], xs))
    ys = [made[t] for t in range(count)]
    return carry, _stacked(ys)


def _parts(tree: Any) -> list[Any]:
    return [
        *(tree.values() if isinstance(tree, dict) else tree if isinstance(tree, tuple) else [tree])
    ]


def _mapped(f: Callable[[Any], Any], tree: Any) -> Any:
    if isinstance(tree, dict):
        return {k: f(v) for k, v in tree.items()}
    return tuple(map(f, tree)) if isinstance(tree, tuple) else f(tree)


def _stacked(ys: list[Any]) -> Any:
    if ys[0] is None:
        return None
    if isinstance(ys[0], dict):
        return {k: gc.stack([y[k] for y in ys]) for k in ys[0]}
    if isinstance(ys[0], tuple):
        return tuple(gc.stack(list(parts)) for parts in zip(*ys, strict=True))
    return gc.stack(ys)


class Recurrence(NamedTuple):
    """step: made for the weights w (3, 3), which it closes over."""

    name: str
    step: Callable[[Any], Step]
    initial: Callable[[int], Any]
    xs: Callable[[int, int], Any]
    reverse: bool = False


def _numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def _plain(w: Any) -> Step:
    def step(h: Any, x: Any) -> tuple[Any, Any]:
        h = gc.tanh(h @ w + x)
        return h, h

    return step


def _two(w: Any) -> Step:
    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        c = gc.sigmoid(x) * carry["c"] + gc.tanh(carry["h"] @ w)
        h = gc.tanh(c) * x
        return {"h": h, "c": c}, (h, c * 2)

    return step


def _swapped(w: Any) -> Step:
    return lambda carry, x: ((carry[1], carry[0]), carry[0] @ w * x)


def _swapped_and_changed(w: Any) -> Step:
    return lambda carry, x: ((carry[1], gc.tanh(carry[0] @ w) + x), carry[1])


def _constant_carry(w: Any) -> Step:
    return lambda carry, x: ((carry[0], carry[1] * x), carry[0] @ w)


def _last_element(w: Any) -> Step:
    return lambda carry, x: (x @ w, None)


def _invariant(w: Any) -> Step:
    return lambda carry, x: ((w, x), w)


def _running_product(w: Any) -> Step:
    return lambda carry, x: (carry @ w, (carry, x))


def _two_sequences(w: Any) -> Step:
    def step(h: Any, x: Any) -> tuple[Any, Any]:
        h = gc.where(x["gate"] > 0, gc.tanh(h @ w + x["value"]), h)
        return h, {"a": h**2, "b": x["gate"]}

    return step


def _nested(w: Any) -> Step:
    def step(h: Any, x: Any) -> tuple[Any, Any]:
        def inner(c: Any, row: Any) -> tuple[Any, Any]:
            c = gc.tanh(c @ w + h + row)
            return c, c * h

        h, ys = gc.scan(inner, h, gc.stack([x, x * 2, h]))
        return h, gc.sum(ys, axis=0)

    return step


def _closes_over_an_array(w: Any) -> Step:
    return lambda h, x: ((h @ w + x) / 3, gc.sum(TABLE @ gc.transpose(h), axis=0))


def _state(s: int) -> Array:
    return _numbers(s, 3)


def _pair(s: int) -> tuple[Array, Array]:
    return _numbers(s, 3), _numbers(s, 3) + 1


def _sequence(t: int, s: int) -> Array:
    return _numbers(t, s, 3)


TABLE_OF_STEPS = (
    Recurrence("plain", _plain, _state, _sequence),
    Recurrence("backwards", _plain, _state, _sequence, reverse=True),
    Recurrence("two", _two, lambda s: {"h": _state(s), "c": _state(s)}, _sequence),
    Recurrence("swapped", _swapped, _pair, _sequence),
    Recurrence("swapped and changed", _swapped_and_changed, _pair, _sequence),
    Recurrence("one is constant", _constant_carry, _pair, _sequence),
    Recurrence("the last element", _last_element, _state, _sequence),
    Recurrence("an invariant", _invariant, lambda s: (_numbers(3, 3), _state(s)), _sequence),
    Recurrence("a product", _running_product, _state, _sequence),
    Recurrence(
        "two sequences",
        _two_sequences,
        _state,
        lambda t, s: {"gate": _numbers(t, s, 3), "value": _numbers(t, s, 3) * 2},
    ),
    Recurrence("nested", _nested, _state, _sequence),
    Recurrence("nested backwards", _nested, _state, _sequence, reverse=True),
    Recurrence("an array from outside", _closes_over_an_array, _state, _sequence),
)
STEPS = pytest.mark.parametrize("r", TABLE_OF_STEPS, ids=[r.name for r in TABLE_OF_STEPS])
SIZES = pytest.mark.parametrize("sizes", [(1, 1), (2, 5), (7, 1)])


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict | tuple | list):
        return [
            x
            for part in _parts(tree if isinstance(tree, dict) else tuple(tree))
            for x in leaves(part)
        ]
    return [] if tree is None else [tree]


def close(got: Any, wanted: Any, tolerance: float = 1e-10) -> None:
    assert len(leaves(got)) == len(leaves(wanted))
    for a, b in zip(leaves(got), leaves(wanted), strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, tolerance, tolerance)


def both(r: Recurrence, backend: str) -> tuple[Any, Any]:
    """`(w, initial, xs) -> (final, ys)` with `scan`, and step by step."""

    def scanned(w: Any, initial: Any, xs: Any) -> Any:
        return gc.scan(r.step(w), initial, xs, reverse=r.reverse)

    def judge(w: Any, initial: Any, xs: Any) -> Any:
        return unrolled(r.step(w), initial, xs, reverse=r.reverse)

    return gc.function(scanned, backend=backend), gc.function(judge, backend="numpy")


def total(f: Any) -> Any:
    """One number that all results enter, each in its own way."""
    return gc.function(
        lambda *a: sum((i + 1) * gc.sum(gc.sin(y)) for i, y in enumerate(leaves(f(*a)))),
        backend=f.backend,
    )


def arguments(r: Recurrence, sizes: tuple[int, int]) -> tuple[Any, Any, Any]:
    t, s = sizes
    return W, r.initial(s), r.xs(t, s)


@EVERYWHERE
@STEPS
@SIZES
def test_a_scan_is_the_steps_one_after_the_other(
    r: Recurrence, sizes: tuple[int, int], backend: str
) -> None:
    scanned, judge = both(r, backend)
    given = arguments(r, sizes)
    close(scanned(*given), judge(*given))


@EVERYWHERE
@STEPS
def test_the_gradient_of_a_scan_is_that_of_its_steps(r: Recurrence, backend: str) -> None:
    scanned, judge = map(total, both(r, backend))
    given = arguments(r, (5, 2))
    close(gc.grad(scanned, (0, 1, 2))(*given), gc.grad(judge, (0, 1, 2))(*given))


@EVERYWHERE
@STEPS
def test_the_tangent_of_a_scan_is_that_of_its_steps(r: Recurrence, backend: str) -> None:
    scanned, judge = both(r, backend)
    given = arguments(r, (5, 2))
    for moving in ((0,), (1,), (2,), (0, 1, 2)):
        tangents = [g if i in moving else _nothing(g) for i, g in enumerate(given)]
        close(gc.jvp(scanned, given, tangents), gc.jvp(judge, given, tangents))


def _nothing(tree: Any) -> Any:
    if isinstance(tree, dict | tuple):
        return _mapped(lambda _: None, tree)
    return None


@STEPS
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_the_jacobian_of_a_scan_is_that_of_its_steps(r: Recurrence, mode: Any) -> None:
    scanned, judge = both(r, "llvm")
    given = arguments(r, (3, 2))
    got = gc.jacobian(scanned, (0, 2), mode=mode)(*given)
    close(got, gc.jacobian(judge, (0, 2), mode=mode)(*given))


@STEPS
def test_the_second_derivatives_of_a_scan_are_those_of_its_steps(r: Recurrence) -> None:
    scanned, judge = map(total, both(r, "llvm"))
    given = arguments(r, (3, 2))
    close(gc.hessian(scanned)(*given), gc.hessian(judge)(*given))


@STEPS
def test_the_gradient_of_the_gradient_of_a_scan_is_that_of_its_steps(r: Recurrence) -> None:
    def squared_gradient(f: Any) -> Any:
        gradient = gc.grad(f, (0, 1, 2))
        return gc.function(
            lambda *a: sum(gc.sum(g**2) for g in leaves(gradient(*a))), backend=f.backend
        )

    scanned, judge = (squared_gradient(total(f)) for f in both(r, "llvm"))
    given = arguments(r, (3, 2))
    close(gc.grad(scanned, (0, 1, 2))(*given), gc.grad(judge, (0, 1, 2))(*given), 1e-8)


@pytest.mark.parametrize("r", TABLE_OF_STEPS[:4], ids=[r.name for r in TABLE_OF_STEPS[:4]])
def test_the_derivatives_of_a_scan_are_those_of_differences(r: Recurrence) -> None:
    scanned, _ = both(r, "llvm")
    gc.check_gradient(total(scanned), *arguments(r, (4, 2)))


@EVERYWHERE
def test_many_steps(backend: str) -> None:
    scanned, judge = both(TABLE_OF_STEPS[0], backend)
    given = arguments(TABLE_OF_STEPS[0], (64, 5))
    close(scanned(*given), judge(*given))


# --- sizes, types, structures --------------------------------------------------------------------


@EVERYWHERE
def test_no_steps_give_the_first_carry_and_ys_without_elements(backend: str) -> None:
    scanned = gc.function(lambda h, x: gc.scan(_plain(W), h, x), backend=backend)
    final, ys = scanned(_state(2), np.zeros((0, 2, 3)))
    close(final, _state(2))
    assert ys.shape == (0, 2, 3)


@EVERYWHERE
def test_the_gradient_of_no_steps_is_that_of_the_first_carry(backend: str) -> None:
    scanned = gc.function(lambda h, x: gc.sum(gc.scan(_plain(W), h, x)[0] ** 2), backend=backend)
    to_h, to_x = gc.grad(scanned, (0, 1))(_state(2), np.zeros((0, 2, 3)))
    close(to_h, 2 * _state(2))
    assert to_x.shape == (0, 2, 3)


@EVERYWHERE
def test_sequences_without_elements(backend: str) -> None:
    scanned = gc.function(lambda h, x: gc.scan(_plain(W), h, x), backend=backend)
    final, ys = scanned(np.zeros((0, 3)), np.zeros((4, 0, 3)))
    assert final.shape == (0, 3)
    assert ys.shape == (4, 0, 3)


@EVERYWHERE
def test_steps_without_xs(backend: str) -> None:
    f = gc.function(lambda x: gc.scan(lambda c, _: (c * 2, c), x, length=4), backend=backend)
    final, ys = f(3.0)
    assert final == 48
    close(ys, np.array([3, 6, 12, 24]))


@EVERYWHERE
def test_a_scan_without_a_carry_is_a_map(backend: str) -> None:
    f = gc.function(lambda x: gc.scan(lambda _, v: (None, v**2), None, x), backend=backend)
    final, ys = f(np.arange(3.0))
    assert final is None
    close(ys, np.array([0, 1, 4]))


@EVERYWHERE
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_plain_number_takes_the_type_that_the_steps_give(dtype: Any, backend: str) -> None:
    f = gc.function(lambda x: gc.scan(lambda c, v: (c + v, c), 0, x), backend=backend)
    final, ys = f(np.arange(4, dtype=dtype))
    assert ys.dtype == dtype
    assert final == 6
    close(ys, np.array([0, 0, 1, 3]))


def test_zeros_take_the_type_that_the_steps_give() -> None:
    x = np.ones((4, 3), np.float32)
    _, ys = gc.function(lambda v: gc.scan(lambda c, e: (c + e, c), gc.zeros(3), v))(x)
    assert ys.dtype == np.float32


@EVERYWHERE
def test_a_carry_of_whole_numbers_and_of_truth_values(backend: str) -> None:
    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        count, seen = carry
        return (count + 1, seen | (x > 2)), count * x

    f = gc.function(lambda x: gc.scan(step, (0, False), x), backend=backend)
    (count, seen), ys = f(np.arange(4.0))
    assert count == 4
    assert np.asarray(count).dtype == np.int64
    assert seen
    close(ys, np.array([0, 1, 4, 9]))
    to_x = gc.grad(lambda x: gc.sum(f(x)[1]))(np.arange(4.0))
    close(to_x, np.array([0, 1, 2, 3]))


@EVERYWHERE
def test_a_derivative_inside_of_a_step(backend: str) -> None:
    def step(c: Any, x: Any) -> tuple[Any, Any]:
        return c, gc.grad(lambda v: v**3 * c)(x)

    f = gc.function(lambda c, x: gc.scan(step, c, x)[1], backend=backend)
    close(f(2.0, np.arange(3.0)), np.array([0, 6, 24]))
    close(gc.jacobian(f)(2.0, np.arange(3.0)), np.array([0, 3, 12]))


def test_a_compiled_function_is_a_step() -> None:
    step = gc.function(_plain(W))
    close(
        gc.function(lambda h, x: gc.scan(step, h, x))(_state(2), _sequence(4, 2)),
        unrolled(_plain(W), _state(2), _sequence(4, 2)),
    )


def test_without_a_traced_value_a_scan_computes_at_once() -> None:
    final, ys = gc.scan(_plain(W), _state(2), _sequence(4, 2))
    assert isinstance(ys, np.ndarray)
    close((final, ys), unrolled(_plain(W), _state(2), _sequence(4, 2)))


def test_steps_may_close_over_the_only_traced_value() -> None:
    f = gc.function(lambda w: gc.scan(_plain(w), _state(2), _sequence(4, 2))[1])
    close(f(W), unrolled(_plain(W), _state(2), _sequence(4, 2))[1])
    assert gc.jacobian(f)(W).shape == (4, 2, 3, 3, 3)


def test_the_precision_of_a_function_is_that_of_its_scans() -> None:
    f = gc.function(lambda x: gc.scan(_closes_over_an_array(W), _state(2), x)[1], precision="f32")
    assert f(_sequence(4, 2)).dtype == np.float32


def test_a_step_is_traced_once_whatever_the_number_of_steps() -> None:
    calls = []

    def step(h: Any, x: Any) -> tuple[Any, Any]:
        calls.append(x)
        return h + x, None

    gc.function(lambda x: gc.scan(step, gc.zeros(3), x)[0])(np.zeros((1000, 3)))
    assert len(calls) == 1


def test_the_steps_are_one_loop_in_the_ir() -> None:
    f = gc.function(lambda h, x: gc.scan(_plain(W), h, x)[1])
    assert f.ir(_state(2), _sequence(64, 2)).count(" = loop ") == 1


# --- errors --------------------------------------------------------------------------------------


WRONG: Any = 2.5


def _kept(c: Any, x: Any) -> tuple[Any, Any]:
    return c, x


@pytest.mark.parametrize(
    ("call", "slug", "message"),
    [
        (
            lambda x: gc.scan(lambda c, e: (gc.stack([c, c]), e), x[0], x),
            "ill-typed",
            r"keeps its shape.*it starts as tensor<3xf64>, the function gives tensor<2x3xf64>",
        ),
        (
            lambda x: gc.scan(lambda c, e: ((c[0], e > 0), e), (x[0], x[0]), x),
            "ill-typed",
            r"leaf 1 of it starts as tensor<3xf64>, the function gives tensor<3xi1>",
        ),
        (
            lambda x: gc.scan(lambda c, e: (c, e), 1.0, None),
            "argument-type",
            "requires arrays as xs, or a length",
        ),
        (
            lambda x: gc.scan(lambda c, e: ({"b": c["a"]}, e), {"a": x[0]}, x),
            "argument-type",
            r"one structure.*starts as \{'a': \*\}, the function gives \{'b': \*\}",
        ),
        (
            lambda x: gc.scan(lambda c, e: (None, e), x[0], x),
            "ill-typed",
            "the function gives None",
        ),
        (lambda x: gc.scan(lambda c, e: c, x[0], x), "argument-type", r"gives a pair \(carry, y\)"),
        (
            lambda x: gc.scan(_kept, x, (x, x[1:])),
            "shape-mismatch",
            "xs of one number of steps, got 3, 4",
        ),
        (
            lambda x: gc.scan(_kept, x, x, length=2),
            "shape-mismatch",
            "xs and a length of one number",
        ),
        (lambda x: gc.scan(_kept, x, 2.0), "argument-type", "a first axis as xs, got 2.0"),
        (lambda x: gc.scan(_kept, x, length=-1), "argument-type", "at least 0, got -1"),
        (lambda x: gc.scan(_kept, x, length=WRONG), "argument-type", "at least 0, got 2.5"),
        (lambda x: gc.scan(_kept, "text", x), "argument-type", "arrays and numbers, got str"),
        (lambda x: gc.scan(WRONG, x, x), "argument-type", "requires a function, got float"),
    ],
)
def test_a_mistake_is_an_error_at_the_line_that_calls_scan(
    call: Any, slug: str, message: str
) -> None:
    with pytest.raises(GraphcError, match=message) as caught:
        gc.function(call)(np.ones((4, 3)))
    (problem,) = caught.value.diagnostics
    assert problem.slug == slug
    assert problem.span
    assert problem.span.file == __file__
    lines, first = inspect.getsourcelines(call)
    assert first <= problem.span.line < first + len(lines)


def test_a_mistake_in_a_step_is_an_error_at_its_line() -> None:
    def step(c: Any, x: Any) -> tuple[Any, Any]:
        return c @ x, x

    with pytest.raises(GraphcError, match=r"matmul|product|requires") as caught:
        gc.scan(step, np.ones(2), np.ones((4, 3)))
    (problem,) = caught.value.diagnostics
    assert problem.span
    assert problem.span.line == step.__code__.co_firstlineno + 1


def test_an_error_about_the_carry_shows_where_the_function_is_defined() -> None:
    def step(c: Any, x: Any) -> tuple[Any, Any]:
        return x, x

    with pytest.raises(GraphcError) as caught:
        gc.scan(step, np.ones(2), np.ones((4, 3)))
    (problem,) = caught.value.diagnostics
    assert [n.span.line for n in problem.notes if n.span] == [step.__code__.co_firstlineno]
