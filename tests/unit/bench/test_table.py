"""The record of a run, its rows and its Markdown, out of made-up timings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.machine import Level, Limits
from bench.runner import Timing
from bench.table import BEGIN, END, markdown, milliseconds, put_between, rows, text
from bench.workloads import workload

LIMITS = Limits(1, 1e9, (Level("L1", 1000, 2e9, 1e9), Level("memory", 10**9, 1e9, 0.5e9)))


def timing(entry: str, ms: float) -> Timing:
    pieces = [[ms / 1e3, ms / 1e3], [ms / 1e3, ms / 1e3], [ms / 0.8e3, ms / 0.8e3]]
    return Timing(entry, f"{entry} 1.0", pieces, 0.25, 100_000_000, 50_000_000, ms / 2e3)


def made() -> list[dict[str, Any]]:
    found = [timing("graphc-llvm", 2.0), timing("torch", 6.0), timing("jax", 3.0)]
    return rows(workload("W2a", small=True), 1, found, LIMITS)


def record() -> dict[str, Any]:
    problem = {"entry": "numpy", "threads": 1, "kind": "unsaid", "reason": "not written"}
    return {
        "machine": {
            "processor": "P",
            "cores": 2,
            "isa": "x86-64-v3",
            "caches": {"L1": 32768},
            "memory": 8 << 30,
            "system": "Linux",
            "python": "3.11",
            "limits": [
                {
                    "threads": 1,
                    "peak": 1e11,
                    "levels": [{"name": "L1", "bytes": 32768, "read": 1e11, "copy": 5e10}],
                }
            ],
        },
        "date": "2026-01-31",
        "command": "python -m bench",
        "rows": made(),
        "problems": [problem | {"workload": w} for w in ("W5", "W6")],
    }


def test_the_ratio_is_the_best_peers_time_over_ours() -> None:
    ours = made()[0]
    assert (ours["best_peer"], ours["best_peer_ms"]) == ("jax", pytest.approx(3.0))
    assert ours["ratio_to_best_peer"] == pytest.approx(1.5)


def test_a_row_has_what_its_readers_rely_on() -> None:
    expected = {
        "workload", "backend", "threads", "ms", "spread", "best_peer", "best_peer_ms",
        "ratio_to_best_peer", "bound_ms", "compile_ms", "peak_mb",
    }  # fmt: skip
    assert expected <= json.loads(json.dumps(made()[0])).keys()


def test_times_are_medians_with_half_their_range() -> None:
    ours = made()[0]
    assert ours["ms"] == pytest.approx(2.0)
    assert ours["min_ms"] == pytest.approx(1.0)
    assert ours["spread"] == pytest.approx(0.125)
    assert ours["compile_ms"] == pytest.approx(250)


def test_without_peers_there_is_no_ratio() -> None:
    (row,) = rows(workload("W1"), 2, [timing("graphc-llvm", 1.0)], LIMITS)
    assert row["ratio_to_best_peer"] is None
    assert "graphc-llvm" in text([row])


def test_the_bound_is_what_takes_longer_products_or_memory() -> None:
    assert LIMITS.bound(flops=1e9, moved=1000, working_set=1000) == pytest.approx(1.0)
    assert LIMITS.bound(flops=0, moved=2e9, working_set=1000) == pytest.approx(1.0)
    assert LIMITS.bound(flops=0, moved=2e9, working_set=1001) == pytest.approx(2.0)
    assert LIMITS.bound(flops=0, moved=2e9, working_set=2 * 10**9) == pytest.approx(2.0)


def test_the_page_has_the_machine_our_row_and_everyones_times() -> None:
    page = markdown(record())
    assert "P, 2 cores, x86-64-v3, L1 32 KiB, 8 GiB" in page
    assert "* 1 thread: 100 GFLOP/s; GB/s: L1 100" in page
    assert (
        "| W2a | 784-256-10 ReLU, minibatch 32 | 2.00 | 12% | 1.00 | jax | 3.00 | **1.50** |"
        in page
    )
    assert "| W2a | 2.00 | 6.00 | 3.00 |" in page


def test_a_reason_is_given_once_for_all_workloads_it_is_about() -> None:
    assert "* numpy: W5, W6: unsaid, not written" in markdown(record())


def test_the_tables_go_between_the_markers_of_a_page() -> None:
    page = f"above\n{BEGIN}\nold\n{END}\nbelow\n"
    assert put_between(page, "new\n") == f"above\n{BEGIN}\n\nnew\n\n{END}\nbelow\n"


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="requires the lines"):
        put_between("nothing", "new")


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (None, "–"),
        (0.01234, "0.0123"),
        (0.5, "0.500"),
        (2.0, "2.00"),
        (12.34, "12.3"),
        (250, "250"),
    ],
)
def test_times_have_three_digits_that_count(ms: float | None, shown: str) -> None:
    assert milliseconds(ms) == shown
