"""The pool by itself: every part once, whoever is using it, before and after a fork."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.backends.llvm import engine, thread_pool
from graphc.backends.llvm.pool_cost import MEET, MOST_NS, measured_grains
from graphc.backends.llvm.target import TARGETS, Target, host_target
from graphc.backends.llvm.text import Module
from graphc.backends.llvm.thread_pool import has_pool, pool_text
from graphc.backends.llvm.thread_pools import load_pool_functions, make_pool_code, pool_address

pytestmark = pytest.mark.skipif(not has_pool(host_target()), reason="no pool on this machine")

COUNTING = """
; Adds 1 to the counter of the part; part 0 first shares out the parts of an inner job, if there is.
define internal void @count(ptr %context, i64 %index) {
entry:
  %place = getelementptr i64, ptr %context, i64 %index
  %old = load i64, ptr %place, align 8
  %new = add i64 %old, 1
  store i64 %new, ptr %place, align 8
  ret void
}
define internal void @nest(ptr %context, i64 %index) {
entry:
  %pool = load ptr, ptr %context, align 8
  %run = load ptr, ptr %pool, align 8
  %skip = mul i64 %index, 7
  %start = add i64 %skip, 1
  %counters = getelementptr i64, ptr %context, i64 %start
  call void %run(ptr %pool, ptr @count, ptr %counters, i64 7)
  ret void
}
define void @many(ptr %pool, ptr %counters, i64 %count, i64 %jobs, i1 %nested) {
entry:
  %run = load ptr, ptr %pool, align 8
  %task = select i1 %nested, ptr @nest, ptr @count
  br label %job
job:
  %j = phi i64 [ 0, %entry ], [ %j.next, %job ]
  call void %run(ptr %pool, ptr %task, ptr %counters, i64 %count)
  %j.next = add i64 %j, 1
  %more = icmp slt i64 %j.next, %jobs
  br i1 %more, label %job, label %done
done:
  ret void
}
"""


@pytest.fixture(scope="module")
def many() -> Callable[..., None]:
    return make_many()


def make_many() -> Callable[..., None]:
    """`many(pool, counters, count, jobs, nested)`: so many jobs, each adding 1 to each counter."""
    target = host_target()
    text = Module(target.triple).text() + COUNTING
    loaded = engine.load(engine.object_code(text, target), ["many"], target)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    function = engine.function(loaded, "many", None, pointer, pointer, number, number, ctypes.c_int)

    def call(pool: int, counters: np.ndarray, count: int, jobs: int, nested: bool = False) -> None:
        assert loaded.keep
        function(pool, counters.ctypes.data, count, jobs, nested)

    return call


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_part_is_computed_once(threads: int, count: int, many: Callable[..., None]) -> None:
    pool = pool_address(threads) or _new_pool(threads)
    counters = np.zeros(count, np.int64)
    many(pool, counters, count, 50)
    assert counters.tolist() == [50] * count


def _new_pool(threads: int) -> int:
    loaded = load_pool_functions(make_pool_code())
    create = engine.function(loaded, "graphc.pool_create", ctypes.c_void_p, ctypes.c_int32)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(loaded))
    return create(threads)


def test_one_pool_for_each_number_of_threads() -> None:
    assert pool_address(2) == pool_address(2) != pool_address(3)
    assert pool_address(1) == 0


def test_thousands_of_short_jobs(many: Callable[..., None]) -> None:
    counters = np.zeros(3, np.int64)
    many(pool_address(3), counters, 3, 5000)
    assert counters.tolist() == [5000] * 3


def test_a_part_may_use_the_pool_that_runs_it(many: Callable[..., None]) -> None:
    pool = pool_address(3)
    counters = np.zeros(1 + 7 * 20, np.int64)
    counters[0] = pool
    many(pool, counters, 20, 10, nested=True)
    assert counters[1:].tolist() == [10] * 140


def test_several_callers_at_once_get_all_their_parts(many: Callable[..., None]) -> None:
    counters = [np.zeros(40, np.int64) for _ in range(4)]
    pool = pool_address(3)
    callers = [threading.Thread(target=many, args=(pool, c, 40, 300)) for c in counters]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert [c.tolist() for c in counters] == [[300] * 40] * 4


def destroy_function(loaded: engine.Loaded) -> Callable[[int | None], None]:
    return engine.function(loaded, "graphc.pool_destroy", None, ctypes.c_void_p)


def test_a_wrong_number_of_threads_gives_no_pool() -> None:
    loaded = load_pool_functions(make_pool_code())
    create = engine.function(loaded, "graphc.pool_create", ctypes.c_void_p, ctypes.c_int32)
    assert [create(n) for n in (-1, 1025)] == [None] * 2


def test_0_threads_are_one_for_each_processor() -> None:
    loaded = load_pool_functions(make_pool_code())
    create = engine.function(loaded, "graphc.pool_create", ctypes.c_void_p, ctypes.c_int32)
    before = len(_tasks())
    pool = create(0)
    assert len(_tasks()) == before + len(os.sched_getaffinity(0)) - 1
    destroy_function(loaded)(pool)


def test_a_pool_ends_when_it_is_destroyed(many: Callable[..., None]) -> None:
    loaded = load_pool_functions(make_pool_code())
    create = engine.function(loaded, "graphc.pool_create", ctypes.c_void_p, ctypes.c_int32)
    destroy = destroy_function(loaded)
    before = len(_tasks())
    for _ in range(20):
        pool = create(4)
        counters = np.zeros(9, np.int64)
        many(pool, counters, 9, 3)
        assert counters.tolist() == [3] * 9
        destroy(pool)
    assert len(_tasks()) == before
    destroy(None)  # null, as in C


def field(pool: int, place: int, kind: type[Any] = ctypes.c_int64) -> Any:
    return kind.from_address(pool + place)


def _when_all_sleep(pool: int, workers: int) -> None:
    """Waits for that, and forgets what was in their way before."""
    while field(pool, thread_pool.SLEEPERS_OFFSET, ctypes.c_int32).value < workers:
        time.sleep(0.001)
    time.sleep(0.002)  # a burst ends
    field(pool, thread_pool.UNTIL_OFFSET).value = 0
    field(pool, thread_pool.CROWDED_OFFSET, ctypes.c_int32).value = 0


@pytest.mark.parametrize("threads", [2, 3])
def test_sleeping_threads_are_woken_for_a_grain_of_work(
    threads: int, many: Callable[..., None]
) -> None:
    pool, counters = _new_pool(threads), np.zeros(4, np.int64)
    opened = field(pool, thread_pool.GENERATION_OFFSET, ctypes.c_int32)
    # Nothing is known of the first job; the second one is known to be short.
    for grain, expected in ((1 << 50, 1), (1 << 50, 1), (0, 2)):
        for offset in (thread_pool.GRAIN_OFFSET, thread_pool.LONG_GRAIN_OFFSET):
            field(pool, offset).value = grain
        _when_all_sleep(pool, threads - 1)
        many(pool, counters, 4, 1)
        assert opened.value == expected
    assert counters.tolist() == [3] * 4


@pytest.mark.parametrize("is_long", [False, True])
def test_after_a_long_pause_threads_are_woken_for_a_longer_grain(
    is_long: bool, many: Callable[..., None]
) -> None:
    pool, counters = _new_pool(2), np.zeros(4, np.int64)
    opened = field(pool, thread_pool.GENERATION_OFFSET, ctypes.c_int32)
    many(pool, counters, 4, 1)
    _when_all_sleep(pool, 1)
    many(pool, counters, 4, 1)  # what the first was worth is known now
    grains = field(pool, thread_pool.GRAIN_OFFSET), field(pool, thread_pool.LONG_GRAIN_OFFSET)
    for grain, least in zip(grains, (1 << 50, 0) if is_long else (0, 1 << 50), strict=True):
        grain.value = least
    _when_all_sleep(pool, 1)
    pause = 2 * thread_pool.LONG_PAUSE_NS if is_long else 2 * thread_pool.AWAKE_NS
    ended = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - pause
    field(pool, thread_pool.ENDED_OFFSET).value = ended
    before = opened.value
    many(pool, counters, 4, 1)
    assert opened.value == before + 1


def test_to_wake_threads_is_worth_nothing(many: Callable[..., None]) -> None:
    """A job that wakes them seems to be as long as one that finds them awake, or does not share."""
    pool, counters = _new_pool(2), np.zeros(4, np.int64)
    burst = field(pool, thread_pool.BURST_OFFSET)
    found: dict[int, list[int]] = {0: [], 1 << 50: []}
    for grain in list(found) * 9:
        for offset in (thread_pool.GRAIN_OFFSET, thread_pool.LONG_GRAIN_OFFSET):
            field(pool, offset).value = grain
        _when_all_sleep(pool, 1)
        many(pool, counters, 4, 1)
        found[grain].append(burst.value)
    shared, alone = (min(worths) for worths in found.values())
    assert shared < alone + 2000


def test_what_a_burst_was_worth_fades(many: Callable[..., None]) -> None:
    """Shared it may take far less, as threads have nearer caches: that is no reason to stop."""
    pool, counters = _new_pool(2), np.zeros(4, np.int64)
    rows = [(thread_pool.TABLE_OFFSET + 16 * i) for i in range(64)]
    many(pool, counters, 4, 1)
    (place,) = [row for row in rows if field(pool, row).value]
    worth = field(pool, place + 8)
    assert worth.value == thread_pool.MUCH_NS  # nothing is known
    for known in (thread_pool.MUCH_NS, 1):
        worth.value = known
        _when_all_sleep(pool, 1)
        many(pool, counters, 4, 1)
        assert 1 < worth.value < 1 << 40  # what it took
    for _ in range(20):
        before = worth.value = 2 * field(pool, thread_pool.BURST_OFFSET).value
        _when_all_sleep(pool, 1)
        many(pool, counters, 4, 1)
        if worth.value == before - before // 64:
            break
    else:
        pytest.fail("what a burst was worth does not fade slowly")
    worth.value = 1 << 50  # of calls in a loop, before this one alone
    _when_all_sleep(pool, 1)
    many(pool, counters, 4, 1)
    assert worth.value == 1 << 49


def test_a_pool_in_the_way_rests_for_four_times_the_loss_and_longer_when_it_is_soon_again(
    many: Callable[..., None],
) -> None:
    pool, counters = _new_pool(2), np.zeros(4, np.int64)
    until, rest = field(pool, thread_pool.UNTIL_OFFSET), field(pool, thread_pool.REST_OFFSET)
    first = 4 * thread_pool.CROWDED_LOSS_NS

    def rests() -> int:
        field(pool, thread_pool.CROWDED_OFFSET, ctypes.c_int32).value = 1
        many(pool, counters, 4, 1)
        return rest.value

    found = []
    for _ in range(6):
        until.value = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        found.append(rests())
    assert found == [first, 2 * first, 4 * first, 8 * first, *(2 * [thread_pool.MOST_PAUSE_NS])]
    until.value = 0  # long ago
    assert rests() == first


def test_the_grain_is_three_times_what_a_thread_takes_to_come() -> None:
    loaded = load_pool_functions(make_pool_code())
    create = engine.function(loaded, "graphc.pool_create", ctypes.c_void_p, ctypes.c_int32)
    meet = engine.function(loaded, MEET, None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    pool = create(2)
    soon, late = measured_grains(pool, meet)
    assert 0 <= soon <= late <= 3 * MOST_NS
    assert field(pool, thread_pool.GENERATION_OFFSET, ctypes.c_int32).value > 0
    destroy_function(loaded)(pool)


PROBES = """
define i64 @running() { %n = call i64 @graphc.pool.running() ret i64 %n }
define void @clear(ptr %pool, i32 %cpu, i32 %sleepers) {
  call void @graphc.pool.keep_clear(ptr %pool, i32 %cpu, i32 %sleepers) ret void
}
"""


def own_code(replaced: str, by: str) -> engine.Loaded:
    """The pool's, with another piece of text, and the probes."""
    target = host_target()
    text = Module(target.triple).text() + pool_text(target, "a_create", "a_destroy") + PROBES
    assert text.count(replaced) == 1
    names = ["running", "clear", "a_create", "a_destroy"]
    code = engine.object_code(text.replace(replaced, by), target)
    return engine.load(code, names, target, from_process=True)


