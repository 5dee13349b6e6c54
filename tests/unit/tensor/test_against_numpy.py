"""Every function of arrays against numpy's, for ranks 0 to 4, in f32 and f64, on every backend."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.ir.core import OpDef
from graphc.ir.params import NoParams
from graphc.ops import bits
from graphc.ops.random import philox
from graphc.support.randomness import Purpose, random_words
from graphc.tensor.functions import FUNCTIONS
from tests.support.compiling import RUN_HERE
from tests.support.op_table import ROWS

Array = np.ndarray
SHAPES = [(), (1,), (7,), (3, 5), (1, 4), (2, 3, 4), (2, 1, 3, 2), (0,), (3, 0)]
EVERYWHERE = pytest.mark.parametrize("backend", RUN_HERE)
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def numbers(shape: Sequence[int], dtype: Any, seed: int = 0, low: float = -2.0) -> Array:
    rng = np.random.default_rng(seed + 17 * len(shape))
    return np.asarray(rng.uniform(low, 2.0, shape), dtype)


def agree(got: object, wanted: object, what: str) -> None:
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape, what
    assert got.dtype == wanted.dtype, what
    exact = got.dtype.kind != "f"
    tolerance = 0.0 if exact else 64 * float(np.finfo(got.dtype).eps)
    np.testing.assert_allclose(got, wanted, tolerance, tolerance, err_msg=what)


def compare(
    backend: str, made: Callable[..., Any], wanted: Callable[..., Any], cases: Sequence[Any]
) -> None:
    """`made` on all cases as one compiled function against `wanted`, one after the other."""

    @gc.function(backend=backend)
    def everything(given: list[Any]) -> list[Any]:
        return [made(*case) for case in given]

    got = everything([list(case) for case in cases])
    for case, result in zip(cases, got, strict=True):
        shapes = ", ".join(str(np.shape(x)) for x in case)
        agree(result, wanted(*case), f"shapes {shapes}")


def error_function(x: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x)).astype(x.dtype)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


UNARY: dict[str, tuple[Callable[..., Any], Callable[..., Any], float]] = {
    "exp": (gc.exp, np.exp, -2.0),
    "expm1": (gc.expm1, np.expm1, -2.0),
    "log": (gc.log, np.log, 0.1),
    "log1p": (gc.log1p, np.log1p, -0.9),
    "erf": (gc.erf, error_function, -2.0),
    "sqrt": (gc.sqrt, np.sqrt, 0.1),
    "sin": (gc.sin, np.sin, -2.0),
    "cos": (gc.cos, np.cos, -2.0),
    "arctan": (gc.arctan, np.arctan, -2.0),
    "tanh": (gc.tanh, np.tanh, -2.0),
    "sigmoid": (gc.sigmoid, sigmoid, -2.0),
    "floor": (gc.floor, np.floor, -2.0),
    "relu": (gc.relu, lambda x: np.maximum(x, 0), -2.0),
    "negative": (gc.negative, np.negative, -2.0),
    "absolute": (gc.absolute, np.absolute, -2.0),
    "abs": (gc.abs, np.absolute, -2.0),
    "square": (gc.square, np.square, -2.0),
    "stop_gradient": (gc.stop_gradient, np.array, -2.0),
    "unary minus": (lambda x: -x, np.negative, -2.0),
    "unary plus": (lambda x: +x, np.positive, -2.0),
    "built-in abs": (abs, np.absolute, -2.0),
    "squared": (lambda x: x**2, np.square, -2.0),
    "fifth power": (lambda x: x**5, lambda x: x**5, -2.0),
    "power -2": (lambda x: x**-2, lambda x: x**-2, 0.5),
    "power 0": (lambda x: x**0, lambda x: x**0, -2.0),
    "root": (lambda x: x**0.5, np.sqrt, 0.1),
    "power 1.7": (lambda x: x**1.7, lambda x: x ** x.dtype.type(1.7), 0.1),
    "2 to the power": (lambda x: 2**x, lambda x: x.dtype.type(2) ** x, -2.0),
}


@EVERYWHERE
@DTYPES
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_array(name: str, dtype: Any, backend: str) -> None:
    made, wanted, low = UNARY[name]
    compare(backend, made, wanted, [(numbers(s, dtype, low=low),) for s in SHAPES])


BINARY: dict[str, tuple[Callable[..., Any], Callable[..., Any], float]] = {
    "+": (lambda x, y: x + y, np.add, -2.0),
    "-": (lambda x, y: x - y, np.subtract, -2.0),
    "*": (lambda x, y: x * y, np.multiply, -2.0),
    "/": (lambda x, y: x / y, np.divide, 0.1),
    "**": (lambda x, y: x**y, np.power, 0.1),
    "<": (lambda x, y: x < y, np.less, -2.0),
    "<=": (lambda x, y: x <= y, np.less_equal, -2.0),
    ">": (lambda x, y: x > y, np.greater, -2.0),
    ">=": (lambda x, y: x >= y, np.greater_equal, -2.0),
    "==": (lambda x, y: x == y, np.equal, -2.0),
    "!=": (lambda x, y: x != y, np.not_equal, -2.0),
    "add": (gc.add, np.add, -2.0),
    "subtract": (gc.subtract, np.subtract, -2.0),
    "multiply": (gc.multiply, np.multiply, -2.0),
    "divide": (gc.divide, np.divide, 0.1),
    "power": (gc.power, np.power, 0.1),
    "maximum": (gc.maximum, np.maximum, -2.0),
    "minimum": (gc.minimum, np.minimum, -2.0),
    "less": (gc.less, np.less, -2.0),
    "less_equal": (gc.less_equal, np.less_equal, -2.0),
    "greater": (gc.greater, np.greater, -2.0),
    "greater_equal": (gc.greater_equal, np.greater_equal, -2.0),
    "equal": (gc.equal, np.equal, -2.0),
    "not_equal": (gc.not_equal, np.not_equal, -2.0),
    "where": (lambda x, y: gc.where(x > y, x, 2 * y), lambda x, y: np.where(x > y, x, 2 * y), -2.0),
    "and": (lambda x, y: (x > 0) & (y > 0), lambda x, y: (x > 0) & (y > 0), -2.0),
    "or": (lambda x, y: (x > 0) | (y > 0), lambda x, y: (x > 0) | (y > 0), -2.0),
    "not": (lambda x, y: ~(x > y), lambda x, y: ~(x > y), -2.0),
    "logical_and": (gc.logical_and, np.logical_and, -2.0),
    "logical_or": (gc.logical_or, np.logical_or, -2.0),
    "logical_not": (lambda x, y: gc.logical_not(x < y), lambda x, y: ~(x < y), -2.0),
}

PAIRS = [
    ((), ()),
    ((), (3,)),
    ((3,), (1,)),
    ((2, 3), (3,)),
    ((2, 1), (1, 4)),
    ((4, 1, 2), (3, 1)),
    ((2, 3, 1, 2), (3, 1)),
    ((0,), (1,)),
    ((2, 0), ()),
]


@EVERYWHERE
@DTYPES
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arrays_broadcast(name: str, dtype: Any, backend: str) -> None:
    made, wanted, low = BINARY[name]
    cases = [(numbers(a, dtype, 1, low), numbers(b, dtype, 2, low)) for a, b in PAIRS]
    compare(backend, made, wanted, cases + [(y, x) for x, y in cases])


def axes_of(rank: int) -> list[Any]:
    found: list[Any] = [None, *range(-rank, rank)]
    if rank >= 2:
        found += [(0, 1), (-1, 0), tuple(range(rank))]
    return found


REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (gc.sum, np.sum),
    "mean": (gc.mean, np.mean),
    "max": (gc.max, np.max),
    "min": (gc.min, np.min),
    "x.sum": (lambda x, *a: x.sum(*a), np.sum),
    "x.mean": (lambda x, *a: x.mean(*a), np.mean),
    "x.max": (lambda x, *a: x.max(*a), np.max),
    "x.min": (lambda x, *a: x.min(*a), np.min),
}


@EVERYWHERE
@DTYPES
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, dtype: Any, backend: str) -> None:
    made, wanted = REDUCTIONS[name]
    for x in (numbers(s, dtype) for s in SHAPES if 0 not in s):
        settings = [(axis, keep) for axis in axes_of(x.ndim) for keep in (False, True)]

        @gc.function(backend=backend)
        def all_of_them(v: Any, settings: Any = settings) -> list[Any]:
            return [made(v, axis, keep) for axis, keep in settings]

        for (axis, keep), got in zip(settings, all_of_them(x), strict=True):
            what = f"{x.shape} over {axis}, keepdims={keep}"
            agree(got, wanted(x, axis=axis, keepdims=keep), what)


@EVERYWHERE
def test_a_sum_of_nothing_is_0_and_a_mean_of_nothing_is_nan(backend: str) -> None:
    made = gc.function(lambda x: (gc.sum(x), gc.mean(x)), backend=backend)
    total, mean = made(np.zeros((0, 3)))
    assert total == 0
    assert np.isnan(mean)


PRODUCTS = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((4, 1, 2, 3), (5, 3, 2)),
    ((3,), (5, 3, 2)),
    ((5, 2, 3), (3,)),
    ((2, 0), (0, 3)),
    ((0, 2), (2, 3)),
    ((1, 1), (1, 1)),
]


@EVERYWHERE
@DTYPES
def test_products_of_matrices(dtype: Any, backend: str) -> None:
    cases = [(numbers(a, dtype, 1), numbers(b, dtype, 2)) for a, b in PRODUCTS]
    compare(backend, lambda x, y: x @ y, np.matmul, cases)
    compare(backend, gc.matmul, np.matmul, cases)


MOVEMENTS: dict[str, tuple[tuple[int, ...], Callable[..., Any], Callable[..., Any]]] = {
    "reshape": ((2, 6), lambda x: gc.reshape(x, (3, -1)), lambda x: x.reshape(3, -1)),
    "x.reshape": ((2, 6), lambda x: x.reshape(4, 3), lambda x: x.reshape(4, 3)),
    "reshape to a number": ((1, 1), lambda x: gc.reshape(x, ()), lambda x: x.reshape(())),
    "ravel": ((2, 3), lambda x: x.ravel(), np.ravel),
    "T": ((2, 3, 4), lambda x: x.T, lambda x: x.T),
    "transpose": ((2, 3, 4), lambda x: gc.transpose(x, (1, -1, 0)), lambda x: x.transpose(1, 2, 0)),
    "x.transpose": ((2, 3, 4), lambda x: x.transpose(2, 0, 1), lambda x: x.transpose(2, 0, 1)),
    "expand_dims": (
        (2, 3),
        lambda x: gc.expand_dims(x, (0, -1)),
        lambda x: np.expand_dims(x, (0, -1)),
    ),
    "squeeze": ((1, 3, 1), gc.squeeze, np.squeeze),
    "squeeze one": ((1, 3, 1), lambda x: gc.squeeze(x, 0), lambda x: np.squeeze(x, 0)),
    "broadcast_to": (
        (3, 1),
        lambda x: gc.broadcast_to(x, (2, 3, 4)),
        lambda x: np.broadcast_to(x, (2, 3, 4)),
    ),
    "flip": ((2, 3), gc.flip, np.flip),
    "flip one": ((2, 3), lambda x: gc.flip(x, -1), lambda x: np.flip(x, -1)),
    "pad": ((2, 3), lambda x: gc.pad(x, 1), lambda x: np.pad(x, 1)),
    "pad with": (
        (2, 3),
        lambda x: gc.pad(x, ((1, 0), (2, 3)), value=7.0),
        lambda x: np.pad(x, ((1, 0), (2, 3)), constant_values=7.0),
    ),
    "pad a pair": ((4,), lambda x: gc.pad(x, (1, 2)), lambda x: np.pad(x, (1, 2))),
    "concatenate": (
        (2, 3),
        lambda x: gc.concatenate([x, 2 * x, x[:, :1]], axis=1),
        lambda x: np.concatenate([x, 2 * x, x[:, :1]], axis=1),
    ),
    "stack": ((2, 3), lambda x: gc.stack([x, -x], axis=-1), lambda x: np.stack([x, -x], axis=-1)),
    "stack numbers": ((), lambda x: gc.stack([x, x, x]), lambda x: np.stack([x, x, x])),
    "rows": ((4, 3), lambda x: gc.stack([x[i] for i in range(len(x))]), np.array),
}


@EVERYWHERE
@DTYPES
@pytest.mark.parametrize("name", MOVEMENTS)
def test_movement(name: str, dtype: Any, backend: str) -> None:
    shape, made, wanted = MOVEMENTS[name]
    compare(backend, made, wanted, [(numbers(shape, dtype),)])


@EVERYWHERE
@DTYPES
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_and_its_logarithm(axis: int, dtype: Any, backend: str) -> None:
    x = numbers((3, 5), dtype) * 100
    made = gc.function(lambda v: (gc.softmax(v, axis), gc.log_softmax(v, axis)), backend=backend)
    soft, log_soft = made(x)
    e = np.exp(x - x.max(axis, keepdims=True))
    wanted = e / e.sum(axis, keepdims=True)
    agree(soft, wanted, "softmax")
    top = x.max(axis, keepdims=True)
    agree(log_soft, x - top - np.log(e.sum(axis, keepdims=True)), "log_softmax")


@EVERYWHERE
@DTYPES
@pytest.mark.parametrize("axis", [0, -1])
def test_layer_normalization(axis: int, dtype: Any, backend: str) -> None:
    x, scale, bias = numbers((4, 5), dtype), numbers((4, 5), dtype, 1), numbers((5,), dtype, 2)

    def normalized(*given: Any) -> Any:
        return gc.layer_normalization(*given, axis=axis, epsilon=0.25)

    made = gc.function(normalized, backend=backend)(x, scale, bias)
    spread = np.sqrt(x.var(axis, keepdims=True) + dtype(0.25))
    agree(made, scale * (x - x.mean(axis, keepdims=True)) / spread + bias, "layer_normalization")


@EVERYWHERE
@DTYPES
@pytest.mark.parametrize(("axis", "k"), [(0, 1), (1, 2), (-1, 5)])
def test_top_k(axis: int, k: int, dtype: Any, backend: str) -> None:
    x = np.random.default_rng(3).integers(0, 4, (3, 4, 5)).astype(dtype)  # many are equal
    values, places = gc.function(lambda v: gc.top_k(v, k, axis), backend=backend)(x)
    wanted = np.argsort(-x, axis=axis, kind="stable").take(range(k), axis=axis)
    agree(places, wanted.astype(np.int32), "places")
    agree(values, np.take_along_axis(x, wanted, axis), "values")


@EVERYWHERE
def test_top_k_of_corners_and_its_gradient(backend: str) -> None:
    x = np.array([[-0.0, np.nan, np.inf, 0.0, -np.inf, np.nan, np.inf]])
    _, places = gc.function(lambda v: gc.top_k(v, 7), backend=backend)(x)
    assert np.asarray(places).tolist() == [[1, 5, 2, 6, 0, 3, 4]]
    weights = np.array([2.0, 3.0])
    slope = gc.grad(lambda v: gc.sum(gc.top_k(v, 2)[0] * weights))
    found = gc.function(lambda v: slope(v), backend=backend)(np.array([1.0, 4.0, 4.0, 2.0]))
    assert np.asarray(found).tolist() == [0, 2, 3, 0]


@EVERYWHERE
@DTYPES
def test_cross_correlation(dtype: Any, backend: str) -> None:
    s, k = numbers((9,), dtype, 1), numbers((4,), dtype, 2)
    image, kernel = numbers((2, 6, 5), dtype, 3), numbers((3, 2), dtype, 4)
    made = gc.function(gc.cross_correlate, backend=backend)
    agree(made(s, k), np.correlate(s, k, "valid"), "one axis")
    wanted = np.zeros((2, 4, 4), dtype)
    for i, j in np.ndindex(kernel.shape):
        wanted += kernel[i, j] * image[:, i : i + 4, j : j + 4]
    agree(made(image, kernel), wanted, "two axes of three")


@EVERYWHERE
@DTYPES
def test_maxpool(dtype: Any, backend: str) -> None:
    x = np.array([3, 1, -5, 0, 2, 2, 9, 5], dtype)
    made = gc.function(lambda v: gc.maxpool(v, 2), backend=backend)
    agree(made(x), np.array([3, 0, 2, 9], dtype), "the paper's example")
    rows = numbers((3, 6), dtype)
    agree(made(rows), rows.reshape(3, 3, 2).max(-1), "the last axis")


@EVERYWHERE
def test_casts(backend: str) -> None:
    x = np.array([-1.7, 0.0, 2.9])
    made = gc.function(
        lambda v: (gc.cast(v, "i32"), v.astype("f32"), v.astype(np.int64), gc.cast(v, bool)),
        backend=backend,
    )
    whole, single, long, truth = made(x)
    agree(whole, np.array([-1, 0, 2], np.int32), "i32")
    agree(single, x.astype(np.float32), "f32")
    agree(long, np.array([-1, 0, 2], np.int64), "i64")
    agree(truth, np.array([True, False, True]), "i1")


NOT_IN_NUMPY = {
    row.op.array: (row.op, row.domain[0])
    for row in ROWS
    if row.op.array not in {"", *UNARY, *BINARY} and row.op not in bits.OPS
}
"""Functions that numpy lacks, with what an operation's reference computes; lowest numbers."""


