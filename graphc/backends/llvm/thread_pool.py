"""A pool of threads that compute the chunks of one operation, as LLVM text.

    ptr  pool_create(i32 threads)      0: one for each processor that the process may use; null
                                       where there is no memory, or for a wrong number
    void pool_destroy(ptr pool)        no call may be using it; null is allowed
    void run(ptr pool, ptr task, ptr context, i64 count)

A pool begins with a pointer to its `run`, which calls `task(context, i)` once for each i below
count and returns when all have: compiled code knows no more of a pool (`parallel_for.py`). The text
needs threads, mmap and futex of Linux's C library and nothing else, so that a process of Python and
a program without it run the same one.

How it works

  chunks     Each thread has a slot with a range of chunks of its own, the same from call to call,
             so that data stay in its caches; with that done it takes chunks from the others' slots.
             A chunk is taken by adding to the slot's counter. The caller is thread 0.
  joining    A worker takes part only between the caller's opening and closing of a job, which is a
             bit in one word with the number of those inside. The caller closes it when no chunk is
             left, and waits for those inside. So it never waits for a thread that is not running.
  waiting    A worker spins for a moment after a job, then sleeps until the next. Without a core for
             each thread it sleeps at once. The caller waits for the last chunks in the same way.
             What lies between the jobs of a training step is mostly shorter than that moment; to
             wake a thread takes longer than many a job. The turns of waiting in a moment are
             measured when the pool is made: the pauses of processors differ by a factor of five.
             The caller waits longer: one that sleeps is woken on the processor of the last worker,
             where both would be in each other's way.
  waking     Jobs with no more than that moment between them are a burst. Sleeping threads are woken
             for the first job of a burst that was worth a grain of work before, by one thread, or
             once that much of it is done. A table knows bursts by their first task: the worth of
             the last one, or of one before, which fades by a 64th each time, by half where the last
             one was not worth a quarter of it. After a long pause workers come later, as their
             processors sleep too: there is a longer grain for that.
  giving way Where other programs have the cores, a second thread makes a call slower: woken on the
             caller's core it takes that away, and one that loses its core in a chunk keeps the
             caller waiting. A worker on the caller's core goes back to sleep. When all do that, or
             a job took longer than one thread would have, jobs are computed alone for four
             times what was lost, and for twice as long each time that it happens again soon.
  aside      Workers keep to other processors than the caller's, who says so before it wakes them,
             unless the machine has more to do than it has processors (`pool_aside.py`).
  alone      A pool in use (nested, or by another thread) does nothing for a second caller, which
             computes its chunks alone. In the child of a fork there are no workers: the pool's
             memory is wiped there, and the null where `run` stood says so to the caller; where a
             kernel cannot wipe, `run` compares process numbers.
  signals    Workers block them all: they go to the threads that were there before.
"""

from __future__ import annotations

from graphc.backends.llvm.pool_aside import ASIDE
from graphc.backends.llvm.pool_life import LIFE
from graphc.backends.llvm.pool_sharing import SHARING
from graphc.backends.llvm.target import Target
from graphc.runtime.threads import MAX_THREADS

AWAKE_NS = 50_000
"""Of waiting awake."""

LINGER = 20
"""So many such moments the caller waits awake for the last chunks: a millisecond."""

GRAIN_NS, LONG_GRAIN_NS = 30_000, 100_000
"""Of work that threads are woken for, where it was not measured; and after a long pause."""

LONG_PAUSE_NS = 2_000_000
"""Between two bursts, from which on that is long."""

LEAST_PAUSE_NS, MOST_PAUSE_NS = 50_000, 16_000_000
"""Without the other threads, where these have been in the way."""

CROWDED_LOSS_NS = 250_000
"""What it counts for where all of them were woken on the caller's core."""

STEP_ASIDE_NS = 1_000_000
"""Between two changes of the processor that workers keep away from."""

