"""The function that reads plain rows of a text table, as LLVM text: cells and numbers in one sweep.

    i64 graphc.table_rows(ptr job)

`graphc/data/plain_rows.py` says what a job is, and what reads the rows that this leaves alone. Text
is written here and not through the writer of loops: the sweep is branches, and those are counted
loops. No bytes are read beyond `decimal_text.PADDING` after the text.

How it works

  cells     A line is a walk through its runs, which are neighbouring columns of one kind. After a
            cell comes, in nearly every case, one separator and the next cell; all else (more
            blanks, tabs, the end of a line) takes the longer way through `gap` and `pad`.
  digits    Eight characters are loaded as one word. The first byte that is no digit is found by
            arithmetic on all bytes at once, shifted out, and neighbouring digits are joined in
            pairs, fours and eights. So the time does not depend on how long a number is, which the
            processor could not foresee.
  values    Up to 19 digits are an integer m and a power of ten. With m up to 2**53 and a power up
            to 10**22 both are exact doubles, and one product or quotient of them is rounded once
            (Clinger, "How to read floating point numbers accurately", 1990). All others are
            computed with 128 bits of the power (`decimal_value.py`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

from graphc.backends.llvm import decimal_value, engine
from graphc.backends.llvm.target import Target
from graphc.data import plain_rows
from graphc.data.plain_rows import ReadRows

ENTRY = "graphc.table_rows"

EXACT_POWERS = 22
"""Powers of ten up to this are exact doubles."""


def table_rows_text(target: Target) -> str:
    """The module with the function."""
    more = _filled(_JOINED, {"y": "more", "word": "%<x>.x"})
    last = _filled(_JOINED, {"y": "last", "word": "%<x>.top"})
    digits = _filled(_DIGITS, {"joined.more": more, "joined.last": last})
    whole = {"loop": "whole", "x": "w", "from": "%digits", "sum": "0", "before": "several"}
    part = {"loop": "part", "x": "f", "from": "%fraction", "sum": "%whole.m", "before": "point"}
    blocks = {"digits.whole": _filled(digits, whole), "digits.part": _filled(digits, part)}
    text = _filled(_TABLES + _filled(_ROWS, blocks), {**_CONSTANTS, **_tables()})
    return f'target triple = "{target.triple}"\n{text}{decimal_value.decimal_value_text()}'


def load_table_rows(code: bytes, target: Target) -> ReadRows:
    """The function of an object made of `table_rows_text`. It lets other threads run."""
    loaded = engine.load(code, (ENTRY,), target)
    function = engine.function(loaded, ENTRY, ctypes.c_int64, ctypes.c_void_p)

    def read(job: int) -> int:
        assert loaded.keep  # the code lives as long as this function
        return function(job)

    return read


def _filled(text: str, names: Mapping[str, object]) -> str:
    for name, value in names.items():
        text = text.replace(f"<{name}>", str(value))
    return text


def _tables() -> dict[str, object]:
    return {
        "exact.count": EXACT_POWERS + 1,
        "exact": ", ".join(f"double 1.0e{k}" for k in range(EXACT_POWERS + 1)),
        "tens": ", ".join(f"i64 {10**k}" for k in range(9)),
    }


def _every(byte: int) -> int:
    return int.from_bytes(bytes([byte]) * 8, "little")


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
    "zeros": _every(ord("0")),
    "past_nine": _every(0x80 - 10),
    "high_bits": _every(0x80),
    "pairs": 0x000000FF000000FF,
    "even": 100 + (1_000_000 << 32),
    "odd": 1 + (10_000 << 32),
    "exact.integer": 2**53,
    "exact.most": EXACT_POWERS,
    "exact.span": 2 * EXACT_POWERS,
    # 2**128 - 2**103: what is not less becomes infinite when it is rounded to float32.
    "float.end": "0x47EFFFFFF0000000",
    "infinity": "0x7FF0000000000000",
    "decimal": decimal_value.NAME,
}

_TABLES = """
@exact = private unnamed_addr constant [<exact.count> x double] [<exact>], align 64
@tens = private unnamed_addr constant [9 x i64] [<tens>], align 64
declare i64 @llvm.cttz.i64(i64, i1)
"""

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

; --- a number: sign, digits, point, digits, exponent

number:
  %sign = load i8, ptr %p
  %negative = icmp eq i8 %sign, 45
  %positive = icmp eq i8 %sign, 43
  %signed = or i1 %negative, %positive
  %sign.size = zext i1 %signed to i64
  %digits = getelementptr i8, ptr %p, i64 %sign.size
  %second.at = getelementptr i8, ptr %digits, i64 1
  %second = load i8, ptr %second.at
  %second.point = icmp eq i8 %second, 46
  br i1 %second.point, label %one.digit, label %several
one.digit:
  %one.b = load i8, ptr %digits
  %one.d = sub i8 %one.b, 48
  %one.is.digit = icmp ult i8 %one.d, 10
  %one = zext i8 %one.d to i64
  br i1 %one.is.digit, label %point, label %several
several:
  br label %whole
<digits.whole>
  br label %whole.end
whole.end:
  %whole.b = load i8, ptr %w.next
  %whole.cell = icmp eq i8 %whole.b, %separator
  %whole.some = icmp ne i64 %w.n, 0
  %whole.first = icmp eq ptr %w.p, %digits
  %whole.short = and i1 %whole.some, %whole.first
  %whole.plain = and i1 %whole.cell, %whole.short
  br i1 %whole.plain, label %short, label %whole.other
short:
  %short.integer = sitofp i64 %w.value.last to double
  %short.opposite = fneg double %short.integer
  %short.value = select i1 %negative, double %short.opposite, double %short.integer
  %short.next = getelementptr i8, ptr %w.next, i64 1
  br i1 %is.float, label %short.float, label %short.double
short.float:
  %short.rounded = fptrunc double %short.value to float
  store float %short.rounded, ptr %place
  br label %step
short.double:
  store double %short.value, ptr %place
  br label %step
whole.other:
  %is.point = icmp eq i8 %whole.b, 46
  br i1 %is.point, label %point, label %mantissa
point:
  %point.at = phi ptr [ %w.next, %whole.other ], [ %second.at, %one.digit ]
  %whole.m = phi i64 [ %w.sum, %whole.other ], [ %one, %one.digit ]
  %fraction = getelementptr i8, ptr %point.at, i64 1
  br label %part
<digits.part>
  %part.b = load i8, ptr %f.next
  br label %mantissa
mantissa:
  %m = phi i64 [ %w.sum, %whole.other ], [ %f.sum, %part.last ]
  %m.end = phi ptr [ %w.next, %whole.other ], [ %f.next, %part.last ]
  %m.b = phi i8 [ %whole.b, %whole.other ], [ %part.b, %part.last ]
  %m.one = phi i64 [ 0, %whole.other ], [ 1, %part.last ]
  %m.from = phi ptr [ %w.next, %whole.other ], [ %fraction, %part.last ]
  %digits.a = ptrtoint ptr %digits to i64
  %m.end.a = ptrtoint ptr %m.end to i64
  %m.from.a = ptrtoint ptr %m.from to i64
  %m.long = sub i64 %m.end.a, %digits.a
  %m.digits = sub i64 %m.long, %m.one
  %m.after = sub i64 %m.from.a, %m.end.a
  %m.before = sub i64 %m.digits, 1
  %m.fits = icmp ult i64 %m.before, 19
  br i1 %m.fits, label %mantissa.fits, label %many.digits
many.digits:
  %m.some = icmp ne i64 %m.digits, 0
  br i1 %m.some, label %zero, label %strange
zero:
  %z.p = phi ptr [ %digits, %many.digits ], [ %z.next, %zero.more ]
  %z.b = load i8, ptr %z.p
  %z.next = getelementptr i8, ptr %z.p, i64 1
  %z.is.zero = icmp eq i8 %z.b, 48
  %z.is.point = icmp eq i8 %z.b, 46
  %z.either = or i1 %z.is.zero, %z.is.point
  %z.inside = icmp ult ptr %z.p, %m.end
  %z.goes.on = and i1 %z.either, %z.inside
  br i1 %z.goes.on, label %zero.more, label %zero.end
zero.more:
  br label %zero
zero.end:
  %z.a = ptrtoint ptr %z.p to i64
  %z.left = sub i64 %m.end.a, %z.a
  %z.before.point = icmp ugt ptr %m.from, %z.p
  %z.one = select i1 %z.before.point, i64 %m.one, i64 0
  %significant = sub i64 %z.left, %z.one
  %z.fits = icmp ule i64 %significant, 19
  br i1 %z.fits, label %mantissa.fits, label %strange
mantissa.fits:
  %m.lower = or i8 %m.b, 32
  %has.exponent = icmp eq i8 %m.lower, 101
  br i1 %has.exponent, label %exponent, label %decimal
exponent:
  %e.at = getelementptr i8, ptr %m.end, i64 1
  %e.sign = load i8, ptr %e.at
  %e.negative = icmp eq i8 %e.sign, 45
  %e.positive = icmp eq i8 %e.sign, 43
  %e.signed = or i1 %e.negative, %e.positive
  %e.sign.size = zext i1 %e.signed to i64
  %e.digits = getelementptr i8, ptr %e.at, i64 %e.sign.size
  br label %exponent.digit
exponent.digit:
  %e.p = phi ptr [ %e.digits, %exponent ], [ %e.next, %exponent.more ]
  %e.n = phi i64 [ 0, %exponent ], [ %e.sum, %exponent.more ]
  %e.b = load i8, ptr %e.p
  %e.d = sub i8 %e.b, 48
  %e.is.digit = icmp ult i8 %e.d, 10
  br i1 %e.is.digit, label %exponent.more, label %exponent.end
exponent.more:
  %e.times = mul i64 %e.n, 10
  %e.wide = zext i8 %e.d to i64
  %e.sum = add i64 %e.times, %e.wide
  %e.next = getelementptr i8, ptr %e.p, i64 1
  %e.small = icmp ult i64 %e.sum, 10000
  br i1 %e.small, label %exponent.digit, label %strange
exponent.end:
  %e.some = icmp ne ptr %e.p, %e.digits
  %e.less = sub i64 0, %e.n
  %e.value = select i1 %e.negative, i64 %e.less, i64 %e.n
  br i1 %e.some, label %decimal, label %strange

; --- its value, if a cell ends here

decimal:
  %d.end = phi ptr [ %m.end, %mantissa.fits ], [ %e.p, %exponent.end ]
  %d.b = phi i8 [ %m.b, %mantissa.fits ], [ %e.b, %exponent.end ]
  %d.e = phi i64 [ 0, %mantissa.fits ], [ %e.value, %exponent.end ]
  %power = add i64 %d.e, %m.after
  %d.separated = icmp eq i8 %d.b, %separator
  %d.low = icmp ule i8 %d.b, 32
  %d.ends = or i1 %d.separated, %d.low
  br i1 %d.ends, label %value, label %strange
value:
  %m.exact = icmp ule i64 %m, <exact.integer>
  %p.above = add i64 %power, <exact.most>
  %p.exact = icmp ule i64 %p.above, <exact.span>
  %is.exact = and i1 %m.exact, %p.exact
  br i1 %is.exact, label %exact, label %inexact
exact:
  %integer = sitofp i64 %m to double
  %is.integer = icmp eq i64 %power, 0
  br i1 %is.integer, label %store, label %scaled
scaled:
  %divides = icmp slt i64 %power, 0
  br i1 %divides, label %quotient, label %product
quotient:
  %divisor.power = sub i64 0, %power
  %divisor.at = getelementptr double, ptr @exact, i64 %divisor.power
  %divisor = load double, ptr %divisor.at
  %divided = fdiv double %integer, %divisor
  br label %store
product:
  %factor.at = getelementptr double, ptr @exact, i64 %power
  %factor = load double, ptr %factor.at
  %multiplied = fmul double %integer, %factor
  br label %store
inexact:
  %computed = call double @<decimal>(i64 %m, i64 %power)
  %limit = select i1 %is.float, double <float.end>, double <infinity>
  %is.within = fcmp olt double %computed, %limit
  br i1 %is.within, label %store, label %strange
store:
  %size.of = phi double [ %integer, %exact ], [ %divided, %quotient ],
                        [ %multiplied, %product ], [ %computed, %inexact ]
  %opposite = fneg double %size.of
  %found = select i1 %negative, double %opposite, double %size.of
  br i1 %is.float, label %store.float, label %store.double
store.float:
  %rounded = fptrunc double %found to float
  store float %rounded, ptr %place
  br label %after
store.double:
  store double %found, ptr %place
  br label %after

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

_DIGITS = """<loop>:
  %<x>.p = phi ptr [ <from>, %<before> ], [ %<x>.p.more, %<loop>.more ]
  %<x>.m = phi i64 [ <sum>, %<before> ], [ %<x>.sum.more, %<loop>.more ]
  %<x>.word = load i64, ptr %<x>.p, align 1
  %<x>.x = xor i64 %<x>.word, <zeros>
  %<x>.above = add i64 %<x>.x, <past_nine>
  %<x>.either = or i64 %<x>.above, %<x>.x
  %<x>.flags = and i64 %<x>.either, <high_bits>
  %<x>.full = icmp eq i64 %<x>.flags, 0
  br i1 %<x>.full, label %<loop>.more, label %<loop>.last
