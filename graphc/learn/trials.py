"""Rate and minibatch of an epoch: those of the plan, or what trials find before it.

A trial trains some units of the coming epoch and puts everything back. The searches themselves are
in `rate_search.py` and `minibatch_search.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from graphc.data.reader import EpochRequest
from graphc.learn.learner import Learner
from graphc.learn.minibatch_search import AdaptiveMinibatch, SizeTrial, search_minibatch
from graphc.learn.rate_search import (
    RateTrial,
    SearchBeforeEpoch,
    search_rate,
    trial_minibatches,
)
from graphc.learn.records import EpochRecord, Event, watched
from graphc.learn.schedule import Schedule
from graphc.learn.source import Stretch
from graphc.learn.standing import Snapshot, Standing
from graphc.learn.stretch import train_stretch
from graphc.learn.training import Training

Tell = Callable[[Event], None]


def choose(
    training: Training,
    standing: Standing,
    learner: Learner,
    listed: int,
    last: EpochRecord | None,
    tell: Tell,
) -> Standing:
    """The standing with rate and minibatch of the epoch that begins, or `finished` if the rate is
    too small to go on.

    learner, listed  what the plan says: the learner of the epoch, which the step has, and the units
                     of a minibatch
    last             the epoch before
    """
    plan, step, epoch = training.plan, training.step, standing.epoch
    rate = learner.rate_per_sample(step.nominal, step.steps)
    if plan.control.chooses_rates and epoch >= plan.listed_rates:
        known = standing.rate.rate
        rate = rate if math.isnan(known) else known
        if (search := plan.control.search) is not None:
            standing = _with_rate(training, standing, search, rate, listed, last, tell)
            rate = standing.rate.rate
    if rate != standing.rate.rate:
        standing = replace(standing, rate=replace(standing.rate, rate=rate))
    if rate < plan.least_rate:
        why = f"the rate {rate:.8g} per sample is below {plan.least_rate:.8g}"
        tell(Event("finished", epoch + 1, rate, purpose=why))
        return replace(standing, finished=why)
    minibatch = listed
    if (sizes := plan.control.minibatch) is not None and epoch >= plan.listed_sizes:
        minibatch = _minibatch(training, standing, sizes, learner, listed, tell)
    if minibatch != standing.minibatch:
        standing = replace(standing, minibatch=minibatch)
    return standing


def _with_rate(
    training: Training,
    standing: Standing,
    rule: SearchBeforeEpoch,
    rate: float,
    listed: int,
    last: EpochRecord | None,
    tell: Tell,
) -> Standing:
    """With the rate that trials find; `rate` is that of the epoch before."""
    step, epoch = training.step, standing.epoch
    units = _units(training, rule.minibatches, epoch, listed)
    learner = step.learner

    def trial(asked: RateTrial) -> float:
        step.learner = learner.with_rate_per_sample(asked.rate)
        criterion = _trial(training, epoch, units, listed)
        tell(Event("rate-trial", epoch + 1, asked.rate, criterion, asked.purpose))
        return criterion

    previous = math.inf
    if last is not None:
        use_validation = rule.use_validation
        previous = watched(last, step.criterion, rule.node, use_validation=use_validation)
    size = training.plan.epoch_size
    share = units / size if size else None
    found, base = search_rate(rule, standing.search, epoch, previous, share, step.nominal, trial)
    step.learner = learner
    tell(Event("rate-found", epoch + 1, found, base))
    known = standing.search.after(found, rate, rule)
    return replace(standing, rate=replace(standing.rate, rate=found), search=known)


def _minibatch(
    training: Training,
    standing: Standing,
    rule: AdaptiveMinibatch,
    learner: Learner,
    listed: int,
    tell: Tell,
) -> int:
    """The minibatch that trials find."""
    plan, step, epoch = training.plan, training.step, standing.epoch
    units = _units(training, rule.minibatches, epoch, listed)
    if plan.control.chooses_rates and epoch >= plan.listed_rates:
        step.learner = learner.with_rate_per_sample(standing.rate.rate)

    def trial(asked: SizeTrial) -> float:
        criterion = _trial(training, epoch, units, asked.size)
        tell(Event("minibatch-trial", epoch + 1, asked.size, criterion))
        return criterion

    nominal = training.source.nominal(plan.size(0, training.size))
    first = plan.learner.at(0).rate_per_sample(nominal)
    now = learner.rate_per_sample(step.nominal, step.steps)
    change = (now / first if first else 1.0) * standing.search.factor
    found = search_minibatch(rule, epoch, standing.minibatch, listed, change, trial)
    tell(Event("minibatch-found", epoch + 1, found))
    return found


def _units(training: Training, minibatches: Schedule | float, epoch: int, listed: int) -> int:
    """The units that a trial trains: at most those of an epoch."""
    units = trial_minibatches(minibatches, epoch) * listed
    most = training.plan.epoch_size or training.source.units
    return units if most is None else min(units, most)


def _trial(training: Training, epoch: int, units: int, minibatch: int) -> float:
    """The criterion per sample of training so many units of the epoch that is to come, after which
    everything is as it was; nan if it is no number."""
    step = training.step
    before = Snapshot.of(training.trainee.values, step)
    request = EpochRequest(epoch, training.plan.epoch_size, minibatch)
    total, samples = 0.0, 0
    try:
        for stretch in _first_units(training.source.stretches(request), units):
            for trained in train_stretch(step, stretch, minibatch):
                total += math.fsum(trained.part.values[step.criterion].tolist())
                samples += trained.part.samples
    finally:
        before.put_back(training.trainee.values, step)
    criterion = total / samples if samples else math.nan
    return criterion if math.isfinite(criterion) else math.nan


def _first_units(stretches: Iterator[Stretch], units: int) -> Iterator[Stretch]:
    """Stretches up to so many units in all."""
    for stretch in stretches:
        order = stretch.order[:units]
        units -= len(order)
        yield Stretch(stretch.dataset, order)
        if units == 0:
            return
