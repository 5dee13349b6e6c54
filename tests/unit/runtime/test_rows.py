"""Rows that members hand to each other, by threads: as numpy puts them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import pytest

import graphc as gc
from graphc.runtime.communicators.communicator import Communicator
from graphc.runtime.communicators.rows import Gathering, folded, gathered, scattered_sum

T = TypeVar("T")
Array = np.ndarray
COUNTS = [(2, 3), (3, 0, 1), (0, 4), (1, 1, 1)]


class OnlySums:
    """A communicator that adds, and nothing else."""

    def __init__(self, member: Communicator) -> None:
        self.rank, self.size, self.all_reduce = member.rank, member.size, member.all_reduce


def together(count: int, work: Callable[[Communicator], T], *, only_sums: bool = False) -> list[T]:
    members = gc.comm.threads(count, 30.0)
    given: Sequence[Communicator] = [OnlySums(m) for m in members] if only_sums else members
    with ThreadPoolExecutor(count) as pool:
        return [f.result() for f in [pool.submit(work, member) for member in given]]


def mine(whole: Array, counts: Sequence[int], rank: int) -> Array:
    start = sum(counts[:rank])
    return whole[start : start + counts[rank]]


@pytest.mark.parametrize("only_sums", [False, True])
@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "?"])
def test_rows_of_all_members(counts: Sequence[int], dtype: str, only_sums: bool) -> None:
    whole = (np.random.default_rng(0).random((sum(counts), 3)) * 9).astype(dtype)
    for found in together(
        len(counts), lambda m: gathered(m, mine(whole, counts, m.rank), counts), only_sums=only_sums
    ):
        assert found.dtype == whole.dtype
        assert np.array_equal(found, whole)


@pytest.mark.parametrize("only_sums", [False, True])
@pytest.mark.parametrize("counts", COUNTS)
def test_several_arrays_in_one_message(counts: Sequence[int], only_sums: bool) -> None:
    """One-hot rows, rows of zeros, of negative and of several numbers, in calls one behind the
    other, as what one leaves the next one begins with."""
    rng, n = np.random.default_rng(1), sum(counts)
    numbers = rng.standard_normal((n, 2)).astype("f4")
    ones, dense = np.eye(7)[rng.integers(0, 7, n)], rng.random((n, 7))
    some = np.where(np.arange(n)[:, None] % 2 == 0, -3 * ones, 0)
    mixed = np.where(np.arange(n)[:, None] == n - 1, dense, ones)
    calls = [ones, some, dense, ones[::-1], mixed, np.zeros((n, 7)), np.full((n, 7), np.nan)]

    def work(member: Communicator) -> list[list[Array]]:
        gathering = Gathering([(0, 0), (2, 5), (0, 0)])
        made: list[list[Array]] = []
        for labels in calls:
            given = [mine(a, counts, member.rank) for a in (numbers, labels, numbers[:, :1] > 0)]
            made.append([a.copy() for a in gathering.of(member, given, counts)])
        return made

    for made in together(len(counts), work, only_sums=only_sums):
        for labels, (first, columns, last) in zip(calls, made, strict=True):
            assert np.array_equal(first, numbers)
            assert np.array_equal(columns, labels[:, 2:5], equal_nan=True)
            assert np.array_equal(last, numbers[:, :1] > 0)


@pytest.mark.parametrize("only_sums", [False, True])
@pytest.mark.parametrize("counts", COUNTS)
def test_sums_and_extremes(counts: Sequence[int], only_sums: bool) -> None:
    rng, members = np.random.default_rng(2), len(counts)
    arrays = rng.standard_normal((members, sum(counts), 3))

    def work(member: Communicator) -> tuple[Array, Array, Array]:
        own = arrays[member.rank]
        most, least = (folded(member, own, by) for by in ("maximum", "minimum"))
        return scattered_sum(member, own.copy(), counts), most, least

    made = together(members, work, only_sums=only_sums)
    for rank, (rows, most, least) in enumerate(made):
        np.testing.assert_allclose(rows, mine(arrays.sum(0), counts, rank), 1e-14, 1e-14)
        assert np.array_equal(most, arrays.max(0))
        assert np.array_equal(least, arrays.min(0))
