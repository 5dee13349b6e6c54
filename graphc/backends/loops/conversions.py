"""Conversion of elements that are only stored, by the instructions that a writer has.

They become those that they are computed with, and these become others:
`graphc.ir.elements.converted` says what of a number becomes what. Floats of 16 bits and fewer are
converted by arithmetic on the bits of f32, so that every machine gives the same numbers without
instructions of its own for them.
"""

from __future__ import annotations

from graphc.backends.loops.arithmetic import Arithmetic, is_float
from graphc.backends.loops.values import ELEMENT_BYTES, Val, element_of, lane_type
from graphc.ir.types import DType
from graphc.support.short_types import SHORT_FLOATS, SHORT_INTEGERS, ShortFloat, ShortInteger

_TYPES = {element_of(dtype): dtype for dtype in DType}
_LEAST_NORMAL, _BEYOND = 0x38800000, 0x47800000
"""The bits of 2^-14 and 2^16: f16 has fewer digits below, and nothing from there on."""
_REBIASED = 112 << 23
"""What exponents of f32 are ahead of those of f16."""


class Conversions(Arithmetic):
    """Arithmetic whose `cast` takes all element types."""

    def cast(self, a: Val, dtype: DType) -> Val:
        source = _TYPES[a.type.element]
        if source is dtype:
            return a
        if source is DType.U64 and dtype.is_float:
            return self._of_u64(a, dtype)
        if source is not source.computed:
            return self.cast(self._widened(a, source), dtype)
        if dtype.is_float and dtype is not dtype.computed:
            return self._narrowed(a if source.is_float else self.cast(a, DType.F64), dtype)
        if dtype is not dtype.computed:
            return self._as_stored_integer(a, dtype)
        return super().cast(a, dtype)

    # Integers

    def _widened(self, a: Val, source: DType) -> Val:
        """Stored elements as those that they are computed with; of u64 the same bits."""
        if source.numpy.names or source is DType.F16:
            bits = self.convert("zext", a, lane_type("i32", a.type.lanes))
            if source is DType.F16:
                return self._of_f16(bits)
            if source.value in SHORT_FLOATS:
                return self._of_short(bits, SHORT_FLOATS[source.value])
            if source.value in SHORT_INTEGERS:
                return self._of_low_bits(bits, SHORT_INTEGERS[source.value])
            return self.bits(self.code.binary("shl", bits, self.const(16, bits)))
        target = lane_type(element_of(source.computed), a.type.lanes)
        if source is DType.U64:
            return self.convert("bitcast", a, target)
        return self.convert("zext" if source.is_unsigned else "sext", a, target)

    def _resized(self, a: Val, dtype: DType) -> Val:
        """The low bits of a signed integer, or the sign before them."""
        if dtype.value in SHORT_INTEGERS:
            low = (1 << SHORT_INTEGERS[dtype.value].bits) - 1
            a = self.logical_and(a, self.const(low, a))
        target = lane_type(element_of(dtype), a.type.lanes)
        more = ELEMENT_BYTES[target.element] - ELEMENT_BYTES[a.type.element]
        return self.convert("sext" if more > 0 else "trunc" if more < 0 else "bitcast", a, target)

    def _as_stored_integer(self, a: Val, dtype: DType) -> Val:
        """The low bits of an integer; of a float the nearest integer in the range, nan as 0."""
        if not is_float(a):
            is_truth = a.type.element == "i1"
            return self._resized(self.cast(a, dtype.computed) if is_truth else a, dtype)
        if dtype is DType.U64:
            return self._resized(self._as_u64_bits(a), dtype)
        whole = self.cast(a, dtype.computed)
        least, most = dtype.limits
        below = self.minimum(whole, self.const(most, whole))
        return self._resized(self.maximum(below, self.const(least, below)), dtype)

    def _of_low_bits(self, bits: Val, of: ShortInteger) -> Val:
        """The number that the low bits of an i32 are."""
        rest = self.const(32 - of.bits, bits)
        above = self.code.binary("shl", bits, rest)
        return self.code.binary("ashr" if of.is_signed else "lshr", above, rest)

    def _as_u64_bits(self, a: Val) -> Val:
        """A float as an integer from 0 to 2^64 - 1, whose bits are those of an i64."""
        half = self.const(2.0**63, a)
        upper = self.cast(self.sub(a, half), DType.I64)
        upper = self.add(upper, self.const(-(2**63), upper))
        lower = self.cast(a, DType.I64)
        lower = self.maximum(lower, self.const(0, lower))
        return self.select(self.greater_equal(a, half), upper, lower)

    def _of_u64(self, a: Val, dtype: DType) -> Val:
        bits = self.convert("bitcast", a, lane_type("i64", a.type.lanes))
        wide = dtype if dtype is dtype.computed else DType.F64
        number = self.convert("uitofp", bits, lane_type(element_of(wide), a.type.lanes))
        return number if wide is dtype else self._narrowed(number, dtype)

    # f16 and bf16

    def _of_f16(self, half: Val) -> Val:
        """f32 of the bits of f16, which are the low half of an i32."""
        digits = self.logical_and(half, self.const(0x7FFF, half))
        sign = self.code.binary("shl", self.sub(half, digits), self.const(16, half))
        moved = self.code.binary("shl", digits, self.const(13, half))
        normal = self.add(moved, self.const(_REBIASED, half))
        special = self.add(normal, self.const(_REBIASED, half))
        # Denormals: their digits behind those of 2^-14, which is taken off again.
        above = self.bits(self.add(moved, self.const(_LEAST_NORMAL, half)))
        small = self.bits(self.sub(above, self.const(2.0**-14, above)))
        is_special = self.greater_equal(digits, self.const(0x7C00, half))
        chosen = self.select(is_special, special, normal)
        chosen = self.select(self.less(digits, self.const(0x400, half)), small, chosen)
        return self.bits(self.logical_or(chosen, sign))

    def _narrowed(self, a: Val, dtype: DType) -> Val:
        """A shorter float, rounded once."""
        a = self._odd_f32(a) if a.type.element == "double" else a
        bits, is_nan = self.bits(a), self.compare("uno", a, a)
        if dtype.value in SHORT_FLOATS:
            made, quiet = self._short_bits(bits, of := SHORT_FLOATS[dtype.value]), of.nan
        else:
            made = self._f16_bits(bits) if dtype is DType.F16 else self._bf16_bits(bits)
            quiet = 0x7E00 if dtype is DType.F16 else 0x7FC0
        made = self.select(is_nan, self.const(quiet, bits), made)
        return self.convert("trunc", made, lane_type(element_of(dtype), a.type.lanes))

    def _odd_f32(self, a: Val) -> Val:
        """f32 of f64, towards zero and with the last digit 1 where digits are lost: what is rounded
        to fewer digits from there is what f64 itself would be."""
        nearest = self.cast(a, DType.F32)
        back = self.cast(nearest, DType.F64)
        bits = self.bits(nearest)
        one = self.const(1, bits)
        is_above = self.greater(self.abs(back), self.abs(a))
        cut = self.select(is_above, self.sub(bits, one), bits)
        is_inexact = self.logical_or(self.less(back, a), self.greater(back, a))
        return self.bits(self.select(is_inexact, self.logical_or(cut, one), bits))

    def _f16_bits(self, bits: Val) -> Val:
        digits = self.logical_and(bits, self.const(0x7FFFFFFF, bits))
        sign = self.code.binary("lshr", self.sub(bits, digits), self.const(16, bits))
        moved = self.sub(digits, self.const(_REBIASED - 0xFFF, bits))
        moved = self.add(moved, self._bit(digits, 13))
        normal = self.code.binary("lshr", moved, self.const(13, bits))
        # Denormals of f16 are the last digits of a sum with 0.5, which rounds them.
        half = self.const(0.5, lane_type("float", bits.type.lanes))
        raised = self.bits(self.add(self.bits(digits), half))
        small = self.sub(raised, self.const(0x3F000000, bits))
        made = self.select(self.less(digits, self.const(_LEAST_NORMAL, bits)), small, normal)
        is_beyond = self.greater_equal(digits, self.const(_BEYOND, bits))
        made = self.select(is_beyond, self.const(0x7C00, bits), made)
        return self.logical_or(made, sign)

    def _bf16_bits(self, bits: Val) -> Val:
        raised = self.add(bits, self.add(self._bit(bits, 16), self.const(0x7FFF, bits)))
        return self.code.binary("lshr", raised, self.const(16, bits))

    # 8 bits and fewer, as f16 with other numbers

    def _of_short(self, code: Val, of: ShortFloat) -> Val:
        """f32 of the bits, which are the low ones of an i32."""
        digits = self.logical_and(code, self.const(of.sign - 1, code))
        sign = self.code.binary("shl", self.sub(code, digits), self.const(32 - of.bits, code))
        moved = self.code.binary("shl", digits, self.const(23 - of.fraction, code))
        normal = self.add(moved, self.const((127 - of.bias) << 23, code))
        above = self.bits(self.add(moved, self.const((128 - of.bias) << 23, code)))
        small = self.bits(self.sub(above, self.const(2.0 ** (1 - of.bias), above)))
        is_small = self.less(digits, self.const(1 << of.fraction, code))
        made = self.select(is_small, small, normal)
        nan = self.const(0x7FC00000, code)
        if of.most < of.sign - 1:
            is_beyond = self.greater(digits, self.const(of.most, code))
            made = self.select(is_beyond, nan, made)
        if of.has_infinity:
            is_infinite = self.equal(digits, self.const(of.beyond, code))
            made = self.select(is_infinite, self.const(0x7F800000, code), made)
        made = self.logical_or(made, sign)
        if of.is_unsigned_zero:
            made = self.select(self.equal(code, self.const(of.sign, code)), nan, made)
        return self.bits(made)

    def _short_bits(self, bits: Val, of: ShortFloat) -> Val:
        """The bits of the number nearest to one of f32 that is not nan."""
        shift = 23 - of.fraction
        digits = self.logical_and(bits, self.const(0x7FFFFFFF, bits))
        place = self.const(32 - of.bits, bits)
        sign = self.code.binary("lshr", self.sub(bits, digits), place)
        moved = self.sub(digits, self.const(((127 - of.bias) << 23) - (1 << (shift - 1)) + 1, bits))
        moved = self.add(moved, self._bit(digits, shift))
        normal = self.code.binary("lshr", moved, self.const(shift, bits))
        # Denormals are the last digits of a sum, which rounds them.
        far = self.const(2.0 ** (24 - of.bias - of.fraction), lane_type("float", bits.type.lanes))
        raised = self.bits(self.add(self.bits(digits), far))
        small = self.sub(raised, self.const((151 - of.bias - of.fraction) << 23, bits))
        is_small = self.less(digits, self.const((128 - of.bias) << 23, bits))
        made = self.select(is_small, small, normal)
        is_beyond = self.greater(made, self.const(of.most, bits))
        made = self.select(is_beyond, self.const(of.beyond, bits), made)
        signed = self.logical_or(made, sign)
        if not of.is_unsigned_zero:
            return signed
        zero = self.const(0, bits)
        return self.select(self.equal(made, zero), zero, signed)

    def _bit(self, bits: Val, place: int) -> Val:
        shifted = self.code.binary("lshr", bits, self.const(place, bits))
        return self.logical_and(shifted, self.const(1, bits))
