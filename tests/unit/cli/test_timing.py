"""`--time-passes` and `--time-json` of the commands that compile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphc.cli.timing import phases_table
from tests.support.commands import COLUMNS, graphc, write_data, write_network

pytestmark = pytest.mark.llvm

COMPILING = ["read the network", "sizes", "pass expand-nodes", "pass cse"]


def test_the_table_has_times_shares_and_the_sum() -> None:
    assert phases_table({"pass cse": 0.001, "codegen": 0.003}).splitlines() == [
        "      time  share  phase",
        "   1.00 ms  25.0%  pass cse",
        "   3.00 ms  75.0%  codegen",
        "   4.00 ms         in all",
    ]


def test_a_table_of_nothing_has_no_shares() -> None:
    assert phases_table({}).splitlines()[-1] == "   0.00 ms         in all"


def test_compile_says_where_its_time_goes(tmp_path: Path) -> None:
    words = (write_network(tmp_path), "-o", tmp_path / "net.o", "--time-passes")
    done = graphc("compile", *words, "--time-json", tmp_path / "times.json")
    assert done.code == 0
    for phase in (*COMPILING, "pass plan-memory", "emit", "parse", "codegen"):
        assert f"%  {phase}\n" in done.err
    record = json.loads((tmp_path / "times.json").read_text())
    assert {"phase", "seconds"} == set(record["phases"][0])
    assert "codegen" in [p["phase"] for p in record["phases"]]


def test_linking_is_a_phase(tmp_path: Path) -> None:
    done = graphc("compile", write_network(tmp_path), "-o", tmp_path / "net.so", "--time-passes")
    assert "%  link\n" in done.err


def test_run_says_where_its_time_goes(tmp_path: Path) -> None:
    done = graphc("run", write_network(tmp_path), "--time-passes", stdin=b"1 2\n")
    for phase in (*COMPILING, "emit", "parse", "codegen", "load"):
        assert f"%  {phase}\n" in done.err


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_train_says_where_its_time_goes(tmp_path: Path, backend: str) -> None:
    words = ("--data", write_data(tmp_path), *COLUMNS, "--learning-rate", "1", "--time-passes")
    model = tmp_path / "net.safetensors"
    done = graphc("train", write_network(tmp_path), *words, "--backend", backend, "-o", model)
    assert done.code == 0
    last = "load" if backend == "llvm" else "backend"
    for phase in (*COMPILING, "pass synthesize-gradient", "pass apply-learner", last):
        assert f"%  {phase}\n" in done.err


def test_eval_says_where_its_time_goes(tmp_path: Path) -> None:
    words = ("--data", write_data(tmp_path), *COLUMNS, "--time-json", tmp_path / "t.json")
    assert graphc("eval", write_network(tmp_path), *words).code == 0
    record = json.loads((tmp_path / "t.json").read_text())
    assert record["phases"][0]["phase"] == "read the network"
