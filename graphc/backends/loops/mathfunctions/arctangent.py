"""arctan: the operand turned back by the nearest of five known angles, then a polynomial.

With a = abs x and c the tangent of a known angle, arctan a = arctan c + arctan t with
t = (a - c) / (1 + a c); of the angle pi/2 it is t = -1 / a. So abs t is at most 7/16.
"""

from __future__ import annotations

from graphc.backends.loops.arithmetic import Arithmetic
from graphc.backends.loops.mathfunctions.formats import at_least, constants, horner
from graphc.backends.loops.values import Val

_FROM = (7 / 16, 11 / 16, 19 / 16, 39 / 16)
"""From which operand on each of the angles below is the nearest."""
_TANGENTS = (0.5, 1.0, 1.5)
"""Of the angles but the last, a quarter turn."""

_ANGLES = (
    (0.4636476090008061, 2.2698777452961687e-17),
    (0.7853981633974483, 3.061616997868383e-17),
    (0.982793723247329, 1.3903311031230998e-17),
    (1.5707963267948966, 6.123233995736766e-17),
)
"""In two parts, of which the first is rounded to f64."""
_NARROW_ANGLES = (
    (0.46364760398864746, 5.01215868808913e-09),
    (0.7853981852531433, -2.1855694143368964e-08),
    (0.9827937483787537, -2.5131424052915463e-08),
    (1.5707963705062866, -4.371138828673793e-08),
)
"""Rounded to f32."""

_TERMS = (
    -0.3333333333333292,
    0.1999999999987366,
    -0.1428571427224757,
    0.1111111039384755,
    -0.0909088682927183,
    0.07691871273184564,
    -0.06661022038217755,
    0.05833231388087821,
    -0.04975488287933872,
    0.036499447531630674,
    -0.016253833605370614,
)
"""(arctan(t)/t - 1) / z in z = t^2, for abs t <= 7/16, lowest order first."""
_NARROW_TERMS = (
    -0.3333330452442169,
    0.1999778300523758,
    -0.14230190217494965,
    0.10494107753038406,
    -0.05825312063097954,
)
"""The same to f32's accuracy."""


def arctan(s: Arithmetic, x: Val) -> Val:
    c = constants(s, x)
    is_narrow = x.type.element == "float"
    a = s.abs(x)
    beyond = [s.greater_equal(a, c(start)) for start in _FROM]
    tangent, high, low = c(0.0), c(0.0), c(0.0)
    for is_beyond, value in zip(beyond, _TANGENTS, strict=False):
        tangent = s.select(is_beyond, c(value), tangent)
    angles = _NARROW_ANGLES if is_narrow else _ANGLES
    for is_beyond, parts in zip(beyond, angles, strict=True):
        high, low = (s.select(is_beyond, c(p), v) for p, v in zip(parts, (high, low), strict=True))
    is_far = beyond[-1]
    above = s.select(is_far, c(-1.0), s.sub(a, tangent))
    # Not of the operand itself where it is far: infinity times the tangent stays out of it.
    below = s.select(is_far, a, s.fma(a, tangent, c(1.0)))
    t = s.div(above, below)
    size = at_least(s, 2.0**-30, s.abs(t)) if s.slow_denormals else t
    z = s.mul(size, size)
    polynomial = s.mul(z, horner(s, _NARROW_TERMS if is_narrow else _TERMS, z))
    y = s.add(high, s.add(t, s.fma(t, polynomial, low)))
    return s.intrinsic("copysign", y, x)
