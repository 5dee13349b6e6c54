"""`--profile` and `--trace`: where the time of calls goes, as a table, as JSON, as a trace file.

A trace is in Chrome's format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from graphc.backends import BACKENDS
from graphc.backends.base import MachinePeak
from graphc.cli.command import RecordOption
from graphc.cli.options import stack
from graphc.cli.terminal import Terminal
from graphc.driver.profile import Profile, ProfileRow
from graphc.support.files import write_atomically

SCHEMA = 1
NARROW = 44
"""Characters of a node list in a table; the rest is cut off."""


@dataclass(frozen=True, slots=True)
class ProfileReports:
    """The reports on the time of calls that are asked for."""

    profiles: bool
    profile_json: Path | None
    trace: Path | None

    @property
    def files(self) -> list[Path | None]:
        """What is written."""
        return [self.profile_json, self.trace]

    def profile(self) -> Profile | None:
        """What they are made from; None where nothing is asked for."""
        if not (self.profiles or self.profile_json or self.trace):
            return None
        return Profile(keep_events=self.trace is not None)

    def make(self, terminal: Terminal, profile: Profile | None) -> None:
        """Print and write them, after the calls."""
        if profile is None:
            return
        if self.profiles or self.profile_json is not None:
            peak = measured_peak()
            if self.profiles:
                terminal.message(profile_table(profile, peak))
            if self.profile_json is not None:
                write_json(self.profile_json, profile_record(profile, peak))
        if self.trace is not None:
            write_json(self.trace, trace_record(profile))


class ProfileOption(RecordOption):
    parameter, make = "profiling", ProfileReports


profile_options = stack(
    click.option(
        "--profile",
        "profiles",
        cls=ProfileOption,
        is_flag=True,
        help="Print the time of every kernel, with its nodes and lines (stderr). llvm only.",
    ),
    click.option(
        "--profile-json",
        cls=ProfileOption,
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Write what --profile prints as JSON.",
    ),
    click.option(
        "--trace",
        cls=ProfileOption,
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Write when each kernel ran, for ui.perfetto.dev.",
    ),
)


def measured_peak() -> MachinePeak:
    """Of this machine, measured now."""
    offered = (load().profile for load in BACKENDS.values())
    return next(profiling for profiling in offered if profiling is not None).peak()


def peak_flops(peak: MachinePeak, dtype: str) -> float:
    """Multiply-adds of an element type a second, on one core: a vector holds half as many f64."""
    return peak.flops / 2 if dtype == "f64" else peak.flops


def write_json(path: Path, record: object) -> None:
    """Write a record to a file."""
    write_atomically(path, (json.dumps(record, indent=1) + "\n").encode("utf-8"))


def profile_table(profile: Profile, peak: MachinePeak) -> str:
    """The rows by their time, what is outside of them, and what the shares are of."""
    rows, seconds, calls = profile.rows(), profile.seconds, max(profile.calls, 1)
    lines = [
        f"{'share':>6} {'us/call':>10} {'runs':>8} {'GFLOP/s':>8} {'peak':>5} {'GB/s':>7} "
        f"{'copy':>5}  operation"
    ]
    for row in sorted(rows, key=lambda r: -r.seconds):
        share = row.seconds / seconds if seconds > 0 else 0.0
        lines.append(
            f"{share:>6.1%} {row.seconds / calls * 1e6:>10.2f} {row.calls:>8} {_rates(row, peak)}"
            f"  {_described(row)}"
        )
    inside = sum(row.seconds for row in rows)
    outside = max(seconds - inside, 0.0)
    lines.append(
        f"{outside / seconds if seconds > 0 else 0.0:>6.1%} {outside / calls * 1e6:>10.2f} "
        f"{'':>8} {'':>8} {'':>5} {'':>7} {'':>5}  outside of operations: the call, the time stamps"
    )
    flops, moved = sum(r.cost.flops for r in rows), sum(r.cost.bytes for r in rows)
    least = sum(r.cost.flops / peak_flops(peak, r.dtype) for r in rows)  # seconds at the peak
    most = flops / least if least else peak.flops
    rates = _rate_cells(flops, moved, seconds, most, peak.bytes)
    lines.append(f"{'':>6} {seconds / calls * 1e6:>10.2f} {profile.calls:>8} {rates}  all calls")
    lines.append(
        f"peak: of {peak.flops / 1e9:.0f} GFLOP/s, multiply-adds of f32 on one core (f64: half); "
        f"copy: of {peak.bytes / 1e9:.1f} GB/s from memory to memory, more where caches hold the "
        "data"
    )
    return "\n".join(lines)


def profile_record(profile: Profile, peak: MachinePeak) -> dict[str, object]:
    """The same for JSON."""
    return {
        "schema": SCHEMA,
        "calls": profile.calls,
        "seconds": profile.seconds,
        "peak_flops": peak.flops,
        "copy_bytes": peak.bytes,
        "kernels": [_row_record(row) for row in profile.rows()],
    }


def trace_record(profile: Profile) -> dict[str, object]:
    """Chrome's trace format: complete events in microseconds from the first one on."""
    rows, events = profile.rows(), profile.events()
    first = events[0].start if events else 0.0
    found: list[dict[str, object]] = []
    for event in events:
        row = rows[event.row] if event.row is not None else None
        common = {
            "ph": "X",
            "ts": round((event.start - first) * 1e6, 3),
            "dur": round(event.seconds * 1e6, 3),
            "pid": 1,
            "tid": 1,
        }
        if row is None:
            found.append({"name": "call", "cat": "call", **common})
            continue
        details = {"operation": row.operation, "nodes": row.nodes, "lines": row.lines}
        found.append({"name": row.label, "cat": "kernel", **common, "args": details})
    return {"traceEvents": found, "displayTimeUnit": "ns"}


