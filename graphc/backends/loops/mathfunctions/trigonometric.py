"""sin and cos: the angle reduced to a quarter turn, then one of two polynomials.

The sum is done in f64 for both types. Angles up to 2^20 (f32: 2^22) subtract n pi/2 in parts with
so many trailing zeros that the products are exact; larger ones leave the vector for `angles.py`,
one lane at a time, when any lane needs it.
"""

from __future__ import annotations

from graphc.backends.loops.arithmetic import Arithmetic
from graphc.backends.loops.control import when
from graphc.backends.loops.mathfunctions.angles import reduce_lanes
from graphc.backends.loops.mathfunctions.formats import F64, constants, horner
from graphc.backends.loops.mathfunctions.pairs import ordered_sum, two_sum
from graphc.backends.loops.values import Val
from graphc.ir.types import DType

_TWO_OVER_PI = 0.6366197723675814

_PI_HALVES = (
    1.5707963267341256,
    6.077100506303966e-11,
    2.0222662487111665e-21,
    8.4784276603689e-32,
)
"""pi/2 in four parts, the first three of 33 bits: times n < 2^20 they are exact."""
_LIMIT = 2.0**20

_NARROW_PI_HALVES = (1.570796325802803, 9.920935796805404e-10)
"""pi/2 in two parts, the first of 29 bits."""
_NARROW_LIMIT = 2.0**22

_SIN_TERMS = (
    -0.1666666666666663,
    0.00833333333332182,
    -0.00019841269829332347,
    2.755731352722258e-06,
    -2.505073236620824e-08,
    1.5895304398961684e-10,
)
"""(sin(r)/r - 1) / z in z = r^2 for abs r <= 1.003 pi/4, lowest order first."""
_COS_TERMS = (
    0.04166666666666659,
    -0.0013888888888872251,
    2.480158728836592e-05,
    -2.755731404221761e-07,
    2.087568250644309e-09,
    -1.1357597483037368e-11,
)
"""(cos(r) - 1 + z/2) / z^2."""
_NARROW_SIN_TERMS = (
    -0.16666666640130853,
    0.008333329228612418,
    -0.00019839287908334063,
    2.717890245079886e-06,
)
_NARROW_COS_TERMS = (
    -0.4999999999947246,
    0.04166666655049644,
    -0.001388888050220733,
    2.4798927693292335e-05,
    -2.7172410651434654e-07,
)
"""(cos(r) - 1) / z; both to f32's accuracy."""


def sin(s: Arithmetic, x: Val) -> Val:
    return _turned(s, x, 0)


def cos(s: Arithmetic, x: Val) -> Val:
    return _turned(s, x, 1)


def _turned(s: Arithmetic, x: Val, quarters: int) -> Val:
    """sin(x + quarters pi/2); the sign of x counts for the sine only."""
    is_narrow = x.type.element == "float"
    wide = s.cast(x, DType.F64)
    a = s.abs(wide)
    quadrant, r, r_low = _reduced(s, a, is_narrow=is_narrow)
    if quarters:
        quadrant = s.add(quadrant, s.const(quarters, quadrant))
    sine, cosine = _narrow_pair(s, r) if is_narrow else _pair(s, r, r_low)
    odd = s.not_equal(_masked(s, quadrant, 1), s.const(0, quadrant))
    y = s.bits(s.select(odd, cosine, sine))
    # Bit 1 of the quadrant is the sign of its half turn.
    sign = s.code.binary("shl", _masked(s, quadrant, 2), s.const(62, quadrant))
    if not quarters:
        sign = s.code.binary("xor", sign, _masked(s, s.bits(wide), -(2**63)))
    return s.cast(s.bits(s.code.binary("xor", y, sign)), DType.F32 if is_narrow else DType.F64)


def _masked(s: Arithmetic, bits: Val, mask: int) -> Val:
    return s.code.binary("and", bits, s.const(mask, bits))


def _reduced(s: Arithmetic, a: Val, *, is_narrow: bool) -> tuple[Val, Val, Val]:
    """(n, r, r_low): a = n pi/2 + r + r_low, of n only the low bits; r is nan for infinity."""
    c = constants(s, a)
    shifted = s.add(s.mul(a, c(_TWO_OVER_PI)), c(F64.magic))
    n = s.sub(shifted, c(F64.magic))
    r, r_low = _narrow_remainder(s, a, n) if is_narrow else _remainder(s, a, n)
    values = [s.bits(shifted), r, r_low]
    is_large = s.greater_equal(a, c(_NARROW_LIMIT if is_narrow else _LIMIT))
    with when(s.code, _any(s, is_large), values) as inside:
        safe = s.select(is_large, a, c(_NARROW_LIMIT))
        exact = reduce_lanes(s, safe)
        inside[:] = [s.select(is_large, new, old) for new, old in zip(exact, inside, strict=True)]
    quadrant, r, r_low = values
    return quadrant, s.add(r, s.sub(a, a)), r_low


def _remainder(s: Arithmetic, a: Val, n: Val) -> tuple[Val, Val]:
    """a - n pi/2, error below 2^-150 n."""
    first, second, third, fourth = (s.mul(n, s.const(part, n)) for part in _PI_HALVES)
    r = s.sub(a, first)  # exact: the two are close together
    r, low_1 = two_sum(s, r, s.neg(second))
    r, low_2 = two_sum(s, r, s.neg(third))
    return ordered_sum(s, r, s.sub(s.add(low_1, low_2), fourth))


def _narrow_remainder(s: Arithmetic, a: Val, n: Val) -> tuple[Val, Val]:
    first, second = (s.mul(n, s.const(part, n)) for part in _NARROW_PI_HALVES)
    return s.sub(s.sub(a, first), second), s.const(0.0, a)


def _any(s: Arithmetic, truth: Val) -> Val:
    """Whether any lane holds."""
    if truth.type.lanes == 1:
        return truth
    return s.code.fold_truth("or", truth)


def _pair(s: Arithmetic, r: Val, r_low: Val) -> tuple[Val, Val]:
    """sin and cos of r + r_low."""
    c = constants(s, r)
    z = s.mul(r, r)
    half = s.mul(z, c(0.5))
    near_one = s.sub(c(1.0), half)
    sine = s.fma(s.mul(z, r), horner(s, _SIN_TERMS, z), s.mul(r_low, near_one))
    series = s.fma(s.mul(z, z), horner(s, _COS_TERMS, z), s.neg(s.mul(r, r_low)))
    lost = s.sub(s.sub(c(1.0), near_one), half)
    return s.add(r, sine), s.add(near_one, s.add(lost, series))


def _narrow_pair(s: Arithmetic, r: Val) -> tuple[Val, Val]:
    z = s.mul(r, r)
    sine = s.fma(s.mul(r, z), horner(s, _NARROW_SIN_TERMS, z), r)
    return sine, s.fma(z, horner(s, _NARROW_COS_TERMS, z), s.const(1.0, z))