LOOK_AROUND_NS = 100_000_000
"""Between two looks whether others compute."""

MUCH_NS = 1 << 62
"""What work is worth of which nothing is known."""

STRETCH, STRETCHES = 64, 4
"""Turns of waiting that are timed together, and how often: the quickest one counts."""

STACK_BYTES = 4 << 20
"""Of a worker: some C libraries give far less than tasks need by themselves."""

_SLOT = 128  # bytes: two cache lines, since processors fetch them in pairs
_SLOTS = 512
TABLE_OFFSET = _SLOTS + _SLOT * MAX_THREADS
_ROWS = 64  # of the table, 16 bytes each: a task, and what its burst is worth
_BYTES = TABLE_OFFSET + 16 * _ROWS

# Offsets in the memory of a pool. What different threads write lies in different cache lines.
_RUN, _THREADS, _PID, _SPINS = 0, 8, 12, 16
# When the caller last looked whether others compute; the processor, plus 1, that workers keep away
# from, 0 where they run anywhere.
LOOKED_OFFSET, AVOIDED_OFFSET = 24, 32
# _LATE: whether this burst began after a long pause.
_BUSY, _LATE, UNTIL_OFFSET, REST_OFFSET = 64, 68, 72, 80
ENDED_OFFSET, BURST_OFFSET, _FIRST = 88, 96, 104
GRAIN_OFFSET, LONG_GRAIN_OFFSET = 112, 120
GENERATION_OFFSET, _CPU, SLEEPERS_OFFSET, CROWDED_OFFSET, _STATE = 128, 132, 192, 196, 256
_STOP, _TASK, _CONTEXT = 320, 328, 336
# And in a slot.
_NEXT, _END, _POOL, _INDEX, _HANDLE = 0, 8, 16, 24, 32

_OPEN = 1 << 30  # in _STATE: workers may join
_WAITING = 1 << 29  # in _STATE: the caller sleeps until the last one leaves
_INSIDE = _WAITING - 1  # in _STATE: how many have joined

_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
_PAUSE = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
_NO_PAUSE = ("", "fence acq_rel")


def has_pool(target: Target) -> bool:
    """Whether there is a pool for this target: Linux on a processor whose futex is known."""
    return "linux" in target.triple and _processor(target) in _FUTEX


def pool_text(target: Target, create: str, destroy: str) -> str:
    """The functions `@create` and `@destroy` and what they need, for the end of a module."""
    declaration, pause = _PAUSE.get(_processor(target), _NO_PAUSE)
    names = {
        "create": create,
        "destroy": destroy,
        "futex": _FUTEX[_processor(target)],
        "declaration": declaration,
        "pause": pause,
    }
    text = _TEXT + SHARING + ASIDE + LIFE
    for name, value in {**names, **_CONSTANTS}.items():
        text = text.replace(f"<{name}>", str(value))
    return text


def _processor(target: Target) -> str:
    return target.triple.partition("-")[0]


