"""The record of a run on a GPU as text, and as Markdown for `docs/gpu.md`.

python -m bench.gpu.table RECORD.json [--into docs/gpu.md]
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.runner import Timing

Row = dict[str, Any]
Record = Mapping[str, Any]

BEGIN = "<!-- bench: python -m bench.gpu.table writes what is between these two lines -->"
END = "<!-- end of bench -->"
MAIN = ("graphc-cuda", "graphc-cuda.tf32")
ABSENT = "–"


def row(name: str, timing: Timing) -> Row:
    """`us` is the median of the rounds' medians, `spread` half their range next to it."""
    medians = [statistics.median(pieces) * 1e6 for pieces in timing.rounds]
    us = statistics.median(medians)
    return {
        "workload": name,
        "entry": timing.entry,
        "version": timing.version,
        "us": us,
        "spread": (max(medians) - min(medians)) / 2 / us,
        "least_us": min(min(pieces) for pieces in timing.rounds) * 1e6,
        "compile_s": timing.compile_s,
    }


def text(record: Record) -> str:
    """Everything, for a terminal."""
    lines = [f"{record['device']['name']}, driver {record['device']['driver']}"]
    lines += [""] + [
        f"{c['name']:45} {_number(c['value']):>10} {c['unit']}" for c in record["constants"]
    ]
    lines += ["", *_shown(_grid(record["rows"]))]
    if record["correctness"]:
        lines += [
            "",
            *(f"{c['what']}: {c['right']} of {c['cases']} right" for c in record["correctness"]),
        ]
    lines += [
        f"{p['workload']} {p['entry']}: {p['kind']}, {p['reason']}" for p in record["problems"]
    ]
    return "\n".join(lines)


def markdown(record: Record) -> str:
    """The page's section."""
    device = record["device"]
    versions = ", ".join(sorted({r["version"] for r in record["rows"]}))
    parts = [
        f"{device['name']}, driver {device['driver']}; {versions}. "
        f"{record['date']}, `{record['command']}`.",
        _table(
            [["what the device does, measured in the same run", "", ""]]
            + [[c["name"], _number(c["value"]), c["unit"]] for c in record["constants"]]
        ),
        "Microseconds a step; ratio: the best peer of the same precision over graphc.",
        _table(_grid(record["rows"])),
    ]
    if record["correctness"]:
        parts.append(
            _table(
                [["judged by the reference", "right", "cases"]]
                + [[c["what"], str(c["right"]), str(c["cases"])] for c in record["correctness"]]
            )
        )
    if record["problems"]:
        told = [
            f"* {p['workload']} {p['entry']}: {p['kind']}, {p['reason']}"
            for p in record["problems"]
        ]
        parts.append("Not in the tables:\n\n" + "\n".join(told))
    return "\n\n".join(parts) + "\n"


def _grid(rows: Sequence[Row]) -> list[list[str]]:
    """A line for each workload: everyone's microseconds, and the ratio in each precision."""
    entries = list(dict.fromkeys(r["entry"] for r in rows))
    times = {(r["workload"], r["entry"]): r["us"] for r in rows}
    found = [["workload", *entries, "ratio f32", "ratio TF32"]]
    for work in dict.fromkeys(r["workload"] for r in rows):
        ratios = [_ratio(times, work, entries, ours) for ours in MAIN]
        found.append([work, *(_number(times.get((work, e))) for e in entries), *ratios])
    return found


def _ratio(
    times: Mapping[tuple[str, str], float], work: str, entries: Sequence[str], ours: str
) -> str:
    """The best peer's time over ours. In TF32 a peer without it counts too."""
    peers = [
        e for e in entries if e not in MAIN and (ours.endswith("tf32") or not e.endswith("tf32"))
    ]
    theirs = [times[work, e] for e in peers if (work, e) in times]
    if not theirs or (work, ours) not in times:
        return ABSENT
    return f"{min(theirs) / times[work, ours]:.2f}"


def _number(value: float | None) -> str:
    if value is None:
        return ABSENT
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _shown(grid: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    return ["  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) for line in grid]


def _table(grid: Sequence[Sequence[str]]) -> str:
    head, *rest = [f"| {' | '.join(line)} |" for line in grid]
    return "\n".join([head, "|" + " --- |" * len(grid[0]), *rest])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.table", description=__doc__)
    parser.add_argument("record", type=Path)
    parser.add_argument("--into", type=Path, help="the page that gets the tables")
    given = parser.parse_args()
    record = json.loads(given.record.read_text(encoding="utf-8"))
    if given.into is None:
        print(text(record))
        return
    page = given.into.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    given.into.write_text(f"{before}{BEGIN}\n\n{markdown(record)}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
