"""What goes with any update rule: clipping, regularisation and noise.

The order is the toolkit's: the gradient is clipped, gets the L2 term, the rule makes its step, then
noise is added to the parameter and the L1 term shrinks it. Which terms there are is compiled in;
their numbers are given at every call, worked out for its samples.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from graphc.ir.core import IRBuilder, Value
from graphc.ops import functions
from graphc.ops.elementwise import cast
from graphc.ops.formula import Formula, sqrt, total, where
from graphc.ops.learners import Rule
from graphc.ops.movement import reshape
from graphc.ops.random import uniform

Clipping = Literal["none", "elements", "norm", "global-norm"]
CLIPPINGS: tuple[Clipping, ...] = ("none", "elements", "norm", "global-norm")

CLIP_THRESHOLD = "clip_threshold"
L2_WEIGHT = "l2_weight"
NOISE_DEVIATION = "noise_deviation"
L1_THRESHOLD = "l1_threshold"

NEUTRAL: dict[str, float] = {
    CLIP_THRESHOLD: math.inf,
    L2_WEIGHT: 0.0,
    NOISE_DEVIATION: 0.0,
    L1_THRESHOLD: 0.0,
}
"""The numbers with which a term changes nothing."""


@dataclass(frozen=True)
class Terms:
    """The terms that a step is compiled with.

    clip   what is held to `clip_threshold`: each element of a gradient, the norm of each gradient,
           or the norm of all gradients together
    l2     `l2_weight` times the parameter is added to the gradient
    noise  normal noise of `noise_deviation` is added to the parameter
    l1     the parameter goes towards 0 by `l1_threshold`, and no further than 0
    """

    clip: Clipping = "none"
    l2: bool = False
    noise: bool = False
    l1: bool = False

    def __str__(self) -> str:
        """As messages say it: `l2, noise` or `no further terms`."""
        clip = [f"clipping of {self.clip}"] if self.clip != "none" else []
        return ", ".join([*clip, *(n for n in ("l2", "noise", "l1") if getattr(self, n))]) or (
            "no further terms"
        )

    @property
    def numbers(self) -> tuple[str, ...]:
        """What a call is given for them."""
        named = {
            CLIP_THRESHOLD: self.clip != "none",
            L2_WEIGHT: self.l2,
            NOISE_DEVIATION: self.noise,
            L1_THRESHOLD: self.l1,
        }
        return tuple(name for name, is_there in named.items() if is_there)

    @property
    def moves_all(self) -> bool:
        """Whether rows without a gradient change too, or their gradients have to be seen."""
        return self.clip in ("norm", "global-norm") or self.l2 or self.noise or self.l1

    def fits(self, compiled: Terms) -> bool:
        """Whether a step compiled for those terms can do what these say."""
        others = all(getattr(compiled, t) for t in ("l2", "noise", "l1") if getattr(self, t))
        return others and self.clip in ("none", compiled.clip)


NO_TERMS = Terms()


@dataclass(frozen=True)
class Noise:
    """What decides the noise of a parameter: step is i64, the number of calls before this one."""

    seed: int
    name: str
    step: Value


def clip_norms(
    b: IRBuilder, terms: Terms, gradients: Sequence[Value], numbers: Mapping[str, Value]
) -> list[Value]:
    """The gradients with their norms held to the threshold, of each or of all together."""
    if terms.clip not in ("norm", "global-norm"):
        return list(gradients)
    threshold = Formula(b, numbers[CLIP_THRESHOLD])
    given = [Formula(b, g) for g in gradients]
    if terms.clip == "global-norm":
        made = _within_norm(given, threshold)
    else:
        made = [g for one in given for g in _within_norm([one], threshold)]
    return [g.value for g in made]


def updated(
    b: IRBuilder,
    rule: Rule,
    terms: Terms,
    gradient: Value,
    tables: Sequence[Value],
    numbers: Mapping[str, Value],
    noise: Noise | None = None,
) -> list[Value]:
    """The new parameter and states, of those in `tables`, with all terms but the clipping of norms.

    numbers  of the rule and of the terms
    """
    parameter, *states = tables
    numbers = {name: _of_rank(b, value, parameter.tensor.rank) for name, value in numbers.items()}
    named = {name: Formula(b, value) for name, value in numbers.items()}
    g, w = Formula(b, gradient), Formula(b, parameter)
    if terms.clip == "elements":
        g = _within(g, named[CLIP_THRESHOLD])
    if terms.l2:
        g = g + named[L2_WEIGHT] * w
    own = {name: numbers[name] for name in rule.numbers}
    value, new_states = rule.update(b, g.value, parameter, states, own)
    new = Formula(b, value)
    if noise is not None:
        new = new + named[NOISE_DEVIATION] * _normal(new, noise)
    if terms.l1:
        new = _shrunk(new, named[L1_THRESHOLD])
    return [new.value, *new_states]


def _within(g: Formula, threshold: Formula) -> Formula:
    """Each element between -threshold and threshold; what is no number stays so."""
    return where(g > threshold, threshold, where(g < -threshold, -threshold, g))


def _within_norm(gradients: Sequence[Formula], threshold: Formula) -> list[Formula]:
    """The gradients times one number: their common Euclidean norm is at most the threshold."""
    b, rank = threshold.b, threshold.value.tensor.rank
    squares = [Formula(b, _of_rank(b, total(g * g).value, rank)) for g in gradients]
    norm = sqrt(reduce(Formula.__add__, squares))
    factor = where(norm > threshold, threshold / norm, 1.0)
    ranks = [g.value.tensor.rank for g in gradients]
    return [
        Formula(b, _of_rank(b, factor.value, rank)) * g
        for g, rank in zip(gradients, ranks, strict=True)
    ]


def _of_rank(b: IRBuilder, number: Value, rank: int) -> Value:
    """A tensor of one element with so many axes."""
    return number if number.tensor.rank == rank else reshape(b, number, (1,) * rank)


def _shrunk(w: Formula, threshold: Formula) -> Formula:
    """Towards 0 by the threshold: what is not above it in size becomes 0, what is no number stays
    so."""
    return w - _within(w, threshold)


def _normal(like: Formula, noise: Noise) -> Formula:
    """Numbers of the normal distribution, by the transformation of Box and Muller."""
    b, type = like.b, like.value.tensor

    def drawn(use: str) -> Formula:
        name = f"{use} {noise.name}".encode()
        stream = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little")
        numbers = uniform(b, type.dims, seed=noise.seed, stream=stream, step=noise.step)
        return Formula(b, cast(b, numbers, type.dtype))

    radius, angle = drawn("radius"), drawn("angle")
    length = sqrt(-2.0 * _log(1.0 - radius))
    return length * _cos(2.0 * math.pi * angle)


def _log(x: Formula) -> Formula:
    return Formula(x.b, functions.log(x.b, x.value))


def _cos(x: Formula) -> Formula:
    return Formula(x.b, functions.cos(x.b, x.value))
