from __future__ import annotations

import pytest

from graphc.ir.types import Dim, Symbol
from graphc.passes.analysis.iteration import merge_dims, varies_in_leading_dims

N = Symbol("N", 8)


@pytest.mark.parametrize(
    ("a", "b", "space"),
    [
        ((N, 1), (1, 10), (N, 10)),
        ((N, 10), (N, 1), (N, 10)),
        ((N, 10), (N, 5), None),
        ((N,), (N, 1), None),
        ((0, 1), (1, 3), (0, 3)),
        ((), (), ()),
    ],
)
def test_two_spaces_have_a_common_one_where_extents_are_equal_or_1(
    a: tuple[Dim, ...], b: tuple[Dim, ...], space: tuple[Dim, ...] | None
) -> None:
    assert merge_dims(a, b) == space


@pytest.mark.parametrize(
    ("dims", "leading"),
    [((N, 10), True), ((N, 1), True), ((1, 1), True), ((1, 10), False)],
)
def test_a_value_varies_in_leading_dims_or_it_does_not(
    dims: tuple[Dim, ...], leading: bool
) -> None:
    assert varies_in_leading_dims(dims, (N, 10)) is leading


def test_an_extent_of_1_in_the_space_ends_nothing() -> None:
    assert varies_in_leading_dims((1, 10), (1, 10))
