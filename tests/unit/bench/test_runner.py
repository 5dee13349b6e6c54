"""Processes of workers: what they answer, and what is said of those that cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench import runner
from bench.peers import ENTRIES
from bench.runner import Plan, measure

PLAN = Plan(rounds=2, seconds=0.001)


def test_two_entries_are_checked_and_timed_in_turn(tmp_path: Path) -> None:
    timings, problems = measure("W1", ["graphc-llvm", "numpy"], 1, PLAN, tmp_path)
    assert problems == []
    assert [t.entry for t in timings] == ["graphc-llvm", "numpy"]
    for timing in timings:
        assert len(timing.rounds) == PLAN.rounds
        assert all(seconds > 0 for pieces in timing.rounds for seconds in pieces)
        assert timing.compile_s > 0


def test_a_process_that_ends_is_reported_with_its_last_words(tmp_path: Path) -> None:
    plan = Plan(
        1, 0.001, {"numpy": "/bin/false" if Path("/bin/false").exists() else sys.executable}
    )
    _, problems = measure("W1", ["numpy"], 1, plan, tmp_path)
    assert [(p.entry, p.kind) for p in problems] == [("numpy", "failed")]
    assert problems[0].reason.startswith("exit code 1")


def test_results_that_differ_are_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "difference", lambda found, expected, slack: "losses is off")
    timings, problems = measure("W1", ["numpy"], 1, PLAN, tmp_path)
    assert timings == []
    assert problems[0].reason == "other results than the reference: losses is off"


def test_peers_are_independent_of_graphc() -> None:
    folder = Path(runner.__file__).parent / "peers"
    for entry in ENTRIES.values():
        if not entry.ours:
            assert "import graphc" not in (folder / f"{entry.module}.py").read_text("utf-8")