def _row_record(row: ProfileRow) -> dict[str, object]:
    return {
        "operation": row.operation,
        "nodes": list(row.nodes),
        "lines": list(row.lines),
        "depth": row.depth,
        "dtype": row.dtype,
        "runs": row.calls,
        "seconds": row.seconds,
        "flops": row.cost.flops,
        "bytes_read": row.cost.bytes_read,
        "bytes_written": row.cost.bytes_written,
    }


def _rates(row: ProfileRow, peak: MachinePeak) -> str:
    most = peak_flops(peak, row.dtype)
    return _rate_cells(row.cost.flops, row.cost.bytes, row.seconds, most, peak.bytes)


def _rate_cells(flops: int, moved: int, seconds: float, most: float, copied: float) -> str:
    """GFLOP/s, its share of the peak, GB/s, its share of the copy."""
    if seconds <= 0:
        return f"{'':>8} {'':>5} {'':>7} {'':>5}"
    computing, moving = flops / seconds, moved / seconds
    return (
        f"{computing / 1e9:>8.2f} {computing / most:>5.0%} {moving / 1e9:>7.2f} "
        f"{moving / copied:>5.0%}"
    )


def _described(row: ProfileRow) -> str:
    """The operation, its nodes, its lines."""
    nodes = ", ".join(row.nodes)
    nodes = nodes if len(nodes) <= NARROW else nodes[: NARROW - 1] + "…"
    parts = [f"{'  ' * row.depth}{row.operation}", nodes, _short_lines(row.lines)]
    return "  ".join(p for p in parts if p)


def _short_lines(lines: Sequence[str]) -> str:
    """file:1, 2 and 7 for several lines of a file."""
    by_file: dict[str, list[str]] = {}
    for line in lines:
        file, _, number = line.rpartition(":")
        by_file.setdefault(file, []).append(number)
    return "; ".join(f"{Path(f).name}:{','.join(numbers)}" for f, numbers in by_file.items())
