"""What the functions share: the constants of the two float formats, and helpers over values."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from graphc.backends.llvm.arithmetic import Arithmetic
from graphc.backends.llvm.text import Val


@dataclass(frozen=True, slots=True)
class Format:
    """Constants of one float type.

    fraction_bits   stored bits of the significand
    bias            of the exponent
    magic           1.5 * 2^fraction_bits: adding it rounds to an integer, kept in the low bits
    ln2_high        ln 2 with enough trailing zeros that its product with an exponent is exact
    exp_range       outside, exp is 0 or infinity; a little wider than needed
    exp_terms       (e^r - 1 - r) / r^2, lowest order first, for abs r <= ln 2 / 2
    log_terms       f32: (log(1+f) - f + f^2/2) / f^3; f64: (2 atanh(s)/s - 2) / s^2 in s^2
    tanh_terms      f32: (tanh(a)/a - 1) / a^2 in a^2, for a <= tanh_small
    tanh_one        from here on tanh is 1
    """

    fraction_bits: int
    bias: int
    magic: float
    ln2_high: float
    ln2_low: float
    exp_range: tuple[float, float]
    exp_terms: tuple[float, ...]
    log_terms: tuple[float, ...]
    tanh_terms: tuple[float, ...]
    tanh_small: float
    tanh_one: float


F32 = Format(
    fraction_bits=23,
    bias=127,
    magic=1.5 * 2.0**23,
    ln2_high=355 / 512,
    ln2_low=-2.1219444005469057e-4,
    exp_range=(-104.0, 89.0),
    exp_terms=(
        0.4999999403953552,
        0.16666515171527863,
        0.04166823625564575,
        0.008369384333491325,
        0.0013824785128235817,
    ),
    log_terms=(
        0.3333333134651184,
        -0.250008225440979,
        0.2000124603509903,
        -0.16623321175575256,
        0.14201419055461884,
        -0.13160233199596405,
        0.127635657787323,
        -0.07636546343564987,
    ),
    tanh_terms=(
        -0.3333331346511841,
        0.13332433998584747,
        -0.053835202008485794,
        0.02099732682108879,
        -0.006164469290524721,
    ),
    tanh_small=0.5625,
    tanh_one=10.0,
)

F64 = Format(
    fraction_bits=52,
    bias=1023,
    magic=1.5 * 2.0**52,
    ln2_high=6.93147180369123816490e-01,
    ln2_low=1.90821492927058770002e-10,
    exp_range=(-746.0, 710.0),
    exp_terms=(
        0.5,
        0.16666666666666682,
        0.04166666666666639,
        0.00833333333331729,
        0.0013888888889043779,
        0.00019841269896559327,
        2.4801587011348847e-05,
        2.7557234127709943e-06,
        2.755753234215532e-07,
        2.5112435783858457e-08,
        2.0838354399647915e-09,
    ),
    log_terms=(
        0.6666666666666735,
        0.39999999999409347,
        0.28571428743688737,
        0.22222198428698312,
        0.1818357236929971,
        0.15313831864250568,
        0.1479826052721947,
    ),
    tanh_terms=(),
    tanh_small=0.0,
    tanh_one=22.0,
)


def horner(s: Arithmetic, terms: tuple[float, ...], x: Val) -> Val:
    y = s.const(terms[-1], x)
    for term in reversed(terms[:-1]):
        y = s.fma(y, x, s.const(term, x))
    return y


def at_most(s: Arithmetic, limit: float, x: Val) -> Val:
    """The smaller of the two; nan stays nan. One instruction in this operand order."""
    bound = s.const(limit, x)
    return s.select(s.less(bound, x), bound, x)


def at_least(s: Arithmetic, limit: float, x: Val) -> Val:
    bound = s.const(limit, x)
    return s.select(s.greater(bound, x), bound, x)


def constants(s: Arithmetic, x: Val) -> Callable[[float], Val]:
    """A short name for constants of x's type."""

    def c(value: float) -> Val:
        return s.const(value, x)

    return c


def format_of(x: Val) -> Format:
    return F32 if x.type.element == "float" else F64


def bit_pattern(f: Format, value: float) -> int:
    if f is F32:
        return struct.unpack("<i", struct.pack("<f", value))[0]
    return struct.unpack("<q", struct.pack("<d", value))[0]


def wrapped(f: Format, value: int) -> int:
    """`value` as a signed integer of the format's size."""
    bits = 32 if f is F32 else 64
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
