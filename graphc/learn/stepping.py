"""ArrayFlow's optimiser: a step size that follows the losses, along an average of gradients.

Per call, with the gradient of the loss at x (equations 73 and 74):
    g ← β grad + (1 - β) g;   x ← x - s g
and the step size s by these rules (section 5, Algorithm 1), on the mean of the last m losses:
    it grows by 2 % while the mean falls, until the mean first turns up
    it shrinks by 1 % whenever the mean rises and bends upwards; from then on it never grows
Slope and curvature are the backward differences over the last four means, c1 = [-1/3, 3/2, -3,
11/6] and c2 = [-1, 4, -5, 2], written over the three changes between them: so they are exactly 0
where nothing changes.

The pseudocode of Algorithm 1 puts the new direction in place of x and mixes in the last gradient
alone; the equations are what is meant and what is done here. A compiled step computes loss and
update at once, so the size of a step follows from the losses of the calls before it. A loop that
has the loss before it steps can observe first and be exactly Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise

from graphc.learn.learner import is_number
from graphc.ops.learner_terms import L2_WEIGHT, Terms
from graphc.ops.learners import STEPPING_HEURISTIC, Rule
from graphc.support.diagnostics import fail

BETA = 0.5
HISTORY = 10
GROWTH = 1.02
DECAY = 0.99
MEANS = 4
SLOPE = (2.0, -7.0, 11.0)  # six times
CURVATURE = (1.0, -3.0, 2.0)


@dataclass(frozen=True, slots=True)
class Stepping:
    """Where the heuristic stands.

    size      the step size now
    losses    the last losses, oldest first, and `means` the last four means over them
    may_grow  whether the mean has never turned up yet
    """

    size: float
    losses: tuple[float, ...] = ()
    means: tuple[float, ...] = ()
    may_grow: bool = True

    def after(self, loss: float, history: int) -> Stepping:
        """Where it stands after one more loss, means being taken over `history` losses.

        The first loss stands for all before it. A loss that is no number leaves the size alone.
        """
        losses = (*(self.losses or (loss,)), loss)[-history:]
        means = (*(self.means or (loss,) * MEANS)[1:], _mean(losses))
        changes = [new - old for old, new in pairwise(means)]
        slope, curvature = _weighted(SLOPE, changes), _weighted(CURVATURE, changes)
        seen = replace(self, losses=losses, means=means)
        if slope > 0 and curvature > 0:
            return replace(seen, size=DECAY * self.size, may_grow=False)
        if self.may_grow and slope < 0:
            return replace(seen, size=GROWTH * self.size)
        return seen


def _mean(values: Sequence[float]) -> float:
    """Exactly the value where all are equal."""
    first = values[0]
    return first + sum(v - first for v in values) / len(values)


def _weighted(weights: Sequence[float], values: Sequence[float]) -> float:
    return sum(w * v for w, v in zip(weights, values, strict=True))


class SteppingHeuristic:
    """A learner that finds its step size itself, from the losses it observes.

    step_size  the first one, per minibatch of the nominal size; small against 1
    beta       weight of a call's gradient in the direction, in (0, 1]
    history    number of losses that are averaged, at least 1
    l2         L2 regularisation per sample: l2·N·w is added to the gradient

    It remembers what it observed, so each training wants one of its own. `stepping` is that
    memory, a record that can be kept and set again.
    """

    def __init__(
        self,
        step_size: float = 0.001,
        *,
        beta: float = BETA,
        history: int = HISTORY,
        l2: float = 0.0,
    ) -> None:
        for name, value in (("step_size", step_size), ("l2", l2)):
            if not is_number(value, 0, math.inf):
                raise fail(
                    "bad-value", f"{name} requires a finite number of at least 0, got {value}"
                )
        if not is_number(beta, 0, math.inf) or not 0 < beta <= 1:
            raise fail("bad-value", f"beta requires a number above 0, at most 1, got {beta}")
        if not is_number(history, 1, math.inf) or history != int(history):
            raise fail("bad-value", f"history requires a whole number from 1, got {history}")
        self.beta = beta
        self.history = int(history)
        self.stepping = Stepping(step_size)
        self.l2 = l2

    @property
    def rule(self) -> Rule:
        return STEPPING_HEURISTIC

    @property
    def terms(self) -> Terms:
        return Terms(l2=bool(self.l2))

    @property
    def memory(self) -> Mapping[str, object]:
        """`stepping` as a table of numbers and lists, for checkpoints; it can be set again."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in self._fields()}

    @memory.setter
    def memory(self, memory: Mapping[str, object]) -> None:
        found = {n: tuple(v) if isinstance(v, list) else v for n, v in memory.items()}
        self.stepping = replace(self.stepping, **found)  # type: ignore[arg-type]  # as they were

    def _fields(self) -> Iterator[tuple[str, object]]:
        return ((f.name, getattr(self.stepping, f.name)) for f in fields(self.stepping))

    @property
    def step_size(self) -> float:
        """What the next step takes, per minibatch of the nominal size."""
        return self.stepping.size

    def hyperparameters(self, samples: int, nominal: int, update: int = 0) -> dict[str, float]:
        """What a call is given, at a nominal minibatch of `nominal`."""
        numbers = {"learning_rate": self.rate_per_sample(nominal), "beta": self.beta}
        return numbers | ({L2_WEIGHT: self.l2 * samples} if self.l2 else {})

    def observe(self, loss: float) -> None:
        """Choose the size of the next step."""
        self.stepping = self.stepping.after(loss, self.history)

    def at(self, epoch: int) -> SteppingHeuristic:  # the losses alone count
        """Itself, in every epoch."""
        return self

    def changes(self) -> list[int]:
        return [0]

    def rate_per_sample(self, nominal: int, update: int = 0) -> float:
        """What the next step takes, at a nominal minibatch of `nominal`."""
        return self.stepping.size / nominal

    def with_rate_per_sample(self, rate: float) -> SteppingHeuristic:
        message = f"SteppingHeuristic chooses its step size itself, got a rate of {rate:g} for it"
        raise fail("bad-option", message)

    def __repr__(self) -> str:
        return (
            f"SteppingHeuristic(step_size={self.step_size:g}, beta={self.beta:g}, "
            f"history={self.history}, l2={self.l2:g})"
        )
