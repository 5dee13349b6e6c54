"""Runs workloads: every entry in a process of its own, timed in turn.

One process at a time works; the others wait for a line of text. A round asks every entry once, so
that a slow moment of the machine meets all of them.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from typing import Any

from bench.check import BF16_SLACK, difference, load
from bench.peers import ENTRIES
from bench.worker import REFERENCE_NAME
from bench.workloads import IN_BF16
from bench.workloads.record import Values

PATIENCE = 600.0
"""Seconds for one answer: some compilers take a minute."""
SILENCE = 0.2
"""Seconds before an entry is asked. Threads of the one before spin after its last call in case more
work comes: ONNX Runtime's for 30 to 40 ms, OpenBLAS' for 80 to 90 ms, on another's core."""
LAST_LINES = 3
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "GRAPHC_NUM_THREADS",
)


@dataclass(frozen=True)
class Plan:
    """rounds   asked of every entry
    seconds  of each of them
    pythons  interpreters of entries that live in an environment of their own
    """

    rounds: int
    seconds: float
    pythons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Timing:
    """Of one entry. rounds: the pieces of each, in seconds a step; least: the shortest of them, or
    of what was timed alone."""

    entry: str
    version: str
    rounds: list[list[float]]
    compile_s: float
    peak_bytes: int
    imported_bytes: int
    least: float


@dataclass(frozen=True)
class Problem:
    """kind  absent (not installed), unsaid (it has no form for the workload), or failed"""

    workload: str
    entry: str
    threads: int
    kind: str
    reason: str


class Failed(Exception):
    """A process has ended, or says nothing. The text says how."""


@dataclass
class Worker:
    process: subprocess.Popen[str]
    errors: Path

    def answer(self, patience: float = PATIENCE) -> dict[str, Any]:
        assert self.process.stdout is not None
        ready, _, _ = select([self.process.stdout], [], [], max(patience, 0.0))
        if not ready:
            raise Failed(f"no answer for {patience:.0f} seconds")
        line = self.process.stdout.readline()
        if not line:
            raise Failed(self._last_words())
        return json.loads(line)

    def ask(self, message: dict[str, Any], patience: float = PATIENCE) -> dict[str, Any]:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed(self._last_words()) from None
        return self.answer(patience)

    def _last_words(self) -> str:
        code = self.process.wait()
        said = self.errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"exit code {code}: " + " | ".join(said[-LAST_LINES:])


@contextmanager
def worker(
    name: str, work: str, threads: int, results: Path, python: str = sys.executable
) -> Iterator[Worker]:
    """A process that ends with the block."""
    errors = results.with_suffix(".err")
    command = [python, "-m", "bench.worker", name, work, str(threads), str(results)]
    with errors.open("w", encoding="utf-8") as said:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            env=environment(threads),
            cwd=Path(__file__).parents[1],
        )
    try:
        yield Worker(process, errors)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def environment(threads: int) -> dict[str, str]:
    """Threads for everyone who reads them there; nothing compiled is kept from run to run."""
    tree = Path(__file__).parents[1]
    here = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    return {
        **here,
        **dict.fromkeys(THREAD_VARIABLES, str(threads)),
        "GRAPHC_CACHE": "off",
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONPATH": os.pathsep.join([str(tree), str(tree / "frontends")]),
    }


def measure(
    work: str,
    names: Sequence[str],
    threads: int,
    plan: Plan,
    folder: Path,
    say: Callable[[str], None] = lambda text: None,
) -> tuple[list[Timing], list[Problem]]:
    """Checked, then timed in turn. The reference's results stay in `folder` from call to call.

    Raises Failed if the reference has no results.
    """
    expected = reference(work, folder, plan)
    slack = BF16_SLACK if work.endswith(IN_BF16) else 1.0
    problems: list[Problem] = []
    with ExitStack() as stack:
        ready: dict[str, tuple[Worker, dict[str, Any]]] = {}
        for name in names:
            say(f"{work} {threads}T: {name} starts")
            results = folder / f"{work}-{name}-{threads}.npz"
            python = plan.pythons.get(name, sys.executable)
            one = stack.enter_context(worker(name, work, threads, results, python))
            try:
                ready[name] = (one, started(one, expected, results, slack=slack))
            except NotMeasured as why:
                problems.append(Problem(work, name, threads, why.kind, why.reason))
            except Failed as why:
                problems.append(Problem(work, name, threads, "failed", str(why)))
        rounds: dict[str, list[list[float]]] = {name: [] for name in ready}
        peaks: dict[str, int] = {}
        least = dict.fromkeys(ready, math.inf)
        for turn in range(plan.rounds):
            say(f"{work} {threads}T: round {turn + 1} of {plan.rounds}")
            for name, (one, _) in list(ready.items()):
                time.sleep(SILENCE)
                try:
                    found = one.ask({"seconds": plan.seconds})
                except Failed as why:
                    problems.append(Problem(work, name, threads, "failed", str(why)))
                    del ready[name]
                    continue
                rounds[name].append(found["seconds"])
                peaks[name] = found["peak_bytes"]
                least[name] = min(least[name], found["least"])
    timings = [
        Timing(
            name,
            said["version"],
            rounds[name],
            said["compile_s"],
            peaks[name],
            said["imported_bytes"],
            least[name],
        )
        for name, (_, said) in ready.items()
    ]
    return timings, problems


class NotMeasured(Exception):
    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind, self.reason = kind, reason


def started(
    one: Worker, expected: Values, results: Path, patience: float = PATIENCE, slack: float = 1.0
) -> dict[str, Any]:
    """What the process says of itself, if its results are right."""
    said = one.answer(patience)
    for kind in ("absent", "unsaid"):
        if kind in said:
            raise NotMeasured(kind, said[kind])
    wrong = difference(load(results), expected, slack)
    results.unlink()
    if wrong:
        raise NotMeasured("failed", f"other results than the reference: {wrong}")
    return said


def reference(work: str, folder: Path, plan: Plan, patience: float = PATIENCE) -> Values:
    results = folder / f"{work}-{REFERENCE_NAME}.npz"
    if not results.exists():
        partial = folder / f"{work}-{REFERENCE_NAME}-partial.npz"
        with worker(REFERENCE_NAME, work, 1, partial) as one:
            said = one.answer(patience)
            if "compile_s" not in said:
                raise Failed(f"{work}: the reference has no results: {said}")
        partial.rename(results)
    return load(results)


def chosen_entries(asked: Sequence[str]) -> list[str]:
    """graphc's backends, and the peers asked for: all of them if none is."""
    peers = asked or [n for n, e in ENTRIES.items() if not e.ours]
    ours = [n for n, e in ENTRIES.items() if e.ours]
    return [*ours, *(p for p in peers if p not in ours)]
