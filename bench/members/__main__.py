"""Two members on two cores next to one member alone with its half, and PyTorch's DDP.

    python -m bench.members [WORKLOAD ...] [--ways alone,…] [--rounds 5] [--seconds 0.5] [--sums]
                            [--json FILE]

Each member is a process on a core of its own with one thread; its minibatch is the workload's, so
that two have twice the samples of one. Ways are taken in turns in every round. `efficiency` is the
share of twice what one of the same package does, in samples a second; `least` the same of the
shortest steps. `two apart` is what two on one machine leave each other: memory and caches.
Parameters of all members have to be the same, bit for bit, at the end. `--sums` is the table of
engines: sums of arrays by themselves, between two. For `scale_out`, see there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.members.ways import OUTPUT_LAYER, SUMS, WAYS, Failed, Record, Way, single, together
from bench.workloads import WORKLOADS, workload

DEFAULT = ("W3a", "W6")
SIZES = (4096, 4_100_000, 17_300_000)
"""Bytes: what says how long a message takes, and the parameters of W3a and W6."""


def main() -> int:
    given = arguments()
    table, known = (SUMS, "sums") if given.sums else (WAYS, "steps")
    names = given.ways.split(",") if given.ways else list(table)
    if unknown := [n for n in names if n not in table]:
        raise SystemExit(f"{', '.join(unknown)}: not one of {', '.join(table)}")
    absent = {n: why for n in names if (why := table[n].missing())}
    for name, why in absent.items():
        print(f"{name}: absent, {why}")
    here = [n for n in names if n not in absent]
    rows: list[dict[str, Any]] = []
    if given.sums:
        rows = sums({n: table[n] for n in here}, given.rounds, given.seconds)
    else:
        for name in given.workload or DEFAULT:
            rows += steps(name, here, given.rounds, given.seconds)
    if given.json:
        record = {"schema": 1, "bench": f"members, {known}", "rows": rows}
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.members", description=(__doc__ or "").partition("\n")[0]
    )
    trains = [name for name in WORKLOADS if workload(name, small=True).trains]
    parser.add_argument("workload", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(trains)}")
    parser.add_argument("--ways", default="", help="of the table's rows, with commas between")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a way in a round")
    parser.add_argument("--sums", action="store_true", help="the table of engines")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if unknown := [n for n in given.workload if n not in trains]:
        parser.error(f"{', '.join(unknown)}: not one of {', '.join(trains)}")
    return given


def steps(name: str, ways: Sequence[str], rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Print the table of a workload's training step; its rows."""
    work = workload(name)
    is_split = OUTPUT_LAYER in work.parameters
    ways = [way for way in ways if is_split or WAYS[way].comm != "split"]
    found: dict[str, list[Record]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            found[way].append(step_of(way, name, seconds))
    size = 4 * sum(v.size for v in work.parameters.values())
    print(f"\n{name}: {work.title}; {work.samples} samples each, {size / 1e6:.1f} MB of gradients")
    print(f"{'':20}{'ms':>9}{'±':>8}{'min ms':>9}{'samples/s':>12}{'efficiency':>12}{'least':>8}")
    rows: list[dict[str, Any]] = []
    for way, records in found.items():
        middles = [r["median"] for r in records]
        middle, least = statistics.median(middles), min(r["least"] for r in records)
        row: dict[str, Any] = {
            "workload": name,
            "way": way,
            "ms": middle * 1e3,
            "spread_ms": (max(middles) - min(middles)) / 2 * 1e3,
            "min_ms": least * 1e3,
            "samples_s": WAYS[way].members * work.samples / middle,
        }
        rows.append(row)
        text = f"{way:20}{row['ms']:9.2f}{row['spread_ms']:8.2f}{row['min_ms']:9.2f}"
        text += f"{row['samples_s']:12.0f}"
        alone = found.get(single(way), [])
        if WAYS[way].members > 1 and alone:
            # Of each round by itself: what disturbs a machine for longer hits both.
            ratios = [a["median"] / r["median"] for a, r in zip(alone, records, strict=True)]
            row["efficiency"] = statistics.median(ratios)
            row["efficiency_of_least"] = min(a["least"] for a in alone) / least
            text += f"{row['efficiency']:12.0%}{row['efficiency_of_least']:8.0%}"
        print(text, flush=True)
    return rows


def step_of(way: str, name: str, seconds: float) -> Record:
    """The first member's times; members that end with other bits than each other are refused."""
    try:
        members = together(WAYS[way], [name, str(seconds)])
    except Failed as problem:
        raise SystemExit(f"{way}: {problem}") from None
    if WAYS[way].comm != "none" and len({m["digest"] for m in members}) > 1:
        raise SystemExit(f"{way}: members of {name} have other parameters than each other")
    return members[0]


def sums(ways: dict[str, Way], rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Print the table of engines; its rows."""
    found: dict[str, list[Record]] = {way: [] for way in ways}
    sizes = ",".join(map(str, SIZES))
    for _ in range(rounds):
        for name, way in ways.items():
            try:
                found[name].append(together(way, [sizes, str(seconds)])[0])
            except Failed as problem:
                raise SystemExit(f"{name}: {problem}") from None
    print("\na sum over two members, ms: median of the rounds (least)")
    print(f"{'':20}" + "".join(f"{size / 1e3:>18,.0f} kB" for size in SIZES))
    rows: list[dict[str, Any]] = []
    for name, records in found.items():
        cells: list[str] = []
        for size in SIZES:
            its = [r[str(size)] for r in records]
            middle = statistics.median(r["median"] for r in its) * 1e3
            least = min(r["least"] for r in its) * 1e3
            cells.append(f"{middle:11.4f} ({least:7.4f})")
            rows.append({"way": name, "bytes": size, "ms": middle, "min_ms": least})
        print(f"{name:20}" + " ".join(cells), flush=True)
    return rows


if __name__ == "__main__":
    sys.exit(main())
