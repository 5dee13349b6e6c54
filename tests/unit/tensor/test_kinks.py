"""Derivatives where a function has a kink, a tie or a pole: docs/tensor.md has them as a table.

PyTorch judges the same ones in tests/torch/test_kinks.py; here they are written out.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import numpy as np
import pytest

import graphc as gc
from tests.support.compiling import RUN_HERE

Array = np.ndarray
EVERYWHERE = pytest.mark.parametrize("backend", RUN_HERE)
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
AXES = pytest.mark.parametrize("axis", [0, 1, 2, (0, 2), (1, 2), None])
TIED = np.random.default_rng(7).integers(0, 3, (3, 4, 5))


def slopes(f: Callable[[Any], Any], x: Any, backend: str) -> Array:
    return np.asarray(gc.grad(gc.function(lambda v: gc.sum(f(v)), backend=backend))(x))


def first_ones(x: Array, axis: Any, best: Callable[..., Array]) -> Array:
    """1 at the first element in row-major order along `axis` that attains the extremum."""
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    kept = [i for i in range(x.ndim) if i not in axes]
    order = [*kept, *axes]
    rows = x.transpose(order).reshape(*(x.shape[i] for i in kept), -1)
    ones = np.zeros_like(rows)
    np.put_along_axis(ones, np.expand_dims(best(rows, axis=-1), -1), 1, -1)
    back = ones.reshape([x.shape[i] for i in order])
    return back.transpose(np.argsort(order))


@EVERYWHERE
@DTYPES
@AXES
def test_of_equal_elements_the_first_gets_the_slope(axis: Any, dtype: Any, backend: str) -> None:
    x = TIED.astype(dtype)
    for f, best in ((gc.max, np.argmax), (gc.min, np.argmin)):
        wanted = first_ones(x, axis, best)
        np.testing.assert_array_equal(slopes(lambda v, f=f: f(v, axis), x, backend), wanted)
        moved = gc.function(
            lambda v, t, f=f: gc.jvp(lambda u: f(u, axis), (v,), (t,))[1], backend=backend
        )
        direction = np.arange(60.0).reshape(x.shape).astype(dtype)
        got = moved(x, direction)
        np.testing.assert_array_equal(got, (wanted * direction).sum(axis))


@EVERYWHERE
def test_ties_add_up_to_the_derivative(backend: str) -> None:
    f = gc.function(lambda b: gc.sum(gc.max(gc.full((4, 4), b), axis=1)), backend=backend)
    assert gc.grad(f)(2.0) == 4


@EVERYWHERE
def test_of_a_maximum_of_maxima_the_first_of_the_first(backend: str) -> None:
    x = np.array([[0.0, 1.0], [1.0, 0.0]])
    got = slopes(lambda v: gc.max(gc.max(v, axis=0), axis=0), x, backend)
    np.testing.assert_array_equal(got, [[0, 0], [1, 0]])
    got = slopes(lambda v: gc.max(gc.max(v, axis=1), axis=0), x, backend)
    np.testing.assert_array_equal(got, [[0, 1], [0, 0]])


@EVERYWHERE
def test_the_cell_of_a_maxpool_too(backend: str) -> None:
    x = np.array([1.0, 1.0, 0.0, 2.0, 3.0, 3.0])
    np.testing.assert_array_equal(
        slopes(lambda v: gc.maxpool(v, 2), x, backend), [1, 0, 0, 1, 1, 0]
    )


KINKS: list[tuple[str, Callable[[Any], Any], list[float], list[float]]] = [
    ("absolute", gc.absolute, [-1, -0.0, 0, 1], [-1, 0, 0, 1]),
    ("relu", gc.relu, [-1, -0.0, 0, 1], [0, 0, 0, 1]),
    ("elu", gc.elu, [0, 1], [1, 1]),
    ("floor", gc.floor, [0, 0.5], [0, 0]),
    ("clip", lambda x: gc.clip(x, -1.0, 1.0), [-2, -1, 0, 1, 2], [0, 1, 1, 1, 0]),
    ("clip of no room", lambda x: gc.clip(x, 1.0, 1.0), [0, 1, 2], [0, 1, 0]),
    ("sqrt", gc.sqrt, [0, 1], [inf, 0.5]),
    ("log", gc.log, [0, 1], [inf, 1]),
    ("reciprocal", lambda x: 1 / x, [0, -0.0], [-inf, -inf]),
    ("power 0", lambda x: gc.power(x, 0), [0, 1], [0, 0]),
    ("power 0.5", lambda x: gc.power(x, 0.5), [0, 1], [inf, 0.5]),
    ("power 1", lambda x: gc.power(x, 1), [0, 1], [1, 1]),
    ("power 1.5", lambda x: gc.power(x, 1.5), [0, 1], [0, 1.5]),
    ("power -1", lambda x: gc.power(x, -1), [0, 1], [-inf, -1]),
    ("a power as it comes", lambda x: gc.power(0.0, x), [0, 1, 2], [0, 0, 0]),
    ("norm", lambda x: gc.sqrt(gc.sum(gc.square(x))), [0, 0], [nan, nan]),
    ("top_k", lambda x: gc.top_k(x, 2)[0], [1, 1, 1, 0], [1, 1, 0, 0]),
]


@EVERYWHERE
@pytest.mark.parametrize(("f", "x", "wanted"), [k[1:] for k in KINKS], ids=[k[0] for k in KINKS])
def test_slopes_at_kinks(
    f: Callable[[Any], Any], x: list[float], wanted: list[float], backend: str
) -> None:
    np.testing.assert_array_equal(slopes(f, np.array(x, float), backend), wanted)


@EVERYWHERE
def test_of_two_equal_operands_the_second_gets_the_slope(backend: str) -> None:
    for f in (gc.maximum, gc.minimum):
        both = gc.grad(gc.function(lambda x, y, f=f: gc.sum(f(x, y)), backend=backend), (0, 1))
        dx, dy = both(np.array([1.0]), np.array([1.0]))
        assert (dx.item(), dy.item()) == (0, 1)