_CONSTANTS = {
    "max": MAX_THREADS,
    "awake": AWAKE_NS * STRETCH,
    "stretch": STRETCH,
    "stretches": STRETCHES,
    "stack": STACK_BYTES,
    "slot": _SLOT,
    "slots": _SLOTS,
    "bytes": _BYTES,
    "THREADS": _THREADS,
    "PID": _PID,
    "SPINS": _SPINS,
    "BUSY": _BUSY,
    "UNTIL": UNTIL_OFFSET,
    "REST": REST_OFFSET,
    "ENDED": ENDED_OFFSET,
    "BURST": BURST_OFFSET,
    "FIRST": _FIRST,
    "GRAIN": GRAIN_OFFSET,
    "LONG_GRAIN": LONG_GRAIN_OFFSET,
    "LATE": _LATE,
    "linger": LINGER,
    "CPU": _CPU,
    "CROWDED": CROWDED_OFFSET,
    "AVOIDED": AVOIDED_OFFSET,
    "LOOKED": LOOKED_OFFSET,
    "step.aside": STEP_ASIDE_NS,
    "look.around": LOOK_AROUND_NS,
    "table": TABLE_OFFSET,
    "last.row": _ROWS - 1,
    "much": MUCH_NS,
    "awake.ns": AWAKE_NS,
    "least.pause": LEAST_PAUSE_NS,
    "most.pause": MOST_PAUSE_NS,
    "crowded.loss": CROWDED_LOSS_NS,
    "grain": GRAIN_NS,
    "long.grain": LONG_GRAIN_NS,
    "long.pause": LONG_PAUSE_NS,
    "GENERATION": GENERATION_OFFSET,
    "SLEEPERS": SLEEPERS_OFFSET,
    "STATE": _STATE,
    "STOP": _STOP,
    "TASK": _TASK,
    "CONTEXT": _CONTEXT,
    "END": _END,
    "POOL": _POOL,
    "INDEX": _INDEX,
    "HANDLE": _HANDLE,
    "open": _OPEN,
    "closed": ~_OPEN,
    "waiting": _WAITING,
    "inside": _INSIDE,
}

