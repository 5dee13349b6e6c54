"""Values and slopes of functions of elements at their corners, written out, on every backend."""

from __future__ import annotations

import numpy as np
import pytest

import graphc as gc
from tests.support.compiling import RUN_HERE

INF, NAN = np.inf, np.nan
CORNERS = [NAN, INF, -INF, 0.0, -0.0, 1e30, -1e30]

# name: values and slopes at `CORNERS`
EXPECTED = {
    "elu": ([NAN, INF, -1, 0, -0.0, 1e30, -1], [NAN, 1, 0, 1, 1, 1, 0]),
    "softplus": (
        [NAN, INF, 0, np.log(2), np.log(2), 1e30, 0],
        [NAN, 1, 0, 0.5, 0.5, 1, 0],
    ),
    "gelu": ([NAN, INF, -0.0, 0, -0.0, 1e30, -0.0], [NAN, 1, 0, 0.5, 0.5, 1, 0]),
    "abs": ([NAN, INF, INF, 0, 0, 1e30, 1e30], [0, 1, -1, 0, 0, 1, -1]),
}


@pytest.mark.parametrize("backend", RUN_HERE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", EXPECTED)
def test_values_and_slopes_at_corners(name: str, dtype: type, backend: str) -> None:
    function = getattr(gc, name)
    values, slopes = EXPECTED[name]
    x = np.array(CORNERS, dtype)
    rounding = 4 * float(np.finfo(dtype).eps)
    made = gc.function(function, backend=backend)(x)
    np.testing.assert_allclose(made, np.array(values, dtype), rounding)
    slope = gc.grad(lambda v: gc.sum(function(v)))
    sloped = gc.function(lambda v: slope(v), backend=backend)(x)
    np.testing.assert_allclose(sloped, np.array(slopes, dtype), rounding, err_msg="slopes")


@pytest.mark.parametrize("backend", RUN_HERE)
def test_clip_hands_its_slope_to_the_operand_that_it_is(backend: str) -> None:
    x = np.array([-3.0, -1.0, 0.5, 2.0, 4.0, 0.0])
    low = np.array([-1.0, -1.0, -1.0, -1.0, -1.0, 3.0])
    high = np.array([2.0, 2.0, 2.0, 2.0, 2.0, 1.0])  # the last two cross: high counts

    def total(*operands: np.ndarray) -> object:
        return gc.sum(gc.clip(*operands) * np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0]))

    slope = gc.grad(total, argnums=(0, 1, 2))
    slopes = gc.function(lambda *operands: slope(*operands), backend=backend)(x, low, high)
    assert np.asarray(slopes[0]).tolist() == [0, 2, 4, 8, 0, 0]
    assert np.asarray(slopes[1]).tolist() == [1, 0, 0, 0, 0, 0]
    assert np.asarray(slopes[2]).tolist() == [0, 0, 0, 0, 16, 32]
