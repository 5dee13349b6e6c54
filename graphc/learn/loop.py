"""The training loop: epochs of minibatches through the compiled step, and what goes on between.

`training.py` makes everything ready. Here a `Run` goes from epoch to epoch: it has rate and size
chosen (`trials.py`), trains, measures, lets the rules of the plan decide (`rate_control.py`,
`stopping.py`), and writes checkpoints. All that it has to know between two minibatches is its
`Standing` and arrays.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from graphc.data.reader import EpochRequest
from graphc.driver.options import CompileOptions
from graphc.learn.agreement import any_of, is_first, require_agreement
from graphc.learn.checkpoint import Checkpoint, require_arrays
from graphc.learn.dataset import Dataset
from graphc.learn.epoch import Part
from graphc.learn.finite import NotANumber, not_a_number, require_finite
from graphc.learn.learner import Learner
from graphc.learn.plan import DEFAULT_DROPOUT, TrainingPlan
from graphc.learn.rate_control import adjusts_after, after_epoch
from graphc.learn.records import EpochRecord, EpochStart, Event, Kind, Progress, watched
from graphc.learn.source import Data, MemorySource
from graphc.learn.standing import Snapshot, Standing, Tally, memory_of, remember
from graphc.learn.stretch import Trained, train_stretch
from graphc.learn.trainee import Trainee
from graphc.learn.training import Extras, Training, prepared
from graphc.learn.trials import choose
from graphc.learn.watch import is_growing, warn_of_growth, warn_of_scaled_rates
from graphc.runtime.communicators.communicator import Communicator, chooses
from graphc.support.diagnostics import GraphcError, fail

NO_EXTRAS = Extras()


def run_training(
    trainee: Trainee,
    data: Data,
    plan: TrainingPlan,
    options: CompileOptions,
    progress: Progress,
    extras: Extras = NO_EXTRAS,
) -> list[EpochRecord]:
    """Train by a plan. Statistics without a value are computed over all data first.

    Stops early, after a whole minibatch, when `progress.should_stop()` says so. When the criterion
    or a parameter is not a finite number any more, the parameters of the last whole epoch are put
    back and GraphcError `not-a-number` is raised.
    """
    with writes_alone(extras):
        return Run(prepared(trainee, data, plan, options, extras), progress).through()


def writes_alone(extras: Extras) -> AbstractContextManager[None]:
    """While the checkpoints are this training's."""
    checkpoints = extras.checkpoints if is_first(extras.communicator) else None
    return nullcontext() if checkpoints is None else checkpoints.sole_writer()


