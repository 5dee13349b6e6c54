"""The minibatch size before an epoch, found by trials: the toolkit's `AutoAdjustMinibatch`.

As large as may be without harm to the criterion, after Seide, Fu, Droppo, Li and Yu, "On
parallelizability of stochastic gradient descent for speech DNNs", ICASSP 2014. A trial is a
function from a size to a criterion, as in `rate_search.py`; the rate per sample stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from graphc.learn.rate_search import trial_minibatches
from graphc.learn.schedule import Schedule
from graphc.support.diagnostics import fail

MULTIPLE = 64
MOST = 1 << 20
FIRST_EPOCHS = 2
"""Before this epoch, a size that was chosen earlier counts for nothing."""


@dataclass(frozen=True, slots=True)
class AdaptiveMinibatch:
    """Searches the minibatch of every epoch that the schedule of minibatches does not list.

    interval     epochs between two searches
    maximum      samples of the largest minibatch
    margin       per cent by which the criterion of a larger minibatch may exceed that of the
                 smallest
    minibatches  of a trial, of the size that the schedule says; at most an epoch's samples
    """

    interval: int = 1
    maximum: int = MOST
    margin: float = 1.0
    minibatches: Schedule | float = 500

    def __post_init__(self) -> None:
        trial_minibatches(self.minibatches, 0)
        for name in ("interval", "maximum"):
            value = getattr(self, name)
            if value != int(value) or value < 1:
                message = f"{name} requires a whole number of at least 1, got {value}"
                raise fail("bad-value", message)
        if not 0 <= self.margin < math.inf:
            raise fail("bad-value", f"margin requires a number of at least 0, got {self.margin}")


@dataclass(frozen=True, slots=True)
class SizeTrial:
    """A size to try. `base` is the criterion of the smallest, nan while that is tried."""

    size: int
    base: float = math.nan


Try = Callable[[SizeTrial], float]
"""The criterion that training with the size reaches, per sample; nan if it is no number."""


def search_minibatch(
    rule: AdaptiveMinibatch, epoch: int, previous: int, listed: int, rate_change: float, trial: Try
) -> int:
    """The minibatch for an epoch, counted from 0.

    previous     that of the epoch before, 0 if there was none
    listed       what the schedule says
    rate_change  the rate per sample now over that of the first epoch: a smaller rate allows for
                 larger minibatches
    """
    least = listed
    if rate_change < 1:
        least = int(least / math.sqrt(rate_change)) if rate_change > 0 else rule.maximum
    if epoch < FIRST_EPOCHS:
        previous = 0
    if previous and epoch + 1 > rule.interval and (epoch + 1) % rule.interval:
        return previous
    most = rule.maximum
    if previous:
        least = max(least, previous // 2)
        most = min(most, 2 * max(previous, listed))
    return most if least > most else _largest(least, most, rule.margin, trial)


def _largest(least: int, most: int, margin: float, trial: Try) -> int:
    """The last of the sizes, each the root of two times the one before, at which the criterion
    keeps to that of the first."""
    found = _rounded(least)
    base = trial(SizeTrial(found))
    for half_power in count(1):
        size = least * 2 ** (half_power / 2)  # exact for every other one
        if size > most:
            break
        rounded = _rounded(size)
        if not trial(SizeTrial(rounded, base)) <= base * (1 + margin / 100):  # or no number
            break
        found = rounded
    return found


def _rounded(size: float) -> int:
    return max(MULTIPLE, MULTIPLE * int((size + MULTIPLE // 2) // MULTIPLE))
