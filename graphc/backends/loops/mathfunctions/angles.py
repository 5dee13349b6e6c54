"""Large angles modulo pi/2, exactly (Payne and Hanek): a function of the module, one angle a call.

An angle is m 2^e with a whole m. Bits of 2/pi that give multiples of four quarter turns with it
are skipped; the next 192 make a product of which the two highest bits are the quadrant and the
rest the fraction of a quarter turn, to far more bits than any f64 comes near a multiple.
"""

from __future__ import annotations

import struct
from typing import Literal

from graphc.backends.loops.arithmetic import Arithmetic
from graphc.backends.loops.values import I64, PTR, Val, lane_type

TWO_OVER_PI = bytes.fromhex(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561"
    "b7246e3a424dd2e006492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484"
    "e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980f"
    "ef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b"
    "3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d"
)
"""The bits of 2/pi after the binary point, highest first."""

_PI_QUARTERS = 0xC90FDAA22168C235
"""pi/4 * 2^64."""

_I128 = lane_type("i128")
_DOUBLE = lane_type("double")
_RESULTS = (I64, _DOUBLE, _DOUBLE)


def reduce_lanes(s: Arithmetic, a: Val) -> tuple[Val, Val, Val]:
    """(n, r, r_low) of every lane: a = n pi/2 + r + r_low modulo whole turns. a from 1 on, f64."""
    function = _function(s)
    if a.type.lanes == 1:
        one, two, three = s.code.invoke_for(function, (a,), _RESULTS)
        return one, two, three
    made = [
        s.code.invoke_for(function, (s.code.extract(a, lane),), _RESULTS)
        for lane in range(a.type.lanes)
    ]
    n, r, r_low = (s.code.gather(parts) for parts in zip(*made, strict=True))
    return n, r, r_low


def _function(s: Arithmetic) -> str:
    module = s.code.module
    code, a = module.body(), Val("%a", _DOUBLE)
    code.leave(_reduce(Arithmetic(code, has_fma=s.has_fma), a))
    return module.add("angle", (a,), code, results=_RESULTS)


def _reduce(s: Arithmetic, a: Val) -> tuple[Val, Val, Val]:
    high, low = _product(s, s.bits(a))
    # The quadrant is the nearest one, so that what is left is at most half a quarter turn.
    quadrant = _shift(s, "lshr", s.add(high, s.const(1 << 61, high)), 62)
    high = s.sub(high, _shift(s, "shl", quadrant, 62))
    # high and low: the fraction times 2^126, in two's complement.
    is_negative = s.less(high, s.const(0, high))
    flip = _shift(s, "ashr", high, 63)
    high, low = (s.code.binary("xor", part, flip) for part in (high, low))
    # Minus one bit of 2^-126 is neglected. The leading one of 64 bits goes to the top.
    is_short = s.equal(high, s.const(0, high))
    leading = s.select(is_short, low, high)
    zeros = _leading_zeros(s, leading)
    following = s.select(is_short, s.const(0, low), low)
    bits = _funnel(s, leading, following, zeros)
    skipped = s.add(zeros, s.select(is_short, s.const(64, zeros), s.const(0, zeros)))
    r, r_low = _angle(s, bits, skipped)
    return (
        quadrant,
        s.select(is_negative, s.neg(r), r),
        s.select(is_negative, s.neg(r_low), r_low),
    )


def _product(s: Arithmetic, bits: Val) -> tuple[Val, Val]:
    """The upper two of three words of m W modulo 2^192, W the window of 2/pi that belongs to e."""
    biased = _shift(s, "lshr", bits, 52)
    m = s.code.binary("and", bits, s.const((1 << 52) - 1, bits))
    m = s.code.binary("or", m, s.const(1 << 52, m))
    # The table starts with 64 zero bits; the window with the bit of weight 2^(1 - e).
    start = s.sub(biased, s.const(1075 - 62, biased))
    words = _window(s, start)
    wide_m = s.convert("zext", m, _I128)
    total: Val | None = None
    for word in (words[2], words[1]):
        part = s.code.binary("mul", s.convert("zext", word, _I128), wide_m)
        total = part if total is None else s.add(part, _shift(s, "lshr", total, 64))
    assert total is not None
    middle = s.convert("trunc", total, I64)
    carry = s.convert("trunc", _shift(s, "lshr", total, 64), I64)
    return s.add(s.mul(words[0], m), carry), middle


def _window(s: Arithmetic, start: Val) -> list[Val]:
    """Three words of the table from bit `start` on."""
    count = len(TWO_OVER_PI) // 8
    table = struct.pack(f"<{count + 1}q", 0, *struct.unpack(f">{count}q", TWO_OVER_PI))
    base = s.code.module.data(table, 8)
    first, offset = _shift(s, "lshr", start, 6), s.code.binary("and", start, s.const(63, start))
    loaded: list[Val] = []
    for i in range(4):
        place = s.add(first, s.const(i, first))
        address = s.code.offset(Val(base, PTR), "i64", place, inside=False)
        loaded.append(s.code.load(I64, address, 8))
    return [_funnel(s, loaded[i], loaded[i + 1], offset) for i in range(3)]


def _angle(s: Arithmetic, bits: Val, skipped: Val) -> tuple[Val, Val]:
    """bits 2^-(62 + skipped) quarter turns as an angle in two parts; the top bit of bits is one."""
    wide = s.code.binary("mul", s.convert("zext", bits, _I128), s.const(_PI_QUARTERS, _I128))
    top = s.convert("trunc", _shift(s, "lshr", wide, 64), I64)
    # top 2^-(61 + skipped) is the angle: pi/4 took one place, 2^64 went with the low word.
    high = s.convert("sitofp", _shift(s, "lshr", top, 11), _DOUBLE)
    low = s.convert("sitofp", s.code.binary("and", top, s.const((1 << 11) - 1, top)), _DOUBLE)
    exponent = s.sub(s.const(1023 - 61, skipped), skipped)
    scale = s.bits(_shift(s, "shl", exponent, 52))
    return s.mul(s.mul(high, s.const(2.0**11, high)), scale), s.mul(low, scale)


def _shift(s: Arithmetic, op: Literal["lshr", "ashr", "shl"], a: Val, places: int) -> Val:
    return s.code.binary(op, a, s.const(places, a))


def _leading_zeros(s: Arithmetic, a: Val) -> Val:
    """64 for zero."""
    return s.code.leading_zeros(a)


def _funnel(s: Arithmetic, high: Val, low: Val, places: Val) -> Val:
    """The upper word of the pair shifted left by 0 to 63 places (modulo 64)."""
    return s.code.function("fshl", high, low, places)
