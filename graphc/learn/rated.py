"""What learners with a rate have in common: numbers that may change from epoch to epoch.

A number of a learner is a float, or a `Schedule` over epochs: whoever trains asks for the learner
`at` an epoch. The update rule never sees a schedule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Self

import numpy as np

from graphc.learn.learner import is_number
from graphc.learn.schedule import Rates, Schedule
from graphc.support.diagnostics import fail


@dataclass(frozen=True)
class Range:
    """Which numbers are allowed: `least` <= number < `below`."""

    least: float = 0.0
    below: float = math.inf

    def __str__(self) -> str:
        if self.below == math.inf:
            return f"a finite number of at least {self.least:g}"
        return f"a number from {self.least:g} to below {self.below:g}"


RATE, SHARE = Range(), Range(below=1.0)


@dataclass(frozen=True)
class RatedLearner:
    """A learner with one of two forms of a rate.

    learning_rate             per minibatch of the nominal size
    learning_rate_per_sample  per sample
    l2                        L2 regularisation per sample: l2·N·w is added to the gradient

    Numbers may be lists over epochs (`Rates`); GraphcError `bad-value` for what is out of range.
    """

    learning_rate: Rates | None = None
    learning_rate_per_sample: Rates | None = field(default=None, kw_only=True)
    l2: float = field(default=0.0, kw_only=True)

    follows_losses: ClassVar[bool] = False
    ranges: ClassVar[Mapping[str, Range]] = {
        "learning_rate": RATE,
        "learning_rate_per_sample": RATE,
    }
    """The numbers that may be lists over epochs, and what is allowed."""

    def __post_init__(self) -> None:
        name = type(self).__name__
        if (self.learning_rate is None) == (self.learning_rate_per_sample is None):
            message = f"{name} requires one of learning_rate and learning_rate_per_sample"
            raise fail("bad-value", message)
        for number, allowed in self.ranges.items():
            given = getattr(self, number)
            if given is not None:
                object.__setattr__(self, number, read_number(given, number, allowed))
        if not is_number(self.l2, 0, math.inf):
            message = f"l2 requires a finite number of at least 0, got {self.l2}"
            raise fail("bad-value", message)

    def at(self, epoch: int) -> Self:
        """The learner of an epoch, counted from 0: numbers in place of lists over epochs."""
        return replace(self, **{n: s.at(epoch) for n, s in self._schedules().items()})

    def changes(self) -> list[int]:
        """The epochs that another number begins in."""
        return sorted({0, *(e for s in self._schedules().values() for e in s.changes())})

    def rate_per_sample(self, nominal: int) -> float:
        """What the gradient of one sample is taken times, at a nominal minibatch of `nominal`."""
        if self.learning_rate is not None:
            return first(self.learning_rate) / nominal
        assert self.learning_rate_per_sample is not None
        return first(self.learning_rate_per_sample)

    def with_rate_per_sample(self, rate: float) -> Self:
        """The learner with this rate in place of its own."""
        return replace(self, learning_rate=None, learning_rate_per_sample=rate)

    def observe(self, loss: float) -> None:
        """The losses change nothing."""

    def _schedules(self) -> dict[str, Schedule]:
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in found.items() if isinstance(value, Schedule)}


def read_number(given: Rates, name: str, allowed: Range) -> float | Schedule:
    """A number, or the schedule of what is no single number; GraphcError unless all are allowed."""
    if isinstance(given, str | list | tuple | Schedule):
        schedule = Schedule.parse(given, option=name)
        for value, _ in schedule.values:
            _checked(value, name, allowed)
        return schedule if len(schedule.values) > 1 else schedule.at(0)
    return _checked(given, name, allowed)


def _checked(value: object, name: str, allowed: Range) -> float:
    if not is_number(value, allowed.least, allowed.below):
        raise fail("bad-value", f"{name} requires {allowed}, got {value}")
    assert isinstance(value, int | float | np.number)
    return float(value)


def first(number: Rates) -> float:
    """The number, of a schedule that of its first epoch: until an epoch is asked for, it counts."""
    if isinstance(number, Schedule):
        return number.at(0)
    assert isinstance(number, float), "`read_number` has been here"
    return number
