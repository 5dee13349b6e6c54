"""Mathematical functions from arithmetic alone, for f32 and f64, one lane or many.

`docs/numerics.md` says how the coefficients were found and what error was measured. Special values
(zeros, infinities, nan, denormals, both ends of the range) follow IEEE 754's recommendations.
"""

from __future__ import annotations

from graphc.backends.loops.mathfunctions.arctangent import arctan
from graphc.backends.loops.mathfunctions.exponential import (
    erf,
    exp,
    exp_of_at_most_zero,
    expm1,
    log,
    log1p,
    sigmoid,
    tanh,
)
from graphc.backends.loops.mathfunctions.powers import power
from graphc.backends.loops.mathfunctions.trigonometric import cos, sin

__all__ = [
    "arctan",
    "cos",
    "erf",
    "exp",
    "exp_of_at_most_zero",
    "expm1",
    "log",
    "log1p",
    "power",
    "sigmoid",
    "sin",
    "tanh",
]
