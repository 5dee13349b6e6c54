"""x^y as 2^(y log2 abs x), always in f64, and the sign and special values of C99's pow around it.

f32 operands are widened: f64's own log and exp are then exact enough. For f64 the logarithm and
its product with y carry about 65 bits, since the exponent multiplies their error by up to 1075.
"""

from __future__ import annotations

import math

from graphc.backends.loops.arithmetic import Arithmetic
from graphc.backends.loops.mathfunctions.exponential import (
    exp_in_range,
    exp_polynomial,
    log,
    split,
    times_power,
)
from graphc.backends.loops.mathfunctions.formats import F64, at_least, at_most, constants, horner
from graphc.backends.loops.mathfunctions.pairs import ordered_sum, two_product
from graphc.backends.loops.values import Val
from graphc.ir.types import DType

_LOG_TERMS = (
    0.6000000000000341,
    0.4285714285513951,
    0.33333333781558083,
    0.2727267640927533,
    0.23080142349055643,
    0.19885081375863703,
    0.19795823360423354,
)
"""(3 atanh(s)/s - 3 - z) / z^2 in z = s^2 <= 0.0295, lowest order first."""

_TWO_THIRDS_LOG2_E = (0.9617966939259756, 5.0577616648125907e-17)
_LN2 = (0.6931471805599453, 2.3190468138462996e-17)
_LARGEST_Y = 2.0**65
"""From here on x^y is 0, 1 or infinity: log2 of the number next to 1 is above 2^-54."""
_LARGEST_EXPONENT = 1100.0


def power(s: Arithmetic, x: Val, y: Val) -> Val:
    if x.type.element == "float":
        wide = _power(s, s.cast(x, DType.F64), s.cast(y, DType.F64), is_narrow=True)
        return s.cast(wide, DType.F32)
    return _power(s, x, y, is_narrow=False)


def _power(s: Arithmetic, x: Val, y: Val, *, is_narrow: bool) -> Val:
    c = constants(s, x)
    zero, one, infinity = c(0.0), c(1.0), c(math.inf)
    a = s.abs(x)
    z = _of_exponential(s, a, y) if is_narrow else _of_pair(s, a, y)
    z = s.select(s.equal(a, one), one, z)
    # 0 and infinity: which of the two it is depends on the sign of y.
    is_end = s.logical_or(s.equal(a, zero), s.equal(a, infinity))
    grows = s.equal(s.greater(y, zero), s.equal(a, infinity))
    z = s.select(is_end, s.select(grows, infinity, zero), z)
    # The sign, and nan where there is no real power.
    is_whole = _is_whole(s, y)
    is_odd = s.logical_and(is_whole, s.logical_not(_is_whole(s, s.mul(y, c(0.5)))))
    z = s.intrinsic("copysign", z, s.select(is_odd, x, one))
    is_negative = s.logical_and(s.less(x, zero), s.greater(x, c(-math.inf)))
    z = s.select(s.logical_and(is_negative, s.logical_not(is_whole)), c(math.nan), z)
    z = s.select(s.compare("uno", x, y), s.add(x, y), z)
    is_one = s.logical_or(s.equal(y, zero), s.equal(x, one))
    return s.select(is_one, one, z)


def _is_whole(s: Arithmetic, y: Val) -> Val:
    """Whether y has no fraction; infinities have none."""
    limit = s.const(2.0**F64.fraction_bits, y)
    a = s.abs(y)
    rounded = s.sub(s.add(a, limit), limit)
    return s.logical_or(s.equal(rounded, a), s.greater_equal(a, limit))


def _of_exponential(s: Arithmetic, a: Val, y: Val) -> Val:
    low, high = F64.exp_range
    exponent = s.mul(y, log(s, a))
    return exp_in_range(s, at_least(s, low, at_most(s, high, exponent)))


def _of_pair(s: Arithmetic, a: Val, y: Val) -> Val:
    """2^(p + q) with p + q = y log2 a in two parts: 2^n e^w (1 + v)."""
    c = constants(s, a)
    log_high, log_low = _log2(s, a)
    y = at_least(s, -_LARGEST_Y, at_most(s, _LARGEST_Y, y))
    p, q = two_product(s, y, log_high)
    q = s.add(q, s.mul(y, log_low))
    q = s.select(s.less(s.abs(p), c(_LARGEST_EXPONENT)), q, c(0.0))
    p = at_least(s, -_LARGEST_EXPONENT, at_most(s, _LARGEST_EXPONENT, p))
    shifted = s.add(p, c(F64.magic))
    fraction = s.sub(p, s.sub(shifted, c(F64.magic)))
    w, v = two_product(s, fraction, c(_LN2[0]))
    v = s.add(v, s.add(s.mul(fraction, c(_LN2[1])), s.mul(q, c(_LN2[0]))))
    e = exp_polynomial(s, w)
    return times_power(s, s.add(e, s.fma(v, e, v)), shifted, p)


def _log2(s: Arithmetic, a: Val) -> tuple[Val, Val]:
    """log2 a in two parts for a above 0 and finite, relative error about 2^-65.

    a = m 2^e, f = m - 1, t = f / (2 + f): log2 m = 2/3 log2(e) t (3 + z + z^2 Q(z)), z = t^2.
    """
    c = constants(s, a)
    is_denormal = s.less(a, c(2.0 ** (1 - F64.bias)))
    places = float(F64.fraction_bits)
    scaled = s.mul(a, s.select(is_denormal, c(2.0**places), c(1.0)))
    m, e = split(s, scaled)
    e = s.sub(e, s.select(is_denormal, c(places), c(0.0)))
    f, base = s.sub(m, c(1.0)), s.add(m, c(1.0))
    base_low = s.sub(m, s.sub(base, c(1.0)))

    t = s.div(f, base)
    back, back_low = two_product(s, t, base)
    rest = s.sub(s.sub(s.sub(f, back), back_low), s.mul(t, base_low))
    t_low = s.div(rest, base)

    z, z_low = two_product(s, t, t)
    z_low = s.add(z_low, s.mul(s.add(t, t), t_low))
    series, series_low = ordered_sum(s, c(3.0), z)
    series_low = s.add(series_low, s.fma(s.mul(z, z), horner(s, _LOG_TERMS, z), z_low))
    series, series_low = ordered_sum(s, series, series_low)

    u, u_low = _pair_product(s, (t, t_low), (series, series_low))
    high, low = _TWO_THIRDS_LOG2_E
    k, k_low = _pair_product(s, (u, u_low), (c(high), c(low)))
    total, total_low = ordered_sum(s, e, k)
    return total, s.add(total_low, k_low)


def _pair_product(s: Arithmetic, a: tuple[Val, Val], b: tuple[Val, Val]) -> tuple[Val, Val]:
    high, low = two_product(s, a[0], b[0])
    return high, s.add(low, s.fma(a[0], b[1], s.mul(a[1], b[0])))
