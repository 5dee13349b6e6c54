"""The double nearest to m * 10**power, as LLVM text.

    double graphc.decimal(i64 m, i64 power)

m is unsigned. The result is correctly rounded, or infinity for what this does not decide.

The product of m and 128 bits of 5**power, both shifted to the left as far as they go, has the 53
bits of the result in front, unless it lies so near the middle between two doubles that the bits
left out might matter: then, for subnormal values and for those beyond the largest double, the
answer is left to others. From 5**-27 to 5**55 nothing is left out that could matter. The algorithm
is Eisel's and Lemire's (Lemire, "Number parsing at a gigabyte per second", Software: Practice and
Experience, 2021).
"""

from __future__ import annotations

NAME = "graphc.decimal"

LEAST_POWER, MOST_POWER = -342, 308
"""Of ten. Below the first every 64-bit mantissa is less than the least double, beyond the second
more than the largest."""


def decimal_value_text() -> str:
    """The function, seen in its module only, and its table."""
    pairs = [half for pair in powers_of_five() for half in pair]
    names = {
        "name": NAME,
        "fives.count": len(pairs),
        "fives": ", ".join(f"i64 {half}" for half in pairs),
        "least": LEAST_POWER,
        "span": MOST_POWER - LEAST_POWER,
        "infinity": "0x7FF0000000000000",
    }
    text = _TEXT
    for name, value in names.items():
        text = text.replace(f"<{name}>", str(value))
    return text


def powers_of_five() -> list[tuple[int, int]]:
    """The upper and lower 64 bits of 5**q, scaled to 128 bits, for all powers q in order.

    Rounded down, but up from -1 to -27, where the reciprocal is then exact enough for any mantissa.
    """
    found: list[tuple[int, int]] = []
    for power in range(LEAST_POWER, MOST_POWER + 1):
        five = 5 ** abs(power)
        bits = five.bit_length()
        if power >= 0:
            scaled = five << 128 - bits if bits <= 128 else five >> bits - 128
        else:
            scaled = (1 << 127 + bits) // five + (power >= -27)
        found.append(divmod(scaled, 2**64))
    return found


_TEXT = """
@fives = private unnamed_addr constant [<fives.count> x i64] [<fives>], align 64
declare i64 @llvm.ctlz.i64(i64, i1)

define internal double @<name>(i64 %m, i64 %power) nounwind {
entry:
  %is.zero = icmp eq i64 %m, 0
  br i1 %is.zero, label %zero, label %some
zero:
  ret double 0.0
some:
  %index = sub i64 %power, <least>
  %is.covered = icmp ule i64 %index, <span>
  br i1 %is.covered, label %covered, label %open
covered:
  %zeros = call i64 @llvm.ctlz.i64(i64 %m, i1 false)
  %w = shl i64 %m, %zeros
  %w.wide = zext i64 %w to i128
  %five.at = getelementptr [2 x i64], ptr @fives, i64 %index
  %five.low.at = getelementptr i8, ptr %five.at, i64 8
  %five.high = load i64, ptr %five.at
  %five.low = load i64, ptr %five.low.at
  %five.high.wide = zext i64 %five.high to i128
  %five.low.wide = zext i64 %five.low to i128
  %high.product = mul nuw i128 %w.wide, %five.high.wide
  %low.product = mul nuw i128 %w.wide, %five.low.wide
  %low.upper = lshr i128 %low.product, 64
  %product = add i128 %high.product, %low.upper
  %lower = trunc i128 %product to i64
  %upper.wide = lshr i128 %product, 64
  %upper = trunc i128 %upper.wide to i64
  %above.least = add i64 %power, 27
  %is.exact = icmp ule i64 %above.least, 82
  %lower.full = icmp eq i64 %lower, -1
  %inexact = xor i1 %is.exact, true
  %doubt = and i1 %lower.full, %inexact
  br i1 %doubt, label %open, label %sure
sure:
  ; 53 bits and one more, of a product of 127 or 128 bits; 217706 is 2**16 * log2(10), rounded down
  %top = lshr i64 %upper, 63
  %shift = add i64 %top, 9
  %bits = lshr i64 %upper, %shift
  %scaled = mul i64 %power, 217706
  %floor = ashr i64 %scaled, 16
  %biased = add i64 %floor, 1086
  %with.top = add i64 %biased, %top
  %exponent = sub i64 %with.top, %zeros
  ; exactly in the middle, which can only be for small powers: to the even one
  %back = shl i64 %bits, %shift
  %no.rest = icmp eq i64 %back, %upper
  %no.lower = icmp ule i64 %lower, 1
  %middle = and i1 %no.rest, %no.lower
  %near = add i64 %power, 4
  %small = icmp ule i64 %near, 27
  %in.middle = and i1 %middle, %small
  %last.two = and i64 %bits, 3
  %is.below = icmp eq i64 %last.two, 1
  %to.even = and i1 %in.middle, %is.below
  %down = zext i1 %to.even to i64
  %adjusted = sub i64 %bits, %down
  %half = and i64 %adjusted, 1
  %raised = add i64 %adjusted, %half
  %mantissa = lshr i64 %raised, 1
  ; a mantissa of 54 bits is 2**53, and counts as the exponent's next
  %carry = lshr i64 %mantissa, 53
  %final = add i64 %exponent, %carry
  %final.less = sub i64 %final, 1
  %is.normal = icmp ult i64 %final.less, 2046
  %stored = and i64 %mantissa, 4503599627370495
  %exponent.bits = shl i64 %final, 52
  %all = or i64 %exponent.bits, %stored
  %value = bitcast i64 %all to double
  br i1 %is.normal, label %done, label %open
done:
  ret double %value
open:
  ret double <infinity>
}
"""
