"""Arrays that begin at a multiple of a cache line, as vectors are read fastest: numpy's own begin
anywhere at a multiple of 16 bytes, and each vector of 64 lies in two lines then."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from graphc.support.adjacent import ALIGNMENT

LARGE = 1 << 17
"""Elements from which on an array is written for so long that looking for its place, 2 us, pays."""


def aligned_empty(shape: Sequence[int], dtype: np.dtype | type[np.generic]) -> np.ndarray:
    """Uninitialised memory. What numpy raises where there is none goes through."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start: int = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)


def aligned_copy(array: np.ndarray, dtype: np.dtype | type[np.generic]) -> np.ndarray:
    """A C-contiguous copy as `dtype`."""
    made = aligned_empty(array.shape, dtype)
    made[...] = array
    return made


def result_array(shape: Sequence[int], dtype: np.dtype | type[np.generic]) -> np.ndarray:
    """Uninitialised memory for a result: aligned where that pays."""
    return np.empty(shape, dtype) if math.prod(shape) < LARGE else aligned_empty(shape, dtype)
