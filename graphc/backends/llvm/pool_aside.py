"""The part of a pool's text that keeps its threads away from the caller's processor.

Linux wakes a thread where it ran last, or where the caller runs: with two processors it does not
look for an idle one, and in a virtual machine it takes it for a busy one. A worker that is woken on
the caller's processor has to wait for the caller, which waits for nobody. So workers keep to the
other processors, as long as the machine does not have more to do than it has processors: where
others compute, the system knows better. The caller says so before it wakes them: it alone knows
where it runs, which after a pause is often another processor than before. Offsets and numbers stand
here as `<NAME>` and are in `thread_pool.py`.
"""

from __future__ import annotations

ASIDE = """
; --- which processors a worker uses

@graphc.pool.loadavg = internal constant [14 x i8] c"/proc/loadavg\\00"

; How many threads run or wait for a processor, on the whole machine; very many where that is not
; told. The text is `0.50 1.22 1.47 2/150 3284`: the number before the slash.
define internal i64 @graphc.pool.running() nounwind {
entry:
  %text = alloca [64 x i8], align 16
  %file = call i32 (ptr, i32, ...) @open(ptr @graphc.pool.loadavg, i32 524288)
  %is.open = icmp sge i32 %file, 0
  br i1 %is.open, label %fetch, label %unknown
fetch:
  %length = call i64 @read(i32 %file, ptr %text, i64 64)
  %closed = call i32 @close(i32 %file)
  br label %letter
letter:
  %i = phi i64 [ 0, %fetch ], [ %i.next, %next ]
  %number = phi i64 [ 0, %fetch ], [ %number.next, %next ]
  %more = icmp slt i64 %i, %length
  br i1 %more, label %look, label %unknown
look:
  %at = getelementptr i8, ptr %text, i64 %i
  %byte = load i8, ptr %at, align 1
  %is.slash = icmp eq i8 %byte, 47
  br i1 %is.slash, label %told, label %next
next:
  ; Whatever is no digit begins a new number.
  %value = sub i8 %byte, 48
  %is.digit = icmp ult i8 %value, 10
  %wide = zext i8 %value to i64
  %tenfold = mul i64 %number, 10
  %longer = add i64 %tenfold, %wide
  %number.next = select i1 %is.digit, i64 %longer, i64 0
  %i.next = add i64 %i, 1
  br label %letter
told:
  ret i64 %number
unknown:
  ret i64 <much>
}

; From now on workers run on any processor of the process but this one, the caller's; on all of them
; where the machine has much to do. `sleepers` are about to be woken. Looked at when the caller has
; moved, at most once a millisecond, and now and then.
define internal void @graphc.pool.keep_clear(ptr %pool, i32 %cpu, i32 %sleepers) nounwind {
entry:
  %mask = alloca [128 x i64], align 16
  %avoided.at = getelementptr i8, ptr %pool, i64 <AVOIDED>
  %looked.at = getelementptr i8, ptr %pool, i64 <LOOKED>
  %avoided = load i32, ptr %avoided.at, align 4
  %this = add i32 %cpu, 1
  %is.same = icmp eq i32 %avoided, %this
  %now = call i64 @graphc.pool.clock()
  %looked = load i64, ptr %looked.at, align 8
  %since = sub i64 %now, %looked
  %pause = select i1 %is.same, i64 <look.around>, i64 <step.aside>
  %is.due = icmp sgt i64 %since, %pause
  br i1 %is.due, label %look, label %done
look:
  store i64 %now, ptr %looked.at, align 8
  %process = call i32 @getpid()
  %cores = call i64 @graphc.pool.allowed(ptr %mask, i32 %process)
  %running = call i64 @graphc.pool.running()
  %woken = zext i32 %sleepers to i64
  %much = add i64 %running, %woken
  %has.room = icmp sle i64 %much, %cores
  %is.within = icmp ult i32 %cpu, 8192
  %goes = and i1 %has.room, %is.within
  br i1 %goes, label %clear, label %stay
clear:
  %number = zext i32 %cpu to i64
  %word = lshr i64 %number, 6
  %at = getelementptr i64, ptr %mask, i64 %word
  %all = load i64, ptr %at, align 8
  %bit = and i64 %number, 63
  %flag = shl i64 1, %bit
  %rest = xor i64 %flag, -1
  %others = and i64 %all, %rest
  store i64 %others, ptr %at, align 8
  br label %move
stay:
  %is.anywhere = icmp eq i32 %avoided, 0
  br i1 %is.anywhere, label %done, label %move
move:
  %avoids = phi i32 [ %this, %clear ], [ 0, %stay ]
  store i32 %avoids, ptr %avoided.at, align 4
  %threads.at = getelementptr i8, ptr %pool, i64 <THREADS>
  %threads = load i32, ptr %threads.at, align 4
  %count = sext i32 %threads to i64
  br label %next
next:
  %i = phi i64 [ 1, %move ], [ %i.next, %set ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %set, label %done
set:
  %place = mul nsw i64 %i, <slot>
  %offset = add nsw i64 %place, <slots>
  %slot = getelementptr i8, ptr %pool, i64 %offset
  %handle.at = getelementptr i8, ptr %slot, i64 <HANDLE>
  %handle = load i64, ptr %handle.at, align 8
  ; Refused where no processor is left.
  %refused = call i32 @pthread_setaffinity_np(i64 %handle, i64 1024, ptr %mask)
  %i.next = add nsw i64 %i, 1
  br label %next
done:
  ret void
}
"""