@pytest.mark.parametrize("load", ["alone", "full", "crowded"])
def test_workers_keep_to_processors_that_the_caller_has_not(load: str, tmp_path: Path) -> None:
    """Where there is room; the number of threads that run is read from a file of this test."""
    told, everywhere = tmp_path / "load", os.sched_getaffinity(0)
    loaded = own_code(
        '[14 x i8] c"/proc/loadavg\\00"', f'[{len(str(told)) + 1} x i8] c"{told}\\00"'
    )
    running = engine.function(loaded, "running", ctypes.c_int64)
    clear = engine.function(loaded, "clear", None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)
    create = engine.function(loaded, "a_create", ctypes.c_void_p, ctypes.c_int32)
    destroy = engine.function(loaded, "a_destroy", None, ctypes.c_void_p)
    count = {"alone": 1, "full": len(everywhere), "crowded": 1000}[load]
    told.write_text(f"0.50 11.22 1.47 {count}/1500 3284\n")
    assert running() == count
    first, last = min(everywhere), max(everywhere)
    tasks = Path("/proc/self/task")
    before = set(tasks.iterdir())
    pool = create(2)
    (worker,) = set(tasks.iterdir()) - before
    looked = field(pool, thread_pool.LOOKED_OFFSET)

    def kept(cpu: int, since: int) -> set[int]:
        """Where the worker runs after a look so many nanoseconds since the one before."""
        looked.value = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - since
        clear(pool, cpu, 1)
        return os.sched_getaffinity(int(worker.name))

    moves = load == "alone" and len(everywhere) > 1
    just_now, moved, long_ago = -(10**9), thread_pool.STEP_ASIDE_NS, thread_pool.LOOK_AROUND_NS
    assert kept(first, long_ago) == (everywhere - {first} if moves else everywhere)
    assert kept(last, just_now) == (everywhere - {first} if moves else everywhere)
    assert kept(last, moved) == (everywhere - {last} if moves else everywhere)
    told.write_text("0.50 11.22 1.47 1000/1500 3284\n")
    assert kept(last, just_now) == (everywhere - {last} if moves else everywhere)
    assert kept(last, long_ago) == everywhere
    told.unlink()
    assert running() > 1 << 60
    destroy(pool)


