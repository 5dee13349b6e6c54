"""Distances in units in the last place, and the samples on which functions are judged."""

from __future__ import annotations

import numpy as np

from graphc.ir.types import DType
from tests.support.libm import library_function

FUNCTIONS = (
    *("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos"),
    "power",
)


def exact(name: str, *operands: np.ndarray) -> np.ndarray:
    """The function in the next wider type: f64 for f32, the 80-bit type for f64."""
    wide = np.float64 if operands[0].dtype == np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        wider = [x.astype(wide) for x in operands]
        if name == "sigmoid":
            return 1 / (1 + library_function("exp", -wider[0]))
        return library_function(name, *wider)


def ulp_distance(got: np.ndarray, exact_value: np.ndarray) -> np.ndarray:
    """abs(got - exact) in units in the last place of the rounded exact value.

    Zero where both are the same infinity or both nan, nan where only one of them is.
    """
    with np.errstate(all="ignore"):
        rounded = exact_value.astype(got.dtype)
        unit = np.spacing(np.abs(rounded)).astype(exact_value.dtype)
        distance = np.abs(got.astype(exact_value.dtype) - exact_value) / unit
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(same & ~np.isfinite(rounded), 0, distance)


def largest_ulp(got: np.ndarray, exact_value: np.ndarray, size: np.ndarray | None = None) -> float:
    """The largest distance among elements that are finite, 0 if there are none.

    size  of each element, the sum of the absolute values of its terms: where terms cancel, the
          distance is counted in units in the last place of that, since no order of additions could
          be nearer to what is left
    """
    with np.errstate(all="ignore"):
        finite = np.isfinite(got) & np.isfinite(exact_value.astype(got.dtype))
        distance = ulp_distance(got, exact_value)
        if size is not None:
            scale = np.maximum(np.abs(exact_value), np.abs(size))
            unit = np.spacing(scale.astype(got.dtype)).astype(exact_value.dtype)
            distance = np.abs(got.astype(exact_value.dtype) - exact_value) / unit
    return float(np.max(distance, where=finite, initial=0.0))


def samples(name: str, dtype: DType, *, stride: int = 257, seed: int = 1) -> tuple[np.ndarray, ...]:
    """The operands on which a function is judged, an array for each."""
    if name == "power":
        return _power_sample(dtype, stride, seed)
    return (sample(dtype, stride=stride, seed=seed),)


def sample(dtype: DType, *, stride: int = 257, seed: int = 1) -> np.ndarray:
    """f32: every `stride`-th bit pattern. f64: random patterns, and where the functions bend."""
    if dtype is DType.F32:
        patterns = np.arange(0, 2**32, stride, dtype=np.uint64).astype(np.uint32)
        return patterns.view(np.float32)
    rng = np.random.default_rng(seed)
    count = 514_000_000 // stride
    parts = [
        rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64),
        rng.uniform(-750, 750, count),
        rng.uniform(-2, 2, count),
        np.exp(rng.uniform(-40, 5, count)) * rng.choice([-1.0, 1.0], count),
        rng.uniform(0.6, 1.6, count),
        np.rint(rng.uniform(0, 2**22, count)) * (np.pi / 2),
    ]
    return np.concatenate(parts)


def _power_sample(dtype: DType, stride: int, seed: int) -> tuple[np.ndarray, ...]:
    """Random patterns, results over the whole range, bases next to 1, whole exponents."""
    rng = np.random.default_rng(seed)
    count = 514_000_000 // stride
    bits = np.uint32 if dtype is DType.F32 else np.uint64
    low, high = (-104.0, 89.0) if dtype is DType.F32 else (-745.0, 710.0)
    patterns = [
        rng.integers(0, np.iinfo(bits).max, count, dtype=bits, endpoint=True).view(dtype.numpy)
        for _ in range(2)
    ]
    spread = np.exp(rng.uniform(0.8 * low, 0.8 * high, count))
    near_one = rng.uniform(0.9, 1.1, count)
    plain = np.exp(rng.uniform(-3, 3, count))
    bases = [spread, near_one, plain, -plain]
    exponents = [
        rng.uniform(low, high, count) / np.log(spread),
        rng.uniform(low, high, count) / np.log(near_one),
        rng.uniform(-20, 20, count),
        np.rint(rng.uniform(-20, 20, count)),
    ]
    x, y = np.concatenate(bases).astype(dtype.numpy), np.concatenate(exponents).astype(dtype.numpy)
    return np.concatenate([patterns[0], x]), np.concatenate([patterns[1], y])
