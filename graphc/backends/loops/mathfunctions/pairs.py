"""Sums and products with their rounding errors: numbers of twice the precision as (high, low)."""

from __future__ import annotations

from graphc.backends.loops.arithmetic import Arithmetic
from graphc.backends.loops.values import Val

_SPLITTER = 2.0**27 + 1


def two_sum(s: Arithmetic, a: Val, b: Val) -> tuple[Val, Val]:
    """a + b rounded, and exactly what the rounding lost."""
    high = s.add(a, b)
    b_part = s.sub(high, a)
    low = s.add(s.sub(a, s.sub(high, b_part)), s.sub(b, b_part))
    return high, low


def ordered_sum(s: Arithmetic, a: Val, b: Val) -> tuple[Val, Val]:
    """As `two_sum` where abs a >= abs b or a is 0."""
    high = s.add(a, b)
    return high, s.sub(b, s.sub(high, a))


def two_product(s: Arithmetic, a: Val, b: Val) -> tuple[Val, Val]:
    """a b rounded, and what the rounding lost; f64, magnitudes far from both ends of the range."""
    high = s.mul(a, b)
    if s.has_fma:
        return high, s.fma(a, b, s.neg(high))
    a1, a2 = _halves(s, a)
    b1, b2 = _halves(s, b)
    low = s.sub(s.mul(a1, b1), high)
    low = s.add(s.add(low, s.mul(a1, b2)), s.mul(a2, b1))
    return high, s.add(low, s.mul(a2, b2))


def _halves(s: Arithmetic, a: Val) -> tuple[Val, Val]:
    """a as a sum of two numbers of at most 26 bits (Veltkamp)."""
    scaled = s.mul(a, s.const(_SPLITTER, a))
    high = s.sub(scaled, s.sub(scaled, a))
    return high, s.sub(a, high)
