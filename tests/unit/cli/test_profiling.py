"""`--profile`, `--profile-json` and `--trace` of `graphc run` and `graphc train`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphc.backends.base import MachinePeak
from graphc.cli import profiling
from graphc.cli.profiling import profile_table, trace_record
from graphc.driver.profile import Profile, ProfileRow, TraceEvent
from graphc.passes.analysis.costs import Cost
from tests.support.commands import COLUMNS, graphc, write_data, write_network

pytestmark = pytest.mark.llvm

PEAK = MachinePeak(100e9, 10e9)
ROWS = [
    ProfileRow(
        "gemm N x 2 x 3", ("t", "z"), ("a.ndl:3", "a.ndl:4"), 20, 1e-3, Cost(50_000_000), 0, "f64"
    ),
    ProfileRow("kernel N", (), (), 10, 3e-3, Cost(0, 10_000_000, 5_000_000), 1, "f32"),
]


class Fixed(Profile):
    """A profile of two rows, for 5 ms in 10 calls."""

    calls = property(lambda self: 10)  # type: ignore[assignment]
    seconds = property(lambda self: 5e-3)  # type: ignore[assignment]

    def rows(self) -> list[ProfileRow]:
        return ROWS

    def events(self) -> list[TraceEvent]:
        return [TraceEvent(None, 2.0, 1e-3), TraceEvent(0, 2.0001, 5e-4)]


@pytest.fixture(autouse=True)
def peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "measured_peak", lambda: PEAK)


def test_the_table_is_sorted_by_time_with_rates_and_sources() -> None:
    head, kernel, gemm, rest, total, note = profile_table(Fixed(), PEAK).splitlines()
    assert head.split()[:5] == ["share", "us/call", "runs", "GFLOP/s", "peak"]
    assert kernel.split() == ["60.0%", "300.00", "10", "0.00", "0%", "5.00", "50%", "kernel", "N"]
    assert kernel.endswith("    kernel N")  # it stands in a loop
    wanted = "20.0% 100.00 20 50.00 100% 0.00 0% gemm N x 2 x 3 t, z a.ndl:3,4"
    assert gemm.split() == wanted.split()  # of the peak of f64, which is half
    assert rest.split()[:2] == ["20.0%", "100.00"]
    assert total.split()[:4] == ["500.00", "10", "10.00", "20%"]  # all of it is f64
    assert "100 GFLOP/s" in note


def test_a_profile_of_nothing_is_a_table_without_rows() -> None:
    assert len(profile_table(Profile(), PEAK).splitlines()) == 4


def test_a_long_list_of_nodes_is_cut_off() -> None:
    class Long(Fixed):
        def rows(self) -> list[ProfileRow]:
            return [ProfileRow("kernel", ("x" * 100,), (), 1, 1.0, Cost(), 0, "f32")]

    assert "x" * 43 + "…" in profile_table(Long(), PEAK)


def test_a_trace_counts_microseconds_from_the_first_event() -> None:
    call, kernel = trace_record(Fixed())["traceEvents"]  # type: ignore[misc]
    assert (call["name"], call["ph"], call["ts"], call["dur"]) == ("call", "X", 0.0, 1000.0)
    assert (kernel["name"], kernel["ts"], kernel["dur"]) == ("t, z", 100.0, 500.0)
    assert kernel["args"] == {
        "operation": "gemm N x 2 x 3",
        "nodes": ("t", "z"),
        "lines": ("a.ndl:3", "a.ndl:4"),
    }


def test_run_writes_table_json_and_trace(tmp_path: Path) -> None:
    network = write_network(tmp_path)
    words = ("--profile", "--profile-json", tmp_path / "p.json", "--trace", tmp_path / "t.json")
    done = graphc("run", network, *words, stdin=b"0.5 0.25\n1 2\n")
    plain = graphc("run", network, stdin=b"0.5 0.25\n1 2\n")
    assert (done.code, done.out) == (0, plain.out)
    assert "gemm N x 2 x 2  t  net.ndl:7" in done.err
    record = json.loads((tmp_path / "p.json").read_text())
    assert (record["calls"], record["peak_flops"]) == (1, 100e9)
    (gemm,) = [k for k in record["kernels"] if k["operation"].startswith("gemm")]
    assert (gemm["runs"], gemm["flops"], gemm["nodes"]) == (1, 16, ["t"])
    names = [e["name"] for e in json.loads((tmp_path / "t.json").read_text())["traceEvents"]]
    assert names == ["call", "t", "z"]


def test_train_profiles_its_steps(tmp_path: Path) -> None:
    words = ("--data", write_data(tmp_path), *COLUMNS, "--learning-rate", "1", "--minibatch", "10")
    model = tmp_path / "net.safetensors"
    done = graphc("train", write_network(tmp_path), *words, "--profile", "-o", model)
    assert done.code == 0
    assert "update of W" in done.err
    assert [line.split()[1] for line in done.err.splitlines() if "all calls" in line] == ["6"]


def test_another_backend_has_no_profile(tmp_path: Path) -> None:
    words = ("--profile", "--backend", "numpy")
    done = graphc("run", write_network(tmp_path), *words, stdin=b"1 2\n")
    assert done.code == 3
    assert "the backend numpy takes no times of single operations" in done.err
