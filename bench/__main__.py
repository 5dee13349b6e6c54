"""The workloads, graphc next to everyone who is installed.

    python -m bench [WORKLOAD ...] [--drawn N [--seed S]] [--threads 1,2] [--rounds 7]
                    [--seconds 0.2] [--quick] [--peers torch,jax] [--python PEER=PATH]
                    [--json FILE] [--plot FILE]

Each entry lives in a process of its own; what it computes is compared with graphc's numpy backend
in f64, and then rounds are taken in turn. Times are medians, of one step. `of bound` is the share
of the machine's peak or bandwidth, measured in the same run. `--python` names the interpreter of a
peer that lives in another environment; it needs numpy. `--drawn` measures networks that are in no
list, of sizes from the seed, which is another one each time if it is not given. Names with .bf16
behind them (W3b.bf16) are workloads whose products have factors in bf16, for those who have them.
"""

from __future__ import annotations

import argparse
import json
import secrets
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.machine import from_json
from bench.peers import ENTRIES
from bench.plot import draw
from bench.runner import Failed, Plan, Problem, chosen_entries, environment, measure
from bench.table import HEADINGS, line, rows
from bench.workloads import BF16_WORKLOADS, IN_BF16, WORKLOADS, workload
from bench.workloads.drawn import drawn_names

QUICK = Plan(rounds=3, seconds=0.05)


def main(arguments: Sequence[str] | None = None) -> int:
    given = _arguments(arguments)
    pythons = dict(text.split("=", 1) for text in given.python)
    plan = QUICK if given.quick else Plan(given.rounds, given.seconds)
    plan = Plan(plan.rounds, plan.seconds, pythons)
    counts = [1] if given.quick else [int(t) for t in given.threads.split(",")]
    names = chosen_entries(given.peers.split(",") if given.peers else [])
    machine = _machine(counts)
    limits = {x["threads"]: from_json(x) for x in machine["limits"]}
    found: list[dict[str, Any]] = []
    problems: list[Problem] = []
    if given.drawn:
        print(f"drawn with --seed {given.seed}:")
        for name in drawn_names(given.seed, given.drawn):
            print(f"  {name}: {workload(name).title}")
    absent = {n: why for n in names if n not in plan.pythons and (why := ENTRIES[n].missing())}
    for name, why in absent.items():
        print(f"{name}: absent, {why}")
    print(HEADINGS, flush=True)
    with tempfile.TemporaryDirectory(prefix="graphc-bench-") as folder:
        for name in _names(given):
            work = workload(name)
            for threads in counts:
                try:
                    timings, missing = measure(
                        name, names, threads, plan, Path(folder), _say if given.verbose else _hush
                    )
                except Failed as why:
                    timings, missing = [], [Problem(name, "reference", threads, "failed", str(why))]
                new = rows(work, threads, timings, limits[threads])
                for row in new:
                    print(line(row), flush=True)
                found += new
                problems += missing
    _report(problems, absent)
    record = {
        "schema": 1,
        "bench": "workloads",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "command": _command(sys.argv[1:] if arguments is None else arguments),
        "machine": machine,
        "rows": found,
        "problems": [asdict(p) for p in problems],
    }
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if given.plot:
        draw(record, given.plot)
    return 1 if any(p.kind == "failed" for p in problems) else 0


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=(__doc__ or "").partition("\n")[0]
    )
    known = f"of {', '.join(WORKLOADS)}; with {IN_BF16} behind it in bf16; all without one"
    parser.add_argument("workload", nargs="*", help=known)
    parser.add_argument("--drawn", type=int, default=0, metavar="N", help="N networks of any size")
    parser.add_argument("--seed", type=int, help="what --drawn draws from; printed if not given")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.2, help="of an entry in a round")
    parser.add_argument("--quick", action="store_true", help="short rounds, one thread")
    known = ", ".join(n for n, e in ENTRIES.items() if not e.ours)
    parser.add_argument("--peers", default="", help=f"of {known}; all without it")
    parser.add_argument("--python", action="append", default=[], metavar="PEER=PATH")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="a picture, .png or .svg; needs matplotlib")
    parser.add_argument("--verbose", action="store_true", help="say what is being done")
    given = parser.parse_args(arguments)
    workloads = [name.removesuffix(IN_BF16) for name in given.workload]
    for asked, all_of_them in ((workloads, WORKLOADS), (_listed(given.peers), ENTRIES)):
        unknown = [n for n in asked if n not in all_of_them]
        if unknown:
            parser.error(f"{', '.join(unknown)}: not one of {', '.join(all_of_them)}")
    if given.drawn and given.seed is None:
        given.seed = secrets.randbelow(1_000_000)
    return given


def _names(given: argparse.Namespace) -> list[str]:
    drawn = drawn_names(given.seed, given.drawn) if given.drawn else []
    return [*given.workload, *drawn] or [*WORKLOADS, *BF16_WORKLOADS]


def _command(arguments: Sequence[str]) -> str:
    """What gives the same tables elsewhere: without the files and interpreters of this machine."""
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        option, given, _ = argument.partition("=")
        if option not in ("--json", "--plot", "--python"):
            kept.append(argument)
        elif not given:
            next(rest, None)
    return shlex.join(["python", "-m", "bench", *kept])


def _listed(text: str) -> list[str]:
    return text.split(",") if text else []


def _machine(counts: Sequence[int]) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.machine", "--threads", ",".join(map(str, counts))]
    done = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        env=environment(max(counts)),
        cwd=Path(__file__).parents[1],
    )
    return json.loads(done.stdout)


def _report(problems: Sequence[Problem], said: Collection[str]) -> None:
    """Absent packages once, but for those that were `said` at the start, the rest one by one."""
    seen = set(said)
    for p in problems:
        if p.kind == "absent" and p.entry in seen:
            continue
        if p.kind == "absent":
            seen.add(p.entry)
        about = "" if p.kind == "absent" else f" {p.workload} {p.threads}T"
        print(f"{p.entry}{about}: {p.kind}, {p.reason}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _hush(text: str) -> None:
    """Nothing is said."""


if __name__ == "__main__":
    sys.exit(main())
