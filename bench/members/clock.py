"""How members take times: as many calls each, one after the other, all beginning together."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from bench.members.ways import Me, Record

WARM_UP = 3
FEWEST = 10
"""Calls that are timed, at least."""


def timed(
    me: Me, call: Callable[[], object], seconds: float, before: Callable[[], object] | None = None
) -> Record:
    """Seconds of a call: median and least, and how many were made.

    before  what is done ahead of each call and is not timed
    """
    for _ in range(WARM_UP):
        start = time.perf_counter()
        _one(call, before)
        whole = time.perf_counter() - start  # `before` counts: a sum alone takes next to nothing
    calls = me.agree(max(FEWEST, int(seconds / whole)))
    times = [_one(call, before) for _ in range(calls)]
    return {"median": statistics.median(times), "least": min(times), "calls": calls}


def _one(call: Callable[[], object], before: Callable[[], object] | None) -> float:
    if before is not None:
        before()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
