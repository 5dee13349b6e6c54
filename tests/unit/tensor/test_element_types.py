"""What element type a result has, and which types do not mix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gc

F32, F64 = np.float32, np.float64
TWO32, TWO64 = np.array([1, 2], F32), np.array([1, 2], F64)
INTS, LONGS, TRUTHS = np.array([1, 2], np.int32), np.array([1, 2]), np.array([True, False])


def dtype_of(python: Any, *arguments: Any, **options: Any) -> np.dtype:
    return gc.function(python, backend="reference", **options)(*arguments).dtype


@pytest.mark.parametrize(
    ("x", "other", "wanted"),
    [
        (TWO32, 2.5, F32),
        (TWO32, 2, F32),
        (TWO32, True, F32),
        (TWO32, np.float64(2.5), F32),
        (TWO32, INTS, F32),
        (TWO32, LONGS, F32),
        (TWO32, TRUTHS, F32),
        (TWO64, INTS, F64),
        (INTS, 2, np.int32),
        (INTS, LONGS, np.int64),
        (INTS, TRUTHS, np.int32),
        (INTS, 2.5, F64),
        (TRUTHS, TRUTHS, np.int64),
        (TRUTHS, 2, np.int64),
        (np.array([1, 2], np.float16), 2.0, np.float16),
        (np.array([1, 2], np.uint8), 2, np.uint8),
        (np.array([1, 2], np.uint8), np.array([1, 2], np.int8), np.int16),
        (np.array([1, 2], np.uint32), INTS, np.int64),
        (np.array([1, 2], np.uint64), np.array([1, 2], np.uint8), np.uint64),
        (np.array([1, 2], np.uint64), TWO32, F32),
    ],
)
def test_two_operands_meet_in_one_type(x: Any, other: Any, wanted: Any) -> None:
    assert dtype_of(lambda a: a + other, x) == wanted
    assert dtype_of(lambda a: other + a, x) == wanted


def test_f32_and_f64_do_not_mix() -> None:
    with pytest.raises(gc.GraphcError, match=r"ill-typed.*gc\.cast"):
        gc.function(lambda a, b: a + b)(TWO32, TWO64)
    assert dtype_of(lambda a, b: a + gc.cast(b, "f32"), TWO32, TWO64) == F32


@pytest.mark.parametrize(("x", "wanted"), [(INTS, F64), (TRUTHS, F64), (TWO32, F32), (TWO64, F64)])
def test_division_and_functions_give_floats(x: Any, wanted: Any) -> None:
    assert dtype_of(lambda a: a / 2, x) == wanted
    assert dtype_of(gc.exp, x) == wanted
    assert dtype_of(gc.mean, x) == wanted


@pytest.mark.parametrize("python", [gc.relu, gc.square, abs, lambda a: -a, gc.max, lambda a: a**2])
def test_what_needs_no_fractions_keeps_integers(python: Any) -> None:
    assert dtype_of(python, INTS) == np.int32
    assert dtype_of(python, LONGS) == np.int64


@pytest.mark.parametrize(
    ("x", "wanted"), [(INTS, np.int64), (TRUTHS, np.int64), (TWO32, F32), (TWO64, F64)]
)
def test_sums_of_integers_are_i64(x: Any, wanted: Any) -> None:
    assert dtype_of(gc.sum, x) == wanted


def test_a_plain_float_is_f64_beside_no_array_and_f32_beside_f32() -> None:
    assert dtype_of(lambda t: t * 2, 1.5) == F64
    assert dtype_of(lambda t, x: t + gc.sum(x), 1.5, TWO32) == F32
    assert dtype_of(lambda t, x: t + gc.sum(x), 1.5, TWO64) == F64


@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_a_precision_holds_for_all_floats(precision: str) -> None:
    wanted = {"f32": F32, "f64": F64}[precision]
    for x in (TWO32, TWO64, 1.5):
        assert dtype_of(lambda a: a * TWO64[0:1] + TWO32, x, precision=precision) == wanted


def test_constant_arrays_take_the_type_of_what_they_meet() -> None:
    for x in (TWO32, TWO64):
        assert dtype_of(lambda a: a + gc.ones(2) - gc.eye(2)[0] * 2, x) == x.dtype
    with pytest.raises(gc.GraphcError, match="ill-typed"):
        gc.function(lambda a: a + gc.ones(2, "f64"))(TWO32)


def test_a_number_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(gc.GraphcError, match=r"bad-value.*i32.*2147483648"):
        gc.function(lambda a: a + 2**31)(INTS)


@pytest.mark.parametrize("dtype", [np.complex128, object, "U3", [("a", "u1")]])
def test_other_element_types_are_refused(dtype: Any) -> None:
    with pytest.raises(gc.GraphcError, match="argument-type"):
        gc.function(lambda a: a)(np.zeros(2, dtype))


def test_a_number_beyond_f32_is_infinite_in_it() -> None:
    assert gc.function(lambda a: a, precision="f32", backend="numpy")(np.array([1e300])) == np.inf


@pytest.mark.parametrize("backend", ["cuda"])
def test_bf16_on_a_gpu_is_what_it_is_elsewhere(backend: str) -> None:
    rng = np.random.default_rng(0)
    for rows in (3, 64):
        a, b = (rng.standard_normal((n, 64)).astype(np.float32) for n in (rows, 64))
        here, there = (
            gc.function(lambda a, b: a @ b, backend=name, precision="bf16")(a, b)
            for name in ("llvm", backend)
        )
        np.testing.assert_allclose(there, here, rtol=1e-5, atol=1e-5)
        assert np.abs(there - a.astype(np.float64) @ b).max() > 1e-2


@pytest.mark.parametrize("backend", ["llvm", "cuda"])
def test_tf32_is_f32_with_products_that_round_their_factors_on_a_gpu(backend: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2))
    product = gc.function(lambda a, b: a @ b, backend=backend, precision="tf32")
    exact = a.astype(np.float64) @ b
    off = np.abs(product(a, b) - exact).max()
    assert product(a, b).dtype == np.float32
    assert off < 64 * 2.0**-10
    assert (off > 1e-3) == (backend == "cuda")
    slope = gc.grad(gc.function(lambda a, b: gc.sum(a @ b), backend=backend, precision="tf32"))
    wrong = np.abs(slope(a, b) - b.astype(np.float64).sum(axis=1)).max()
    assert (wrong > 1e-3) == (backend == "cuda")