@EVERYWHERE
@DTYPES
@pytest.mark.parametrize("name", NOT_IN_NUMPY)
def test_functions_that_numpy_lacks(name: str, dtype: Any, backend: str) -> None:
    op, low = NOT_IN_NUMPY[name]
    count = len(op.operands)
    cases = [tuple(numbers(s, dtype, seed, low) for seed in range(count)) for s in SHAPES]
    compare(backend, FUNCTIONS[name], lambda *xs: _reference(op, *xs), cases)


BITS: dict[str, Callable[..., Any]] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_not": np.bitwise_not,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
    "bitcast": lambda x: x.view({"i4": "f4", "i8": "f8"}[x.dtype.str[1:]]),
}


@EVERYWHERE
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_bits(dtype: Any, backend: str) -> None:
    rng, info = np.random.default_rng(9), np.iinfo(dtype)
    x = rng.integers(info.min, info.max, (3, 40), dtype)
    y, counts = x[::-1], rng.integers(0, info.bits, (3, 40)).astype(dtype)
    x[0, :4] = info.min, info.max, 0, -1

    def every(x: Any, y: Any, counts: Any) -> list[Any]:
        made = [FUNCTIONS[n](x, y) for n in ("bitwise_and", "bitwise_or", "bitwise_xor")]
        made += [gc.bitwise_not(x), gc.left_shift(x, counts), gc.right_shift(x, counts)]
        return [*made, gc.bitcast(gc.bitcast(x, f"f{info.bits}"), f"i{info.bits}")]

    for got, name in zip(gc.function(every, backend=backend)(x, y, counts), BITS, strict=True):
        second = (
            () if name in ("bitwise_not", "bitcast") else (counts,) if "shift" in name else (y,)
        )
        agree(got, x if name == "bitcast" else BITS[name](x, *second), name)


