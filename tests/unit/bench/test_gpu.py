"""`python -m bench.gpu`: what it judges and measures, on an emulated device; its tables."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.gpu import constants, correctness
from bench.gpu.__main__ import main
from bench.gpu.apart import got, put, run_apart
from bench.gpu.budget import Budget
from bench.gpu.correctness import check_networks, check_table
from bench.gpu.table import markdown, row, text
from bench.runner import Timing
from bench.workloads import WORKLOADS
from graphc.backends.cuda.platform import platform, using
from tests.support.cuda.emulator import emulated_platform
from tests.support.op_table import ROWS

needs_emulator = pytest.mark.skipif(
    shutil.which("g++") is None, reason="the emulator of CUDA requires g++"
)


def _hush(what: str) -> None:
    pass


def test_without_a_gpu_it_says_so_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    if not platform().missing():
        pytest.skip("this machine has a GPU")
    assert main([]) == 2
    said = capsys.readouterr().err
    assert said.startswith("bench.gpu requires a GPU: ")
    assert said.count("\n") == 1


@needs_emulator
def test_what_the_device_can_do_is_measured() -> None:
    with using(emulated_platform()):
        found = list(constants.measure(platform(), constants.SMALL))
    assert len({c.name for c in found}) == len(found) == 9
    assert all(c.value > 0 for c in found)


@needs_emulator
def test_networks_and_rows_of_the_table_are_judged() -> None:
    with using(emulated_platform()):
        networks = check_networks(Budget(60), _hush, ["W1"])
        rows = check_table(Budget(60), _hush, [r for r in ROWS if r.op.name == "sigmoid"])
    assert networks.failures == rows.failures == []
    assert (networks.cases, networks.right) == (1, 1)
    assert rows.cases == rows.right > 20


def test_what_there_is_no_time_for_is_said() -> None:
    judged = check_networks(Budget(0), _hush)
    assert (judged.cases, judged.left[0]) == (0, "W1")


@needs_emulator
def test_a_process_of_its_own_writes_what_it_finds(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    command = ["bench.gpu.correctness", "--emulate", "--sample", "--shard", "13/40"]
    run_apart([*command, "--json", str(file)], file, 100, 100)
    found = got(file)
    assert found["state"] == "done"
    assert found["judged"][1]["cases"] > 0


def test_behind_a_fault_another_process_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    firsts: list[int] = []

    def run(command: Sequence[str], file: Path, seconds: float, patience: float) -> str:
        firsts.append(int(command[command.index("--first") + 1]))
        one = [{"what": "networks, small", "cases": 2, "right": 2}]
        found = [
            {"next": 2, "state": "running", "judged": one},
            {"next": 5, "state": "lost", "judged": one},
            {"next": 9, "state": "done", "judged": one},
        ]
        put(file, found[len(firsts) - 1])
        return "it ended by signal 11"

    monkeypatch.setattr(correctness, "run_apart", run)
    networks, table = correctness.check_apart(Budget(60), _hush, tmp_path, processes=1)
    assert firsts == [0, 3, 5]
    assert (networks.cases, networks.right) == (7, 6)
    assert networks.failures == [f"{list(WORKLOADS)[2]}: it ended by signal 11"]
    assert table.cases == 0


def test_a_device_that_is_gone_is_not_asked_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    firsts: list[int] = []

    def run(command: Sequence[str], file: Path, seconds: float, patience: float) -> str:
        firsts.append(int(command[command.index("--first") + 1]))
        put(file, {"next": firsts[-1] + 1, "state": "lost", "judged": []})
        return "it ended with code 3"

    monkeypatch.setattr(correctness, "run_apart", run)
    networks, table = correctness.check_apart(Budget(60), _hush, tmp_path, processes=1)
    assert firsts == list(range(correctness.MOST_ENDS))
    assert networks.left[0] == list(WORKLOADS)[len(firsts)]
    assert len(table.left) == sum(len(row.dtypes) for row in ROWS)


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("pass", ""),
        ("import os; os.abort()", "it ended by signal 6"),
        ("1 / 0", "it ended with code 1"),
        ("import time; time.sleep(600)", "it was ended after 1 seconds without progress"),
    ],
)
def test_what_becomes_of_a_process_is_said(statement: str, why: str, tmp_path: Path) -> None:
    command = ["timeit", "-n1", "-r1", statement]
    assert run_apart(command, tmp_path / "none", 60, 20 if "sleep" not in statement else 1) == why


def test_tables_show_ratios_of_the_same_precision() -> None:
    record = {
        "device": {"name": "a GPU", "driver": "1.2"},
        "date": "2000-01-01",
        "command": "python -m bench.gpu",
        "constants": [{"name": "launch", "value": 2.5, "unit": "us"}],
        "correctness": [{"what": "networks", "cases": 3, "right": 2}],
        "rows": [
            row("W1", Timing(entry, f"{entry} 1", [[us * 1e-6]], 0.1, 0, 0, us * 1e-6))
            for entry, us in {
                "graphc-cuda": 10.0,
                "graphc-cuda.tf32": 8.0,
                "torch.graph": 30.0,
                "torch.graph.tf32": 4.0,
            }.items()
        ],
        "problems": [{"workload": "W1", "entry": "jax", "kind": "absent", "reason": "not there"}],
    }
    for shown in (text(record), markdown(record)):
        assert "3.00" in shown
        assert "0.50" in shown
        assert "W1 jax: absent, not there" in shown
    assert "| W1 | 10 | 8 | 30 | 4 | 3.00 | 0.50 |" in markdown(record)
