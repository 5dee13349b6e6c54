"""The part of a pool's text that decides whether a job is shared: is it worth waking threads for,
and are these in the way of the caller.

It decides how many threads compute, never what they compute. Offsets and numbers stand here as
`<NAME>` and are in `thread_pool.py`, which says how a pool works.
"""

from __future__ import annotations

SHARING = """
; --- whether a job is shared

define internal i1 @graphc.pool.pays(ptr %pool, ptr %task, i64 %now) nounwind {
entry:
  %crowded.at = getelementptr i8, ptr %pool, i64 <CROWDED>
  %crowded = load atomic i32, ptr %crowded.at monotonic, align 4
  %threads.at = getelementptr i8, ptr %pool, i64 <THREADS>
  %threads = load i32, ptr %threads.at, align 4
  %others = sub i32 %threads, 1
  %is.any = icmp sgt i32 %others, 0
  %are.crowded = icmp sge i32 %crowded, %others
  %none.left = and i1 %is.any, %are.crowded
  br i1 %none.left, label %give.way, label %look
give.way:
  store atomic i32 0, ptr %crowded.at monotonic, align 4
  call void @graphc.pool.give_way(ptr %pool, i64 %now, i64 <crowded.loss>)
  br label %look
look:
  %ended.at = getelementptr i8, ptr %pool, i64 <ENDED>
  %ended = load i64, ptr %ended.at, align 8
  %burst.at = getelementptr i8, ptr %pool, i64 <BURST>
  %first.at = getelementptr i8, ptr %pool, i64 <FIRST>
  %first = load ptr, ptr %first.at, align 8
  %gap = sub i64 %now, %ended
  %late.at = getelementptr i8, ptr %pool, i64 <LATE>
  %is.new = icmp sgt i64 %gap, <awake.ns>
  br i1 %is.new, label %keep, label %ask
keep:
  %is.late = icmp sgt i64 %gap, <long.pause>
  %late = zext i1 %is.late to i32
  store i32 %late, ptr %late.at, align 4
  %has.first = icmp ne ptr %first, null
  br i1 %has.first, label %remember, label %begin
remember:
  ; Two threads may take less than half of the time of one, as each keeps its part in a cache of its
  ; own: so what a burst was worth fades, and is not forgotten because it was shared. One that took
  ; less than a quarter is another burst: calls in a loop before, single ones now.
  %burst.before = load i64, ptr %burst.at, align 8
  %known.at = getelementptr i8, ptr %first, i64 8
  %known = load i64, ptr %known.at, align 8
  %quarter = ashr i64 %known, 2
  %is.other = icmp slt i64 %burst.before, %quarter
  %speed = select i1 %is.other, i64 1, i64 6
  %faded.by = ashr i64 %known, %speed
  %faded = sub i64 %known, %faded.by
  %is.less = icmp slt i64 %burst.before, %faded
  %was.known = icmp slt i64 %known, <much>
  %fades = and i1 %is.less, %was.known
  %worth = select i1 %fades, i64 %faded, i64 %burst.before
  store i64 %worth, ptr %known.at, align 8
  br label %begin
begin:
  store i64 0, ptr %burst.at, align 8
  %number = ptrtoint ptr %task to i64
  %line = lshr i64 %number, 4
  %row = and i64 %line, <last.row>
  %row.offset = shl i64 %row, 4
  %place = add i64 %row.offset, <table>
  %entry.at = getelementptr i8, ptr %pool, i64 %place
  store ptr %entry.at, ptr %first.at, align 8
  %known.task = load ptr, ptr %entry.at, align 8
  %is.known = icmp eq ptr %known.task, %task
  br i1 %is.known, label %ask, label %meet
meet:
  ; Nothing is known of it: as if it paid.
  store ptr %task, ptr %entry.at, align 8
  %unknown.at = getelementptr i8, ptr %entry.at, i64 8
  store i64 <much>, ptr %unknown.at, align 8
  br label %ask
ask:
  %until.at = getelementptr i8, ptr %pool, i64 <UNTIL>
  %until = load i64, ptr %until.at, align 8
  %is.over = icmp sge i64 %now, %until
  br i1 %is.over, label %count, label %no
count:
  %sleepers.at = getelementptr i8, ptr %pool, i64 <SLEEPERS>
  %sleepers = load atomic i32, ptr %sleepers.at monotonic, align 4
  %some.sleep = icmp sge i32 %sleepers, %others
  br i1 %some.sleep, label %weigh, label %yes
weigh:
  %was.late = load i32, ptr %late.at, align 4
  %comes.late = icmp ne i32 %was.late, 0
  %offset = select i1 %comes.late, i64 <LONG_GRAIN>, i64 <GRAIN>
  %grain.at = getelementptr i8, ptr %pool, i64 %offset
  %grain = load i64, ptr %grain.at, align 8
  %burst = load i64, ptr %burst.at, align 8
  %row.now = load ptr, ptr %first.at, align 8
  %ns.at = getelementptr i8, ptr %row.now, i64 8
  %ns = load i64, ptr %ns.at, align 8
  %is.long = icmp sge i64 %ns, %grain
  %goes.on = icmp sge i64 %burst, %grain
  %pays = or i1 %is.long, %goes.on
  ret i1 %pays
yes:
  ret i1 true
no:
  ret i1 false
}

; What a job is worth, by one thread: `all` chunks, of which this one computed `own` so long.
define internal void @graphc.pool.note(ptr %pool, i64 %t, i64 %end, i64 %all, i64 %own) nounwind {
entry:
  %scaled = mul i64 %t, %all
  %some = icmp sgt i64 %own, 0
  %divisor = select i1 %some, i64 %own, i64 1
  %ns = sdiv i64 %scaled, %divisor
  %burst.at = getelementptr i8, ptr %pool, i64 <BURST>
  %burst = load i64, ptr %burst.at, align 8
  %sum = add i64 %burst, %ns
  store i64 %sum, ptr %burst.at, align 8
  %ended.at = getelementptr i8, ptr %pool, i64 <ENDED>
  store i64 %end, ptr %ended.at, align 8
  ret void
}

; From now on jobs are computed alone for a while: for four times what sharing has lost, and for
; longer if that was so just before.
define internal void @graphc.pool.give_way(ptr %pool, i64 %now, i64 %lost) nounwind {
entry:
  %worth = shl i64 %lost, 2
  %is.short = icmp slt i64 %worth, <least.pause>
  %at.least = select i1 %is.short, i64 <least.pause>, i64 %worth
  %until.at = getelementptr i8, ptr %pool, i64 <UNTIL>
  %until = load i64, ptr %until.at, align 8
  %pause.at = getelementptr i8, ptr %pool, i64 <REST>
  %pause = load i64, ptr %pause.at, align 8
  %since = sub i64 %now, %until
  %fourfold = shl i64 %pause, 2
  %soon = icmp slt i64 %since, %fourfold
  %twice = shl i64 %pause, 1
  %grows = icmp sgt i64 %twice, %at.least
  %again = and i1 %soon, %grows
  %wanted = select i1 %again, i64 %twice, i64 %at.least
  %much = icmp sgt i64 %wanted, <most.pause>
  %next = select i1 %much, i64 <most.pause>, i64 %wanted
  store i64 %next, ptr %pause.at, align 8
  %then = add i64 %now, %next
  store i64 %then, ptr %until.at, align 8
  ret void
}

define internal i64 @graphc.pool.clock() nounwind {
entry:
  %at = alloca [2 x i64], align 16
  %error = call i32 @clock_gettime(i32 1, ptr %at)
  %s = load i64, ptr %at, align 8
  %ns.at = getelementptr i8, ptr %at, i64 8
  %ns = load i64, ptr %ns.at, align 8
  %whole = mul i64 %s, 1000000000
  %now = add i64 %whole, %ns
  ret i64 %now
}
"""
