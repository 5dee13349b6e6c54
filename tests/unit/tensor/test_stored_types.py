"""Elements that are only stored: functions of arrays of them are those of numpy, on every backend.

numpy is the judge of all types but bf16, which it lacks: there f32 is, rounded to bf16 by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.ir.elements import as_numbers, converted, stored
from graphc.ir.types import DType
from graphc.support.short_types import SHORT_FLOATS, SHORT_TYPES
from graphc.tensor.tensor import quotient
from tests.support.compiling import JUDGED

BF16 = DType.BF16.numpy
INTEGERS = tuple(np.dtype(t) for t in ("i1", "i2", "u1", "u2", "u4", "u8"))
Python = Callable[..., Any]

COMMON: dict[str, Python] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "negative": lambda x, y: -x,
    "absolute": lambda x, y: abs(x),
    "square": lambda x, y: x**2,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "plus_one": lambda x, y: x + 1,
    "transpose": lambda x, y: x.T,
    "reshape": lambda x, y: x.reshape((-1,)),
}
"""What Python writes for both."""

NAMED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "maximum": lambda xp, x, y: xp.maximum(x, y),
    "minimum": lambda xp, x, y: xp.minimum(x, y),
    "where": lambda xp, x, y: xp.where(x > y, x, y),
    "clip": lambda xp, x, y: xp.clip(x, y.min() if xp is np else gc.min(y), y),
    "max": lambda xp, x, y: xp.max(x, axis=0),
    "min": lambda xp, x, y: xp.min(x, axis=1),
    "sum": lambda xp, x, y: xp.sum(x, axis=1),
    "concatenate": lambda xp, x, y: xp.concatenate([x, y], axis=0),
    "pad": lambda xp, x, y: np.pad(x, 2, constant_values=3) if xp is np else gc.pad(x, 2, 3),
    "flip": lambda xp, x, y: xp.flip(x, axis=1),
    "take": lambda xp, x, y: xp.take(x, np.array([2, 0, 2]), axis=0),
}
"""What both call by one name."""


def numbers(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Two matrices with the ends of the type, and with rows longer than a vector."""
    rng = np.random.default_rng(dtype.itemsize)
    info = np.iinfo(dtype)
    top = int(info.max)
    ends = np.array([0, 1, 2, info.min, top, top - 1, top // 2, top // 2 + 1], dtype)
    x, y = (rng.integers(info.min, info.max, (5, 37), dtype, endpoint=True) for _ in range(2))
    x[0, :8], y[0, :8] = ends, ends[::-1]
    return x, y


def all_of(xp: Any) -> Python:
    def python(x: Any, y: Any) -> dict[str, Any]:
        made = {name: f(x, y) for name, f in COMMON.items()}
        return made | {name: f(xp, x, y) for name, f in NAMED.items()}

    return python


@pytest.mark.parametrize("backend", JUDGED)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_are_those_of_numpy(dtype: np.dtype, backend: str) -> None:
    x, y = numbers(dtype)
    with np.errstate(all="ignore"):
        wanted = all_of(np)(x, y)
    found = gc.function(all_of(gc), backend=backend)(x, y)
    for name, want in wanted.items():
        assert found[name].dtype == want.dtype, name
        np.testing.assert_array_equal(found[name], want, name)


@pytest.mark.parametrize("backend", JUDGED)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_quotients_are_cut_and_0_for_a_divisor_of_0(dtype: np.dtype, backend: str) -> None:
    x, y = numbers(dtype)
    y[:, ::3] //= 7
    y[1, :5] = 0
    quotients = [
        [_quotient(int(a), int(b)) for a, b in zip(*rows, strict=True)]
        for rows in zip(x, y, strict=True)
    ]
    wanted = np.array(quotients, object).astype(np.int64 if dtype.kind == "i" else np.uint64)
    found = gc.function(quotient, backend=backend)(x, y)
    np.testing.assert_array_equal(found, wanted.astype(dtype))


def _quotient(x: int, y: int) -> int:
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "divide": lambda xp, x, y: x / y,
    "exp": lambda xp, x, y: xp.exp(x),
    "sqrt": lambda xp, x, y: xp.sqrt(abs(x)),
    "tanh": lambda xp, x, y: xp.tanh(y),
    "mean": lambda xp, x, y: xp.mean(x, axis=0),
    "matmul": lambda xp, x, y: x @ y.T,
    "half": lambda xp, x, y: x * 0.5,
}


def floats(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x, y = (rng.standard_normal((5, 37)) * 2.0 ** rng.integers(-9, 9, (5, 37)) for _ in range(2))
    x[0, :8] = [0, -0.0, np.inf, -np.inf, np.nan, 65504, 2**-24, 1 + 2**-10]
    y[1, :6] = [np.inf, 0, np.nan, 1e-7, -65504, 3]
    return converted(x, dtype), converted(y, dtype)


@pytest.mark.parametrize("backend", JUDGED)
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16], ids=str)
def test_each_function_of_short_floats_is_that_of_f32_rounded(dtype: DType, backend: str) -> None:
    x, y = floats(dtype)

    def every(xp: Any) -> Python:
        def python(x: Any, y: Any) -> dict[str, Any]:
            return all_of(xp)(x, y) | {name: f(xp, x, y) for name, f in FUNCTIONS.items()}

        return python

    with np.errstate(all="ignore"):
        wanted = every(np)(as_numbers(x).astype(np.float32), as_numbers(y).astype(np.float32))
    found = gc.function(every(gc), backend=backend)(x, y)
    for name, want in wanted.items():
        got, rounded = found[name], want if want.dtype == bool else converted(want, dtype)
        assert got.dtype == rounded.dtype, name
        # Sums may round the other way where f32 is between two numbers.
        off = _steps_between(got, rounded)
        assert off.max() <= (name in ("exp", "tanh", "mean", "matmul", "sum")), name
        assert (off > 0).mean() < 0.02, name


