"""The learning rate after an epoch: less where the criterion does not fall, more where it does.

The rule of the toolkit's `AutoAdjustLR=AdjustAfterEpoch`. It is a function from where the rule
stands and what the epoch reached to where it stands then and what is to be done; nothing is trained
here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from graphc.support.arguments import truth, whole
from graphc.support.diagnostics import fail

Change = Literal["", "reduced", "increased"]


@dataclass(frozen=True, slots=True)
class AdjustAfterEpoch:
    """Adjusts the rate from the first epoch on that the learner's schedule does not list.

    Improvements are shares of the criterion before: 0.01 is one per cent.

    reduce_if_improves_less_than    below it, or at it, the rate is taken times `decrease`
    increase_if_improves_more_than  above it the rate is taken times `increase`
    continue_reducing   from the first epoch without improvement on the rate is reduced after every
                        epoch and never increased; the second one ends the training
    interval            epochs between two adjustments, whose criteria are averaged
    load_best           an epoch that made the criterion worse, or no number, is undone: parameters
                        and the learner's memory are again what they were before it
    use_validation      the criterion is that of the validation data, if there are any
    node                an evaluation node to look at in place of the trained criterion
    listed              how many first epochs keep the learner's own rates; by default as many as
                        its list has, a single rate being a list of one
    """

    reduce_if_improves_less_than: float = 0.0
    increase_if_improves_more_than: float = math.inf
    decrease: float = 0.618
    increase: float = 1.382
    continue_reducing: bool = False
    interval: int = 1
    load_best: bool = True
    use_validation: bool = True
    node: str | None = None
    listed: int | None = None

    def __post_init__(self) -> None:
        if self.listed is not None:
            whole(self.listed, "listed")
        for name in ("continue_reducing", "load_best", "use_validation"):
            truth(getattr(self, name), name)
        if not 0 < self.decrease <= 1:
            raise fail("bad-value", f"decrease requires above 0, at most 1, got {self.decrease}")
        if not 1 <= self.increase < math.inf:
            raise fail("bad-value", f"increase requires at least 1, got {self.increase}")
        if math.isnan(self.reduce_if_improves_less_than + self.increase_if_improves_more_than):
            raise fail("bad-value", "an improvement requires a number, got nan")
        if self.interval != int(self.interval) or self.interval < 1:
            message = f"interval requires a whole number of at least 1, got {self.interval}"
            raise fail("bad-value", message)


@dataclass(frozen=True, slots=True)
class RateState:
    """Where the rule stands.

    rate         per sample, of the next epoch
    previous     the criterion that the next one is compared with
    average      of the criteria of this interval so far
    is_reducing  whether `continue_reducing` has begun
    """

    rate: float
    previous: float = math.inf
    average: float = math.inf
    is_reducing: bool = False


@dataclass(frozen=True, slots=True)
class RateOutcome:
    """Where the rule stands after an epoch.

    change    what became of the rate
    undo      the epoch is to be undone
    finished  no other epoch is to be trained
    """

    state: RateState
    change: Change = ""
    undo: bool = False
    finished: bool = False


def adjusts_after(rule: AdjustAfterEpoch, epoch: int, listed: int) -> bool:
    """Whether the rate may change after an epoch, counted from 0; `listed` ones keep theirs."""
    return epoch >= listed and (epoch + 1) % rule.interval == 0


def after_epoch(
    rule: AdjustAfterEpoch, state: RateState, epoch: int, criterion: float, listed: int
) -> RateOutcome:
    """Where the rule stands after an epoch, counted from 0, that was trained at `state.rate`.

    criterion  what it reached: it may be nan
    listed     how many epochs have rates of their own; the rate of the last is where this one
               starts
    """
    place = epoch % rule.interval
    average = (place * state.average + criterion) / (place + 1) if place else criterion
    if not adjusts_after(rule, epoch, listed):
        is_end = place + 1 == rule.interval
        previous = average if is_end else state.previous
        return RateOutcome(replace(state, average=average, previous=previous))
    before = state.previous
    is_compared = math.isfinite(before)
    is_number = not math.isnan(average)
    undo = rule.load_best and (not is_number or (is_compared and average > before))
    gain = before - average
    failed = not is_number or (is_compared and gain <= rule.reduce_if_improves_less_than * before)
    kept = replace(state, average=average, previous=before if undo else average)
    if rule.continue_reducing:
        return _reduced_for_good(rule, kept, failed, undo)
    if failed:
        return _times(kept, rule.decrease, "reduced", undo)
    if is_compared and gain > rule.increase_if_improves_more_than * before:
        return _times(kept, rule.increase, "increased", undo)
    return RateOutcome(kept, undo=undo)


def _reduced_for_good(
    rule: AdjustAfterEpoch, state: RateState, failed: bool, undo: bool
) -> RateOutcome:
    if failed and state.is_reducing:
        return RateOutcome(state, undo=undo, finished=True)
    if failed or state.is_reducing:
        return _times(replace(state, is_reducing=True), rule.decrease, "reduced", undo)
    return RateOutcome(state, undo=undo)


def _times(state: RateState, factor: float, change: Change, undo: bool) -> RateOutcome:
    return RateOutcome(replace(state, rate=factor * state.rate), change, undo)
