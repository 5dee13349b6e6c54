"""Whether what runs on the device is right: the operation table and all networks, at small sizes.

    python -m bench.gpu.correctness [--sample]

The judges are those of the tests: each operation's numpy meaning, and for networks graphc's numpy
backend in f64.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bench.check import difference, results
from bench.gpu.budget import Budget
from bench.peers.graphc import case
from bench.workloads import WORKLOADS, workload
from bench.workloads.record import Values
from graphc.backends import BACKENDS
from graphc.ir.types import DType
from tests.conformance.check import check_row
from tests.support.op_table import ROWS, Row

SAMPLE_ROWS = 9
"""Every so manieth row of the table is in the sample."""
SAMPLE_NETWORKS = ("W1", "W4", "W7a")

Say = Callable[[str], None]


@dataclass
class Judged:
    """How many cases of what were right, and what was wrong with the others."""

    what: str
    cases: int = 0
    right: int = 0
    failures: list[str] = field(default_factory=list)


def check_networks(budget: Budget, say: Say, names: Iterable[str] = tuple(WORKLOADS)) -> Judged:
    """Outputs, losses and the way of every parameter, of each workload at its small size."""
    judged = Judged("networks, small")
    for name in names:
        if budget.left <= 0:
            judged.what += f" (no time was left for {name} and those after it)"
            break
        say(f"{name}: right?")
        judged.cases += 1
        try:
            wrong = difference(_results(name, "cuda"), _results(name, "reference"))
        except Exception as problem:  # counted, so that the others are judged too
            wrong = f"{type(problem).__name__}: {problem}"
        judged.right += not wrong
        if wrong:
            judged.failures.append(f"{name}: {wrong}")
    return judged


def check_table(budget: Budget, say: Say, rows: Iterable[Row] = tuple(ROWS)) -> Judged:
    """Every case of every operation, in every element type, with ordinary and special numbers."""
    judged = Judged("operation table")
    for row in rows:
        if budget.left <= 0:
            judged.what += f" (no time was left for {row.op.name} and those after it)"
            break
        say(f"{row.op.name}: right?")
        for dtype in row.dtypes:
            _check_row(judged, row, dtype)
    return judged


def _check_row(judged: Judged, row: Row, dtype: DType) -> None:
    try:
        outcome = check_row(row, dtype, BACKENDS["cuda"]())
    except Exception as problem:  # counted, so that the others are judged too
        judged.cases += 1
        judged.failures.append(f"{row.op.name} {dtype}: {type(problem).__name__}: {problem}")
        return
    judged.cases += outcome.cases
    judged.right += outcome.cases - len(outcome.failures)
    judged.failures += [f"{row.op.name} {dtype} {what}" for what in outcome.failures]


def _results(name: str, variant: str) -> Values:
    work = workload(name, small=True)
    made = case(work, 1, variant)
    return results(work, made, made.run())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.correctness", description=__doc__)
    parser.add_argument("--sample", action="store_true", help="a few rows and networks only")
    given = parser.parse_args()
    budget = Budget(3600)
    rows = ROWS[::SAMPLE_ROWS] if given.sample else ROWS
    names = SAMPLE_NETWORKS if given.sample else WORKLOADS
    found = [check_networks(budget, _say, names), check_table(budget, _say, rows)]
    for judged in found:
        print(f"{judged.what}: {judged.right} of {judged.cases} right")
        print("\n".join(judged.failures[:50]))
    return 0 if all(j.right == j.cases for j in found) else 1


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
