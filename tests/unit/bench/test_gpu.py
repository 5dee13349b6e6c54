"""`python -m bench.gpu`: what it judges and measures, on an emulated device; its tables."""

from __future__ import annotations

import shutil

import pytest

from bench.gpu import constants
from bench.gpu.__main__ import main
from bench.gpu.budget import Budget
from bench.gpu.correctness import check_networks, check_table
from bench.gpu.table import markdown, row, text
from bench.runner import Timing
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
        found = constants.measure(platform(), constants.SMALL)
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
    assert "no time was left for W1" in check_networks(Budget(0), _hush).what


def test_tables_show_ratios_of_the_same_precision() -> None:
    record = {
        "device": {"name": "a GPU", "driver": "1.2"},
        "date": "2000-01-01",
        "command": "python -m bench.gpu",
        "constants": [{"name": "launch", "value": 2.5, "unit": "us"}],
        "correctness": [{"what": "networks", "cases": 3, "right": 2}],
        "rows": [
            row("W1", Timing(entry, f"{entry} 1", [[us * 1e-6]], 0.1, 0, 0))
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
