"""The function that reads plain rows of a text table, as LLVM text: cells and numbers in one sweep.

    i64 graphc.table_rows(ptr job)

`graphc/data/plain_rows.py` says what a job is, and what reads the rows that this leaves alone. Text
is written here and not through the writer of loops: the sweep is branches, and those are counted
loops. No bytes are read beyond `decimal_text.PADDING` after the text.

A line is a walk through its runs, which are neighbouring columns of one kind. After a cell comes,
in nearly every case, one separator and the next cell; all else (more blanks, tabs, the end of a
line) takes the longer way through `gap` and `pad`. What a number is, `number_cell.py` says.
"""

from __future__ import annotations

import ctypes

from graphc.backends.llvm import engine
from graphc.backends.llvm.decimal_value import decimal_value_text
from graphc.backends.llvm.number_cell import filled, number_blocks, number_tables
from graphc.backends.llvm.target import Target
from graphc.data import plain_rows
from graphc.data.plain_rows import ReadRows

ENTRY = "graphc.table_rows"


def table_rows_text(target: Target) -> str:
    """The module with the function."""
    text = filled(_ROWS, {"number": number_blocks(), **_CONSTANTS})
    return f'target triple = "{target.triple}"\n{number_tables()}{text}{decimal_value_text()}'


def load_table_rows(code: bytes, target: Target) -> ReadRows:
    """The function of an object made of `table_rows_text`. It lets other threads run."""
    loaded = engine.load(code, (ENTRY,), target)
    function = engine.function(loaded, ENTRY, ctypes.c_int64, ctypes.c_void_p)

    def read(job: int) -> int:
        assert loaded.keep  # the code lives as long as this function
        return function(job)

    return read


_CONSTANTS: dict[str, object] = {
    "entry": ENTRY,
    "SKIPPED": plain_rows.SKIPPED,
    "FLOATS": plain_rows.FLOATS,
    "LABELS": plain_rows.LABELS,
    "CLASSES": plain_rows.CLASSES,
    "hash": plain_rows.HASH,
    "TEXT": 8 * plain_rows.TEXT,
    "SIZE": 8 * plain_rows.SIZE,
    "SEPARATOR": 8 * plain_rows.SEPARATOR,
    "RUNS": 8 * plain_rows.RUNS,
    "RUN_COUNT": 8 * plain_rows.RUN_COUNT,
    "ROOM": 8 * plain_rows.ROOM,
    "ODD": 8 * plain_rows.ODD,
    "ODD_ROOM": 8 * plain_rows.ODD_ROOM,
    "ROWS": 8 * plain_rows.ROWS,
    "ODD_COUNT": 8 * plain_rows.ODD_COUNT,
    "run": 8 * plain_rows.RUN_WORDS,
}

