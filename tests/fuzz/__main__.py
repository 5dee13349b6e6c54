"""Random programs on the LLVM backend, in guarded memory, and on an emulated GPU, against the
evaluator, and mutated model files; for long runs.

    python -m tests.fuzz [--count 10000] [--seed 0] [--kinds functions,splits] [--jobs 2]

Seeds are judged in child processes: a crash is a problem of its seed. Problems are printed as they
are found, counts at the end. Status 1 if there was a problem. One seed again: --count 1 --seed N.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from queue import Queue
from time import monotonic

from tests.support.seed_runs import Verdict, judged

KINDS = {
    "functions": "tests.fuzz.test_random_functions",
    "networks": "tests.fuzz.test_random_networks",
    "loops": "tests.fuzz.test_random_loops",
    "splits": "tests.fuzz.test_random_splits",
    "chains": "tests.fuzz.test_random_chains",
    "mel": "tests.fuzz.test_random_mel",
    "model-files": "tests.fuzz.test_model_files",
    "cuda": "tests.fuzz.test_random_cuda",
}
EVERY = 15.0
"""Seconds between two lines about how far it is."""

Found = tuple[str, Verdict]


def run(kinds: Sequence[str], seeds: range, jobs: int) -> Counter[str]:
    """Judges every seed as one kind of program, in turn; prints problems; returns counts."""
    found: Queue[Found | None] = Queue()

    def work(job: int) -> None:
        for place, kind in enumerate(kinds):
            mine = [s for i, s in enumerate(seeds[place :: len(kinds)]) if i % jobs == job]
            for verdict in judged(KINDS[kind], mine, ["llvm"]):
                found.put((kind, verdict))
        found.put(None)

    threads = [threading.Thread(target=work, args=(job,), daemon=True) for job in range(jobs)]
    for thread in threads:
        thread.start()
    counts: Counter[str] = Counter()
    running, said = jobs, monotonic()
    while running:
        item = found.get()
        if item is None:
            running -= 1
            continue
        counts[_count(*item)] += 1
        if monotonic() - said > EVERY:
            said = monotonic()
            sys.stdout.write(f"{counts.total()} of {len(seeds)}: {_summary(counts)}\n")
            sys.stdout.flush()
    return counts


def _count(kind: str, verdict: Verdict) -> str:
    if verdict.problem:
        sys.stdout.write(f"--- {kind}, seed {verdict.seed}\n{verdict.problem}\n")
        sys.stdout.flush()
        return f"{kind} with problems"
    return f"{kind} right" if verdict.problem == "" else f"{kind} discarded"


def _summary(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    kinds = options.kinds.split(",")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"kinds are {', '.join(KINDS)}, got {', '.join(unknown)}")
    seeds = range(options.seed, options.seed + options.count)
    counts = run(kinds, seeds, max(options.jobs, 1))
    sys.stdout.write(f"{counts.total()} judged: {_summary(counts)}\n")
    return 1 if any(what.endswith("problems") for what in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
