"""Arrays that begin at a multiple of a cache line, as vectors are read fastest: numpy's own begin
anywhere at a multiple of 16 bytes, and each vector of 64 lies in two lines then."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphc.support.adjacent import ALIGNMENT


def aligned_empty(shape: Sequence[int], dtype: np.dtype | type[np.generic]) -> np.ndarray:
    """Uninitialised memory. What numpy raises where there is none goes through."""
    array: np.ndarray = np.empty(0, dtype)
    size = array.itemsize
    for extent in shape:
        size *= int(extent)
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start: int = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(array.dtype).reshape(shape)


def aligned_copy(array: np.ndarray, dtype: np.dtype | type[np.generic]) -> np.ndarray:
    """A C-contiguous copy as `dtype`."""
    made = aligned_empty(array.shape, dtype)
    made[...] = array
    return made
