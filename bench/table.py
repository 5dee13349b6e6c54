"""The record of a run, and its tables as text and Markdown.

    python -m bench.table bench/results/NAME.json [--markdown] [--into docs/performance.md]

`--into` puts the Markdown between the page's two markers, in place of what is there.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.machine import Limits
from bench.peers import ENTRIES
from bench.runner import Timing
from bench.workloads.record import Workload

Row = dict[str, Any]
Record = Mapping[str, Any]

BEGIN = "<!-- bench: python -m bench.table writes what is between these two lines -->"
END = "<!-- end of bench -->"
MAIN = "graphc-llvm"
ABSENT = "–"


# --- rows ----------------------------------------------------------------------------------------


def rows(work: Workload, threads: int, timings: Sequence[Timing], limits: Limits) -> list[Row]:
    """A row for each entry. `ratio_to_best_peer` is above 1 for what is faster than all peers."""
    cost = work.cost
    bound = limits.bound(cost.flops, cost.bytes, cost.working_set) * 1e3
    made = [_row(work, threads, t, bound) for t in timings]
    peers = [r for r in made if not ENTRIES[r["backend"]].ours]
    best = min(peers, key=lambda r: r["ms"], default=None)
    for row in made:
        row["best_peer"] = best and best["backend"]
        row["best_peer_ms"] = best and best["ms"]
        row["ratio_to_best_peer"] = best and best["ms"] / row["ms"]
        row["target"] = work.targets[min(threads, 2) - 1]
    return made


def _row(work: Workload, threads: int, timing: Timing, bound: float) -> Row:
    """`ms` is the median of the rounds' medians, `spread` half their range next to it; `min_ms`
    the shortest call."""
    medians = [statistics.median(pieces) * 1e3 for pieces in timing.rounds]
    ms = statistics.median(medians)
    return {
        "workload": work.name,
        "title": work.title,
        "backend": timing.entry,
        "version": timing.version,
        "threads": threads,
        "ms": ms,
        "spread": (max(medians) - min(medians)) / 2 / ms,
        "min_ms": timing.least * 1e3,
        "rounds": len(medians),
        "bound_ms": bound,
        "compile_ms": timing.compile_s * 1e3,
        "peak_mb": timing.peak_bytes / 1e6,
        "imported_mb": timing.imported_bytes / 1e6,
    }


# --- text ----------------------------------------------------------------------------------------

HEADINGS = (
    f"{'workload':10} {'T':>1} {'backend':14} {'ms':>9} {'+-':>4} {'min ms':>9} {'best peer':>14} "
    f"{'ratio':>6} {'wanted':>6} {'of bound':>8} {'compile ms':>10} {'peak MB':>8}"
)


def line(row: Row) -> str:
    ratio, peer = row["ratio_to_best_peer"], row["best_peer"] or ABSENT
    return (
        f"{row['workload']:10} {row['threads']:1} {row['backend']:14} {row['ms']:9.3f} "
        f"{row['spread']:4.0%} {row['min_ms']:9.3f} {peer:>14} "
        f"{ABSENT if ratio is None else format(ratio, '.2f'):>6} "
        f"{row['target']:6.2f} {row['bound_ms'] / row['ms']:8.0%} {row['compile_ms']:10.0f} "
        f"{row['peak_mb']:8.0f}"
    )


def text(found: Sequence[Row]) -> str:
    return "\n".join([HEADINGS, *map(line, found)])


# --- Markdown ------------------------------------------------------------------------------------


def markdown(record: Record) -> str:
    """The machine, a table of graphc for each number of threads, and one of everyone's times."""
    found: list[Row] = record["rows"]
    parts = [machine_text(record)]
    for threads in sorted({r["threads"] for r in found}):
        some = [r for r in found if r["threads"] == threads]
        plural = "thread" if threads == 1 else "threads"
        parts += [
            f"### {threads} {plural}",
            _ours(some),
            f"Everyone, in milliseconds, {threads} {plural}:",
            _everyone(some),
        ]
    if record["problems"]:
        parts.append(_problems(record["problems"]))
    return "\n\n".join(parts) + "\n"


