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
  alone      A pool in use (nested, or by another thread) does nothing for a second caller, which
             computes its chunks alone. In the child of a fork there are no workers: the pool's
             memory is wiped there, and the null where `run` stood says so to the caller; where a
             kernel cannot wipe, `run` compares process numbers.
  signals    Workers block them all: they go to the threads that were there before.
"""

from __future__ import annotations

from graphc.backends.llvm.target import Target
from graphc.runtime.threads import MAX_THREADS

AWAKE_NS = 50_000
"""Of waiting awake."""

STRETCH, STRETCHES = 64, 4
"""Turns of waiting that are timed together, and how often: the quickest one counts."""

STACK_BYTES = 4 << 20
"""Of a worker: some C libraries give far less than tasks need by themselves."""

_SLOT = 128  # bytes: two cache lines, since processors fetch them in pairs
_SLOTS = 512
_BYTES = _SLOTS + _SLOT * MAX_THREADS

# Offsets in the memory of a pool. What different threads write lies in different cache lines.
_RUN, _THREADS, _PID, _SPINS = 0, 8, 12, 16
_BUSY, _GENERATION, _SLEEPERS, _STATE = 64, 128, 192, 256
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
    text = _TEXT
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
    "GENERATION": _GENERATION,
    "SLEEPERS": _SLEEPERS,
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
  br i1 %free, label %share, label %alone

alone:
  br label %turn
turn:
  %i = phi i64 [ 0, %alone ], [ %i.next, %part ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %part, label %done
part:
  call void %task(ptr %context, i64 %i)
  %i.next = add nsw i64 %i, 1
  br label %turn

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
  %state = getelementptr i8, ptr %pool, i64 <STATE>
  store atomic i32 <open>, ptr %state release, align 4
  %generation = getelementptr i8, ptr %pool, i64 <GENERATION>
  %old = atomicrmw add ptr %generation, i32 1 seq_cst
  %sleepers.at = getelementptr i8, ptr %pool, i64 <SLEEPERS>
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %asleep = icmp sgt i32 %sleepers, 0
  br i1 %asleep, label %wake, label %help
wake:
  %others = sub nsw i64 %used, 1
  %others.32 = trunc i64 %others to i32
  call i64 (i64, ...) @syscall(i64 <futex>, ptr %generation, i32 129, i32 %others.32, ptr null)
  br label %help
help:
  call void @graphc.pool.work(ptr %pool, i64 0)
  %closing = atomicrmw and ptr %state, i32 <closed> acq_rel
  %inside = and i32 %closing, <inside>
  %empty = icmp eq i32 %inside, 0
  br i1 %empty, label %close, label %linger
linger:
  %spins.at = getelementptr i8, ptr %pool, i64 <SPINS>
  %spins = load i32, ptr %spins.at, align 4
  br label %spin
spin:
  %spun = phi i32 [ 0, %linger ], [ %spun.next, %pause ]
  %now = load atomic i32, ptr %state acquire, align 4
  %left = icmp eq i32 %now, 0
  br i1 %left, label %close, label %patient
patient:
  %spun.next = add nsw i32 %spun, 1
  %goes.on = icmp sle i32 %spun, %spins
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
  br i1 %none, label %close, label %sleep
sleep:
  call i64 (i64, ...) @syscall(i64 <futex>, ptr %state, i32 128, i32 %current, ptr null)
  br label %check
close:
  store atomic i32 0, ptr %state monotonic, align 4
  store atomic i32 0, ptr %busy release, align 4
  br label %done
done:
  ret void
}

; --- parts of the open job, those of the own slot first

define internal void @graphc.pool.work(ptr %pool, i64 %self) nounwind {
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
  %victim = phi i64 [ %self, %entry ], [ %victim.next, %leave ]
  %place = mul nsw i64 %victim, <slot>
  %offset = add nsw i64 %place, <slots>
  %slot = getelementptr i8, ptr %pool, i64 %offset
  %end.at = getelementptr i8, ptr %slot, i64 <END>
  %end = load atomic i64, ptr %end.at monotonic, align 8
  br label %look
look:
  %next = load atomic i64, ptr %slot monotonic, align 8
  %any = icmp slt i64 %next, %end
  br i1 %any, label %take, label %leave
take:
  %mine = atomicrmw add ptr %slot, i64 1 monotonic
  %got = icmp slt i64 %mine, %end
  br i1 %got, label %part, label %leave
part:
  call void %task(ptr %context, i64 %mine)
  br label %look
leave:
  %victim.up = add nsw i64 %victim, 1
  %wraps = icmp sge i64 %victim.up, %all
  %victim.next = select i1 %wraps, i64 0, i64 %victim.up
  %turn.next = add nsw i64 %turn, 1
  %more = icmp slt i64 %turn.next, %all
  br i1 %more, label %visit, label %done
done:
  ret void
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
  %stop.at = getelementptr i8, ptr %pool, i64 <STOP>
  %spins.at = getelementptr i8, ptr %pool, i64 <SPINS>
  %spins = load i32, ptr %spins.at, align 4
  br label %wait
wait:
  %seen = phi i32 [ 0, %entry ], [ %seen, %woken ], [ %now, %missed ], [ %now, %left ]
  br label %spin
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
  %before = atomicrmw add ptr %sleepers, i32 1 seq_cst
  %again = load atomic i32, ptr %generation seq_cst, align 4
  %unchanged = icmp eq i32 %again, %seen
  br i1 %unchanged, label %sleep, label %woken
sleep:
  call i64 (i64, ...) @syscall(i64 <futex>, ptr %generation, i32 128, i32 %seen, ptr null)
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
  call void @graphc.pool.work(ptr %pool, i64 %index)
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

; --- making and ending

define ptr @<create>(i32 %threads) nounwind {
entry:
  %all.signals = alloca [16 x i64], align 16
  %old.signals = alloca [16 x i64], align 16
  %attributes = alloca [32 x i64], align 16
  %cores = call i64 @graphc.pool.cores()
  %given = sext i32 %threads to i64
  %is.known = icmp sgt i64 %cores, 1
  %known = select i1 %is.known, i64 %cores, i64 1
  %is.many = icmp sgt i64 %known, <max>
  %usual = select i1 %is.many, i64 <max>, i64 %known
  %is.zero = icmp eq i64 %given, 0
  %wanted = select i1 %is.zero, i64 %usual, i64 %given
  %low = icmp slt i64 %wanted, 1
  %high = icmp sgt i64 %wanted, <max>
  %bad = or i1 %low, %high
  br i1 %bad, label %none, label %map
none:
  ret ptr null
map:
  %pool = call ptr @mmap(ptr null, i64 <bytes>, i32 3, i32 34, i32 -1, i64 0)
  %pool.number = ptrtoint ptr %pool to i64
  %failed = icmp eq i64 %pool.number, -1
  br i1 %failed, label %none, label %fill
fill:
  %wipes = call i32 @madvise(ptr %pool, i64 <bytes>, i32 18)
  %is.wiped = icmp eq i32 %wipes, 0
  %own = call i32 @getpid()
  %pid = select i1 %is.wiped, i32 0, i32 %own
  %pid.at = getelementptr i8, ptr %pool, i64 <PID>
  store i32 %pid, ptr %pid.at, align 4
  store ptr @graphc.pool.run, ptr %pool, align 8
  %more.cores = icmp sge i64 %cores, %wanted
  %unknown = icmp eq i64 %cores, 0
  %enough = or i1 %more.cores, %unknown
  %turns = call i32 @graphc.pool.turns()
  %spins = select i1 %enough, i32 %turns, i32 0
  %spins.at = getelementptr i8, ptr %pool, i64 <SPINS>
  store i32 %spins, ptr %spins.at, align 4
  ; All signals but 32 to 34, which C libraries use among their threads.
  store i64 -15032385537, ptr %all.signals, align 16
  br label %signals
signals:
  %word = phi i64 [ 1, %fill ], [ %word.next, %signals ]
  %word.at = getelementptr i64, ptr %all.signals, i64 %word
  store i64 -1, ptr %word.at, align 8
  %word.next = add nsw i64 %word, 1
  %words = icmp slt i64 %word.next, 16
  br i1 %words, label %signals, label %block
block:
  %blocked = call i32 @pthread_sigmask(i32 2, ptr %all.signals, ptr %old.signals)
  %made = call i32 @pthread_attr_init(ptr %attributes)
  %sized = call i32 @pthread_attr_setstacksize(ptr %attributes, i64 <stack>)
  %threads.at = getelementptr i8, ptr %pool, i64 <THREADS>
  %wanted.32 = trunc i64 %wanted to i32
  store i32 %wanted.32, ptr %threads.at, align 4
  br label %next
next:
  %i = phi i64 [ 1, %block ], [ %i.next, %start ]
  %more = icmp slt i64 %i, %wanted
  br i1 %more, label %start, label %ready
start:
  %place = mul nsw i64 %i, <slot>
  %offset = add nsw i64 %place, <slots>
  %slot = getelementptr i8, ptr %pool, i64 %offset
  %pool.at = getelementptr i8, ptr %slot, i64 <POOL>
  store ptr %pool, ptr %pool.at, align 8
  %index.at = getelementptr i8, ptr %slot, i64 <INDEX>
  store i64 %i, ptr %index.at, align 8
  %handle = getelementptr i8, ptr %slot, i64 <HANDLE>
  %life = getelementptr i8, ptr @graphc.pool.worker, i64 0
  %error = call i32 @pthread_create(ptr %handle, ptr %attributes, ptr %life, ptr %slot)
  %i.next = add nsw i64 %i, 1
  %fine = icmp eq i32 %error, 0
  br i1 %fine, label %next, label %fewer
fewer:
  ; The system gives no more threads: the pool is of those that there are.
  %there = trunc i64 %i to i32
  store i32 %there, ptr %threads.at, align 4
  br label %ready
ready:
  %freed = call i32 @pthread_attr_destroy(ptr %attributes)
  %restored = call i32 @pthread_sigmask(i32 2, ptr %old.signals, ptr null)
  ret ptr %pool
}

; How many turns of waiting a thread stays awake.
define internal i32 @graphc.pool.turns() nounwind {
entry:
  %from = alloca [2 x i64], align 16
  %to = alloca [2 x i64], align 16
  br label %begin
begin:
  %i = phi i64 [ 0, %entry ], [ %i.next, %end ]
  %least = phi i64 [ 1000000000, %entry ], [ %least.next, %end ]
  %begun = call i32 @clock_gettime(i32 1, ptr %from)
  br label %turn
turn:
  %t = phi i64 [ 0, %begin ], [ %t.next, %turn ]
  <pause>
  %t.next = add nsw i64 %t, 1
  %goes.on = icmp slt i64 %t.next, <stretch>
  br i1 %goes.on, label %turn, label %end
end:
  %ended = call i32 @clock_gettime(i32 1, ptr %to)
  %from.s = load i64, ptr %from, align 8
  %to.s = load i64, ptr %to, align 8
  %from.ns.at = getelementptr i8, ptr %from, i64 8
  %to.ns.at = getelementptr i8, ptr %to, i64 8
  %from.ns = load i64, ptr %from.ns.at, align 8
  %to.ns = load i64, ptr %to.ns.at, align 8
  %seconds = sub i64 %to.s, %from.s
  %whole = mul i64 %seconds, 1000000000
  %rest = sub i64 %to.ns, %from.ns
  %taken = add i64 %whole, %rest
  %is.less = icmp slt i64 %taken, %least
  %least.next = select i1 %is.less, i64 %taken, i64 %least
  %i.next = add nsw i64 %i, 1
  %more = icmp slt i64 %i.next, <stretches>
  br i1 %more, label %begin, label %done
done:
  ; A turn takes a nanosecond or more, whatever a coarse clock says.
  %is.known = icmp sgt i64 %least.next, <stretch>
  %divisor = select i1 %is.known, i64 %least.next, i64 <stretch>
  %turns = udiv i64 <awake>, %divisor
  %turns.32 = trunc i64 %turns to i32
  ret i32 %turns.32
}

; How many processors this process may use; 0 where that cannot be told.
define internal i64 @graphc.pool.cores() nounwind {
entry:
  %mask = alloca [128 x i64], align 16
  br label %clear
clear:
  %c = phi i64 [ 0, %entry ], [ %c.next, %clear ]
  %c.at = getelementptr i64, ptr %mask, i64 %c
  store i64 0, ptr %c.at, align 8
  %c.next = add nsw i64 %c, 1
  %c.more = icmp slt i64 %c.next, 128
  br i1 %c.more, label %clear, label %ask
ask:
  %error = call i32 @sched_getaffinity(i32 0, i64 1024, ptr %mask)
  %fine = icmp eq i32 %error, 0
  br i1 %fine, label %count, label %unknown
unknown:
  ret i64 0
count:
  %w = phi i64 [ 0, %ask ], [ %w.next, %count ]
  %total = phi i64 [ 0, %ask ], [ %sum, %count ]
  %w.at = getelementptr i64, ptr %mask, i64 %w
  %bits = load i64, ptr %w.at, align 8
  %ones = call i64 @llvm.ctpop.i64(i64 %bits)
  %sum = add nsw i64 %total, %ones
  %w.next = add nsw i64 %w, 1
  %w.more = icmp slt i64 %w.next, 128
  br i1 %w.more, label %count, label %told
told:
  ret i64 %sum
}

define void @<destroy>(ptr %pool) nounwind {
entry:
  %is.null = icmp eq ptr %pool, null
  br i1 %is.null, label %done, label %look
look:
  ; In the child of a fork nothing is left of the workers.
  %run = load ptr, ptr %pool, align 8
  %wiped = icmp eq ptr %run, null
  br i1 %wiped, label %free, label %own
own:
  %pid.at = getelementptr i8, ptr %pool, i64 <PID>
  %pid = load i32, ptr %pid.at, align 4
  %here = call i32 @getpid()
  %same = icmp eq i32 %here, %pid
  %unknown = icmp eq i32 %pid, 0
  %mine = or i1 %same, %unknown
  br i1 %mine, label %stop, label %free
stop:
  %stop.at = getelementptr i8, ptr %pool, i64 <STOP>
  store atomic i32 1, ptr %stop.at release, align 4
  %generation = getelementptr i8, ptr %pool, i64 <GENERATION>
  %old = atomicrmw add ptr %generation, i32 1 seq_cst
  call i64 (i64, ...) @syscall(i64 <futex>, ptr %generation, i32 129, i32 <max>, ptr null)
  %threads.at = getelementptr i8, ptr %pool, i64 <THREADS>
  %threads = load i32, ptr %threads.at, align 4
  %all = sext i32 %threads to i64
  br label %next
next:
  %i = phi i64 [ 1, %stop ], [ %i.next, %join ]
  %more = icmp slt i64 %i, %all
  br i1 %more, label %join, label %free
join:
  %place = mul nsw i64 %i, <slot>
  %offset = add nsw i64 %place, <slots>
  %slot = getelementptr i8, ptr %pool, i64 %offset
  %handle.at = getelementptr i8, ptr %slot, i64 <HANDLE>
  %handle = load i64, ptr %handle.at, align 8
  %joined = call i32 @pthread_join(i64 %handle, ptr null)
  %i.next = add nsw i64 %i, 1
  br label %next
free:
  %unmapped = call i32 @munmap(ptr %pool, i64 <bytes>)
  br label %done
done:
  ret void
}
"""
