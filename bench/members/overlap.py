"""Sums beside the backward pass next to sums behind it, on links of several rates.

    python -m bench.members.overlap [WORKLOAD ...] [--order any] [--rounds 20] [--json FILE]

Two members, each on a core of its own with one thread, over TCP in a network namespace whose
loopback `tc tbf` slows down (see `scale_out`), and as MPI likes best on one machine: `memory`. The
thread that makes the sums has no core of its own. `alone` is a step without sums. Steps of all ways
are taken in turns; `ratio` is that of beside to behind, the median of the rounds; `chosen` what a
step does which is asked for neither. The parameters of both members have to be the same, bit for
bit, at the end, beside and behind.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from bench.members.overlapping import ALONE, BEHIND, BESIDE
from bench.members.scale_out import RATES, cannot_check, size_of, slowed
from bench.members.ways import MPIRUN, Failed, Way, together

HOW = (ALONE, BEHIND, BESIDE)
DEFAULT = ("W3a", "W3b", "W6")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.members.overlap", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("workload", nargs="*", metavar="WORKLOAD", default=DEFAULT)
    parser.add_argument("--order", choices=("any", "fixed"), default="any")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    way = Way("overlapping", 2, given.order, ("mpi4py",), over_mpi=True)
    if why := way.missing() or cannot_check():
        raise SystemExit(f"links cannot be slowed down here: {why}")
    title = "ms of a step: median (least)"
    print(f"{title:37}" + "".join(f"{how:>19}" for how in HOW) + "    ratio")
    rows: list[dict[str, Any]] = []
    for name in given.workload:
        for gbit in (*RATES, 0):
            rows += _measured(way, name, gbit, given.rounds)
    if given.json:
        record = {"schema": 1, "bench": "members, overlap", "rows": rows}
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _measured(way: Way, name: str, gbit: float, rounds: int) -> list[dict[str, Any]]:
    """One workload on one link; a record for each way."""
    try:
        members = together(way, [name, str(rounds)], slowed(gbit) if gbit else MPIRUN)
    except Failed as problem:
        raise SystemExit(str(problem)) from None
    if len({m["digests"][how] for m in members for how in (BEHIND, BESIDE)}) > 1:
        raise SystemExit(f"members of {name} have other parameters than each other")
    found, link = members[0], f"{gbit:g} Gbit/s" if gbit else "memory"
    cells = [f"{found[h]['median'] * 1e3:9.2f} ({found[h]['least'] * 1e3:7.2f})" for h in HOW]
    ratio = f"{found['ratio']:9.2f}"
    print(f"{name:8}{size_of(name) / 1e6:8.1f} MB   {link:18}{''.join(cells)}{ratio}")
    print(f"{'':8}chosen: {found['chosen']}", flush=True)
    return [
        {
            "workload": name,
            "link": link,
            "way": how,
            "ratio": found["ratio"],
            "chosen": found["chosen"],
            "ms": found[how]["median"] * 1e3,
            "min_ms": found[how]["least"] * 1e3,
        }
        for how in HOW
    ]


if __name__ == "__main__":
    main()
