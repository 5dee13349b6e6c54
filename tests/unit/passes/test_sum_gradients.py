"""What slices of one value send back to it is joined, not added."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.ir.printer import print_module

X = np.random.default_rng(3).standard_normal((4, 12))
WEIGHTS = np.random.default_rng(4).standard_normal((3, 4, 4))


def _parts(x: Any, *starts: int) -> Any:
    """A sum of the columns from each start on, four of them, in different ways."""
    return sum((gc.tanh(x[:, s : s + 4]) * w).sum() for s, w in zip(starts, WEIGHTS, strict=False))


def _expected(*starts: int) -> np.ndarray:
    gradient = np.zeros_like(X)
    for start, weights in zip(starts, WEIGHTS, strict=False):
        part = slice(start, start + 4)
        gradient[:, part] += (1 - np.tanh(X[:, part]) ** 2) * weights
    return gradient


def _gradient(*starts: int) -> gc.ArrayFunction:
    return gc.grad(gc.function(lambda x: _parts(x, *starts), backend="reference"))


@pytest.mark.parametrize(
    "starts", [(0, 4, 8), (8, 0, 4), (4, 8, 0), (0, 8), (2, 7), (4,), (0, 2, 6), (1, 1)]
)
def test_values(starts: tuple[int, ...]) -> None:
    np.testing.assert_allclose(_gradient(*starts)(X), _expected(*starts), rtol=1e-12)


@pytest.mark.parametrize(
    ("starts", "joined", "padded"),
    [
        ((0, 4, 8), 1, 0),  # all of it
        ((4, 8, 0), 1, 0),  # in no order
        ((0, 8), 1, 0),  # zeros between
        ((4, 8), 1, 1),  # zeros in front
        ((0, 2), 0, 2),  # they overlap
    ],
)
def test_what_does_not_overlap_is_joined(starts: tuple[int, ...], joined: int, padded: int) -> None:
    text = print_module(_gradient(*starts).module_at("tensor", X))
    assert text.count(" = concat ") == joined
    assert text.count(" = pad ") == padded


def _rows_and_columns(x: Any) -> Any:
    return gc.exp(x[:2, :]).sum() + gc.tanh(x[:, :3]).sum() + (x[3:, 3:] * 2.0).sum()


def _every_second(x: Any) -> Any:
    return gc.exp(x[:, ::2]).sum() + gc.tanh(x[:, 1::2]).sum()


def _joined_before(x: Any) -> Any:
    both = gc.concatenate([gc.tanh(x), x], axis=1)
    return (both[:, :12] * both[:, 12:]).sum() + gc.exp(both[:, 5:9]).sum()


@pytest.mark.parametrize("f", [_rows_and_columns, _every_second, _joined_before])
def test_other_shapes_of_slices(f: Callable[[Any], Any]) -> None:
    """Against differences."""
    whole = gc.function(f, backend="reference")
    found = gc.grad(whole)(X)
    for place in np.ndindex(*X.shape):
        step = np.zeros_like(X)
        step[place] = 1e-6
        slope = (whole(X + step) - whole(X - step)) / 2e-6
        np.testing.assert_allclose(found[place], slope, rtol=1e-5, atol=1e-7)
