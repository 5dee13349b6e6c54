"""Members as the benchmark starts them: what they write down, and who is said to be absent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.members.__main__ import SIZES, sums
from bench.members.member import inputs_of
from bench.members.ways import SUMS, WAYS, single
from bench.workloads import workload


def test_sums_are_measured_by_engine(capsys: pytest.CaptureFixture[str]) -> None:
    rows = sums({"threads": SUMS["threads"]}, rounds=1, seconds=1e-4)
    assert [row["bytes"] for row in rows] == list(SIZES)
    assert all(0 < row["min_ms"] <= row["ms"] for row in rows)
    assert capsys.readouterr().out.splitlines()[-1].startswith("threads")


def test_who_is_absent_is_said() -> None:
    way = replace(WAYS["mpi, any"], needs=("no_such_package",), over_mpi=False)
    assert way.missing() == "no_such_package is not installed"


def test_everybody_is_compared_with_one_of_the_same_package() -> None:
    assert {single(name) for name in WAYS} == {"alone", "torch alone"}
    assert all(WAYS[single(name)].members == 1 for name in WAYS)


@pytest.mark.parametrize("name", ["W3a", "W6"])
def test_members_have_data_of_their_own_that_fit_the_workload(name: str) -> None:
    work = workload(name, small=True)
    first, second = inputs_of(work, 0), inputs_of(work, 1)
    assert {n: v.shape for n, v in first.items()} == {n: v.shape for n, v in second.items()}
    assert all(not np.array_equal(first[n], second[n]) for n in first)
    if name == "W6":
        assert second["words"].max() < work.spec.words
