"""Members as the benchmark starts them: what they write down, and who is said to be absent."""

from __future__ import annotations

import argparse
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from bench.members import stages
from bench.members.__main__ import SIZES, sums
from bench.members.batchnorm import measure
from bench.members.member import inputs_of
from bench.members.scale_out import Job, Network, draw, efficiency, simulated, sum_of, table
from bench.members.ways import SUMS, WAYS, single
from bench.workloads import workload


def test_sums_are_measured_by_engine(capsys: pytest.CaptureFixture[str]) -> None:
    rows = sums({"threads": SUMS["threads"]}, rounds=1, seconds=1e-4)
    assert [row["bytes"] for row in rows] == list(SIZES)
    assert all(0 < row["min_ms"] <= row["ms"] for row in rows)
    assert capsys.readouterr().out.splitlines()[-1].startswith("threads")


def test_parts_of_a_split_step_are_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "CALLS", 20)
    added, split, *parts = stages.measured(12, 5, 4)
    assert sum(parts) == pytest.approx(split)
    compiled, exchanged, *_ = parts
    assert min(added, compiled, exchanged) > 0


def test_meetings_of_layers_that_normalise_by_all_are_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = argparse.Namespace(width=8, samples=4, blocks=1)

    def member(communicator: gc.comm.Communicator) -> None:
        measure(communicator, 2, given)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(member, gc.comm.threads(2)))
    found = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    assert found == [["2", "own", "1"], ["2", "all", "5"]]


def test_who_is_absent_is_said() -> None:
    way = replace(WAYS["mpi any"], needs=("no_such_package",), over_mpi=False)
    assert way.missing() == "no_such_package is not installed"


def test_everybody_is_compared_with_one_of_the_same_package() -> None:
    assert {single(name) for name in WAYS} == {"alone", "torch alone"}
    assert not any("," in name for name in [*WAYS, *SUMS])  # as --ways lists them
    assert all(WAYS[single(name)].members == 1 for name in WAYS)


@pytest.mark.parametrize("name", ["W3a", "W6"])
def test_members_have_data_of_their_own_that_fit_the_workload(name: str) -> None:
    work = workload(name, small=True)
    first, second = inputs_of(work, 0), inputs_of(work, 1)
    assert {n: v.shape for n, v in first.items()} == {n: v.shape for n, v in second.items()}
    assert all(not np.array_equal(first[n], second[n]) for n in first)
    if name == "W6":
        assert second["words"].max() < work.spec.words


def test_on_paper_sums_take_what_the_formula_says() -> None:
    network = Network("slow", alpha=1e-3, beta=1e6)
    assert sum_of(1_000_000, 2, network, adding=1e9) == pytest.approx(2e-3 + 1.0 + 0.5e-3)
    assert sum_of(1_000_000, 5, network, adding=math.inf) == pytest.approx(6e-3 + 1.6)
    job = Job("job", step=0.3, size=0)
    assert efficiency(job, 0.1, overlapped=False) == pytest.approx(0.75)
    assert efficiency(job, 0.1, overlapped=True) == 1
    assert efficiency(job, 0.5, overlapped=True) == pytest.approx(0.5)


def test_the_table_of_many_machines_has_a_line_a_job(tmp_path: Path) -> None:
    rows = simulated([Job("one", 0.3, 10**6), Job("two", 0.01, 10**8)], adding=1e10)
    heads, one, two = table(rows).splitlines()
    assert heads.count("Gbit/s") == 4
    assert one.split()[:3] == ["one", "300.0", "1.0"]
    assert "100%" in one and "100%" not in two
    pytest.importorskip("matplotlib")
    draw(rows, tmp_path / "curves.svg")
    assert (tmp_path / "curves.svg").read_text(encoding="utf-8").count("<path") > 10