@EVERYWHERE
def test_shifts_by_counts_outside_of_the_bits_move_every_bit_out(backend: str) -> None:
    x = np.array([5, -5, 5, -5, 5, -5, -(2**31)], np.int32)
    counts = np.array([32, 32, -1, -1, 2**31 - 1, -(2**31), 31], np.int32)
    shifts = gc.function(lambda x, n: (gc.left_shift(x, n), gc.right_shift(x, n)), backend=backend)
    left, right = shifts(x, counts)
    agree(left, np.array([0, 0, 0, 0, 0, 0, 0], np.int32), "to the left")
    agree(right, np.array([0, -1, 0, -1, 0, -1, -1], np.int32), "to the right")


@EVERYWHERE
def test_bitcast_keeps_every_bit(backend: str) -> None:
    x = np.array([1.5, -0.0, np.inf, 1e-45], np.float32)
    agree(gc.function(lambda x: gc.bitcast(x, "i32"), backend=backend)(x), x.view("i4"), "f32")
    agree(gc.bitcast(np.float64(np.pi), np.int64), np.float64(np.pi).view("i8"), "f64")
    with pytest.raises(gc.GraphcError, match=r"requires a type of as many bits, got .* and f64"):
        gc.bitcast(x, "f64")


@EVERYWHERE
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "?"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_elements_at_computed_places(axis: int, dtype: str, backend: str) -> None:
    rng = np.random.default_rng(7)
    x = rng.integers(-(2**62), 2**62, (3, 4, 5)).astype(dtype)
    places = rng.integers(-3, 3, (2, 6))
    made = gc.function(lambda x, i: gc.take(x, i, axis), backend=backend)
    agree(made(x, places), np.take(x, places, axis), "take")
    agree(made(x, np.int64(-2).reshape(())), np.take(x, -2, axis), "take one")
    agree(made(x, places[:0]), np.take(x, places[:0], axis), "take nothing")
    sizes = list(x.shape)
    sizes[axis] = 7
    along = rng.integers(-3, 3, sizes).astype(np.int32)
    made = gc.function(lambda x, i: gc.take_along_axis(x, i, axis), backend=backend)
    agree(made(x, along), np.take_along_axis(x, along.astype(np.int64), axis), "take_along_axis")


