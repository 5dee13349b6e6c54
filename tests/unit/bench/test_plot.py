"""The picture of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.plot import draw

pytest.importorskip("matplotlib")


def row(workload: str, backend: str, threads: int, ratio: float) -> dict[str, object]:
    return {
        "workload": workload,
        "backend": backend,
        "threads": threads,
        "best_peer_ms": 1.0,
        "ratio_to_best_peer": ratio,
    }


def test_a_picture_has_a_panel_for_each_number_of_threads(tmp_path: Path) -> None:
    rows = [
        row("W1", "graphc-llvm", 1, 3.0),
        row("W1", "jax", 1, 1.0),
        row("W1", "graphc-llvm", 2, 0.5),
        row("W2a", "jax", 2, 1.0),
    ]
    path = tmp_path / "picture.svg"
    draw({"rows": rows}, path)
    text = path.read_text(encoding="utf-8")
    assert text.count("thread") >= 2
    assert "graphc-llvm" in text


def test_a_record_without_peers_makes_no_picture(tmp_path: Path) -> None:
    alone = row("W1", "graphc-llvm", 1, 1.0) | {"best_peer_ms": None}
    with pytest.raises(SystemExit, match="requires a peer"):
        draw({"rows": [alone]}, tmp_path / "picture.svg")
