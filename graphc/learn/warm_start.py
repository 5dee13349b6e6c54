"""Members that train their first epochs each by itself, all of them the same ones.

Where gradients are few bits, or parameters averages, a training is better off with a beginning of
whole minibatches. All members go through it, as one alone would; then they go on together from
where all of them stand, which is compared, as a training does that goes on from a checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphc.driver.options import CompileOptions
from graphc.learn.agreement import any_of, is_first, require_agreement
from graphc.learn.checkpoint import Checkpoint
from graphc.learn.checkpoints import CheckpointFiles, Checkpoints
from graphc.learn.loop import Run, run_training, writes_alone
from graphc.learn.plan import TrainingPlan
from graphc.learn.records import EpochRecord, Progress
from graphc.learn.source import Data
from graphc.learn.trainee import Trainee
from graphc.learn.training import Extras, prepared


@dataclass(frozen=True)
class _From:
    """Checkpoints of which the newest is known. files: where new ones go; None: nowhere."""

    found: Checkpoint | None
    files: CheckpointFiles | None = None

    def newest(self) -> Checkpoint | None:
        return self.found

    def write(self, checkpoint: Checkpoint) -> None:
        if self.files is not None:
            self.files.write(checkpoint)


def run_after_warm_start(
    trainee: Trainee,
    data: Data,
    plan: TrainingPlan,
    options: CompileOptions,
    progress: Progress,
    extras: Extras,
    epochs: int,
) -> list[EpochRecord]:
    """As `run_training`, by members that train so many epochs alone first. In these a request to
    stop is followed at the end of an epoch. An adaptation has to name its reference."""
    member = extras.communicator
    if member is None or epochs == 0:
        return run_training(trainee, data, plan, options, progress, extras)
    found = None if extras.checkpoints is None else extras.checkpoints.found()
    # All have read it before one of them writes the next.
    place = found and (found.standing.epoch, found.standing.units, found.standing.calls)
    require_agreement(member, {"place in the training": repr(place).encode()})
    if found is not None and not _is_before(found, epochs):
        return run_training(trainee, data, plan, options, progress, extras)
    with writes_alone(extras):
        kept = extras.checkpoints or Checkpoints(_From(None), every_epoch=False)
        series = kept.series() if is_first(member) else None
        by_itself = replace(
            extras,
            communicator=None,
            averaging=None,
            checkpoints=replace(kept, files=_From(found, series), resume=True),
        )
        few = replace(plan, epochs=min(epochs, plan.epochs))
        quiet = replace(progress, should_stop=lambda: False)
        run = Run(prepared(trainee, data, few, options, by_itself), quiet)
        run.go_on()
        while not run.is_over:
            run.epoch()
            run.is_stopped = any_of(member, progress.should_stop())
        records = run.finish()
        if run.is_stopped or run.standing.finished or epochs >= plan.epochs:
            return records
        reached = run.checkpoint()
        # Its configuration is that of one alone, which has been compared where it was read.
        training = prepared(trainee, data, plan, options, replace(extras, checkpoints=None))
        training = replace(training, found=reached, checkpoints=extras.checkpoints)
        return Run(training, progress).through()


def _is_before(found: Checkpoint, epochs: int) -> bool:
    """Whether a checkpoint is of the time before members train together, or of its end."""
    standing = found.standing
    return standing.epoch < epochs or (standing.epoch == epochs and not standing.is_inside)