@EVERYWHERE
@DTYPES
@pytest.mark.parametrize("axis", [0, 1])
def test_elements_are_added_at_computed_places(axis: int, dtype: Any, backend: str) -> None:
    rng = np.random.default_rng(8)
    x, values = numbers((4, 5), dtype), numbers((4, 5), dtype, 1)
    places = rng.integers(-2, 3, (4, 5))
    made = gc.function(lambda x, i, v: gc.add_along_axis(x, i, v, axis), backend=backend)
    wanted = x.astype(np.float64)
    for at in np.ndindex(4, 5):
        to = list(at)
        to[axis] = places[at]
        wanted[tuple(to)] += values[at]
    np.testing.assert_allclose(made(x, places, values), wanted, 1e-6, 1e-6)
    slope = gc.grad(lambda v: gc.sum(gc.add_along_axis(x, places, v, axis) * x))
    found = gc.function(lambda v: slope(v), backend=backend)(values)
    np.testing.assert_allclose(found, np.take_along_axis(x, places, axis), 1e-6)


def test_places_outside_give_nothing() -> None:
    x = np.array([1.0, 2.0])
    agree(gc.take(x, np.array([5, 1, -9])), np.array([0.0, 2.0, 0.0]), "take")
    agree(gc.add_along_axis(x, np.array([5, -9]), x), x, "add_along_axis")
    with pytest.raises(gc.GraphcError, match="requires the same sizes but along axis 0"):
        gc.take_along_axis(np.ones((2, 3)), np.zeros((2, 2), np.int64), 0)