_TEXT = """
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @madvise(ptr, i64, i32)
declare i32 @getpid()
declare i64 @syscall(i64, ...)
declare i32 @clock_gettime(i32, ptr)
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_getcpu()
declare i32 @pthread_setaffinity_np(i64, i64, ptr)
declare i32 @open(ptr, i32, ...)
declare i64 @read(i32, ptr, i64)
declare i32 @close(i32)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i64 @llvm.ctpop.i64(i64)
<declaration>

; --- a job, seen by the caller

define internal void @graphc.pool.run(ptr %pool, ptr %task, ptr %context, i64 %count) nounwind {
entry:
  %pid.at = getelementptr i8, ptr %pool, i64 <PID>
  %pid = load i32, ptr %pid.at, align 4
  %wiped = icmp eq i32 %pid, 0
  br i1 %wiped, label %own, label %compare
compare:
  %here = call i32 @getpid()
  %same = icmp eq i32 %here, %pid
  br i1 %same, label %own, label %alone
own:
  %busy = getelementptr i8, ptr %pool, i64 <BUSY>
  %taken = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %free = extractvalue { i32, i1 } %taken, 1
  br i1 %free, label %judge, label %alone

judge:
  %begun = call i64 @graphc.pool.clock()
  %pays = call i1 @graphc.pool.pays(ptr %pool, ptr %task, i64 %begun)
  br i1 %pays, label %share, label %shared.alone
shared.alone:
  call void @graphc.pool.chunks(ptr %task, ptr %context, i64 %count)
  %alone.ended = call i64 @graphc.pool.clock()
  %alone.time = sub i64 %alone.ended, %begun
  call void @graphc.pool.note(ptr %pool, i64 %alone.time, i64 %alone.ended, i64 1, i64 1)
  store atomic i32 0, ptr %busy release, align 4
  ret void

alone:
  call void @graphc.pool.chunks(ptr %task, ptr %context, i64 %count)
  br label %done

share:
  %task.at = getelementptr i8, ptr %pool, i64 <TASK>
  store ptr %task, ptr %task.at, align 8
  %context.at = getelementptr i8, ptr %pool, i64 <CONTEXT>
  store ptr %context, ptr %context.at, align 8
  %threads.at = getelementptr i8, ptr %pool, i64 <THREADS>
  %threads = load i32, ptr %threads.at, align 4
  %all = sext i32 %threads to i64
  %few = icmp slt i64 %count, %all
  %used = select i1 %few, i64 %count, i64 %all
  br label %range
range:
  %s = phi i64 [ 0, %share ], [ %s.next, %range ]
  %from = phi i64 [ 0, %share ], [ %to, %range ]
  %s.next = add nsw i64 %s, 1
  %used.more = icmp slt i64 %s.next, %used
  %scaled = mul nsw i64 %count, %s.next
  %quotient = sdiv i64 %scaled, %used
  %to = select i1 %used.more, i64 %quotient, i64 %count
  %s.place = mul nsw i64 %s, <slot>
  %s.offset = add nsw i64 %s.place, <slots>
  %slot = getelementptr i8, ptr %pool, i64 %s.offset
  store atomic i64 %from, ptr %slot monotonic, align 8
  %end.at = getelementptr i8, ptr %slot, i64 <END>
  store atomic i64 %to, ptr %end.at monotonic, align 8
  %ranges = icmp slt i64 %s.next, %all
  br i1 %ranges, label %range, label %open

open:
  %cpu = call i32 @sched_getcpu()
  %cpu.at = getelementptr i8, ptr %pool, i64 <CPU>
  store atomic i32 %cpu, ptr %cpu.at monotonic, align 4
  %state = getelementptr i8, ptr %pool, i64 <STATE>
  store atomic i32 <open>, ptr %state release, align 4
  %generation = getelementptr i8, ptr %pool, i64 <GENERATION>
  %old = atomicrmw add ptr %generation, i32 1 seq_cst
  %sleepers.at = getelementptr i8, ptr %pool, i64 <SLEEPERS>
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %asleep = icmp sgt i32 %sleepers, 0
  br i1 %asleep, label %wake, label %help
wake:
  call void @graphc.pool.keep_clear(ptr %pool, i32 %cpu, i32 %sleepers)
  %others = sub nsw i64 %used, 1
  %others.32 = trunc i64 %others to i32
  call i64 (i64, ...) @syscall(i64 <futex>, ptr %generation, i32 129, i32 %others.32, ptr null)
  %woken = call i64 @graphc.pool.clock()
  br label %help
help:
  %from.here = phi i64 [ %begun, %open ], [ %woken, %wake ]
  %mine = call i64 @graphc.pool.work(ptr %pool, i64 0)
  %worked = call i64 @graphc.pool.clock()
  %closing = atomicrmw and ptr %state, i32 <closed> acq_rel
  %inside = and i32 %closing, <inside>
  %empty = icmp eq i32 %inside, 0
  br i1 %empty, label %close, label %linger
linger:
  %spins.at = getelementptr i8, ptr %pool, i64 <SPINS>
  %spins = load i32, ptr %spins.at, align 4
  %most.spins = mul i32 %spins, <linger>
  br label %spin
spin:
  %spun = phi i32 [ 0, %linger ], [ %spun.next, %pause ]
  %now = load atomic i32, ptr %state acquire, align 4
  %left = icmp eq i32 %now, 0
  br i1 %left, label %leaves, label %patient
leaves:
  %is.late = icmp sgt i32 %spun, %spins
  br i1 %is.late, label %compare.alone, label %close
patient:
  %spun.next = add nsw i32 %spun, 1
  %goes.on = icmp sle i32 %spun, %most.spins
  br i1 %goes.on, label %pause, label %announce
pause:
  <pause>
  br label %spin
announce:
  %before = atomicrmw or ptr %state, i32 <waiting> acq_rel
  br label %check
check:
  %current = load atomic i32, ptr %state acquire, align 4
  %remaining = and i32 %current, <inside>
  %none = icmp eq i32 %remaining, 0
  br i1 %none, label %compare.alone, label %sleep
sleep:
  call i64 (i64, ...) @syscall(i64 <futex>, ptr %state, i32 128, i32 %current, ptr null)
  br label %check
compare.alone:
  ; Whoever waited longer than it takes to compute all alone has others in the way.
  %late = call i64 @graphc.pool.clock()
  %own.time = sub i64 %worked, %begun
  %time.of.all = mul i64 %own.time, %count
  %time = sub i64 %late, %begun
  %time.of.mine = mul i64 %time, %mine
  %slower = icmp sgt i64 %time.of.mine, %time.of.all
  br i1 %slower, label %give.way, label %close
give.way:
  %lost.of.mine = sub i64 %time.of.mine, %time.of.all
  %lost = sdiv i64 %lost.of.mine, %mine
  call void @graphc.pool.give_way(ptr %pool, i64 %late, i64 %lost)
  br label %close
close:
  store atomic i32 0, ptr %state monotonic, align 4
  %is.helped = icmp slt i64 %mine, %count
  br i1 %is.helped, label %helped, label %note
helped:
  %crowded.at = getelementptr i8, ptr %pool, i64 <CROWDED>
  store atomic i32 0, ptr %crowded.at monotonic, align 4
  br label %note
note:
  %ended = call i64 @graphc.pool.clock()
  ; Neither to wake others nor to wait for them is worth anything.
  %work.time = sub i64 %worked, %from.here
  call void @graphc.pool.note(ptr %pool, i64 %work.time, i64 %ended, i64 %count, i64 %mine)
  store atomic i32 0, ptr %busy release, align 4
  br label %done
done:
  ret void
}

define internal void @graphc.pool.chunks(ptr %task, ptr %context, i64 %count) nounwind {
entry:
  br label %turn
turn:
  %i = phi i64 [ 0, %entry ], [ %i.next, %part ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %part, label %done
part:
  call void %task(ptr %context, i64 %i)
  %i.next = add nsw i64 %i, 1
  br label %turn
done:
  ret void
}

; --- parts of the open job, those of the own slot first

define internal i64 @graphc.pool.work(ptr %pool, i64 %self) nounwind {
entry:
  %task.at = getelementptr i8, ptr %pool, i64 <TASK>
  %task = load ptr, ptr %task.at, align 8
  %context.at = getelementptr i8, ptr %pool, i64 <CONTEXT>
  %context = load ptr, ptr %context.at, align 8
  %threads.at = getelementptr i8, ptr %pool, i64 <THREADS>
  %threads = load i32, ptr %threads.at, align 4
  %all = sext i32 %threads to i64
  br label %visit
visit:
  %turn = phi i64 [ 0, %entry ], [ %turn.next, %leave ]
  %done.before = phi i64 [ 0, %entry ], [ %computed, %leave ]
  %victim = phi i64 [ %self, %entry ], [ %victim.next, %leave ]
  %place = mul nsw i64 %victim, <slot>
  %offset = add nsw i64 %place, <slots>
  %slot = getelementptr i8, ptr %pool, i64 %offset
  %end.at = getelementptr i8, ptr %slot, i64 <END>
  %end = load atomic i64, ptr %end.at monotonic, align 8
  br label %look
look:
  %computed = phi i64 [ %done.before, %visit ], [ %computed.next, %part ]
  %next = load atomic i64, ptr %slot monotonic, align 8
  %any = icmp slt i64 %next, %end
  br i1 %any, label %take, label %leave
take:
  %mine = atomicrmw add ptr %slot, i64 1 monotonic
  %got = icmp slt i64 %mine, %end
  br i1 %got, label %part, label %leave
part:
  call void %task(ptr %context, i64 %mine)
  %computed.next = add nsw i64 %computed, 1
  br label %look
leave:
  %victim.up = add nsw i64 %victim, 1
  %wraps = icmp sge i64 %victim.up, %all
  %victim.next = select i1 %wraps, i64 0, i64 %victim.up
  %turn.next = add nsw i64 %turn, 1
  %more = icmp slt i64 %turn.next, %all
  br i1 %more, label %visit, label %done
done:
  ret i64 %computed
}

; --- the life of a worker

define internal ptr @graphc.pool.worker(ptr %slot) nounwind {
entry:
  %pool.at = getelementptr i8, ptr %slot, i64 <POOL>
  %pool = load ptr, ptr %pool.at, align 8
  %index.at = getelementptr i8, ptr %slot, i64 <INDEX>
  %index = load i64, ptr %index.at, align 8
  %generation = getelementptr i8, ptr %pool, i64 <GENERATION>
  %state = getelementptr i8, ptr %pool, i64 <STATE>
  %sleepers = getelementptr i8, ptr %pool, i64 <SLEEPERS>
  %cpu.at = getelementptr i8, ptr %pool, i64 <CPU>
  %crowded.at = getelementptr i8, ptr %pool, i64 <CROWDED>
  %stop.at = getelementptr i8, ptr %pool, i64 <STOP>
  %spins.at = getelementptr i8, ptr %pool, i64 <SPINS>
  %spins = load i32, ptr %spins.at, align 4
  br label %wait
wait:
  %seen = phi i32 [ 0, %entry ], [ %seen.asleep, %woken ], [ %now, %missed ], [ %now, %left ]
  %here = call i32 @sched_getcpu()
  %there = load atomic i32, ptr %cpu.at monotonic, align 4
  %in.the.way = icmp eq i32 %here, %there
  br i1 %in.the.way, label %crowded, label %spin
crowded:
  ; On the caller's processor: whatever it opened before can do without this thread.
  %count = atomicrmw add ptr %crowded.at, i32 1 monotonic
  %opened = load atomic i32, ptr %generation acquire, align 4
  %stop.now = load atomic i32, ptr %stop.at acquire, align 4
  %ends.now = icmp ne i32 %stop.now, 0
  br i1 %ends.now, label %end, label %doze
spin:
  %spun = phi i32 [ 0, %wait ], [ %spun.next, %pause ]
  %now = load atomic i32, ptr %generation acquire, align 4
  %new = icmp ne i32 %now, %seen
  br i1 %new, label %called, label %patient
patient:
  %spun.next = add nsw i32 %spun, 1
  %awake = icmp slt i32 %spun, %spins
  br i1 %awake, label %pause, label %doze
pause:
  <pause>
  br label %spin
doze:
  %seen.asleep = phi i32 [ %seen, %patient ], [ %opened, %crowded ]
  %before = atomicrmw add ptr %sleepers, i32 1 seq_cst
  %again = load atomic i32, ptr %generation seq_cst, align 4
  %unchanged = icmp eq i32 %again, %seen.asleep
  br i1 %unchanged, label %sleep, label %woken
sleep:
  call i64 (i64, ...) @syscall(i64 <futex>, ptr %generation, i32 128, i32 %seen.asleep, ptr null)
  br label %woken
woken:
  %after = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %wait

called:
  %stop = load atomic i32, ptr %stop.at acquire, align 4
  %ends = icmp ne i32 %stop, 0
  br i1 %ends, label %end, label %knock
knock:
  %door = load atomic i32, ptr %state monotonic, align 4
  br label %try
try:
  %seen.door = phi i32 [ %door, %knock ], [ %changed, %again.try ]
  %bit = and i32 %seen.door, <open>
  %is.open = icmp ne i32 %bit, 0
  br i1 %is.open, label %enter, label %missed
missed:
  br label %wait
enter:
  %joined = add i32 %seen.door, 1
  %exchange = cmpxchg ptr %state, i32 %seen.door, i32 %joined acq_rel monotonic
  %changed = extractvalue { i32, i1 } %exchange, 0
  %is.in = extractvalue { i32, i1 } %exchange, 1
  br i1 %is.in, label %work, label %again.try
again.try:
  br label %try
work:
  %parts = call i64 @graphc.pool.work(ptr %pool, i64 %index)
  %leaving = atomicrmw sub ptr %state, i32 1 acq_rel
  %last.bits = add i32 <waiting>, 1
  %is.last = icmp eq i32 %leaving, %last.bits
  br i1 %is.last, label %tell, label %left
tell:
  call i64 (i64, ...) @syscall(i64 <futex>, ptr %state, i32 129, i32 1, ptr null)
  br label %left
left:
  br label %wait
end:
  ret ptr null
}
"""
