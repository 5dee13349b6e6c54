"""exp, log and their kin: each is written once for both types, `Format` holds what differs."""

from __future__ import annotations

import math

from graphc.backends.loops.arithmetic import Arithmetic
from graphc.backends.loops.mathfunctions.formats import (
    F32,
    Format,
    at_least,
    at_most,
    bit_pattern,
    constants,
    format_of,
    horner,
    paired,
    wrapped,
)
from graphc.backends.loops.values import ELEMENT_BYTES, Val


def exp(s: Arithmetic, x: Val) -> Val:
    """e^x = 2^n (1 + r + r^2 P(r)) with n the integer nearest x / ln 2."""
    f = format_of(x)
    low, high = f.exp_range
    return exp_in_range(s, at_least(s, low, at_most(s, high, x)))


def exp_of_at_most_zero(s: Arithmetic, x: Val) -> Val:
    """exp where x is not above 0: the same bits, without what large results need."""
    f = format_of(x)
    shifted, r = _reduce(s, at_least(s, f.exp_range[0], x))
    p = exp_polynomial(s, r)
    if _can_scale(s, p):
        return _scaled(s, p, shifted)
    far = s.const(2.0 ** -_half_range(f), x)
    part = _times_part(s, p, shifted, far)
    return _times_far(s, part, far)


def log(s: Arithmetic, x: Val) -> Val:
    """log x = e ln 2 + log m with m between sqrt(1/2) and sqrt(2); nan below zero."""
    f = format_of(x)
    c = constants(s, x)
    smallest = c(2.0 ** (1 - f.bias))
    is_denormal = s.less(x, smallest)
    scaled = s.mul(x, s.select(is_denormal, c(2.0**f.fraction_bits), c(1.0)))
    m, e = split(s, scaled)
    e = s.sub(e, s.select(is_denormal, c(float(f.fraction_bits)), c(0.0)))
    fraction = s.sub(m, c(1.0))
    return _with_ends(s, _of_fraction(s, fraction, fraction, e), x, 0.0)


def log1p(s: Arithmetic, x: Val) -> Val:
    """log(1 + x) = e ln 2 + log(1 + f) with f = x 2^-e + (2^-e - 1), e being that of 1 + x.

    So f is rounded once, and is x itself where 1 + x is near 1.
    """
    f = format_of(x)
    c = constants(s, x)
    whole = s.add(x, c(1.0))
    biased = _biased_exponent(s, whole)
    exponent = s.code.binary("shl", biased, s.const(f.fraction_bits, biased))
    one = f.bias << f.fraction_bits
    scaled = s.bits(s.add(s.sub(s.bits(x), exponent), s.const(one, exponent)))
    # 2^(2 - e), for at the largest x 2^-e is no normal number.
    power = s.bits(s.sub(s.const(wrapped(f, 2 * one + (2 << f.fraction_bits)), exponent), exponent))
    fraction = s.add(scaled, s.fma(power, c(0.25), c(-1.0)))
    # Powers of what 1 absorbs change nothing, and might be denormals.
    bent = s.select(s.equal(whole, c(1.0)), c(0.0), fraction) if s.slow_denormals else fraction
    y = _with_ends(s, _of_fraction(s, fraction, bent, _exponent(s, biased, x)), x, -1.0)
    return s.intrinsic("copysign", y, x)


def expm1(s: Arithmetic, x: Val) -> Val:
    """e^x - 1 = 2 (r^2 P(r) h + (r h + (h - 1/2))), h = 2^(n - 1); 2^n may be no number.

    In this order r h + (h - 1/2) is exact where the result is much smaller than e^x.
    """
    f = format_of(x)
    c = constants(s, x)
    shifted, r = _reduce(s, at_least(s, f.expm1_least, at_most(s, f.exp_range[1], x)))
    half = s.bits(_power(s, f, s.bits(shifted), -1))
    square = s.mul(r, r)
    tail = s.mul(square, paired(s, f.exp_terms, r, square))
    y = s.fma(tail, half, s.fma(r, half, s.sub(half, c(0.5))))
    # A denormal is its own result; its half might not be a number.
    is_tiny = s.less(s.abs(x), c(2.0 ** (2 - f.bias)))
    return s.select(is_tiny, x, s.add(y, y))


def tanh(s: Arithmetic, x: Val) -> Val:
    """a + a (a^2 P(a^2)) for small a = abs x, else 1 - 2 / (e^2a + 1); the sign of x put back."""
    f = format_of(x)
    c = constants(s, x)
    a = s.abs(x)
    base = _with_normal_square(s, a)
    p, power = _exp_parts(s, at_most(s, 2.0 * f.tanh_one, s.add(base, base)))
    large = s.sub(c(1.0), s.div(c(2.0), s.fma(p, power, s.add(power, c(1.0)))))
    z = s.mul(base, base)
    small = s.fma(a, s.mul(z, horner(s, f.tanh_terms, z)), a)
    return s.intrinsic("copysign", s.select(s.less(base, c(f.tanh_small)), small, large), x)


