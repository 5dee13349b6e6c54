"""What it costs on this machine to wake the threads of a pool, and so what work they are woken for.

    void meet(ptr pool, ptr begun, i64 jobs)

runs jobs of two chunks, each of which waits until the other has begun: two threads meet. While they
wait awake that takes a fifth of a microsecond; a sleeping one comes after 3 to 60, as machines are,
one that has slept for milliseconds, and its processor with it, up to five times later. Measured
once, kept with the compiled code (`thread_pools.py`): it decides whether threads are
woken, never what is computed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from time import perf_counter_ns

from graphc.backends.llvm.thread_pool import (
    AWAKE_NS,
    GRAIN_OFFSET,
    LONG_GRAIN_OFFSET,
    UNTIL_OFFSET,
)

MEET = "graphc.pool_meet"
ROUNDS, MOST_ROUNDS = 7, 35
"""Of so many in which they met the quickest one counts: a busy machine makes all others longer."""

LONG_ROUNDS, LONG_WAIT_NS = 3, 5_000_000
"""Of so many after a long pause the middle one counts: they differ, the quickest is too short."""

MOST_NS = 150_000
"""Who has not come by then does not come: the other chunk waits longer, a million turns."""

MEET_TEXT = """
; A chunk waits for the other one, but not for long: there may be no other thread.
define internal void @graphc.pool.meeting(ptr %begun, i64 %index) nounwind {
entry:
  %before = atomicrmw add ptr %begun, i64 1 seq_cst
  br label %wait
wait:
  %turn = phi i64 [ 0, %entry ], [ %turn.next, %look ]
  %now = load atomic i64, ptr %begun acquire, align 8
  %both = icmp sgt i64 %now, 1
  br i1 %both, label %done, label %look
look:
  %turn.next = add i64 %turn, 1
  %more = icmp slt i64 %turn.next, 1000000
  br i1 %more, label %wait, label %done
done:
  ret void
}

define void @graphc.pool_meet(ptr %pool, ptr %begun, i64 %jobs) nounwind {
entry:
  %run = load ptr, ptr %pool, align 8
  br label %job
job:
  %j = phi i64 [ 0, %entry ], [ %j.next, %job ]
  store i64 0, ptr %begun, align 8
  call void %run(ptr %pool, ptr @graphc.pool.meeting, ptr %begun, i64 2)
  %j.next = add i64 %j, 1
  %again = icmp slt i64 %j.next, %jobs
  br i1 %again, label %job, label %done
done:
  ret void
}
"""


def measured_grains(pool: int, meet: Callable[[int, int, int], None]) -> tuple[int, int]:
    """Nanoseconds of work that the sleeping threads of this pool are woken for, and after a long
    pause: three times what they take to come. 0 where none came."""

    soon: list[int] = []
    for _ in range(MOST_ROUNDS):
        spent = _meeting(pool, meet, 4 * AWAKE_NS)
        soon += [spent] * (spent <= MOST_NS)
        if len(soon) == ROUNDS:
            break
    if not soon:
        return 0, 0
    late = sorted(_meeting(pool, meet, LONG_WAIT_NS) for _ in range(LONG_ROUNDS))
    return 3 * min(soon), 3 * min(max(min(soon), late[LONG_ROUNDS // 2]), MOST_NS)


def _meeting(pool: int, meet: Callable[[int, int, int], None], wait: int) -> int:
    """How long one takes after so long a wait."""
    begun = ctypes.c_int64(0)
    _wait(wait)
    for offset in (GRAIN_OFFSET, LONG_GRAIN_OFFSET, UNTIL_OFFSET):
        ctypes.c_int64.from_address(pool + offset).value = 0
    start = perf_counter_ns()
    meet(pool, ctypes.addressof(begun), 1)
    return perf_counter_ns() - start


def _wait(nanoseconds: int) -> None:
    """Awake: the processor of one that sleeps may be slow to come back itself."""
    until = perf_counter_ns() + nanoseconds
    while perf_counter_ns() < until:
        pass
