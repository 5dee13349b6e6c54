"""The workloads on a GPU, graphc next to its peers, some of them at a time.

Every entry lives in a process of its own, as in `bench/runner.py`. The processes of a few workloads
start together, since compiling takes longest; then they are timed in turn, one at a time. Times
are of one step, from many that are begun one after the other and waited for at the end.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.check import TF32_SLACK
from bench.gpu.budget import Budget
from bench.peers import GPU_ENTRIES
from bench.runner import (
    Failed,
    NotMeasured,
    Plan,
    Problem,
    Timing,
    Worker,
    reference,
    started,
    worker,
)
from bench.worker import ON_GPU
from bench.workloads.record import Values

TOGETHER = 3
"""Workloads whose processes start together: each has nine, and each of these some gigabytes."""
LEAST = 20.0
"""Seconds that a batch needs to be worth its start."""
REFERENCES = 0.3
"""Of the time, at most, for the numbers that results are compared with."""
ROUND_PATIENCE = 30.0
"""Seconds for one entry's part of a round."""
LEAST_PATIENCE = 0.5
"""Seconds for an answer that may be there already, when others have taken all the time."""

Say = Callable[[str], None]


def measure(
    names: Sequence[str], entries: Sequence[str], plan: Plan, budget: Budget, folder: Path, say: Say
) -> Iterator[Batch]:
    """The timings of some workloads after the other, as far as the time goes, and what there is
    none of."""
    # Memory of the GPU is shared by all processes.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    expected, missing = _references(names, plan, budget, folder, say)
    unknown = Batch([], entries, plan, budget, folder, say, expected)
    unknown.problems = missing
    yield unknown
    names = [name for name in names if name in expected]
    batches = [names[i : i + TOGETHER] for i in range(0, len(names), TOGETHER)]
    for number, batch in enumerate(batches):
        share = Budget(budget.left / (len(batches) - number))
        some = Batch(batch, entries, plan, share, folder, say, expected)
        if budget.left < LEAST:
            some.problems = [Problem(n, "", ON_GPU, "unsaid", "no time was left") for n in batch]
        else:
            some.run()
        yield some


def _references(
    names: Sequence[str], plan: Plan, budget: Budget, folder: Path, say: Say
) -> tuple[dict[str, Values], list[Problem]]:
    """What results have to be, by workload, and for which of them nobody knows."""
    say("references")
    waiting = Budget(budget.left * REFERENCES)

    def one(name: str) -> Values | Problem:
        try:
            return reference(name, folder, plan, max(waiting.left, LEAST_PATIENCE))
        except Exception as why:  # whatever it is, the others are worth having
            return Problem(name, "reference", ON_GPU, "failed", f"{type(why).__name__}: {why}")

    with ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)) // 2)) as pool:
        found = dict(zip(names, pool.map(one, names), strict=True))
    problems = [x for x in found.values() if isinstance(x, Problem)]
    return {n: x for n, x in found.items() if not isinstance(x, Problem)}, problems


class Batch:
    """Workloads whose processes live at the same time."""

    def __init__(
        self,
        names: Sequence[str],
        entries: Sequence[str],
        plan: Plan,
        budget: Budget,
        folder: Path,
        say: Say,
        expected: Mapping[str, Values],
    ) -> None:
        self.expected = expected
        self.pairs = [(name, entry) for name in names for entry in entries]
        self.plan, self.budget, self.folder, self.say = plan, budget, folder, say
        self.timings: list[tuple[str, Timing]] = []
        self.problems: list[Problem] = []

    def run(self) -> None:
        with ExitStack() as stack:
            workers = {
                (name, entry): stack.enter_context(
                    worker(entry, name, ON_GPU, self._results(name, entry), sys.executable)
                )
                for name, entry in self.pairs
            }
            self._time(self._ready(workers))

    def _results(self, name: str, entry: str) -> Path:
        return self.folder / f"{name}-{entry}.npz"

    def _ready(
        self, workers: Mapping[tuple[str, str], Worker]
    ) -> dict[tuple[str, str], tuple[Worker, dict[str, Any]]]:
        """Those that have compiled, with right results, while a quarter of the time is left."""
        ready: dict[tuple[str, str], tuple[Worker, dict[str, Any]]] = {}
        waiting = Budget(self.budget.left * 0.75)
        for (name, entry), one in workers.items():
            self.say(f"{name}: {entry}")
            try:
                results = self._results(name, entry)
                slack = TF32_SLACK if entry.endswith("tf32") else 1.0
                patience = max(waiting.left, LEAST_PATIENCE)
                ready[name, entry] = (
                    one,
                    started(one, self.expected[name], results, patience, slack),
                )
            except NotMeasured as why:
                self.problems.append(Problem(name, entry, ON_GPU, why.kind, why.reason))
            except Failed as why:
                self.problems.append(Problem(name, entry, ON_GPU, "failed", str(why)))
            except Exception as why:  # such as results that were not written to their end
                reason = f"{type(why).__name__}: {why}"
                self.problems.append(Problem(name, entry, ON_GPU, "failed", reason))
        return ready

    def _time(self, ready: dict[tuple[str, str], tuple[Worker, dict[str, Any]]]) -> None:
        rounds: dict[tuple[str, str], list[list[float]]] = {pair: [] for pair in ready}
        peaks = dict.fromkeys(ready, 0)
        least = dict.fromkeys(ready, math.inf)
        for turn in range(self.plan.rounds):
            if rounds and self.budget.left <= 0:
                break
            self.say(f"round {turn + 1} of {self.plan.rounds}")
            for (name, entry), (one, _) in list(ready.items()):
                try:
                    patience = min(ROUND_PATIENCE, self.budget.left + self.plan.seconds + 1)
                    found = one.ask({"seconds": self.plan.seconds}, patience)
                except (Failed, ValueError) as why:
                    self.problems.append(Problem(name, entry, ON_GPU, "failed", str(why)))
                    del ready[name, entry]
                    continue
                rounds[name, entry].append(found["seconds"])
                peaks[name, entry] = found["peak_bytes"]
                least[name, entry] = min(least[name, entry], found["least"])
        for (name, entry), (_, said) in ready.items():
            if rounds[name, entry]:
                self.timings.append(
                    (
                        name,
                        Timing(
                            entry,
                            said["version"],
                            rounds[name, entry],
                            said["compile_s"],
                            peaks[name, entry],
                            said["imported_bytes"],
                            least[name, entry],
                        ),
                    )
                )


def entries_asked(asked: Sequence[str]) -> list[str]:
    """Those of graphc, and the peers asked for: all if none is."""
    return [n for n, e in GPU_ENTRIES.items() if e.ours or not asked or n in asked]