@EVERYWHERE
@pytest.mark.parametrize(
    "places",
    [
        np.array([1, 1 << 32, -(1 << 32), (1 << 63) - 1, -(1 << 63)]),
        np.array([1, 2, (1 << 32) - 1, 1 << 31], np.uint32),
        np.array([1, 1 << 32, (1 << 64) - 1], np.uint64),
    ],
)
def test_places_that_i32_does_not_have_are_outside(places: np.ndarray, backend: str) -> None:
    """Their low bits were taken."""
    take = gc.function(lambda x, i: gc.take(x, i), backend=backend)
    agree(take(np.array([1.0, 2.0]), places), np.where(places == 1, 2.0, 0.0), "take")


@EVERYWHERE
def test_windows_and_convolutions(backend: str) -> None:
    x, w = numbers((2, 7, 6, 3), np.float64), numbers((3, 2, 3, 4), np.float64, 1)
    seen = np.lib.stride_tricks.sliding_window_view(x, (3, 2), (1, 2))[:, ::2, ::3]
    seen = np.moveaxis(seen, (4, 5), (3, 4))
    made = gc.function(lambda x: gc.windows(x, (3, 2), (2, 3), axis=1), backend=backend)
    agree(made(x), seen, "windows")
    made = gc.function(lambda x, w: gc.conv(x, w, (2, 3)), backend=backend)
    agree(made(x, w), np.tensordot(seen, w, 3), "conv")
    with pytest.raises(gc.GraphcError, match=r"sizes within the axes from 1 on, got \(8, 2\) for"):
        gc.windows(x, (8, 2), axis=1)
    with pytest.raises(gc.GraphcError, match="requires a stride of at least 1 for each axis"):
        gc.windows(x, (3, 2), (1, 2, 3))
    with pytest.raises(gc.GraphcError, match=r"conv requires images .* and weights"):
        gc.conv(x, w[:, :, :2])


