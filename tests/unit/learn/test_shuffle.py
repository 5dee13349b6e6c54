"""The order of samples and the cut into minibatches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphc.learn.shuffle import minibatches, permutation


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_every_sample_comes_once(count: int) -> None:
    order = permutation(5, 0, count)
    assert order.dtype == np.int64
    np.testing.assert_array_equal(np.sort(order), np.arange(count))


def test_this_order_is_the_same_for_ever() -> None:
    assert permutation(42, 0, 10).tolist() == [0, 2, 6, 9, 3, 5, 4, 8, 7, 1]
    assert permutation(42, 1, 10).tolist() == [2, 8, 9, 3, 4, 7, 5, 6, 1, 0]


def test_the_order_does_not_depend_on_what_was_drawn_before() -> None:
    first = permutation(9, 4, 100)
    for epoch in range(4):
        permutation(9, epoch, 17)
    np.testing.assert_array_equal(permutation(9, 4, 100), first)


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = {permutation(s, e, 50).tobytes() for s in range(4) for e in range(4)}
    assert len(orders) == 16


def test_each_sample_comes_to_each_place_about_equally_often() -> None:
    count, epochs = 8, 4000
    hits = np.zeros((count, count))
    for epoch in range(epochs):
        hits[np.arange(count), permutation(1, epoch, count)] += 1
    expected = epochs / count
    chi_square = float(((hits - expected) ** 2 / expected).sum())
    # 49 degrees of freedom: mean 49, deviation 9.9; the seed is fixed.
    assert 20 < chi_square < 100


@pytest.mark.parametrize(
    ("count", "size", "slices"),
    [
        (0, 4, []),
        (3, 4, [slice(0, 3)]),
        (8, 4, [slice(0, 4), slice(4, 8)]),
        (9, 4, [slice(0, 4), slice(4, 8), slice(8, 9)]),
        (3, 1, [slice(0, 1), slice(1, 2), slice(2, 3)]),
    ],
)
def test_minibatches_have_their_size_but_the_last(
    count: int, size: int, slices: list[slice]
) -> None:
    assert list(minibatches(count, size)) == slices


@given(count=st.integers(0, 500), size=st.integers(1, 600))
def test_minibatches_cover_every_sample_once(count: int, size: int) -> None:
    samples = [i for part in minibatches(count, size) for i in range(count)[part]]
    assert samples == list(range(count))


@pytest.mark.parametrize(("count", "size"), [(5, 0), (5, -1), (-1, 5)])
def test_impossible_sizes_are_refused_at_the_call(count: int, size: int) -> None:
    with pytest.raises(ValueError, match="required"):
        minibatches(count, size)
