"""What training shows: numbers of any size in columns."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from graphc.cli import report
from graphc.cli.report import TrainingReport, number_text
from graphc.cli.terminal import Terminal
from graphc.learn.loop import EpochRecord


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.25, "0.25000"),
        (-999999.0, "-999999.00000"),
        (1.9e30, "1.9e+30"),
        (-1.23456e300, "-1.2346e+300"),
        (1e6, "1e+06"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
    ],
)
def test_large_numbers_have_an_exponent(value: float, text: str) -> None:
    assert number_text(value) == text


def test_a_large_criterion_keeps_to_its_column() -> None:
    stderr = io.StringIO()
    terminal = Terminal(io.StringIO(), io.StringIO(), stderr)
    records = [EpochRecord(1, 9, c, {"Err": 0.5}, 0.1, 0.0) for c in (1.9e30, 0.25)]
    with TrainingReport(terminal, 2, 9, ["CE", "Err"]) as shown:
        shown.minibatch(9, 9)
        for record in records:
            shown.epoch(record)
        shown.finish(records, 0.0, Path("net.safetensors"))
    head, first, second, *table = stderr.getvalue().splitlines()
    column = head.index("CE") + 2
    assert first[:column].endswith("  1.9e+30")
    assert second[:column].endswith("  0.25000")
    assert len(head) == len(first) == len(second)
    assert any("1.9e+30" in line for line in table)


@pytest.mark.parametrize(("peak", "end"), [(None, "0.50 s in all"), (3 << 30, "at most 3,072 MiB")])
def test_memory_is_told_where_it_is_known(
    peak: int | None, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "peak_resident_bytes", lambda: peak)
    stderr = io.StringIO()
    records = [EpochRecord(1, 9, 0.5, {}, 0.1, 0.25)]
    with TrainingReport(Terminal(io.StringIO(), io.StringIO(), stderr), 1, 9, ["CE"]) as shown:
        shown.finish(records, 0.5, Path("net.safetensors"))
    line = next(line for line in stderr.getvalue().splitlines() if "samples in" in line)
    assert line.removesuffix(" resident").endswith(end)


def test_the_head_comes_with_the_first_minibatch() -> None:
    stderr = io.StringIO()
    with TrainingReport(Terminal(io.StringIO(), io.StringIO(), stderr), 1, 9, ["CE"]) as shown:
        assert stderr.getvalue() == ""
        shown.minibatch(3, 9)
        shown.minibatch(6, 9)
    assert [line.split() for line in stderr.getvalue().splitlines()] == [
        ["epoch", "CE", "rate", "time"]
    ]
