"""Sums beside the backward pass next to sums behind it, on links of several rates.

    python -m bench.members.overlap [WORKLOAD ...] [--rounds 5] [--seconds 1] [--json FILE]

Two members, each on a core of its own with one thread, over TCP in a network namespace whose
loopback `tc tbf` slows down (see `scale_out`), and as MPI likes best on one machine: `memory`. Both
ways are taken in turns in every round. The thread that makes the sums has no core of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.members.scale_out import RATES, cannot_check, size_of, slowed
from bench.members.ways import MPIRUN, WAYS, Failed, together

HOW = ("two apart", "mpi any", "mpi overlap")
DEFAULT = ("W3a", "W3b", "W6")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.members.overlap", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("workload", nargs="*", metavar="WORKLOAD", default=DEFAULT)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a way in a round")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if why := WAYS["mpi any"].missing() or cannot_check():
        raise SystemExit(f"links cannot be slowed down here: {why}")
    print(f"{'ms of a step: median (least)':34}" + "".join(f"{how:>20}" for how in HOW))
    rows = [
        row
        for name in given.workload
        for gbit in (*RATES, 0)
        for row in _row(name, gbit, given.rounds, str(given.seconds))
    ]
    if given.json:
        record = {"schema": 1, "bench": "members, overlap", "rows": rows}
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _row(name: str, gbit: float, rounds: int, seconds: str) -> list[dict[str, Any]]:
    """One workload on one link, a record for each way."""
    found: dict[str, list[dict[str, Any]]] = {how: [] for how in HOW}
    for _ in range(rounds):
        for how in HOW:
            found[how].append(_member(how, [name, seconds], slowed(gbit) if gbit else MPIRUN))
    link = f"{gbit:g} Gbit/s" if gbit else "memory"
    cells: list[str] = []
    rows: list[dict[str, Any]] = []
    for how, records in found.items():
        middle = statistics.median(r["median"] for r in records) * 1e3
        least = min(r["least"] for r in records) * 1e3
        cells.append(f"{middle:11.2f} ({least:6.2f})")
        rows.append({"workload": name, "link": link, "way": how, "ms": middle, "min_ms": least})
    print(f"{name:6}{size_of(name) / 1e6:8.1f} MB   {link:17}" + "".join(cells), flush=True)
    return rows


def _member(how: str, arguments: Sequence[str], mpirun: Sequence[str]) -> dict[str, Any]:
    try:
        members = together(WAYS[how], arguments, mpirun)
    except Failed as problem:
        raise SystemExit(f"{how}: {problem}") from None
    if how != "two apart" and len({m["digest"] for m in members}) > 1:
        raise SystemExit(f"{how}: members of {arguments[0]} have other parameters than each other")
    return members[0]


if __name__ == "__main__":
    main()