@EVERYWHERE
def test_depthwise_and_transposed_convolutions(backend: str) -> None:
    x, w = numbers((2, 7, 6, 3), np.float64), numbers((3, 2, 3), np.float64, 1)
    around = np.pad(x, [(0, 0), (1, 2), (0, 0), (0, 0)])
    seen = np.lib.stride_tricks.sliding_window_view(around, (5, 2), (1, 2))[:, ::2, :, :, ::2]
    made = gc.function(
        lambda x, w: gc.depthwise_conv(x, w, (2, 1), [(1, 2), 0], (2, 1)), backend=backend
    )
    agree(made(x, w), np.einsum("npqcij,ijc->npqc", seen, w), "depthwise_conv")
    kernel, places = numbers((3, 2, 4, 3), np.float64, 2), numbers((2, 3, 4, 3), np.float64, 3)
    images = np.zeros((2, 7, 11, 4))
    for p, q, i, j in np.ndindex(3, 4, 3, 2):
        images[:, 2 * p + i, 3 * q + j] += places[:, p, q] @ kernel[i, j].T
    made = gc.function(lambda x, w: gc.conv_transpose(x, w, (2, 3)), backend=backend)
    agree(made(places, kernel), images, "conv_transpose")
    images = np.zeros((2, 9, 9, 3))
    for p, q, i, j in np.ndindex(3, 4, 3, 2):
        images[:, 2 * p + 2 * i, 2 * q + 2 * j] += places[:, p, q] * w[i, j]
    made = gc.function(lambda x, w: gc.depthwise_conv_transpose(x, w, 2, 2), backend=backend)
    agree(made(places, w), images, "depthwise_conv_transpose")
    for wrong, said in (
        (
            lambda: gc.depthwise_conv(x, w[:, :, :2]),
            "depthwise_conv requires images .* and weights",
        ),
        (lambda: gc.depthwise_conv(x, w, padding=[1]), "requires a padding of one number, or one"),
        (lambda: gc.depthwise_conv(x, w, padding=-1), "requires a padding of at least 0, got -1"),
        (
            lambda: gc.depthwise_conv(x, w, dilations=4),
            r"windows that fit into \[7, 6\], got \[9, 5\]",
        ),
        (
            lambda: gc.depthwise_conv_transpose(x, kernel),
            "depthwise_conv_transpose requires images",
        ),
        (lambda: gc.conv_transpose(x, kernel[..., :2]), "conv_transpose requires images"),
        (lambda: gc.conv_transpose(x[:, :0], kernel), "requires extents of at least 1, got"),
    ):
        with pytest.raises(gc.GraphcError, match=said):
            wrong()