_ROWS = """
define i64 @<entry>(ptr %job) nounwind {
entry:
  %text.at = getelementptr i8, ptr %job, i64 <TEXT>
  %text = load ptr, ptr %text.at
  %size.at = getelementptr i8, ptr %job, i64 <SIZE>
  %size = load i64, ptr %size.at
  %separator.at = getelementptr i8, ptr %job, i64 <SEPARATOR>
  %separator = load i8, ptr %separator.at
  %runs.at = getelementptr i8, ptr %job, i64 <RUNS>
  %runs = load ptr, ptr %runs.at
  %run.count.at = getelementptr i8, ptr %job, i64 <RUN_COUNT>
  %run.count = load i64, ptr %run.count.at
  %runs.size = mul i64 %run.count, <run>
  %runs.end = getelementptr i8, ptr %runs, i64 %runs.size
  %room.at = getelementptr i8, ptr %job, i64 <ROOM>
  %room = load i64, ptr %room.at
  %odd.at = getelementptr i8, ptr %job, i64 <ODD>
  %odd.list = load ptr, ptr %odd.at
  %odd.room.at = getelementptr i8, ptr %job, i64 <ODD_ROOM>
  %odd.room = load i64, ptr %odd.room.at
  %rows.at = getelementptr i8, ptr %job, i64 <ROWS>
  %odd.count.at = getelementptr i8, ptr %job, i64 <ODD_COUNT>
  store i64 0, ptr %odd.count.at
  %end = getelementptr i8, ptr %text, i64 %size
  %blanks = icmp eq i8 %separator, 32
  br label %line

; --- a line begins

line:
  %line.p = phi ptr [ %text, %entry ], [ %line.end.p, %row.end ], [ %indent.next, %empty ]
  %row = phi i64 [ 0, %entry ], [ %row.count, %row.end ], [ %row, %empty ]
  %is.end = icmp uge ptr %line.p, %end
  br i1 %is.end, label %finish, label %indent
indent:
  %indent.p = phi ptr [ %line.p, %line ], [ %indent.next, %indent.blank ]
  %indent.b = load i8, ptr %indent.p
  %indent.next = getelementptr i8, ptr %indent.p, i64 1
  %indent.solid = icmp ugt i8 %indent.b, 32
  br i1 %indent.solid, label %first, label %indent.low
indent.low:
  switch i8 %indent.b, label %refuse [
    i8 32, label %indent.blank
    i8 9, label %indent.blank
    i8 13, label %indent.blank
    i8 10, label %empty
  ]
indent.blank:
  br label %indent
empty:
  br label %line
first:
  %is.full = icmp uge i64 %row, %room
  br i1 %is.full, label %refuse, label %run

; --- a run begins; its place in the next row is noted

run:
  %run.at = phi ptr [ %runs, %first ], [ %following, %other.run ]
  %run.p = phi ptr [ %indent.p, %first ], [ %next.p, %other.run ]
  %kind = load i64, ptr %run.at
  %count.at = getelementptr i8, ptr %run.at, i64 8
  %count = load i64, ptr %count.at
  %to.at = getelementptr i8, ptr %run.at, i64 16
  %to = load ptr, ptr %to.at
  %stride.at = getelementptr i8, ptr %run.at, i64 24
  %stride = load i64, ptr %stride.at
  %bytes.at = getelementptr i8, ptr %run.at, i64 32
  %bytes = load i64, ptr %bytes.at
  %below = getelementptr i8, ptr %to, i64 %stride
  store ptr %below, ptr %to.at
  %is.float = icmp eq i64 %kind, <FLOATS>
  br label %cell
cell:
  %p = phi ptr [ %run.p, %run ], [ %next.p, %same.run ]
  %left = phi i64 [ %count, %run ], [ %left.next, %same.run ]
  %place = phi ptr [ %to, %run ], [ %place.next, %same.run ]
  %is.text = icmp ule i64 %kind, <CLASSES>
  br i1 %is.text, label %scan, label %number

<number>
; --- a cell that is no plain number, or of which only the place matters

strange:
  br label %scan
scan:
  %scan.number = phi i1 [ false, %cell ], [ true, %strange ]
  br label %scan.byte
scan.byte:
  %s.p = phi ptr [ %p, %scan ], [ %s.next, %scan.solid ], [ %s.next, %scan.blank ]
  %s.end = phi ptr [ %p, %scan ], [ %s.next, %scan.solid ], [ %s.end, %scan.blank ]
  %s.b = load i8, ptr %s.p
  %s.next = getelementptr i8, ptr %s.p, i64 1
  %s.separates = icmp eq i8 %s.b, %separator
  br i1 %s.separates, label %scan.end, label %scan.other
scan.other:
  %s.solid = icmp ugt i8 %s.b, 32
  br i1 %s.solid, label %scan.quote, label %scan.low
scan.quote:
  %s.is.quote = icmp eq i8 %s.b, 34
  %s.unread = xor i1 %blanks, true
  %s.quoted = and i1 %s.is.quote, %s.unread
  br i1 %s.quoted, label %refuse, label %scan.solid
scan.solid:
  br label %scan.byte
scan.low:
  br i1 %blanks, label %scan.end, label %scan.between
scan.between:
  switch i8 %s.b, label %refuse [
    i8 32, label %scan.blank
    i8 9, label %scan.blank
    i8 13, label %scan.blank
    i8 10, label %scan.end
  ]
scan.blank:
  br label %scan.byte
scan.end:
  %text.a = ptrtoint ptr %text to i64
  %p.a = ptrtoint ptr %p to i64
  %s.end.a = ptrtoint ptr %s.end to i64
  %cell.start = sub i64 %p.a, %text.a
  %cell.end = sub i64 %s.end.a, %text.a
  br i1 %scan.number, label %note.odd, label %note
note:
  switch i64 %kind, label %after [
    i64 <LABELS>, label %note.label
    i64 <CLASSES>, label %note.class
  ]
note.label:
  store i64 %cell.start, ptr %place
  %place.end = getelementptr i8, ptr %place, i64 8
  store i64 %cell.end, ptr %place.end
  br label %after
note.class:
  %label.size = sub i64 %cell.end, %cell.start
  %label.before = sub i64 %label.size, 1
  %label.short = icmp ult i64 %label.before, 8
  br i1 %label.short, label %class.word, label %refuse
class.word:
  %label.bits = mul i64 %label.size, 8
  %label.unused = sub i64 64, %label.bits
  %label.mask = lshr i64 -1, %label.unused
  %label.bytes = load i64, ptr %p, align 1
  %label = and i64 %label.bytes, %label.mask
  %slots.at = getelementptr i8, ptr %run.at, i64 40
  %slots = load ptr, ptr %slots.at
  %slots.shift.at = getelementptr i8, ptr %run.at, i64 48
  %slots.shift = load i64, ptr %slots.shift.at
  %slots.mask = lshr i64 -1, %slots.shift
  %hash = mul i64 %label, <hash>
  %slot.first = lshr i64 %hash, %slots.shift
  br label %slot
slot:
  %slot.i = phi i64 [ %slot.first, %class.word ], [ %slot.next, %slot.other ]
  %slot.at = getelementptr [2 x i64], ptr %slots, i64 %slot.i
  %slot.class.at = getelementptr i8, ptr %slot.at, i64 8
  %slot.label = load i64, ptr %slot.at
  %slot.class = load i64, ptr %slot.class.at
  %slot.empty = icmp slt i64 %slot.class, 0
  br i1 %slot.empty, label %refuse, label %slot.full
slot.full:
  %slot.is.it = icmp eq i64 %slot.label, %label
  br i1 %slot.is.it, label %class, label %slot.other
slot.other:
  %slot.above = add i64 %slot.i, 1
  %slot.next = and i64 %slot.above, %slots.mask
  br label %slot
class:
  %class.offset = mul i64 %slot.class, %bytes
  %class.place = getelementptr i8, ptr %place, i64 %class.offset
  %class.wide = icmp eq i64 %bytes, 8
  br i1 %class.wide, label %class.double, label %class.float
class.double:
  store double 1.0, ptr %class.place
  br label %after
class.float:
  store float 1.0, ptr %class.place
  br label %after
note.odd:
  %odd.count = load i64, ptr %odd.count.at
  %odd.full = icmp uge i64 %odd.count, %odd.room
  br i1 %odd.full, label %refuse, label %note.there
note.there:
  %odd.place = getelementptr [4 x i64], ptr %odd.list, i64 %odd.count
  %run.at.a = ptrtoint ptr %run.at to i64
  %runs.a = ptrtoint ptr %runs to i64
  %run.offset = sub i64 %run.at.a, %runs.a
  %run.number = udiv i64 %run.offset, <run>
  store i64 %run.number, ptr %odd.place
  %odd.to.at = getelementptr i8, ptr %odd.place, i64 8
  store ptr %place, ptr %odd.to.at
  %odd.start.at = getelementptr i8, ptr %odd.place, i64 16
  store i64 %cell.start, ptr %odd.start.at
  %odd.end.at = getelementptr i8, ptr %odd.place, i64 24
  store i64 %cell.end, ptr %odd.end.at
  %odd.more = add i64 %odd.count, 1
  store i64 %odd.more, ptr %odd.count.at
  br label %after

; --- from the end of a cell to the next one

after:
  %after.p = phi ptr [ %d.end, %store.float ], [ %d.end, %store.double ],
                      [ %s.p, %note ], [ %s.p, %note.label ], [ %s.p, %note.there ],
                      [ %s.p, %class.double ], [ %s.p, %class.float ]
  %after.b = load i8, ptr %after.p
  %after.next = getelementptr i8, ptr %after.p, i64 1
  %is.separated = icmp eq i8 %after.b, %separator
  br i1 %is.separated, label %step, label %gap
step:
  %step.p = phi ptr [ %after.next, %after ], [ %gap.next, %gap.other ],
                    [ %short.next, %short.float ], [ %short.next, %short.double ]
  %step.b = load i8, ptr %step.p
  %step.solid = icmp ugt i8 %step.b, 32
  br i1 %step.solid, label %next, label %pad
pad:
  %pad.p = phi ptr [ %step.p, %step ], [ %pad.next, %pad.blank ]
  %pad.b = load i8, ptr %pad.p
  %pad.next = getelementptr i8, ptr %pad.p, i64 1
  %pad.solid = icmp ugt i8 %pad.b, 32
  br i1 %pad.solid, label %next, label %pad.low
pad.low:
  switch i8 %pad.b, label %refuse [
    i8 32, label %pad.blank
    i8 9, label %pad.blank
    i8 13, label %pad.blank
    i8 10, label %pad.line
  ]
pad.blank:
  br label %pad
pad.line:
  br i1 %blanks, label %line.end, label %next
gap:
  %gap.p = phi ptr [ %after.p, %after ], [ %gap.next, %gap.blank ]
  %gap.b = load i8, ptr %gap.p
  %gap.next = getelementptr i8, ptr %gap.p, i64 1
  %gap.solid = icmp ugt i8 %gap.b, 32
  br i1 %gap.solid, label %gap.other, label %gap.low
gap.low:
  switch i8 %gap.b, label %refuse [
    i8 32, label %gap.blank
    i8 9, label %gap.blank
    i8 13, label %gap.blank
    i8 10, label %line.end
  ]
gap.blank:
  br label %gap
gap.other:
  %gap.separates = icmp eq i8 %gap.b, %separator
  br i1 %gap.separates, label %step, label %gap.cell
gap.cell:
  br i1 %blanks, label %next, label %refuse
next:
  %next.p = phi ptr [ %step.p, %step ], [ %pad.p, %pad ], [ %pad.p, %pad.line ],
                     [ %gap.p, %gap.cell ]
  %left.next = sub i64 %left, 1
  %is.last = icmp eq i64 %left.next, 0
  br i1 %is.last, label %other.run, label %same.run
same.run:
  %place.next = getelementptr i8, ptr %place, i64 %bytes
  br label %cell
other.run:
  %following = getelementptr i8, ptr %run.at, i64 <run>
  %too.many = icmp uge ptr %following, %runs.end
  br i1 %too.many, label %refuse, label %run
line.end:
  %line.end.p = phi ptr [ %pad.next, %pad.line ], [ %gap.next, %gap.low ]
  %after.run = getelementptr i8, ptr %run.at, i64 <run>
  %last.run = icmp eq ptr %after.run, %runs.end
  %last.cell = icmp eq i64 %left, 1
  %complete = and i1 %last.run, %last.cell
  br i1 %complete, label %row.end, label %refuse
row.end:
  %row.count = add i64 %row, 1
  br label %line

finish:
  store i64 %row, ptr %rows.at
  ret i64 0
refuse:
  ret i64 1
}
"""
