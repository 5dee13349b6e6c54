"""`--time-passes`: where the time before the first result went, as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from graphc.cli.command import RecordOption
from graphc.cli.options import stack
from graphc.cli.terminal import Terminal
from graphc.support.files import write_atomically
from graphc.support.phases import Phases

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class TimingReports:
    """The reports on the time of compiling that are asked for."""

    time_passes: bool
    time_json: Path | None

    def make(self, terminal: Terminal, phases: Phases) -> None:
        """Print and write them."""
        if self.time_passes:
            terminal.message(phases_table(phases.seconds))
        if self.time_json is not None:
            record = {"schema": SCHEMA, "phases": phases_rows(phases.seconds)}
            write_atomically(self.time_json, (json.dumps(record, indent=1) + "\n").encode("utf-8"))


class TimingOption(RecordOption):
    parameter, make = "timing", TimingReports


timing_options = stack(
    click.option(
        "--time-passes",
        cls=TimingOption,
        is_flag=True,
        help="Print where the time of compiling goes: reading, each pass, code, linking (stderr).",
    ),
    click.option(
        "--time-json",
        cls=TimingOption,
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Write the times of --time-passes as JSON.",
    ),
)


def phases_table(seconds: Mapping[str, float]) -> str:
    """One line for each phase: time, share, name; the sum at the end."""
    total = sum(seconds.values())
    lines = [f"{'time':>10}  share  phase"]
    for name, taken in seconds.items():
        share = taken / total if total > 0 else 0.0
        lines.append(f"{taken * 1e3:>7.2f} ms  {share:>5.1%}  {name}")
    return "\n".join([*lines, f"{total * 1e3:>7.2f} ms         in all"])


def phases_rows(seconds: Mapping[str, float]) -> list[dict[str, object]]:
    """The phases in their order, for JSON."""
    return [{"phase": name, "seconds": taken} for name, taken in seconds.items()]