@EVERYWHERE
@DTYPES
@pytest.mark.parametrize("axis", [1, -1])
def test_outside_of_training_normalisation_is_by_what_was_seen(
    axis: int, dtype: Any, backend: str
) -> None:
    x = numbers((4, 3, 5), dtype)
    columns = [numbers((x.shape[axis],), dtype, i) for i in range(4)]
    columns[3] = np.abs(columns[3])

    def normalized(*given: Any) -> Any:
        return gc.dropout(gc.batch_normalization(*given, axis=axis, epsilon=0.25))

    made = gc.function(normalized, backend=backend)(x, *columns)
    scale, bias, mean, variance = (c[:, None] if axis == 1 else c for c in columns)
    expected = scale * (x - mean) / np.sqrt(variance + dtype(0.25)) + bias
    agree(made, expected, "batch_normalization")


def test_what_does_not_normalise_is_refused() -> None:
    x, column = np.ones((4, 3)), np.ones(3)
    with pytest.raises(gc.GraphcError, match=r"a variance for each channel, \(3,\), got \(4,\)"):
        gc.batch_normalization(x, column, column, column, np.ones(4))
    with pytest.raises(gc.GraphcError, match="a rate from 0 to 1, got 2"):
        gc.dropout(x, 2)


def _reference(op: OpDef, *operands: Array) -> Any:
    assert op.reference is not None
    return op.reference(NoParams(), *operands)


