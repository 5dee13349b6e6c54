"""A cell that is a number, as LLVM text: blocks of the function that reads rows, from `%number` on.

They read from `%p` on, store at `%place`, as float if `%is.float`, and lead to `%after` or `%step`;
to `%strange` with what is no plain number.

  digits    Eight characters are loaded as one word. The first byte that is no digit is found by
            arithmetic on all bytes at once, shifted out, and neighbouring digits are joined in
            pairs, fours and eights. So the time does not depend on how long a number is, which the
            processor could not foresee.
  values    Up to 19 digits, zeros before them not counted, are an integer m and a power of ten.
            With m up to 2**53 and a power up to 10**22 both are exact doubles, and one product or
            quotient of them is rounded once (Clinger, "How to read floating point numbers
            accurately", 1990). All others are computed with 128 bits of the power
            (`decimal_value.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from graphc.backends.llvm import decimal_value

EXACT_POWERS = 22
"""Powers of ten up to this are exact doubles."""


def number_tables() -> str:
    """What the blocks need in their module, besides the function of `decimal_value.py`."""
    tables = {
        "exact.count": EXACT_POWERS + 1,
        "exact": ", ".join(f"double 1.0e{k}" for k in range(EXACT_POWERS + 1)),
        "tens": ", ".join(f"i64 {10**k}" for k in range(9)),
    }
    return filled(_TABLES, tables)


def filled(text: str, names: Mapping[str, object]) -> str:
    """The text with what stands for each `<name>`."""
    for name, value in names.items():
        text = text.replace(f"<{name}>", str(value))
    return text


def number_blocks() -> str:
    """The blocks."""
    more = filled(_JOINED, {"y": "more", "word": "%<x>.x"})
    last = filled(_JOINED, {"y": "last", "word": "%<x>.top"})
    digits = filled(_DIGITS, {"joined.more": more, "joined.last": last})
    whole = {"loop": "whole", "x": "w", "from": "%digits", "sum": "0", "before": "several"}
    part = {"loop": "part", "x": "f", "from": "%fraction", "sum": "%whole.m", "before": "point"}
    blocks = {"digits.whole": filled(digits, whole), "digits.part": filled(digits, part)}
    return filled(_NUMBER, {**blocks, **_CONSTANTS})


def _every(byte: int) -> int:
    return int.from_bytes(bytes([byte]) * 8, "little")


_CONSTANTS: dict[str, object] = {
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

_NUMBER = """; --- a number: sign, digits, point, digits, exponent

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
