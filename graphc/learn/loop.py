"""The training loop: epochs of shuffled minibatches through the compiled step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np

from graphc.driver.compile import bounds_for
from graphc.driver.options import DEFAULT_BATCH, CompileOptions
from graphc.driver.prepare import draw, infer
from graphc.driver.statistics import precompute
from graphc.learn.dataset import (
    Dataset,
    check_truncate,
    extent_of,
    place_of_non_finite,
    read_dataset,
)
from graphc.learn.epoch import Part
from graphc.learn.evaluate import DEFAULT_SIDE_BY_SIDE
from graphc.learn.learner import Learner
from graphc.learn.schedule import Schedule
from graphc.learn.shuffle import permutation
from graphc.learn.step import (
    TrainingStep,
    checked_dropout,
    compile_training_step,
    training_outputs,
)
from graphc.learn.watch import is_growing, warn_of_growth, warn_of_scaled_rates
from graphc.model.model import Model
from graphc.runtime.sparse import sample_count
from graphc.support.arguments import function, truth
from graphc.support.diagnostics import GraphcError, fail

DEFAULT_DROPOUT = 0.0


@dataclass(frozen=True)
class TrainingPlan:
    """What `graphc train` is asked for; sizes, and the learner's numbers, are per-epoch lists, the
    last value holds.

    learner    everything that concerns an update: rule, rates, regularisation
    minibatch  samples per update, the nominal size that per-minibatch rates refer to; of sequences
               their number side by side, and rates refer to the samples of an average update. By
               default 256 samples or 16 sequences, or all of the data if there are fewer
    dropout    share of elements that Dropout nodes set to zero
    truncate   steps of sequences per update, which the next one goes on from (the gradient does not
               reach back); 0: an update sees whole sequences
    seed       of the shuffling and of Dropout; `shuffle=False` keeps the order of the data
    """

    learner: Learner
    epochs: int = 1
    minibatch: Schedule | None = None
    dropout: Schedule = field(default_factory=lambda: Schedule.parse(DEFAULT_DROPOUT))
    seed: int = 0
    shuffle: bool = True
    criterion: str | None = None
    truncate: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.epochs, int) or self.epochs < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            message = f"epochs requires a whole number of at least 0, got {self.epochs!r}"
            raise fail("bad-value", message)
        truth(self.shuffle, "shuffle")
        for rate, _ in self.dropout.values:
            checked_dropout(rate)
        check_truncate(self.truncate)

    def changes(self) -> list[int]:
        """The epochs that another rate or size begins in: however many epochs there are, few."""
        schedules = [s for s in (self.minibatch, self.dropout) if s is not None]
        starts = {*self.learner.changes(), *(e for s in schedules for e in s.changes())}
        return sorted(e for e in starts if e < self.epochs)

    def size(self, epoch: int, default: int) -> int:
        """The units of a minibatch: samples or sequences."""
        return int(self.minibatch.at(epoch)) if self.minibatch is not None else default


@dataclass(frozen=True)
class EpochRecord:
    """One epoch: averages per sample of the criterion and of every evaluation node."""

    epoch: int  # from 1
    samples: int
    criterion: float
    evaluations: Mapping[str, float]
    learning_rate_per_sample: float
    seconds: float


@dataclass(frozen=True)
class Progress:
    """Called while training. `minibatch(done, total)` samples of the epoch; `epoch(record)` at its
    end; `should_stop()` is asked after every minibatch and every epoch.

    Where native code trains many minibatches in a call (`TrainingStep.run_epoch` says where), a
    tenth of a second of them counts as one.
    """

    minibatch: Callable[[int, int], None] = lambda done, total: None
    epoch: Callable[[EpochRecord], None] = lambda record: None
    should_stop: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        for each in fields(self):
            function(getattr(self, each.name), f"{each.name} of a Progress")


def run_training(
    model: Model,
    data: Mapping[str, object],
    plan: TrainingPlan,
    options: CompileOptions,
    progress: Progress,
) -> list[EpochRecord]:
    """Train by a plan. Statistics without a value are computed over all data first.

    Stops early, after a whole minibatch, when `progress.should_stop()` says so. When the criterion
    or a parameter is not a finite number any more, the parameters of the last whole epoch are put
    back and GraphcError `not-a-number` is raised.
    """
    training = _prepared(model, data, plan, options)
    records, criteria = list[EpochRecord](), list[float]()
    has_grown = False
    for epoch in range(plan.epochs):
        record, stopped = _trained(training, epoch, progress)
        records.append(record)
        progress.epoch(record)
        criteria.append(record.criterion)
        if not has_grown and is_growing(criteria):
            has_grown = True  # once said, the epochs show it
            warn_of_growth(training.step.criterion, criteria)
        if stopped or progress.should_stop():
            break
    return records


@dataclass(frozen=True)
class _Training:
    """A training ready for its first epoch. size: the units of a minibatch by default."""

    model: Model
    plan: TrainingPlan
    step: TrainingStep
    dataset: Dataset
    size: int


def _prepared(
    model: Model, data: Mapping[str, object], plan: TrainingPlan, options: CompileOptions
) -> _Training:
    infer(model)
    training_outputs(model, plan.criterion)  # a missing one shows before any value is drawn
    draw(model)
    model.convert(options.precision)  # before the statistics, which keep what digits there are
    precompute(model, data, options)
    options, size = _fitted(model, data, plan, options)
    step = compile_training_step(
        model, plan.learner, options, criterion=plan.criterion, seed=plan.seed
    )
    dataset = read_dataset(step.signature, data, plan.truncate)
    if dataset.samples == 0:
        raise fail("input", "training requires at least one sample, got none")
    # Rates are for a whole minibatch, so the default is one.
    return _Training(model, plan, step, dataset, min(size, dataset.units))


def _trained(training: _Training, epoch: int, progress: Progress) -> tuple[EpochRecord, bool]:
    """The record of an epoch, and whether a stop was asked for. After a GraphcError the parameters
    are those before the epoch."""
    model, plan = training.model, training.plan
    step, dataset = training.step, training.dataset
    learner, units = plan.learner.at(epoch), plan.size(epoch, training.size)
    if epoch == 0 or units != plan.size(epoch - 1, training.size):
        warn_of_scaled_rates(learner, dataset, units)
    step.learner, step.nominal = learner, dataset.nominal(units)
    step.dropout_rate = plan.dropout.at(epoch)
    good = {name: value.copy() for name, value in model.values.items()}
    count = dataset.units
    order = permutation(plan.seed, epoch, count) if plan.shuffle else np.arange(count)
    try:
        parts = step.parts(dataset, order, units)
        record, stopped = _run_epoch(step, parts, dataset, epoch, progress)
        _require_finite(step, model, dataset, epoch)
    except GraphcError:
        for name, value in good.items():
            model.values[name][...] = value
        raise
    return record, stopped


def _fitted(
    model: Model, data: Mapping[str, object], plan: TrainingPlan, options: CompileOptions
) -> tuple[CompileOptions, int]:
    """Options with bounds for all epochs, no larger than the data; the default minibatch."""
    if not bounds_for(model, training_outputs(model, plan.criterion), options).time:
        if plan.truncate:
            raise fail(
                "bad-option", "truncate is for sequences, the network does not look along time"
            )
        samples = max(map(sample_count, data.values()), default=1)
        return replace(options, batch=_largest(plan, DEFAULT_BATCH, samples)), DEFAULT_BATCH
    extent = extent_of(data)
    time = extent.time(options.time, plan.truncate)
    sequences = _largest(plan, DEFAULT_SIDE_BY_SIDE, extent.sequences)
    carry = plan.truncate > 0
    return replace(options, time=time, sequences=sequences, carry=carry), DEFAULT_SIDE_BY_SIDE


def _largest(plan: TrainingPlan, default: int, units: int) -> int:
    """The units of the largest minibatch of any epoch."""
    return max([1, *(min(plan.size(e, default), units) for e in plan.changes())])


def _require_finite(step: TrainingStep, model: Model, dataset: Dataset, epoch: int) -> None:
    """The last update of an epoch is seen by no criterion any more, so look at its outcome."""
    updated = {r.updates for r in step.signature.results}
    for name, value in model.values.items():
        if name in updated and not np.isfinite(value).all():
            raise _not_a_number(f"the parameter `{name}`", dataset, epoch)


def _not_a_number(what: str, dataset: Dataset, epoch: int, *, learnt: bool = True) -> GraphcError:
    """The error, with its likely cause: the data, or where something was `learnt` the rate."""
    when, advice = "for the first minibatch", "look for huge numbers in the data"
    if learnt:
        when = f"in epoch {epoch + 1}; the parameters are those after epoch {epoch}"
        advice = "a smaller learning rate may help"
    if place := place_of_non_finite(dataset):
        advice = f"in the data {place}"
    return fail("not-a-number", f"{what} is not a finite number {when}; {advice}")


def _run_epoch(
    step: TrainingStep,
    parts: Iterable[Part],
    dataset: Dataset,
    epoch: int,
    progress: Progress,
) -> tuple[EpochRecord, bool]:
    """The epoch's record, and whether a stop was asked for. GraphcError `not-a-number`."""
    start = time.perf_counter()
    totals: dict[str, float] = {}
    done, stopped = 0, False
    for part in parts:
        is_first, done = done == 0, done + part.samples
        for name, values in part.values.items():
            totals[name] = _total(values, totals.get(name, 0.0))
        if not math.isfinite(totals[step.criterion]):
            what = f"the criterion `{step.criterion}`"
            unlearnt = float(part.values[step.criterion][0])
            learnt = epoch > 0 or not is_first or math.isfinite(unlearnt)
            raise _not_a_number(what, dataset, epoch, learnt=learnt)
        progress.minibatch(done, dataset.samples)
        if progress.should_stop():
            stopped = True
            break
    averages = {name: total / done for name, total in totals.items()}
    rate = step.learner.rate_per_sample(step.nominal)
    record = EpochRecord(
        epoch=epoch + 1,
        samples=done,
        criterion=averages.pop(step.criterion),
        evaluations=averages,
        learning_rate_per_sample=rate,
        seconds=time.perf_counter() - start,
    )
    return record, stopped


def _total(values: np.ndarray, start: float) -> float:
    """The sum, added up in order in double precision: the same however minibatches lie in calls."""
    for value in values.tolist():
        start += value
    return start
