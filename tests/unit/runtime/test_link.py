"""How long members wait for a byte: sums that sleep, sums that work, as many as it takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pytest

import graphc as gc
from graphc.runtime.communicators.communicator import (
    checked_overlap,
    choosing_by,
)
from graphc.runtime.communicators.link import measured_idle

MEGABYTE = 2**20
PATIENCE = 60.0


@dataclass
class Other:
    """A member whose other one has zeros; a large sum takes it what `work` does."""

    work: Callable[[], object]
    rank: int = 0
    size: int = 2
    sums: list[int] = field(default_factory=list[int])

    def all_reduce(self, array: np.ndarray) -> None:
        if array.nbytes >= MEGABYTE:
            self.sums.append(array.nbytes)
            self.work()


def worked(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_what_a_sum_sleeps_is_waited_for() -> None:
    found = measured_idle(Other(lambda: time.sleep(0.01)))
    assert found * MEGABYTE > 0.0099
    assert found * MEGABYTE < 1


def test_what_a_sum_works_is_not() -> None:
    """Whatever else this machine does: what it keeps a thread from does not count either."""
    both = measured_idle(Other(lambda: (worked(0.02), time.sleep(0.002))))
    assert both * MEGABYTE > 0.0019
    found = (measured_idle(Other(lambda: worked(0.005))) * MEGABYTE for _ in range(10))
    assert any(idle < 0.002 for idle in found)


@pytest.mark.parametrize(("seconds", "fewest", "most"), [(0, 4, 20), (0.011, 4, 4), (0.04, 1, 1)])
def test_a_slow_link_takes_few_sums(seconds: float, fewest: int, most: int) -> None:
    other = Other(lambda: time.sleep(seconds))
    measured_idle(other)
    assert fewest <= len(other.sums) <= most


def test_one_member_measures_nothing() -> None:
    other = Other(lambda: None, size=1)
    assert measured_idle(other) == 0
    assert other.sums == []


@pytest.mark.parametrize("rank", [0, 1])
def test_the_member_that_waits_longest_counts_and_of_its_sums_the_least(rank: int) -> None:
    """The other one says what it has waited."""
    waited = iter([0.009, 0.004, 0.006, 0.005])

    class Said(Other):
        def all_reduce(self, array: np.ndarray) -> None:
            if array.shape == (2, 2):
                array[1 - self.rank] = 0.011, next(waited)

    assert measured_idle(Said(lambda: None, rank)) == 0.004 / MEGABYTE


def test_all_members_get_the_same_number() -> None:
    with ThreadPoolExecutor(3) as pool:
        found = [*pool.map(measured_idle, gc.comm.threads(3, PATIENCE))]
    assert len({*found}) == 1


@dataclass(frozen=True)
class Chooser:
    overlap: bool | None
    idle: float
    rank: int = 0
    size: int = 2

    def all_reduce(self, array: np.ndarray) -> None: ...


def test_who_chooses_can_choose_as_before() -> None:
    assert choosing_by(Chooser(None, 1.0), 2.0) == Chooser(None, 2.0)
    for told in (Chooser(None, 1.0), Chooser(True, 1.0), Chooser(False, 1.0)):
        assert choosing_by(told, None) is told
    for told in (Chooser(True, 1.0), Chooser(False, 1.0)):
        assert choosing_by(told, 2.0) is told


def test_overlap_is_asked_for_or_chosen_but_of_one_bit_never_chosen() -> None:
    for wire in ("full", "bf16", "1bit"):
        assert checked_overlap(True, wire) is True
        assert checked_overlap(False, wire) is False
        assert checked_overlap(None, wire) is (False if wire == "1bit" else None)
    with pytest.raises(gc.GraphcError, match="overlap is True, False or None, got 'auto'"):
        checked_overlap("auto", "full")  # type: ignore[arg-type]
