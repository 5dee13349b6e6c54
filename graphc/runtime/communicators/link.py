"""How long members wait for the bytes of a sum, measured once, when they meet.

Of a sum one part is work of the processor: numbers are added, rounded, copied. The rest is waiting
for the link, and that alone can be spared by computing meanwhile (`passes/overlap_sums.py` says
when it pays). Sums of a megabyte are taken as a step takes them beside its backward pass, in the
same order and wire, and looked after now and then: what they take longer than the processor is
busy is `idle`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from graphc.runtime.communicators.communicator import Communicator, beside
from graphc.runtime.communicators.wire import adder

NUMBERS = 2**18
"""Of f32, a megabyte: few bytes go through the buffers of a link faster than many."""
COLUMNS = 512
FEWEST, MOST = 4, 20
"""Sums that are taken: a processor that others use makes some of them long."""
ENOUGH = 0.03
"""Seconds after which no more than the fewest are taken, and no other one where each takes that."""
THREAD = Path("/proc/thread-self/schedstat")
"""Nanoseconds that a thread was busy, and that it has waited for a processor: of Linux."""
LOOK = 5e-5
"""Seconds between two looks whether a sum is there."""


def measured_idle(communicator: Communicator) -> float:
    """Seconds that a byte of a sum is waited for: what the member waits that waits longest, the
    least of some sums. All members call this, and get the same number."""
    if communicator.size == 1:
        return 0.0
    member = beside(communicator, lambda: time.sleep(LOOK))
    array = np.zeros(NUMBERS, np.float32)
    add = adder(member, array, {0: (NUMBERS // COLUMNS, COLUMNS)})
    taken: list[float] = []
    least = np.inf
    while len(taken) < MOST and (sum(taken) < ENOUGH or len(taken) < FEWEST):
        found = np.zeros((communicator.size, 2))
        found[communicator.rank] = _timed(add)
        communicator.all_reduce(found)  # what each has found; all begin the next one together
        taken.append(float(found[:, 0].max()))
        least = min(least, float(found[:, 1].max()))
        if min(taken) > ENOUGH:
            break
    return max(least, 0.0) / array.nbytes


def _timed(add: Callable[[], None]) -> tuple[float, float]:
    """Seconds of a call, and those of them in which this process neither was busy nor would have
    been, if it had had a processor."""
    kept = _kept()
    start, busy = time.perf_counter(), time.process_time()
    add()
    busy, seconds = time.process_time() - busy, time.perf_counter() - start
    return seconds, seconds - busy - (_kept() - kept)


def _kept() -> float:
    """Seconds that this thread has waited for processors which others used, as far as the system
    says."""
    try:
        return int(THREAD.read_text(encoding="ascii").split()[1]) * 1e-9
    except (OSError, IndexError, ValueError):
        return 0.0
