"""exp, log, tanh and sigmoid from arithmetic alone, for f32 and f64, one lane or many.

`docs/numerics.md` says how the coefficients were found and what error was measured. Special values
(zeros, infinities, nan, denormals, both ends of the range) follow IEEE 754's recommendations.
Each function is written once for both types; a `_Format` holds what differs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from graphc.backends.llvm.arithmetic import Arithmetic
from graphc.backends.llvm.text import Val


@dataclass(frozen=True, slots=True)
class _Format:
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


_F32 = _Format(
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

_F64 = _Format(
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


def exp(s: Arithmetic, x: Val) -> Val:
    """e^x = 2^n (1 + r + r^2 P(r)) with n the integer nearest x / ln 2."""
    f = _format(x)
    low, high = f.exp_range
    return _exp_in_range(s, _at_least(s, low, _at_most(s, high, x)))


def log(s: Arithmetic, x: Val) -> Val:
    """log x = e ln 2 + log m with m between sqrt(1/2) and sqrt(2); nan below zero."""
    f = _format(x)
    c = _constants(s, x)
    smallest = c(2.0 ** (1 - f.bias))
    is_denormal = s.less(x, smallest)
    scaled = s.mul(x, s.select(is_denormal, c(2.0**f.fraction_bits), c(1.0)))
    m, e = _split(s, scaled)
    e = s.sub(e, s.select(is_denormal, c(float(f.fraction_bits)), c(0.0)))
    fraction = s.sub(m, c(1.0))
    y = _log1p(s, fraction, e)
    y = s.select(s.equal(x, c(0.0)), c(float("-inf")), y)
    y = s.select(s.compare("oge", x, c(0.0)), y, c(float("nan")))
    return s.select(s.equal(x, c(float("inf"))), x, y)


def tanh(s: Arithmetic, x: Val) -> Val:
    """From e^2a, a = abs x, with the sign of x put back; small a apart (see the two helpers)."""
    f = _format(x)
    c = _constants(s, x)
    a = s.abs(x)
    twice = _at_most(s, 2.0 * f.tanh_one, s.add(a, a))
    y = _tanh_by_polynomial(s, a, twice) if f.tanh_terms else _tanh_by_expm1(s, twice)
    # A tiny a is its own tanh; e^2a - 1 would lose the bits of a denormal.
    if not f.tanh_terms:
        y = s.select(s.less(a, c(2.0**-28)), a, y)
    return s.intrinsic("copysign", y, x)


def sigmoid(s: Arithmetic, x: Val) -> Val:
    """1 / (1 + t) or t / (1 + t) with t = e^-abs(x): never overflows, keeps small results."""
    f = _format(x)
    c = _constants(s, x)
    t = _exp_in_range(s, _at_least(s, f.exp_range[0], s.neg(s.abs(x))))
    top = s.select(s.less(x, c(0.0)), t, c(1.0))
    return s.div(top, s.add(t, c(1.0)))


def _exp_in_range(s: Arithmetic, x: Val) -> Val:
    """exp where 2^n may be too big or small for one factor: it is applied in two halves."""
    f = _format(x)
    shifted, r = _reduce(s, x)
    y = s.add(_exp_polynomial(s, r), s.const(1.0, x))
    bits = s.bits(shifted)
    # bits = magic + n; u = n + offset is never negative, so a logical shift halves it.
    offset = 4 * f.bias + 4
    u = s.add(bits, s.const(offset - _bit_pattern(f, f.magic), bits))
    half = s.code.binary("lshr", u, s.const(1, bits))
    first = _power(s, f, half, -offset // 2)
    second = _power(s, f, s.sub(u, half), -offset // 2)
    return s.mul(s.mul(y, s.bits(first)), s.bits(second))


def _reduce(s: Arithmetic, x: Val) -> tuple[Val, Val]:
    """(magic + n, r) with x = n ln 2 + r."""
    f = _format(x)
    c = _constants(s, x)
    shifted = s.fma(x, c(1.4426950408889634), c(f.magic))
    n = s.sub(shifted, c(f.magic))
    r = s.fma(n, c(-f.ln2_high), x)
    return shifted, s.fma(n, c(-f.ln2_low), r)


def _exp_polynomial(s: Arithmetic, r: Val) -> Val:
    """e^r - 1 for small r."""
    return s.fma(s.mul(r, r), _horner(s, _format(r).exp_terms, r), r)


def _power(s: Arithmetic, f: _Format, n: Val, add: int) -> Val:
    """The bits of 2^(n + add)."""
    exponent = s.code.binary("shl", n, s.const(f.fraction_bits, n))
    return s.add(exponent, s.const(_wrapped(f, (f.bias + add) << f.fraction_bits), n))


def _split(s: Arithmetic, x: Val) -> tuple[Val, Val]:
    """(m, e), both floats, with x = m 2^e and m in [sqrt(1/2), sqrt(2)); x positive and normal."""
    f = _format(x)
    bits = s.bits(x)
    one = f.bias << f.fraction_bits
    root = _bit_pattern(f, 0.5**0.5)
    biased = s.code.binary(
        "lshr", s.add(bits, s.const(one - root, bits)), s.const(f.fraction_bits, bits)
    )
    exponent = s.code.binary("shl", biased, s.const(f.fraction_bits, bits))
    m = s.bits(s.add(s.sub(bits, exponent), s.const(one, bits)))
    # A small integer written into the low bits of 2^fraction_bits is a float conversion.
    whole = 2.0**f.fraction_bits
    placed = s.bits(s.code.binary("or", biased, s.const(_bit_pattern(f, whole), bits)))
    return m, s.sub(placed, s.const(whole + f.bias, x))


def _log1p(s: Arithmetic, fraction: Val, e: Val) -> Val:
    """e ln 2 + log(1 + fraction)."""
    f = _format(fraction)
    c = _constants(s, fraction)
    square = s.mul(fraction, fraction)
    half = s.mul(square, c(0.5))
    if f is _F32:
        series = s.mul(s.mul(square, fraction), _horner(s, f.log_terms, fraction))
        correction = s.sub(s.fma(e, c(f.ln2_low), series), half)
    else:
        t = s.div(fraction, s.add(fraction, c(2.0)))
        z = s.mul(t, t)
        series = s.mul(z, _horner(s, f.log_terms, z))
        tail = s.fma(t, s.add(half, series), s.mul(e, c(f.ln2_low)))
        correction = s.sub(tail, half)
    return s.fma(e, c(f.ln2_high), s.add(fraction, correction))


def _tanh_by_polynomial(s: Arithmetic, a: Val, twice: Val) -> Val:
    """a + a^3 P(a^2) for small a, else 1 - 2 / (e^2a + 1)."""
    f = _format(a)
    c = _constants(s, a)
    shifted, r = _reduce(s, twice)
    power = s.bits(_power(s, f, s.bits(shifted), 0))
    e = s.fma(_exp_polynomial(s, r), power, power)
    large = s.sub(c(1.0), s.div(c(2.0), s.add(e, c(1.0))))
    z = s.mul(a, a)
    small = s.fma(s.mul(a, z), _horner(s, f.tanh_terms, z), a)
    return s.select(s.less(a, c(f.tanh_small)), small, large)


def _tanh_by_expm1(s: Arithmetic, twice: Val) -> Val:
    """m / (m + 2) with m = e^2a - 1."""
    f = _format(twice)
    c = _constants(s, twice)
    shifted, r = _reduce(s, twice)
    power = s.bits(_power(s, f, s.bits(shifted), 0))
    m = s.fma(_exp_polynomial(s, r), power, s.sub(power, c(1.0)))
    return s.div(m, s.add(m, c(2.0)))


def _horner(s: Arithmetic, terms: tuple[float, ...], x: Val) -> Val:
    y = s.const(terms[-1], x)
    for term in reversed(terms[:-1]):
        y = s.fma(y, x, s.const(term, x))
    return y


def _at_most(s: Arithmetic, limit: float, x: Val) -> Val:
    """The smaller of the two; nan stays nan. One instruction in this operand order."""
    bound = s.const(limit, x)
    return s.select(s.less(bound, x), bound, x)


def _at_least(s: Arithmetic, limit: float, x: Val) -> Val:
    bound = s.const(limit, x)
    return s.select(s.greater(bound, x), bound, x)


def _constants(s: Arithmetic, x: Val) -> Callable[[float], Val]:
    """A short name for constants of x's type."""

    def c(value: float) -> Val:
        return s.const(value, x)

    return c


def _format(x: Val) -> _Format:
    return _F32 if x.type.element == "float" else _F64


def _bit_pattern(f: _Format, value: float) -> int:
    if f is _F32:
        return struct.unpack("<i", struct.pack("<f", value))[0]
    return struct.unpack("<q", struct.pack("<d", value))[0]


def _wrapped(f: _Format, value: int) -> int:
    """`value` as a signed integer of the format's size."""
    bits = 32 if f is _F32 else 64
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