def _steps_between(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How many numbers of 16 bits two arrays are apart, element by element."""
    if x.dtype == bool:
        return np.abs(x.astype(int) - y)
    one = as_numbers(x).astype(np.float64)
    same = (one == as_numbers(y)) | np.isnan(one) & np.isnan(as_numbers(y))
    steps = [v.view(np.int16).astype(int) for v in (x, y)]
    return np.where(same, 0, np.abs(steps[0] - steps[1]))


@pytest.mark.parametrize("backend", ["reference", "llvm"])
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16], ids=str)
def test_slopes_come_back_in_the_type_of_their_arrays(dtype: DType, backend: str) -> None:
    x = converted(np.linspace(-2, 2, 12).reshape(3, 4), dtype)

    def loss(x: Any) -> Any:
        row = gc.concatenate([x[0], x[1] * 2, x[2]])
        return gc.cast(gc.sum(gc.square(row)) + gc.sum(gc.broadcast_to(x[:, :1], (3, 7))), "f32")

    slope = gc.grad(gc.function(loss, backend=backend))(x)
    numbers = as_numbers(x).astype(np.float64)
    wanted = numbers * 2 * np.array([[1], [4], [1]]) + np.array([7, 0, 0, 0])
    assert slope.dtype == x.dtype
    np.testing.assert_allclose(as_numbers(slope), wanted, rtol=0.02, atol=0.05)


def test_what_brings_bf16_to_numpy_is_taken_by_its_name() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.array([1.5, -2.25, 3e-39], ml_dtypes.bfloat16)
    found = gc.function(lambda x: x * 2, backend="llvm")(x)
    assert found.dtype == BF16
    np.testing.assert_array_equal(found.view(ml_dtypes.bfloat16), x * 2)


def test_types_that_do_not_meet_are_named() -> None:
    longs, signed = np.zeros(2, np.uint64), np.zeros(2, np.int8)
    with pytest.raises(gc.GraphcError, match=r"ill-typed.*i8 and u64.*gc\.cast"):
        gc.function(lambda x, y: x + y)(longs, signed)
    with pytest.raises(gc.GraphcError, match=r"ill-typed.*f16 and f32.*gc\.cast"):
        gc.function(lambda x, y: x + y)(np.zeros(2, np.float16), np.zeros(2, np.float32))
    with pytest.raises(gc.GraphcError, match=r"bad-value.*u8.*got 256"):
        gc.function(lambda x: x + 256)(np.zeros(2, np.uint8))


@pytest.mark.parametrize("backend", JUDGED)
def test_bits_of_integers_are_those_of_numpy(backend: str) -> None:
    names = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "left_shift", "right_shift")
    for dtype in INTEGERS:
        x, y = numbers(dtype)
        counts = np.arange(x.size).reshape(x.shape).astype(dtype) % (8 * dtype.itemsize + 3)

        def every(x: Any, y: Any, counts: Any) -> list[Any]:
            first = [getattr(gc, n)(x, y) for n in names[:3]]
            return [*first, gc.bitwise_not(x), gc.left_shift(x, counts), gc.right_shift(x, counts)]

        for name, got in zip(names, gc.function(every, backend=backend)(x, y, counts), strict=True):
            operands = {"not": (x,), "shift": (x, counts)}.get(name.split("_")[1], (x, y))
            want = getattr(np, name)(*operands)
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want, f"{name} of {dtype}")


@pytest.mark.parametrize("backend", JUDGED)
def test_bits_are_read_in_another_type_of_as_many(backend: str) -> None:
    for source, target in (("u4", "f4"), ("f4", "u4"), ("u8", "f8"), ("f8", "u8"), ("u1", "i1")):
        x = np.array([0, 1, 3, 200, 255], "u1").astype(source)
        x = ~x if x.dtype.kind == "u" else -x
        wanted = np.dtype(target)
        got = gc.function(lambda x, t=wanted: gc.bitcast(x, t), backend=backend)(x)
        np.testing.assert_array_equal(got.view("u1"), x.view("u1"), f"{source} to {target}")
        assert got.dtype == wanted


@pytest.mark.parametrize("backend", JUDGED)
def test_every_type_becomes_every_other(backend: str) -> None:
    for source in DType:
        x = _of_type(source)
        # Between short types every conversion goes by way of f32 or i32.
        targets = [d for d in DType if d.value not in SHORT_TYPES or source in VIA_SHORT]
        targets = [d for d in targets if source.value not in SHORT_TYPES or d in VIA_SHORT]
        made = gc.function(lambda x, t=targets: [gc.cast(x, d) for d in t], backend=backend)(x)
        for target, got in zip(targets, made, strict=True):
            want = converted(x, target)
            assert got.dtype == target.numpy
            if target.value in SHORT_TYPES:
                want, got = want.view(np.uint8), got.view(np.uint8)
            what = f"{source} to {target}"
            np.testing.assert_array_equal(as_numbers(got), as_numbers(want), what)


VIA_SHORT = (DType.F32, DType.F64, DType.I32, DType.U64, DType.BF16)
"""What is converted to and from types of 8 bits and fewer."""


def _of_type(dtype: DType) -> np.ndarray:
    """Numbers at and beyond the ends of all types, and halfway between those of 16 bits and fewer;
    of those of 8 bits and fewer all."""
    if dtype.value in SHORT_TYPES:
        return np.arange(1 << dtype.bits, dtype=np.uint8).view(dtype.numpy)
    if not dtype.is_float:
        ends = [0, 1, 2, 2**7, 2**8, 2**15, 2**16, 2**24 + 1, 2**31, 2**32, 2**63]
        values = [s * n + d for n in ends for s in (1, -1) for d in (-1, 0, 1)]
        least, most = (DType.U8 if dtype is DType.I1 else dtype).limits
        return stored([v for v in values if least <= v <= most], dtype)
    ends = [0.0, 0.5, 1.5, 127.5, 255.5, 2.0**15, 65519.0, 65520.0, 2.0**31, 2.0**32, 2.0**63]
    ends += [2.0**64, 3e38, 1e300, np.inf, np.nan, 2.0**-14, 2.0**-24, 2.0**-25, 1e-40, 1e-300]
    ends += [1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11, 1 + 3 * 2.0**-11]
    ends += [1 + 2.0**-11 - 2.0**-40, 2.0**-25 * 1.001, 2.0**-134 * 3, 2.0**-133]
    if dtype in (DType.F32, DType.F64):
        for short in SHORT_FLOATS.values():
            ends += [*(middle := short.digits[:-1] / 2 + short.digits[1:] / 2), *short.digits]
            ends += [*(middle * (1 + 2.0**-23)), *(middle * (1 - 2.0**-23))]
    return converted(np.array([*ends, *(-n for n in ends)]), dtype)
