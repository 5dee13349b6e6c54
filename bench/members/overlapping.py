"""Steps with sums behind the backward pass and beside it, in turns, in one job of members:
`python -m bench.members.overlapping FOLDER ORDER WORKLOAD ROUNDS`.

Each round takes `CALLS` steps of each way, so that what disturbs a machine for longer hits both.
"""

from __future__ import annotations

import logging
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench.members.member import digest, inputs_of, joined
from bench.members.ways import keep_to_a_core
from bench.workloads import workload

CALLS = 5
ALONE, BEHIND, BESIDE = "alone", "behind", "beside"
"""Without sums, and with sums behind or beside the backward pass."""


def main(arguments: list[str]) -> None:
    folder, order, name, rounds = arguments
    me, world = joined(Path(folder))
    keep_to_a_core(me.rank)
    import graphc as gc
    from bench.ours import FORMS, How

    work = replace(workload(name), inputs=inputs_of(workload(name), me.rank))
    members = {
        ALONE: None,
        BEHIND: gc.comm.mpi(order=order, overlap=False),
        BESIDE: gc.comm.mpi(order=order, overlap=True),
    }
    cases = {
        how: FORMS[type(work.spec)](work, How("llvm", "f32", comm=member))
        for how, member in members.items()
    }
    said = _Said()
    logger = logging.getLogger("graphc.driver.members")
    logger.addHandler(said)
    logger.setLevel(logging.INFO)
    FORMS[type(work.spec)](work, How("llvm", "f32", comm=gc.comm.mpi(order=order)))
    times: dict[str, list[float]] = {how: [] for how in cases}
    middles: dict[str, list[float]] = {how: [] for how in cases}
    for number in range(1 + int(rounds)):
        for how, case in cases.items():
            world.Barrier()
            case.run()  # caches hold another case's arrays
            its = [_seconds(case.run) for _ in range(CALLS)]
            if number:
                times[how] += its
                middles[how].append(statistics.median(its))
    found = {
        how: {"median": statistics.median(middles[how]), "least": min(times[how])} for how in cases
    }
    ratios = [b / a for a, b in zip(middles[BEHIND], middles[BESIDE], strict=True)]
    digests = {how: digest(case.parameters()) for how, case in cases.items()}
    record = {**found, "ratio": statistics.median(ratios), "digests": digests}
    me.write({**record, "chosen": said.text})


class _Said(logging.Handler):
    """What was chosen, as the compiler says it."""

    text = "nothing to choose"

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main(sys.argv[1:])
