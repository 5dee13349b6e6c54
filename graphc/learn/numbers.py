"""Numbers of learners: a float, or a `Schedule` of one for each epoch, each in its range."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from graphc.learn.learner import is_number
from graphc.learn.schedule import Rates, Schedule
from graphc.support.diagnostics import fail


@dataclass(frozen=True)
class Range:
    """Which numbers are allowed: `least` <= number < `below`; with `open`, `least` is not."""

    least: float = 0.0
    below: float = math.inf
    open: bool = False

    def __contains__(self, value: object) -> bool:
        return is_number(value, self.least, self.below) and not (self.open and value == self.least)

    def __str__(self) -> str:
        if self.least == -math.inf and self.below == math.inf:
            return "a finite number"
        if self.below == math.inf:
            least = "above" if self.open else "of at least"
            return f"a finite number {least} {self.least:g}"
        least = "above" if self.open else "from"
        return f"a number {least} {self.least:g} to below {self.below:g}"


RATE, SHARE, POSITIVE = Range(), Range(below=1.0), Range(open=True)


Number = float | np.ndarray
"""A number of one call, or f64[calls] of several."""
Update = int | range
"""A call by how many came before it, or several calls. A `Formula` stands for a number that is
not known yet (`step_files.py`): what follows from it has the arithmetic of numbers alone."""


def along(f: Callable[[int], float], update: Update) -> Number:
    """f of one call, or of each of several: computed alike, so that the numbers are the same."""
    return np.array([f(u) for u in update]) if isinstance(update, range) else f(update)


def read_number(given: Rates | None, name: str, allowed: Range) -> float | Schedule:
    """A number, or the schedule of what is no single number; GraphcError unless all are allowed."""
    if isinstance(given, str | list | tuple | Schedule):
        schedule = Schedule.parse(given, option=name)
        for value, _ in schedule.values:
            _checked(value, name, allowed)
        return schedule if len(schedule.values) > 1 else schedule.at(0)
    return _checked(given, name, allowed)


def _checked(value: object, name: str, allowed: Range) -> float:
    if value not in allowed:
        raise fail("bad-value", f"{name} requires {allowed}, got {value}")
    assert isinstance(value, int | float | np.number)
    return float(value)


def first(number: Rates) -> float:
    """The number, of a schedule that of its first epoch: until an epoch is asked for, it counts."""
    if isinstance(number, Schedule):
        return number.at(0)
    assert isinstance(number, float), "`read_number` has been here"
    return number


def is_used(number: Rates) -> bool:
    """Whether it is other than 0 in any epoch."""
    if isinstance(number, Schedule):
        return any(value for value, _ in number.values)
    return bool(number)
