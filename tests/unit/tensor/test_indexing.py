"""Indexing, broadcasting and sums over axes against numpy, drawn at random."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

import graphc as gc
from tests.support.compiling import RUN_HERE

FEW = settings(max_examples=150, deadline=None)
SHAPES = numpy_strategies.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)


@st.composite
def shapes_and_indices(draw: st.DrawFn) -> tuple[tuple[int, ...], Any]:
    shape = draw(SHAPES)
    index = draw(
        numpy_strategies.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True, max_dims=6)
    )
    return shape, index


def numbered(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(float(math.prod(shape))).reshape(shape)


@given(shapes_and_indices())
@FEW
def test_an_index_takes_what_numpy_takes(case: tuple[tuple[int, ...], Any]) -> None:
    shape, index = case
    x = numbered(shape)
    got = gc.function(lambda v: v[index], backend="reference")(x)
    wanted = x[index]
    assert np.shape(got) == wanted.shape
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("backend", RUN_HERE)
def test_indices_of_every_kind_on_every_backend(backend: str) -> None:
    x = numbered((4, 5, 6))
    indices: list[Any] = [
        0,
        -1,
        (1, 2, 3),
        (slice(1, 3), -2),
        (..., slice(None, None, 2)),
        (slice(None, None, -1), slice(3, 0, -2), slice(-1, -7, -3)),
        (None, 2, ..., None, slice(5, 1, -1)),
        (slice(2, 2), 0),
        (slice(1, None), slice(None, -1), slice(1, -1, 3)),
        (),
    ]
    got = gc.function(lambda v: [v[i] for i in indices], backend=backend)(x)
    for index, result in zip(indices, got, strict=True):
        np.testing.assert_array_equal(result, x[index], err_msg=str(index), strict=True)


@given(numpy_strategies.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4))
@FEW
def test_shapes_broadcast_as_in_numpy(shapes: Any) -> None:
    x, y = (numbered(s) + i for i, s in enumerate(shapes.input_shapes))
    got = gc.function(lambda a, b: a - b, backend="reference")(x, y)
    np.testing.assert_array_equal(got, x - y)
    assert np.shape(got) == shapes.result_shape


@given(SHAPES, st.data())
@FEW
def test_sums_over_any_axes_as_in_numpy(shape: tuple[int, ...], data: st.DataObject) -> None:
    count = len(shape)
    axes = data.draw(st.lists(st.integers(0, max(count - 1, 0)), unique=True, max_size=count))
    keep = data.draw(st.booleans())
    x = numbered(shape)
    got = gc.function(lambda v: gc.sum(v, tuple(axes), keep), backend="reference")(x)
    np.testing.assert_array_equal(got, x.sum(axis=tuple(axes), keepdims=keep))


def test_a_slice_is_differentiated_to_where_it_came_from() -> None:
    f = gc.function(lambda v: gc.sum(v[5:0:-2, None] * np.array([1.0, 10.0])), backend="numpy")
    np.testing.assert_array_equal(gc.grad(f)(np.zeros(6)), [0, 11, 0, 11, 0, 11])