def sigmoid(s: Arithmetic, x: Val) -> Val:
    """t / (t + 1) with t = e^x, and x at most where that is 1: so t is a number.

    Both are of t 2^h and 2^h instead of t and 1, so that a small t is a normal number.
    """
    f = format_of(x)
    low, high = f.exp_range[0], 2.0 * f.tanh_one
    shifted, r = _reduce(s, at_least(s, low, at_most(s, high, x)))
    far, one = (s.const(2.0**h, x) for h in (-_half_range(f), _half_range(f)))
    t = _times_part(s, exp_polynomial(s, r), shifted, far)
    below = s.add(t, one)
    if not s.slow_denormals:
        return s.div(t, below)
    return _or_denormal(s, s.div(_raised(s, t), below), t)


def erf(s: Arithmetic, x: Val) -> Val:
    """a + a P(a^2) for a = abs x below 1, else 1 - e^Q(a); the sign of x put back."""
    f = format_of(x)
    c = constants(s, x)
    a = s.abs(x)
    base = _with_normal_square(s, a)
    small = s.fma(a, horner(s, f.erf_terms, s.mul(base, base)), a)
    logarithm = horner(s, f.erfc_log_terms, at_most(s, f.erf_one, base))
    p, power = _exp_parts(s, logarithm)
    large = s.fma(s.neg(p), power, s.sub(c(1.0), power))
    return s.intrinsic("copysign", s.select(s.less(base, c(1.0)), small, large), x)


def exp_in_range(s: Arithmetic, x: Val) -> Val:
    """exp where 2^n may be too big or small for one factor."""
    shifted, r = _reduce(s, x)
    return times_power(s, exp_polynomial(s, r), shifted, x)


def times_power(s: Arithmetic, p: Val, shifted: Val, sign: Val) -> Val:
    """(1 + p) 2^n, rounded as one product would be, with `shifted` = magic + n.

    sign  is negative where n is below 0, and positive where n is above

    2^n itself may not be a number. So 1 + p is first multiplied with the part of it that always is
    one, then with a power of the same direction.
    """
    if _can_scale(s, p):
        return _scaled(s, p, shifted)
    f = format_of(p)
    c = constants(s, p)
    is_below = _has_sign(s, sign)
    # Less than half of the range for n above 0, so that no such part is below the least one.
    far = s.select(is_below, c(2.0 ** -_half_range(f)), c(2.0 ** (_half_range(f) - 4)))
    return _times_far(s, _times_part(s, p, shifted, far), far)


def _can_scale(s: Arithmetic, p: Val) -> bool:
    """Whether one instruction does it. What it costs where denormals are slow is not known."""
    size = p.type.lanes * ELEMENT_BYTES[p.type.element]
    return s.has_scalef and not s.slow_denormals and size % 64 == 0


def _scaled(s: Arithmetic, p: Val, shifted: Val) -> Val:
    """(1 + p) 2^n: 1 + p is rounded, then the result if it is a denormal, as in `times_power`."""
    n = s.sub(shifted, s.const(format_of(p).magic, p))
    return s.code.scale(s.add(p, s.const(1.0, p)), n)


def _times_far(s: Arithmetic, part: Val, far: Val) -> Val:
    """part far, rounded once."""
    if not s.slow_denormals:
        return s.mul(part, far)
    return _or_denormal(s, s.mul(_raised(s, part), far), part)


def _raised(s: Arithmetic, part: Val) -> Val:
    """The part, or the least one whose result is a normal number."""
    return at_least(s, _least_part(format_of(part)), part)


def _or_denormal(s: Arithmetic, result: Val, part: Val) -> Val:
    """The result, or part 2^-h, h being half of the range, where that is a denormal: rounded once.

    Numbers from the least part to twice that are as far apart as denormals are, times 2^h. So the
    sum of both parts is rounded as the result is, and its bits count the result's units. The choice
    is by the sum: a compiler that sees the choice of `_raised` again makes one of both, behind the
    operation that has to be avoided.
    """
    f = format_of(part)
    least = _least_part(f)
    total = s.add(part, s.const(least, part))
    counted = s.bits(total)
    denormal = s.bits(s.sub(counted, s.const(bit_pattern(f, least), counted)))
    return s.select(s.less(total, s.const(2.0 * least, part)), denormal, result)


def _with_normal_square(s: Arithmetic, a: Val) -> Val:
    """a, or 2^-30 for a size below it: sums with its square are the same."""
    return at_least(s, 2.0**-30, a) if s.slow_denormals else a


def _least_part(f: Format) -> float:
    """The smallest normal number, times 2^h."""
    return 2.0 ** (1 - f.bias + _half_range(f))


def _times_part(s: Arithmetic, p: Val, shifted: Val, far: Val) -> Val:
    """(1 + p) 2^n / far, a normal number."""
    f = format_of(p)
    n = s.code.binary("shl", s.bits(shifted), s.const(f.fraction_bits, s.bits(shifted)))
    exponents = s.sub(n, s.bits(far))
    part = s.bits(s.add(exponents, s.const(wrapped(f, 2 * f.bias << f.fraction_bits), n)))
    return s.fma(p, part, part)