<loop>.more:
<joined.more>
  %<x>.raised.more = mul i64 %<x>.m, 100000000
  %<x>.sum.more = add i64 %<x>.raised.more, %<x>.value.more
  %<x>.p.more = getelementptr i8, ptr %<x>.p, i64 8
  br label %<loop>
<loop>.last:
  %<x>.place = call i64 @llvm.cttz.i64(i64 %<x>.flags, i1 true)
  %<x>.bits = and i64 %<x>.place, 56
  %<x>.n = lshr i64 %<x>.bits, 3
  %<x>.unused = sub i64 56, %<x>.bits
  %<x>.up = shl i64 %<x>.x, 8
  %<x>.top = shl i64 %<x>.up, %<x>.unused
<joined.last>
  %<x>.ten = getelementptr i64, ptr @tens, i64 %<x>.n
  %<x>.scale = load i64, ptr %<x>.ten
  %<x>.raised = mul i64 %<x>.m, %<x>.scale
  %<x>.sum = add i64 %<x>.raised, %<x>.value.last
  %<x>.next = getelementptr i8, ptr %<x>.p, i64 %<x>.n
"""
"""The digits from `<from>` on joined to those in `<sum>`, eight at a time while there are so many:
where the next eight stand is then known before these have been looked at."""

_JOINED = """  %<x>.times.<y> = mul i64 <word>, 10
  %<x>.beside.<y> = lshr i64 <word>, 8
  %<x>.two.<y> = add i64 %<x>.times.<y>, %<x>.beside.<y>
  %<x>.lower.<y> = and i64 %<x>.two.<y>, <pairs>
  %<x>.shifted.<y> = lshr i64 %<x>.two.<y>, 16
  %<x>.upper.<y> = and i64 %<x>.shifted.<y>, <pairs>
  %<x>.a.<y> = mul i64 %<x>.lower.<y>, <even>
  %<x>.b.<y> = mul i64 %<x>.upper.<y>, <odd>
  %<x>.eight.<y> = add i64 %<x>.a.<y>, %<x>.b.<y>
  %<x>.value.<y> = lshr i64 %<x>.eight.<y>, 32"""
"""Eight digits, one a byte, as a number."""