def test_every_function_is_compared_with_numpy_here() -> None:
    constants = {"zeros", "ones", "full", "arange", "eye"}
    elsewhere = {"matmul", "softmax", "log_softmax", "cross_correlate", "maxpool", "cast", "where"}
    elsewhere |= {"layer_normalization", "top_k", "windows", "conv"}
    elsewhere |= {"batch_normalization", "dropout"}
    elsewhere |= {"depthwise_conv", "conv_transpose", "depthwise_conv_transpose"}
    elsewhere |= {"take", "take_along_axis", "add_along_axis", "random_uniform"}
    tested = {
        *UNARY,
        *BINARY,
        *REDUCTIONS,
        *MOVEMENTS,
        *constants,
        *elsewhere,
        *NOT_IN_NUMPY,
        *BITS,
    }
    assert tested >= set(FUNCTIONS)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", np.float32, bool])
def test_constant_arrays_are_numpy_s(dtype: Any) -> None:
    element = {"f32": np.float32, "f64": np.float64, "i32": np.int32}.get(dtype, dtype)
    agree(gc.zeros((2, 3), dtype), np.zeros((2, 3), element), "zeros")
    agree(gc.ones(4, dtype), np.ones(4, element), "ones")
    agree(gc.full((2,), 1, dtype), np.full((2,), 1, element), "full")
    agree(gc.eye(3, 2, dtype), np.eye(3, 2, dtype=element), "eye")


@EVERYWHERE
def test_random_numbers_follow_from_place_step_seed_and_stream(backend: str) -> None:
    def wanted(step: int, seed: int, stream: int) -> Array:
        key = random_words(seed, Purpose.MASK, stream, 1)
        places = np.arange(35).reshape(5, 7).astype(np.uint64) + np.uint64(step << 32)
        return (philox(places, key) >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)

    for more in ({}, {"seed": 5}, {"stream": 2}):
        made = gc.function(lambda n, m=more: gc.random_uniform((5, 7), n, **m), backend=backend)
        for step in (0, 3):
            given = {"seed": 0, "stream": 0} | more
            np.testing.assert_array_equal(made(step), wanted(step, **given))
    with pytest.raises(gc.GraphcError, match="one whole number as step"):
        gc.random_uniform((2,), np.zeros(2, np.int64))


def test_a_constant_is_repeated_over_a_size_that_calls_decide() -> None:
    """Was computed at once, without the size."""
    ones = np.ones(3, np.float32)
    repeated = gc.program(lambda x: gc.broadcast_to(ones, (x.shape[0], 3)) + x, {"x": "Nx3"})
    np.testing.assert_array_equal(gc.compile(repeated)(x=np.ones((2, 3)))["result"], 2)


def test_arange_counts() -> None:
    agree(gc.arange(4), np.arange(4), "to")
    agree(gc.arange(1, 4), np.arange(1, 4), "from, to")
    agree(gc.arange(0, 1, 0.25, "f32"), np.arange(4, dtype=np.float32) / 4, "steps")
