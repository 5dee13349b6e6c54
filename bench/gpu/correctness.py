"""Whether what runs on the device is right: the operation table and all networks, at small sizes.

    python -m bench.gpu.correctness [--sample] [--json FILE] [--shard 0/1] [--first 0] [--emulate]

The judges are those of the tests: each operation's numpy meaning, and for networks graphc's numpy
backend in f64. `check_apart` runs this in several processes, each a share of all; one that a fault
or a kernel without end has stopped is followed by another, which goes on behind that place.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.check import difference, results
from bench.gpu.apart import got, put, run_apart
from bench.gpu.budget import Budget
from bench.peers.graphc import case
from bench.workloads import WORKLOADS, workload
from bench.workloads.record import Values
from graphc.backends import BACKENDS
from graphc.backends.cuda.platform import platform, using
from graphc.ir.types import DType
from tests.conformance.check import check_row
from tests.support.cuda.emulator import emulated_platform
from tests.support.op_table import ROWS, Row

SAMPLE_ROWS = 9
"""Every so manieth row of the table is in the sample."""
SAMPLE_NETWORKS = ("W1", "W4", "W7a")
NETWORKS, TABLE = "networks, small", "operation table"
MOST_PROCESSES = 8
PATIENCE = 60.0
"""Seconds for one network, or one row of the table in one type."""
MOST_ENDS = 6
"""So often a share goes on behind an item that ended its process."""
LOST = 3
"""The code of a process that ends because the device no longer answers it."""

Say = Callable[[str], None]


@dataclass
class Judged:
    """How many cases of what were right, and what was wrong with the others.

    left  what no time was left for
    """

    what: str
    cases: int = 0
    right: int = 0
    failures: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def count(self, cases: int, failures: Sequence[str]) -> None:
        self.cases += cases
        self.right += cases - len(failures)
        self.failures += failures

    def add(self, other: Judged) -> None:
        self.cases += other.cases
        self.right += other.right
        self.failures += other.failures
        self.left += other.left


class Item(NamedTuple):
    """`judge` gives how many cases there were, and what was wrong with some."""

    what: str
    name: str
    judge: Callable[[], tuple[int, list[str]]]


def check_networks(budget: Budget, say: Say, names: Iterable[str] = tuple(WORKLOADS)) -> Judged:
    """Outputs, losses and the way of every parameter, of each workload at its small size."""
    judged = Judged(NETWORKS)
    _check(_networks(names), [judged], budget, say)
    return judged


def check_table(budget: Budget, say: Say, rows: Iterable[Row] = tuple(ROWS)) -> Judged:
    """Every case of every operation, in every element type, with ordinary and special numbers."""
    judged = Judged(TABLE)
    _check(_table(rows), [judged], budget, say)
    return judged


def check_apart(budget: Budget, say: Say, folder: Path, processes: int = 0) -> list[Judged]:
    """Networks and table, in processes of their own."""
    processes = processes or min(MOST_PROCESSES, len(os.sched_getaffinity(0)))
    found = [Judged(NETWORKS), Judged(TABLE)]
    with ThreadPoolExecutor(processes) as pool:
        for share in pool.map(
            partial(_share_apart, budget, say, folder, processes), range(processes)
        ):
            for judged in share:
                _of(found, judged.what).add(judged)
    return found


def _share_apart(
    budget: Budget, say: Say, folder: Path, processes: int, number: int
) -> list[Judged]:
    """What one process after the other finds of a share."""
    found, items, first, ends = list[Judged](), _shared(number, processes), 0, 0
    while first < len(items):
        file = folder / f"correctness-{number}-{first}.json"
        command = ["bench.gpu.correctness", "--json", str(file), "--first", str(first)]
        command += ["--shard", f"{number}/{processes}", "--seconds", str(budget.left)]
        why = run_apart(command, file, budget.left + PATIENCE, PATIENCE)
        ended: dict[str, Any] = got(file) or {"next": first, "state": "running", "judged": []}
        found += [Judged(**some) for some in ended["judged"]]
        first = ended["next"]
        if ended["state"] == "done":
            break
        ends += 1
        if ends == MOST_ENDS:
            say(f"a share of the table: {why} for the {ends}th time, nothing more is tried")
            for item in items[first:]:
                found.append(Judged(item.what, left=[item.name]))
            break
        if ended["state"] == "running":
            item = items[first]
            say(f"{item.name}: {why}")
            found.append(Judged(item.what, 1, 0, [f"{item.name}: {why}"]))
            first += 1
    return found


def _shared(number: int, processes: int, *, sample: bool = False) -> list[Item]:
    """Every so manieth network and row, so that shares take about as long."""
    names = SAMPLE_NETWORKS if sample else tuple(WORKLOADS)
    rows = ROWS[::SAMPLE_ROWS] if sample else ROWS
    return [*_networks(names)[number::processes], *_table(rows)[number::processes]]


# --- one process ----------------------------------------------------------------------------------


def _networks(names: Iterable[str]) -> list[Item]:
    return [Item(NETWORKS, name, partial(_judge_network, name)) for name in names]


def _table(rows: Iterable[Row]) -> list[Item]:
    pairs = [(row, dtype) for row in rows for dtype in row.dtypes]
    return [Item(TABLE, f"{r.op.name} {d}", partial(_judge_row, r, d)) for r, d in pairs]


def _check(
    items: Sequence[Item],
    judged: Sequence[Judged],
    budget: Budget,
    say: Say,
    begin: Callable[[int], None] = lambda number: None,
) -> None:
    """Counts in `judged`, as far as the time goes.

    begin  called before each item. Raises DeviceLost.
    """
    for number, item in enumerate(items):
        begin(number)
        if budget.left <= 0:
            _of(judged, item.what).left.append(item.name)
            continue
        say(f"{item.name}: right?")
        try:
            cases, failures = item.judge()
        except Exception as problem:  # counted, so that the others are judged too
            cases, failures = 1, [f"{item.name}: {type(problem).__name__}: {problem}"]
        _of(judged, item.what).count(cases, failures)
        if failures:
            _require_device(number)


class DeviceLost(Exception):
    """The device refuses everything since item `number`."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _require_device(number: int) -> None:
    try:
        platform().device().wait()
    except Exception:  # a driver's errors have no common class
        raise DeviceLost(number) from None


