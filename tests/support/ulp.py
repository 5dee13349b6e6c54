"""Distances in units in the last place, and the samples on which functions are judged."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphc.ir.types import DType

FUNCTIONS = ("exp", "log", "tanh", "sigmoid")


def exact(name: str, x: np.ndarray) -> np.ndarray:
    """The function in the next wider type: f64 for f32, the 80-bit type for f64."""
    with np.errstate(all="ignore"):
        return _WIDE[name](x.astype(np.float64 if x.dtype == np.float32 else np.longdouble))


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
    ]
    return np.concatenate(parts)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


_WIDE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
}