def test_a_caller_that_waited_awake_for_too_long_gives_way_too() -> None:
    """It waits for a second here, so that it never sleeps, for a part of 0.2 s."""
    loaded = own_code(f"mul i32 %spins, {thread_pool.LINGER}", "mul i32 %spins, 20000")
    create = engine.function(loaded, "a_create", ctypes.c_void_p, ctypes.c_int32)
    destroy = engine.function(loaded, "a_destroy", None, ctypes.c_void_p)
    pool, caller, helped = create(2), threading.get_ident(), threading.Event()
    computed: set[int] = set()

    def part(_context: int, index: int) -> None:
        computed.add(threading.get_ident())
        if threading.get_ident() != caller:
            helped.set()
            time.sleep(0.2)
        elif index == 0:
            helped.wait(0.05)

    pointers = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    task = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(part)
    run = ctypes.CFUNCTYPE(None, *pointers)(field(pool, 0).value)
    rest = field(pool, thread_pool.REST_OFFSET)
    for _ in range(100):
        # A pool that rests computes alone: one that was helped gave way at the end, if at all.
        rest.value = field(pool, thread_pool.UNTIL_OFFSET).value = 0
        computed.clear()
        helped.clear()
        run(pool, ctypes.cast(task, ctypes.c_void_p), None, 2)
        if len(computed) == 2:
            break
    found = rest.value
    destroy(pool)
    if len(computed) < 2:
        pytest.skip("others have the processors: no worker came in 100 jobs")
    assert found > thread_pool.LEAST_PAUSE_NS