def _judge_network(name: str) -> tuple[int, list[str]]:
    wrong = difference(_results(name, "cuda"), _results(name, "reference"))
    return 1, [f"{name}: {wrong}"] if wrong else []


def _judge_row(row: Row, dtype: DType) -> tuple[int, list[str]]:
    outcome = check_row(row, dtype, BACKENDS["cuda"]())
    return outcome.cases, [f"{row.op.name} {dtype} {what}" for what in outcome.failures]


def _of(judged: Sequence[Judged], what: str) -> Judged:
    return next(j for j in judged if j.what == what)


def _results(name: str, variant: str) -> Values:
    work = workload(name, small=True)
    made = case(work, 1, variant)
    return results(work, made, made.run())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.correctness", description=__doc__)
    parser.add_argument("--sample", action="store_true", help="a few rows and networks only")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--json", type=Path, help="where it is written after each item")
    parser.add_argument("--shard", default="0/1", help="which part of how many")
    parser.add_argument("--first", type=int, default=0, help="the item to begin with")
    parser.add_argument("--emulate", action="store_true", help="on the tests' emulated device")
    given = parser.parse_args()
    number, _, processes = given.shard.partition("/")
    items = _shared(int(number), int(processes), sample=given.sample)[given.first :]
    judged = [Judged(NETWORKS), Judged(TABLE)]

    def write(item: int, state: str = "running") -> None:
        if given.json:
            shown = [asdict(j) for j in judged]
            put(given.json, {"next": given.first + item, "state": state, "judged": shown})

    with using(emulated_platform() if given.emulate else platform()):
        try:
            _check(items, judged, Budget(given.seconds), _say, write)
        except DeviceLost as lost:
            write(lost.number + 1, "lost")
            return LOST
    write(len(items), "done")
    for one in judged:
        print(f"{one.what}: {one.right} of {one.cases} right")
        print("\n".join(one.failures[:50]))
    return 0 if all(j.right == j.cases for j in judged) else 1


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
