"""Arrays that begin at a multiple of a cache line."""

from __future__ import annotations

import numpy as np
import pytest

import graphc as gc
from graphc.support.aligned import LARGE, aligned_copy, aligned_empty, result_array


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.bool_])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (7, 5)])
def test_arrays_begin_at_a_cache_line(shape: tuple[int, ...], dtype: type[np.generic]) -> None:
    for made in (aligned_empty(shape, dtype) for _ in range(3)):
        assert made.size == 0 or made.ctypes.data % 64 == 0
        assert (made.shape, made.dtype) == (shape, dtype)
        assert made.flags.c_contiguous and made.flags.writeable


def test_copies_are_contiguous_and_converted() -> None:
    given = np.arange(35.0).reshape(7, 5).T[::2]
    made = aligned_copy(given, np.float32)
    assert made.ctypes.data % 64 == 0 and made.flags.c_contiguous
    np.testing.assert_array_equal(made, given.astype(np.float32))


def test_large_results_begin_at_a_cache_line() -> None:
    # Several at a time: by chance one in four begins there anyway.
    assert all(result_array((LARGE,), np.float32).ctypes.data % 64 == 0 for _ in range(8))
    assert result_array((3, 0), np.float32).shape == (3, 0)
    network = gc.loads("x = Input(1024, tag=feature)\nz = Exp(x, tag=output)")
    rows = LARGE // 1024
    x = np.zeros((rows, 1024), np.float32)
    exe, function = gc.compile(network, batch=rows), gc.function(lambda x: gc.exp(x))
    held = [*(exe(x=x)["z"] for _ in range(4)), *(function(x) for _ in range(4))]
    assert all(result.ctypes.data % 64 == 0 for result in held)
    assert all((result == 1).all() for result in held)
