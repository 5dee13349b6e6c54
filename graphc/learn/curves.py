"""Rates that change from update to update: warm-up, cosine, step decay, and what is made of them.

A curve says a rate for each update, counted from 0 over the whole training; the number is that of
`TrainingStep.steps`, so a training that goes on where another stopped goes on along its curve. They
are written with `choose` and `cos`, which take updates that are not known yet: C computes them too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from graphc.learn.learner import is_number
from graphc.learn.schedule import Rates
from graphc.support.diagnostics import fail
from graphc.support.formulas import Formula, choose, cos


@runtime_checkable
class Curve(Protocol):
    """`Warmup`, `Cosine`, `StepDecay`, or a record of one's own."""

    def at_update(self, update: int) -> float:
        """The rate of an update, counted from 0: finite, at least 0."""
        ...


Rate = Rates | Curve
"""A number, a list over epochs, or a curve over updates."""


@dataclass(frozen=True)
class Cosine:
    """From `start` to `end` along half a cosine, over `updates` updates; `end` from then on.

    end + (start - end) (1 + cos(π t / updates)) / 2 in update t (Loshchilov and Hutter, SGDR, 2017,
    without restarts).
    """

    start: float
    updates: int
    end: float = 0.0

    def __post_init__(self) -> None:
        _require_rates(self, start=self.start, end=self.end)
        _require_count(self, updates=self.updates)

    def at_update(self, update: int) -> float:
        return choose(update >= self.updates, lambda: self.end, lambda: self._before(update))

    def _before(self, update: int) -> float:
        share = (1 + cos(math.pi * update / self.updates)) / 2
        return self.end + (self.start - self.end) * share


@dataclass(frozen=True)
class StepDecay:
    """`start`, times `factor` after every `every` updates."""

    start: float
    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        _require_rates(self, start=self.start, factor=self.factor)
        _require_count(self, every=self.every)
        if self.factor > 1:
            raise fail("bad-value", f"StepDecay requires a factor of at most 1, got {self.factor}")

    def at_update(self, update: int) -> float:
        return self.start * self.factor ** (update // self.every)


@dataclass(frozen=True)
class Warmup:
    """In a straight line from `start` to the first rate of `then`, in `updates` updates; then that,
    whose own updates count from there.

    then  a rate, or another curve: `Warmup(100, Cosine(0.1, 10_000))`
    """

    updates: int
    then: float | Curve
    start: float = 0.0

    def __post_init__(self) -> None:
        _require_rates(self, start=self.start)
        _require_count(self, updates=self.updates)
        if not isinstance(self.then, Curve):
            _require_rates(self, then=self.then)

    def at_update(self, update: int) -> float:
        after = update - self.updates
        is_over = update >= self.updates
        return choose(is_over, lambda: rate_at(self.then, after), lambda: self._before(update))

    def _before(self, update: int) -> float:
        top = rate_at(self.then, 0)
        return self.start + (top - self.start) * (update / self.updates)


def rate_at(rate: float | Curve, update: int) -> float:
    """The rate of an update, counted from 0. GraphcError `bad-value` for what is none."""
    if not isinstance(rate, Curve):
        return rate
    value = rate.at_update(update)
    if isinstance(value, Formula):
        return value
    if not is_number(value, 0, math.inf):
        message = f"a curve requires rates that are finite and at least 0, got {value} in update "
        raise fail("bad-value", f"{message}{update}")
    return float(value)


def _require_rates(curve: object, **given: object) -> None:
    for name, value in given.items():
        if not is_number(value, 0, math.inf):
            wanted = f"{type(curve).__name__} requires {name} to be a finite number of at least 0"
            raise fail("bad-value", f"{wanted}, got {value}")


def _require_count(curve: object, **given: object) -> None:
    for name, value in given.items():
        if not isinstance(value, int) or value < 1:
            wanted = f"{type(curve).__name__} requires {name} to be a whole number of at least 1"
            raise fail("bad-value", f"{wanted}, got {value!r}")