def _half_range(f: Format) -> int:
    """The power of 2 that is half-way to the ends of the range."""
    return (f.bias + 1) // 2


def _has_sign(s: Arithmetic, x: Val) -> Val:
    bits = s.bits(x)
    return s.less(bits, s.const(0, bits))


def _exp_parts(s: Arithmetic, x: Val) -> tuple[Val, Val]:
    """(p, 2^n), whose e^x is (1 + p) 2^n, where 2^n is a normal number.

    For sums with 1, which are rounded once if 2^n goes to the 1 first. There the error of ln 2 in
    one part is lost: it grows as n does, but the sum is 1 already where n is large.
    """
    shifted, n = _exponent_of_exp(s, x)
    r = s.fma(n, s.const(-math.log(2.0), x), x)
    return exp_polynomial(s, r), s.bits(_power(s, format_of(x), s.bits(shifted), 0))


def _reduce(s: Arithmetic, x: Val) -> tuple[Val, Val]:
    """(magic + n, r) with x = n ln 2 + r."""
    f = format_of(x)
    c = constants(s, x)
    shifted, n = _exponent_of_exp(s, x)
    r = s.fma(n, c(-f.ln2_high), x)
    return shifted, s.fma(n, c(-f.ln2_low), r)


def _exponent_of_exp(s: Arithmetic, x: Val) -> tuple[Val, Val]:
    """(magic + n, n) with n the integer nearest x / ln 2."""
    f = format_of(x)
    c = constants(s, x)
    shifted = s.fma(x, c(1.4426950408889634), c(f.magic))
    return shifted, s.sub(shifted, c(f.magic))


def exp_polynomial(s: Arithmetic, r: Val) -> Val:
    """e^r - 1 for small r."""
    square = s.mul(r, r)
    return s.fma(square, paired(s, format_of(r).exp_terms, r, square), r)


def _power(s: Arithmetic, f: Format, n: Val, add: int) -> Val:
    """The bits of 2^(n + add)."""
    exponent = s.code.binary("shl", n, s.const(f.fraction_bits, n))
    return s.add(exponent, s.const(wrapped(f, (f.bias + add) << f.fraction_bits), n))


def split(s: Arithmetic, x: Val) -> tuple[Val, Val]:
    """(m, e), both floats, with x = m 2^e and m in [sqrt(1/2), sqrt(2)); x positive and normal."""
    f = format_of(x)
    biased = _biased_exponent(s, x)
    exponent = s.code.binary("shl", biased, s.const(f.fraction_bits, biased))
    one = s.const(f.bias << f.fraction_bits, exponent)
    return s.bits(s.add(s.sub(s.bits(x), exponent), one)), _exponent(s, biased, x)


def _biased_exponent(s: Arithmetic, x: Val) -> Val:
    """e + bias, an integer, with e as in `split`."""
    f = format_of(x)
    bits = s.bits(x)
    one = f.bias << f.fraction_bits
    root = bit_pattern(f, 0.5**0.5)
    raised = s.add(bits, s.const(one - root, bits))
    return s.code.binary("lshr", raised, s.const(f.fraction_bits, bits))


def _exponent(s: Arithmetic, biased: Val, like: Val) -> Val:
    """e as a float: a small integer in the low bits of 2^fraction_bits is a float conversion."""
    f = format_of(like)
    whole = 2.0**f.fraction_bits
    placed = s.bits(s.code.binary("or", biased, s.const(bit_pattern(f, whole), biased)))
    return s.sub(placed, s.const(whole + f.bias, like))


def _of_fraction(s: Arithmetic, fraction: Val, bent: Val, e: Val) -> Val:
    """e ln 2 + log(1 + fraction).

    bent  the fraction, or 0 where its square counts for nothing
    """
    f = format_of(fraction)
    c = constants(s, fraction)
    square = s.mul(bent, bent)
    half = s.mul(square, c(0.5))
    if f is F32:
        series = s.mul(s.mul(square, bent), paired(s, f.log_terms, bent, square))
        correction = s.sub(s.fma(e, c(f.ln2_low), series), half)
    else:
        t = s.div(bent, s.add(bent, c(2.0)))
        z = s.mul(t, t)
        series = s.mul(z, horner(s, f.log_terms, z))
        tail = s.fma(t, s.add(half, series), s.mul(e, c(f.ln2_low)))
        correction = s.sub(tail, half)
    return s.fma(e, c(f.ln2_high), s.add(fraction, correction))


def _with_ends(s: Arithmetic, y: Val, x: Val, pole: float) -> Val:
    """y, but minus infinity where x is the pole, nan below it, and infinity at infinity."""
    c = constants(s, x)
    y = s.select(s.equal(x, c(pole)), c(float("-inf")), y)
    y = s.select(s.compare("oge", x, c(pole)), y, c(float("nan")))
    return s.select(s.equal(x, c(float("inf"))), x, y)