def machine_text(record: Record) -> str:
    machine = record["machine"]
    caches = ", ".join(f"{name} {size >> 10} KiB" for name, size in machine["caches"].items())
    peaks: list[str] = []
    for limits in machine["limits"]:
        moved = ", ".join(
            f"{x['name']} {max(x['read'], x['copy']) / 1e9:.0f}" for x in limits["levels"]
        )
        peaks.append(
            f"* {limits['threads']} thread{'s' * (limits['threads'] > 1)}: "
            f"{limits['peak'] / 1e9:.0f} GFLOP/s; GB/s: {moved}"
        )
    versions = ", ".join(sorted({r["version"] for r in record["rows"]}))
    return "\n".join(
        [
            f"{machine['processor']}, {machine['cores']} cores, {machine['isa']}, {caches}, "
            f"{machine['memory'] >> 30} GiB; {machine['system']}, Python {machine['python']}; "
            f"{versions}. {record['date']}, `{record['command']}`.",
            "",
            "What the machine can do, measured in the same run:",
            "",
            *peaks,
        ]
    )


def _ours(found: Sequence[Row]) -> str:
    head = [
        "workload", "", "ms", "±", "least", "best peer", "its ms", "ratio", "wanted",
        "of the bound", "compile ms", "peak MB",
    ]  # fmt: skip
    lines = [_cells(head), _cells(["---"] * 2 + ["---:"] * (len(head) - 2))]
    for row in found:
        if row["backend"] != MAIN:
            continue
        ratio = row["ratio_to_best_peer"]
        lines.append(
            _cells(
                [
                    row["workload"],
                    row["title"],
                    milliseconds(row["ms"]),
                    f"{row['spread']:.0%}",
                    milliseconds(row["min_ms"]),
                    row["best_peer"] or ABSENT,
                    milliseconds(row["best_peer_ms"]),
                    ABSENT if ratio is None else f"**{ratio:.2f}**",
                    f"{row['target']:.2f}",
                    f"{row['bound_ms'] / row['ms']:.0%}",
                    f"{row['compile_ms']:.0f}",
                    f"{row['peak_mb']:.0f}",
                ]
            )
        )
    return "\n".join(lines)


def _everyone(found: Sequence[Row]) -> str:
    names = [n for n in ENTRIES if any(r["backend"] == n for r in found)]
    times = {(r["workload"], r["backend"]): r["ms"] for r in found}
    works = list(dict.fromkeys(r["workload"] for r in found))
    lines = [_cells(["workload", *names]), _cells(["---", *["---:"] * len(names)])]
    for work in works:
        lines.append(_cells([work, *(milliseconds(times.get((work, n))) for n in names)]))
    return "\n".join(lines)


def _problems(problems: Sequence[Mapping[str, Any]]) -> str:
    """What is missing, each reason once with the workloads that it is about."""
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for p in problems:
        works = grouped.setdefault((p["entry"], p["kind"], p["reason"]), [])
        if p["workload"] not in works:
            works.append(p["workload"])
    lines = ["Not in the tables:", ""]
    for (entry, kind, reason), works in grouped.items():
        about = "" if kind == "absent" else f" {', '.join(works)}:"
        lines.append(f"* {entry}:{about} {kind}, {reason}")
    return "\n".join(lines)


def milliseconds(ms: float | None) -> str:
    """Three digits that count."""
    if ms is None:
        return ABSENT
    return (
        f"{ms:.{max(0, 2 - len(str(int(ms))) + 1) if ms >= 1 else 3}f}"
        if ms >= 0.1
        else f"{ms:.4f}"
    )


def _cells(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def put_between(page: str, table: str) -> str:
    """The page with `table` between its markers. ValueError if they are not there."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page requires the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{table}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("record", type=Path)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--into", type=Path, help="a page with the two markers")
    given = parser.parse_args()
    record = json.loads(given.record.read_text(encoding="utf-8"))
    if given.into:
        page = given.into.read_text(encoding="utf-8")
        given.into.write_text(put_between(page, markdown(record)), encoding="utf-8")
    elif given.markdown:
        print(markdown(record), end="")
    else:
        print(text(record["rows"]))


if __name__ == "__main__":
    main()