@dataclass
class Run:
    """A training that goes on from where it stands.

    records  of the epochs so far; of one that was stopped, too
    start    how the running epoch began
    best     the parameters of the best epoch, where that is kept
    learner  with the numbers of the running epoch, before anything chose others
    criteria of the epochs that were not undone
    written  when the last checkpoint was
    """

    training: Training
    progress: Progress
    standing: Standing = field(default_factory=Standing)
    records: list[EpochRecord] = field(default_factory=list[EpochRecord])
    start: Snapshot | None = None
    best: Snapshot | None = None
    learner: Learner | None = None
    criteria: list[float] = field(default_factory=list[float])
    is_stopped: bool = False
    has_grown: bool = False
    written: float = field(default_factory=time.monotonic)

    @property
    def is_over(self) -> bool:
        finished = self.standing.finished or self.standing.epoch >= self.training.plan.epochs
        return bool(self.is_stopped or finished)

    def through(self) -> list[EpochRecord]:
        """The whole training, from where it stands; members have to stand at the same place."""
        self.go_on()
        member = self.training.step.communicator
        if member is not None:
            require_agreement(member, self.training.identity(self.standing))
            self._tell_sums(member)
        while not self.is_over:
            self.epoch()
        return self.finish()

    def _tell_sums(self, member: Communicator) -> None:
        """What members have chosen by their link, if they have."""
        is_beside, epoch = self.training.step.adds_beside, self.standing.epoch + 1
        if chooses(member) and is_beside is not None:
            kind: Kind = "sums-beside" if is_beside else "sums-behind"
            self.progress.event(Event(kind, epoch, member.idle))

    # --- one epoch -------------------------------------------------------------------------------

    def epoch(self) -> None:
        """Train the epoch, or what is left of it; then let the rules decide."""
        training, plan, step = self.training, self.training.plan, self.training.step
        epoch = self.standing.epoch
        listed = plan.size(epoch, training.size)
        learner, nominal = self._learner_of(epoch), training.source.nominal(listed)
        if isinstance(training.source, MemorySource) and (
            epoch == 0 or listed != plan.size(epoch - 1, training.size)
        ):
            warn_of_scaled_rates(learner, training.source.dataset, listed)
        if step.learner is not learner:
            step.learner = learner
        step.nominal, step.dropout_rate = nominal, plan.dropout.at(epoch)
        if not self.standing.is_inside:
            last = self.records[-1] if self.records else None
            self.standing = choose(
                training, self.standing, learner, listed, last, self.progress.event
            )
            if self.standing.finished:
                return
        rate, minibatch = self.standing.rate.rate, self.standing.minibatch
        if plan.control.chooses_rates and epoch >= plan.listed_rates:
            step.learner = learner.with_rate_per_sample(rate)
        numbers = step.learner.hyperparameters(nominal, nominal, step.steps)
        self.progress.start(EpochStart(epoch + 1, minibatch, rate, numbers))
        if self.start is None:
            self.start = Snapshot.of(
                training.trainee.values, step, with_learner=self._needs_learner
            )
        record = self._trained(self._request())
        if record is not None:
            self._decide(record)

    def _learner_of(self, epoch: int) -> Learner:
        """The plan's learner of an epoch, the same object while its numbers are the same."""
        if self.learner is None or epoch in self.training.changes:
            self.learner = self.training.plan.learner.at(epoch)
        return self.learner

    @property
    def _needs_learner(self) -> bool:
        """Whether the learner's arrays have to be put back ever."""
        adjust = self.training.plan.control.adjust
        undoes = adjust is not None and adjust.load_best
        return undoes or self.training.checkpoints is not None

    def _request(self) -> EpochRequest:
        standing = self.standing
        size = self.training.plan.epoch_size
        return EpochRequest(standing.epoch, size, standing.minibatch, standing.units)

    def _trained(self, request: EpochRequest) -> EpochRecord | None:
        """The record of the epoch; None if it was stopped inside, and is noted as that.

        An epoch whose numbers are none is undone if a rule wants that, otherwise it is an error.
        """
        try:
            self._pass(request)
            if not self.is_stopped or self._is_through(request):
                require_finite(self.training, self.standing.epoch)
        except NotANumber as problem:
            self._put_back()
            if not self._undoes():
                raise problem.error from None
            unknown = dict.fromkeys(self.standing.totals, math.nan)
            self.standing = replace(self.standing, totals=unknown)
        except GraphcError:
            self._put_back()
            raise
        record = self._record()
        if not self.is_stopped or self._is_through(request):
            return record
        self.records.append(record)
        self.progress.epoch(record)
        return None

    def _is_through(self, request: EpochRequest) -> bool:
        """Whether all samples were trained, of data in memory."""
        return self.standing.samples == self.training.source.samples(request) > 0

    def _put_back(self) -> None:
        assert self.start is not None
        self.start.put_back(self.training.trainee.values, self.training.step)

    def _undoes(self) -> bool:
        rule, epoch = self.training.plan.control.adjust, self.standing.epoch
        listed = self.training.plan.listed_rates
        return rule is not None and rule.load_best and adjusts_after(rule, epoch, listed)

    def _pass(self, request: EpochRequest) -> None:
        """Train the samples of the request; the standing follows. GraphcError `not-a-number`."""
        total = self.training.source.samples(request)
        began = time.perf_counter() - self.standing.seconds
        tally = Tally.of(self.standing)
        try:
            for trained, dataset in self._parts(request):
                tally.add(trained.part, trained.units, trained.calls)
                self._require_number(trained.part, dataset, tally)
                self.progress.part(trained.part)
                self.progress.minibatch(tally.samples, total)
                if tally.calls and self.training.step.communicator is not None:
                    continue  # inside of sequences whose state each member has for itself
                if self._is_asked_to_stop():
                    self.is_stopped = True
                    break
                if self._is_due_for_all() and tally.samples != total:
                    self.standing = tally.added_to(self.standing, time.perf_counter() - began)
                    self.training.step.gather()
                    self.write()
            if self.training.step.blocks is not None:
                self.training.step.blocks.end()
            self.training.step.gather()
        finally:
            self.standing = tally.added_to(self.standing, time.perf_counter() - began)
        if tally.samples == 0:
            raise fail("input", "training requires at least one sample, got none")

    def _is_asked_to_stop(self) -> bool:
        """Whether this member is, or another one: all stop after the same minibatch."""
        return any_of(self.training.step.communicator, self.progress.should_stop())

    def _require_number(self, part: Part, dataset: Dataset, tally: Tally) -> None:
        """Refuse a part from which on the criterion is no number; it is in the tally already."""
        criterion, epoch = self.training.step.criterion, self.standing.epoch
        if math.isfinite(tally.totals[criterion]):
            return
        is_first = epoch == 0 and tally.samples == part.samples
        learnt = not is_first or math.isfinite(float(part.values[criterion][0]))
        what = f"the criterion `{criterion}`"
        raise NotANumber(not_a_number(what, dataset, epoch, learnt=learnt))

    def _parts(self, request: EpochRequest) -> Iterator[tuple[Trained, Dataset]]:
        calls = self.standing.calls
        for stretch in self.training.source.stretches(request):
            for trained in train_stretch(self.training.step, stretch, request.minibatch, calls):
                yield trained, stretch.dataset
            calls = 0

    def _record(self) -> EpochRecord:
        standing, step = self.standing, self.training.step
        averages = {n: total / standing.samples for n, total in standing.totals.items()}
        return EpochRecord(
            epoch=standing.epoch + 1,
            samples=standing.samples,
            criterion=averages.pop(step.criterion, math.nan),
            evaluations=averages,
            learning_rate_per_sample=step.learner.rate_per_sample(step.nominal, step.steps),
            seconds=standing.seconds,
            minibatch=standing.minibatch,
        )

    # --- between epochs --------------------------------------------------------------------------

    def _decide(self, record: EpochRecord) -> None:
        """What the rules make of an epoch that is through; then the next one is to be trained."""
        if self.training.evaluator is not None:
            record = replace(record, validation=self.training.validate())
        record, finished = self._adjusted(record)
        self.records.append(record)
        self._note_best(record)
        finished = finished or self._patience_is_over(record)
        self.progress.epoch(record)
        if finished:
            self.progress.event(Event("finished", record.epoch, purpose=finished))
        self._warn_of_growth()
        self.start = None
        self.standing = replace(
            self.standing,
            epoch=record.epoch,
            units=0,
            calls=0,
            samples=0,
            seconds=0.0,
            totals={},
            finished=finished,
        )
        self.is_stopped = self.is_stopped or self._is_asked_to_stop()
        checkpoints = self.training.checkpoints
        if (
            checkpoints is not None
            and not self.is_over
            and (checkpoints.every_epoch or self._is_due())
        ):
            self.write()

    def _adjusted(self, record: EpochRecord) -> tuple[EpochRecord, str]:
        """The record, and why training ends or '', after the rule that adjusts rates."""
        rule, plan = self.training.plan.control.adjust, self.training.plan
        if rule is None:
            return record, ""
        criterion = self._watched(record, rule.node, use_validation=rule.use_validation)
        epoch = record.epoch - 1
        outcome = after_epoch(rule, self.standing.rate, epoch, criterion, plan.listed_rates)
        self.standing = replace(self.standing, rate=outcome.state)
        if outcome.undo:
            self._put_back()
            record = replace(record, undone=True)
            self.progress.event(Event("undone", record.epoch))
        if outcome.change:
            kind: Kind = "rate-reduced" if outcome.change == "reduced" else "rate-increased"
            self.progress.event(Event(kind, record.epoch, outcome.state.rate))
        return record, "no improvement although the rate was reduced" if outcome.finished else ""

    def _note_best(self, record: EpochRecord) -> None:
        rule = self.training.plan.control.best
        if rule is None or record.undone:
            return
        value = self._watched(record, rule.node, use_validation=rule.use_validation)
        lowest = self.standing.lowest.after(value)
        self.standing = replace(self.standing, lowest=lowest)
        if lowest.epochs == 0:
            training = self.training
            self.best = Snapshot.of(training.trainee.values, training.step, with_learner=False)

    def _patience_is_over(self, record: EpochRecord) -> str:
        """Why training ends, or ''."""
        rule = self.training.plan.control.stopping
        if rule is None:
            return ""
        value = self._watched(record, rule.node, use_validation=rule.use_validation)
        patience = self.standing.patience.after(value, rule.min_improvement)
        self.standing = replace(self.standing, patience=patience)
        if patience.epochs < rule.patience:
            return ""
        return f"no improvement in {patience.epochs} epochs"

    def _watched(self, record: EpochRecord, node: str | None, *, use_validation: bool) -> float:
        return watched(record, self.training.step.criterion, node, use_validation=use_validation)

    def _warn_of_growth(self) -> None:
        if not self.records[-1].undone:
            self.criteria.append(self.records[-1].criterion)
        if not self.has_grown and is_growing(self.criteria):
            self.has_grown = True  # once said, the epochs show it
            warn_of_growth(self.training.step.criterion, self.criteria)

    # --- checkpoints -----------------------------------------------------------------------------

    def _is_due(self) -> bool:
        """Whether it is time for a checkpoint."""
        checkpoints, blocks = self.training.checkpoints, self.training.step.blocks
        if checkpoints is None or checkpoints.minutes is None:
            return False
        if blocks is not None and not blocks.is_between:
            return False
        return time.monotonic() - self.written >= 60 * checkpoints.minutes

    def _is_due_for_all(self) -> bool:
        """The same of the first member, where all have to give their parts of a layer."""
        communicator = self.training.step.communicator
        if not self.training.step.is_split:
            return self._is_due()
        return any_of(communicator, is_first(communicator) and self._is_due())

    def write(self) -> None:
        """Write a checkpoint of where the training stands, if there are to be any; of members the
        first one does."""
        checkpoints = self.training.checkpoints
        if checkpoints is not None and is_first(self.training.step.communicator):
            checkpoints.series().write(self.checkpoint())
            self.written = time.monotonic()

    def checkpoint(self) -> Checkpoint:
        """All that it takes to go on from here."""
        training, step, held = self.training, self.training.step, self.training.trainee.held()
        inside, member = self.standing.is_inside, step.communicator
        return Checkpoint(
            ir=held.text,
            seed=held.seed,
            kind=held.kind,
            standing=self.standing,
            values=held.values,
            learner=dict(step.learner_state),
            memory=memory_of(step.learner),
            steps=step.steps,
            configuration=training.configuration,
            records=self.records[: self.standing.epoch],
            exact=held.exact,
            carried=dict(step.state or {}) if self.standing.calls else {},
            start=self.start if inside else None,
            best=self.best.values if self.best is not None else {},
            idle=None if member is None or not chooses(member) else member.idle,
        )

    def go_on(self) -> None:
        """From the checkpoint that was found, if there is one."""
        found = self.training.found
        if found is None:
            return
        training, step = self.training, self.training.step
        require_arrays(found, training.trainee.values, step.learner_state)
        Snapshot(found.values, found.learner, {}, found.steps).put_back(
            training.trainee.values, step
        )
        if found.memory:
            remember(training.plan.learner, found.memory)
        if found.carried:
            if step.communicator is not None:
                message = (
                    "members go on between minibatches, the checkpoint is of truncated sequences"
                )
                raise fail("not-supported", f"{message} inside of one")
            step.state = found.carried
        self.standing, self.records, self.start = found.standing, list(found.records), found.start
        self.criteria = [record.criterion for record in found.records if not record.undone]
        if found.best:
            self.best = Snapshot(found.best, {}, {}, found.steps)

    def finish(self) -> list[EpochRecord]:
        """The last checkpoint; then the best parameters, if they are wanted. The records of all
        epochs."""
        self.write()
        if self.best is not None:
            self.best.put_back(self.training.trainee.values, self.training.step)
        return self.records


__all__ = (
    "DEFAULT_DROPOUT",
    "EpochRecord",
    "Extras",
    "Progress",
    "Run",
    "TrainingPlan",
    "run_training",
)