def on_one_processor() -> None:
    """A worker that can only run where its caller does is not woken again and again."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    run, counters = make_many(), np.zeros(8, np.int64)
    pool = pool_address(2)
    opened = field(pool, thread_pool.GENERATION_OFFSET, ctypes.c_int32)
    for offset in (thread_pool.GRAIN_OFFSET, thread_pool.LONG_GRAIN_OFFSET):
        field(pool, offset).value = 0
    for _ in range(50):
        run(pool, counters, 8, 20)
        time.sleep(0.0005)
    assert counters.tolist() == [1000] * 8
    assert opened.value < 500, opened.value


def test_a_pool_gives_way_on_a_single_processor() -> None:
    _in_a_process("on_one_processor")


FORK = """
import ctypes, os, sys
import numpy as np
from graphc.backends.llvm.thread_pools import pool_address
sys.path.insert(0, {root!r})
from tests.unit.backends.llvm.test_thread_pool import {name} as child
child()
"""


def _in_a_process(name: str) -> None:
    text = FORK.format(root=str(Path(__file__).parents[4]), name=name)
    found = subprocess.run(
        [sys.executable, "-c", text], timeout=120, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr


def forked_while_used() -> None:
    """A child of a process whose pool is in use computes alone with the old pool, and makes one of
    its own when it asks."""
    run = make_many()
    pool = pool_address(3)
    stop, background = threading.Event(), np.zeros(50, np.int64)

    def keep_busy() -> None:
        while not stop.is_set():
            run(pool, background, 50, 50)

    caller = threading.Thread(target=keep_busy)
    caller.start()
    for _ in range(10):
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            counters = np.zeros(20, np.int64)
            own = pool_address(3)
            run(own, counters, 20, 100)
            os._exit(0 if counters.tolist() == [100] * 20 and len(_tasks()) == 3 else 1)
        assert os.waitpid(child, 0)[1] == 0
    stop.set()
    caller.join()
    assert len(set(background.tolist())) == 1


def _tasks() -> list[Path]:
    """The threads of this process."""
    return list(Path("/proc/self/task").iterdir())


def test_the_child_of_a_fork_makes_a_pool_of_its_own() -> None:
    _in_a_process("forked_while_used")


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda t: t.isa)
def test_the_text_compiles_for_every_target(target: Target) -> None:
    text = Module(target.triple).text() + pool_text(target, "a_create", "a_destroy")
    code = engine.object_code(text, target)
    assert b"a_create" in code and b"a_destroy" in code
