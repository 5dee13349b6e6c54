"""The part of a pool's text that makes and ends it: its memory, its threads, what it measures.

What the pool does in between is in `thread_pool.py`, with the offsets and numbers that stand here
as `<NAME>`.
"""

from __future__ import annotations

LIFE = """
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
  %grain.at = getelementptr i8, ptr %pool, i64 <GRAIN>
  store i64 <grain>, ptr %grain.at, align 8
  %long.grain.at = getelementptr i8, ptr %pool, i64 <LONG_GRAIN>
  store i64 <long.grain>, ptr %long.grain.at, align 8
  %cpu.at = getelementptr i8, ptr %pool, i64 <CPU>
  store i32 -1, ptr %cpu.at, align 4
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
  %count = call i64 @graphc.pool.allowed(ptr %mask, i32 0)
  ret i64 %count
}

; The processors that a thread may use, and how many these are; 0 where that cannot be told.
define internal i64 @graphc.pool.allowed(ptr %mask, i32 %thread) nounwind {
entry:
  br label %clear
clear:
  %c = phi i64 [ 0, %entry ], [ %c.next, %clear ]
  %c.at = getelementptr i64, ptr %mask, i64 %c
  store i64 0, ptr %c.at, align 8
  %c.next = add nsw i64 %c, 1
  %c.more = icmp slt i64 %c.next, 128
  br i1 %c.more, label %clear, label %ask
ask:
  %error = call i32 @sched_getaffinity(i32 %thread, i64 1024, ptr %mask)
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
