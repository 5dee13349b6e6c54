"""The table of scratch memory: of a workload and of an example, and what it ends with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

from bench import arena


def test_workloads_and_examples_take_what_lives_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRAPHC_CACHE", "on")
    assert arena.main(["W1", "digits/digits.ndl", "--json", str(tmp_path / "a.json")]) == 0
    rows = json.loads((tmp_path / "a.json").read_text())
    assert [row["name"] for row in rows] == ["W1", "digits/digits.ndl"]
    assert all(1 <= row["ratio"] <= arena.LIMIT and row["alive_bytes"] > 0 for row in rows)
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_more_than_the_limit_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHC_CACHE", "on")
    monkeypatch.setattr(arena, "planned", lambda name: arena.Row(name, 110, 100))
    assert arena.main(["W1"]) == 1
