"""Element types of 8 bits and fewer that numpy lacks: how their numbers lie in a byte.

Floats have a sign, an exponent and a fraction, the lowest bits last; `f8e4m3fn` has 4 bits of
exponent, 3 of fraction, finite numbers and a nan, `uz` one zero, without a sign. (OCP, 8-bit
Floating Point Specification, 2023; Microscaling Formats, 2023; ONNX, Float stored in 8 bits)
Integers of 4 and 2 bits are the low bits of a byte, whose others are 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class ShortFloat:
    """Floats whose digits, all bits but the sign, count in the order of their numbers.

    package   what the package ml_dtypes calls it
    fraction  bits behind the exponent
    bias      the exponent 0 is that of 2^-bias
    most      the digits of the largest number
    beyond    the bits that are given to what is larger, beside the sign: of infinity, of nan, or
              of the largest number
    nan       the bits that are given to nan
    bits      how many it has
    has_infinity, is_unsigned_zero   whether `beyond` is infinity; whether no zero has a sign
    """

    package: str
    fraction: int
    bias: int
    most: int
    beyond: int
    nan: int
    bits: int = 8
    has_infinity: bool = False
    is_unsigned_zero: bool = False

    @property
    def sign(self) -> int:
        """The bit of the sign."""
        return 1 << (self.bits - 1)

    @property
    def largest(self) -> float:
        """The largest number."""
        return float(self.digits[self.most])

    @cached_property
    def digits(self) -> Array:
        """The numbers of all digits, f64, one more than the largest: where rounding turns."""
        codes = np.arange(self.most + 2)
        exponents, fractions = codes >> self.fraction, codes & ((1 << self.fraction) - 1)
        whole = np.where(exponents > 0, fractions + (1 << self.fraction), fractions)
        return np.ldexp(whole.astype(float), np.maximum(exponents, 1) - self.bias - self.fraction)

    def numbers(self, codes: Array) -> Array:
        """f32 of the bits."""
        digits = codes & (self.sign - 1)
        found = self.digits[np.minimum(digits, self.most)]
        found = np.where(digits > self.most, np.inf if self.has_infinity else np.nan, found)
        if self.has_infinity:
            found = np.where(digits > self.beyond, np.nan, found)
        is_minus = codes & self.sign != 0
        if self.is_unsigned_zero:
            found = np.where(is_minus & (digits == 0), np.nan, found)
        return np.where(is_minus, -found, found).astype(np.float32)

    def codes(self, numbers: Array) -> Array:
        """The bits of the nearest numbers, of two of the one whose last digit is 0."""
        x = np.asarray(numbers, np.float64)
        ends = (self.digits[:-1] + self.digits[1:]) / 2
        size = np.abs(x)
        found = np.searchsorted(ends, size, "left")
        is_tie = found != np.searchsorted(ends, size, "right")
        found = found + (is_tie & (found % 2 == 1))
        found = np.where(found > self.most, self.beyond, found)
        if not self.is_unsigned_zero:
            found = np.where(np.signbit(x), found | self.sign, found)
        else:
            found = np.where(np.signbit(x) & (found != 0), found | self.sign, found)
        return np.where(np.isnan(x), self.nan, found).astype(np.uint8)


@dataclass(frozen=True)
class ShortInteger:
    """Whole numbers in the low bits of a byte, with a sign as two's complements."""

    package: str
    bits: int
    is_signed: bool

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest number."""
        most = (1 << (self.bits - self.is_signed)) - 1
        return (-most - 1 if self.is_signed else 0), most

    def numbers(self, codes: Array) -> Array:
        """i32 of the bits."""
        low = codes.astype(np.int32) & ((1 << self.bits) - 1)
        return np.where(low > self.limits[1], low - (1 << self.bits), low).astype(np.int32)

    def codes(self, numbers: Array) -> Array:
        """The low bits of integers; of floats those of the nearest number, nan as 0."""
        if numbers.dtype.kind == "f":
            inside = np.clip(np.nan_to_num(numbers.astype(np.float64)), *self.limits)
            numbers = np.trunc(inside).astype(np.int64)
        return (numbers.astype(np.int64) & ((1 << self.bits) - 1)).astype(np.uint8)


SHORT_TYPES: dict[str, ShortFloat | ShortInteger] = {
    "f8e4m3fn": ShortFloat("float8_e4m3fn", 3, 7, 0x7E, 0x7F, 0x7F),
    "f8e4m3fnuz": ShortFloat("float8_e4m3fnuz", 3, 8, 0x7F, 0x80, 0x80, is_unsigned_zero=True),
    "f8e5m2": ShortFloat("float8_e5m2", 2, 15, 0x7B, 0x7C, 0x7E, has_infinity=True),
    "f8e5m2fnuz": ShortFloat("float8_e5m2fnuz", 2, 16, 0x7F, 0x80, 0x80, is_unsigned_zero=True),
    "f4e2m1fn": ShortFloat("float4_e2m1fn", 1, 1, 7, 7, 0, bits=4),
    "i4": ShortInteger("int4", 4, True),
    "u4": ShortInteger("uint4", 4, False),
    "i2": ShortInteger("int2", 2, True),
    "u2": ShortInteger("uint2", 2, False),
}
"""By our names."""

SHORT_FLOATS = {n: t for n, t in SHORT_TYPES.items() if isinstance(t, ShortFloat)}
SHORT_INTEGERS = {n: t for n, t in SHORT_TYPES.items() if isinstance(t, ShortInteger)}
