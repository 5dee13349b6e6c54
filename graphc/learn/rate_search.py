"""The learning rate before an epoch, found by trials.

The rule of the toolkit's `AutoAdjustLR=SearchBeforeEpoch`. A trial trains some minibatches at a
rate and says the criterion they reached; afterwards everything is as it was. Here a trial is a
function from a rate to a criterion, so the search can be tried by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from graphc.learn.schedule import Schedule
from graphc.support.arguments import truth, whole
from graphc.support.diagnostics import fail

SHRINK = 0.618
LEAST_RATE = 1e-9
"""Per sample: where rates are chosen, training ends below it; trials go a little lower."""
LEAST_TRIAL = 0.3 * LEAST_RATE
FIRST = 1 / 8
"""The first rate to try, for a sample of a minibatch of one."""
SHARE_OF_PREVIOUS = 0.3
LEFT_END = 0.01
"""Per minibatch: the lowest rate of the search between two ends."""
NEAR = 1.2


@dataclass(frozen=True, slots=True)
class SearchBeforeEpoch:
    """Searches the rate of every epoch that the learner's schedule does not list.

    minibatches     of a trial, an epoch's own number or the last one; at most an epoch's samples
    previous_rates  a search begins above the largest of so many rates that were found before
    refined_epochs  in so many first epochs the rate is searched between two ends, too
    use_validation  the epoch before is judged by the validation data, if there are any
    node            an evaluation node to judge the epoch before by, in place of the criterion
    listed          how many first epochs keep the learner's own rates; by default as many as its
                    list has, a single rate being a list of one
    """

    minibatches: Schedule | float = 500
    previous_rates: int = 5
    refined_epochs: int = 1
    use_validation: bool = True
    node: str | None = None
    listed: int | None = None

    def __post_init__(self) -> None:
        if self.listed is not None:
            whole(self.listed, "listed")
        truth(self.use_validation, "use_validation")
        trial_minibatches(self.minibatches, 0)
        for name, least in (("previous_rates", 1), ("refined_epochs", 0)):
            value = getattr(self, name)
            if value != int(value) or value < least:
                message = f"{name} requires a whole number of at least {least}, got {value}"
                raise fail("bad-value", message)


def trial_minibatches(given: Schedule | float, epoch: int) -> int:
    """The minibatches of a trial before an epoch."""
    count = given.at(epoch) if isinstance(given, Schedule) else given
    if count != int(count) or count < 1:
        raise fail("bad-value", f"minibatches requires whole numbers of at least 1, got {count}")
    return int(count)


@dataclass(frozen=True, slots=True)
class SearchState:
    """What a search knows of those before it.

    rates   found last, the newest at the end
    factor  the last rate over the one before it
    """

    rates: tuple[float, ...] = ()
    factor: float = 1.0

    def after(self, rate: float, before: float, rule: SearchBeforeEpoch) -> SearchState:
        """What the next search knows, after one that found `rate` where `before` was used."""
        rates = (*self.rates, rate)[-rule.previous_rates :]
        return SearchState(rates, rate / before if before else 1.0)


@dataclass(frozen=True, slots=True)
class RateTrial:
    """A rate to try. `base` is the criterion that a rate has to keep to, nan while it is
    unknown."""

    rate: float
    purpose: str
    base: float = math.nan


BASE, DOWNWARDS, LEFT, RIGHT, ENDS = "base", "downwards", "left", "right", "ends"

Try = Callable[[RateTrial], float]
"""The criterion that training at the rate reaches, per sample; nan if it is no number."""


def search_rate(
    rule: SearchBeforeEpoch,
    state: SearchState,
    epoch: int,
    previous: float,
    share: float | None,
    minibatch: int,
    trial: Try,
) -> tuple[float, float]:
    """The rate per sample for an epoch, counted from 0, and the criterion it had to keep to.

    previous   the criterion of the epoch before; infinite if there was none
    share      samples of a trial over those of an epoch, where epochs are windows; else None
    minibatch  samples of an update
    """
    base = _base(previous, share, trial(RateTrial(0.0, BASE)))
    rate, criterion = _first(state, minibatch), math.nan
    while math.isnan(criterion) or criterion > base:
        if rate <= LEAST_TRIAL:
            break
        rate *= SHRINK
        criterion = trial(RateTrial(rate, DOWNWARDS, base))
    if epoch < rule.refined_epochs:
        rate = _between(LEFT_END / minibatch, rate, criterion, base, trial)
    return rate, base


def _base(previous: float, share: float | None, unmoved: float) -> float:
    """The criterion to keep to: that of parameters which do not move, and a part of what was
    reached before, whichever is more."""
    if not math.isfinite(previous):
        previous = unmoved
    ratio = SHARE_OF_PREVIOUS if share is None else math.sqrt(share)
    return max(unmoved, ratio * previous + (1 - ratio) * unmoved)


def _first(state: SearchState, minibatch: int) -> float:
    """The rate above the first one to try."""
    if state.rates and max(state.rates) > 0:
        return max(state.rates) / SHRINK / SHRINK
    return FIRST / SHRINK / math.sqrt(minibatch)


def _between(left: float, right: float, at_right: float, base: float, trial: Try) -> float:
    """The better end, after the worse one was moved inwards until they are near each other."""
    at_left = trial(RateTrial(left, ENDS, base))
    while right > NEAR * left:
        if at_right > at_left or math.isnan(at_right):
            right *= SHRINK
            at_right = trial(RateTrial(right, RIGHT, base))
        else:
            left /= SHRINK
            at_left = trial(RateTrial(left, LEFT, base))
    return left if at_left < at_right else right
