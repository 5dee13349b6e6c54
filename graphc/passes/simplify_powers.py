"""Patterns of `simplify` for powers with a constant exponent, those that lose no bit.

x^0, x^1, x^2 and x^-1 are a number, the base, a product and a quotient, rounded once, for every
base: nan, infinities and both zeros included. Leaves alone: x^0.5, which differs from the square
root at -0 and -infinity, and x^3, whose product is rounded twice.
"""

from __future__ import annotations

from graphc.ir.core import IRBuilder, Operation
from graphc.ir.rewriter import Pattern
from graphc.ops.constant import full_like
from graphc.ops.elementwise import div, mul
from graphc.ops.functions import POWER
from graphc.passes.matching import Result, splat


def _constant_power(b: IRBuilder, op: Operation) -> Result:
    x, y = op.operands
    match splat(y):
        case 0:
            return [full_like(b, 1.0, op.result)]
        case 1:
            return [x]
        case 2:
            return [mul(b, x, x)]
        case -1:
            return [div(b, full_like(b, 1.0, x), x)]
        case _:
            return None


POWER_PATTERNS: tuple[Pattern, ...] = (Pattern("power-constant", POWER, _constant_power),)
