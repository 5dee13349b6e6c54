"""Counts what PyTorch has judged, and shows the counts after the tests."""

from __future__ import annotations

from collections import Counter

import pytest

COLUMNS = (
    "values f32",
    "values f64",
    "gradients f32",
    "gradients f64",
    "forward f32",
    "forward f64",
)
_COUNTS = pytest.StashKey[dict[str, Counter[str]]]()


class Tally:
    """Comparisons by operation and kind."""

    def __init__(self, counts: dict[str, Counter[str]]) -> None:
        self._counts = counts

    def add(self, op: str, kind: str, count: int = 1) -> None:
        """`kind`: one of `COLUMNS`."""
        assert kind in COLUMNS
        self._counts.setdefault(op, Counter())[kind] += count


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_COUNTS] = {}


@pytest.fixture(scope="session")
def tally(pytestconfig: pytest.Config) -> Tally:
    return Tally(pytestconfig.stash[_COUNTS])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    counts = config.stash.get(_COUNTS, {})
    if not counts:
        return
    terminalreporter.section("compared with PyTorch")
    line = "{:<44}" + "{:>15}" * len(COLUMNS)
    terminalreporter.write_line(line.format("operation", *COLUMNS))
    for op, found in counts.items():
        terminalreporter.write_line(line.format(op, *(found[c] or "" for c in COLUMNS)))
    totals = [sum(found[c] for found in counts.values()) for c in COLUMNS]
    terminalreporter.write_line(line.format(f"{len(counts)} operations", *totals))
