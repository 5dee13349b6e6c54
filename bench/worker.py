"""The process that one entry lives in: `python -m bench.worker ENTRY WORKLOAD THREADS RESULTS`.

It keeps to its cores, makes its form of the workload, writes the first results to the file RESULTS,
and then times calls when it is asked to: a line of JSON in, a line of JSON out. What packages print
goes to standard error. THREADS of 0 is for entries of a GPU, which may use all cores.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from bench.check import results, save
from bench.peers import ENTRIES, GPU_ENTRIES, REFERENCE, CannotSay, Case, Entry
from bench.versions import version_of
from bench.workloads import workload

PIECES = 10
"""Of a round, timed one by one: the shortest says what is left when nobody disturbs."""
REFERENCE_NAME = "reference"


ON_GPU = 0
"""Threads of the entries of a GPU."""


def entry_of(name: str, threads: int) -> Entry:
    if name == REFERENCE_NAME:
        return REFERENCE
    return (GPU_ENTRIES if threads == ON_GPU else ENTRIES)[name]


def main(arguments: list[str]) -> None:
    name, work_name, threads, path = arguments
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[: int(threads) or len(cores)])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    entry = entry_of(name, int(threads))
    if missing := entry.missing():
        answer(answers, {"absent": missing})
        return
    module = import_module(f"bench.peers.{entry.module}")
    work = workload(work_name)
    if work.bf16 and not entry.bf16:
        answer(answers, {"unsaid": "no form in bf16 is written here"})
        return
    before = peak_bytes()
    start = time.perf_counter()
    try:
        case = module.case(work, int(threads), entry.variant)
    except CannotSay as reason:
        answer(answers, {"unsaid": str(reason)})
        return
    first = case.run()
    compiling = time.perf_counter() - start
    save(Path(path), results(work, case, first))
    version = f"{entry.packages[0]} {version_of(entry.packages[0])}"
    answer(answers, {"compile_s": compiling, "imported_bytes": before, "version": version})
    for line in sys.stdin:
        asked = json.loads(line)
        pieces, least = timed(case, asked["seconds"])
        found = {
            "seconds": [p / work.steps for p in pieces],
            "least": least / work.steps,
            "peak_bytes": peak_bytes(),
        }
        answer(answers, found)


def answer(stream: TextIO, message: dict[str, Any]) -> None:
    stream.write(json.dumps(message) + "\n")
    stream.flush()


def timed(case: Case, seconds: float) -> tuple[list[float], float]:
    """Seconds a call, of up to `PIECES` pieces that take `seconds` in all; at least one call. And
    of the shortest one of a tenth as many that are timed alone."""
    run: Callable[[], object] = case.begin or case.run
    start = time.perf_counter()
    run()
    case.wait()
    once = time.perf_counter() - start
    calls = max(1, int(seconds / once))
    pieces = min(PIECES, calls)
    repeats = calls // pieces
    found: list[float] = []
    for _ in range(pieces):
        start = time.perf_counter()
        for _ in range(repeats):
            run()
        case.wait()
        found.append((time.perf_counter() - start) / repeats)
    least = math.inf
    for _ in range(max(1, calls // 10)):
        start = time.perf_counter()
        run()
        case.wait()
        least = min(least, time.perf_counter() - start)
    return found, least


def peak_bytes() -> int:
    """The most memory of this process that was resident at a time; 0 where nobody tells.

    Not `getrusage`, which counts what the parent had when it forked.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(x.split()[1]) << 10 for x in status.splitlines() if x[:6] == "VmHWM:"), 0)


if __name__ == "__main__":
    main(sys.argv[1:])
