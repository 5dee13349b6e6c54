"""`graphc train`: a network and data in, a model file out."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

from graphc.cli.command import Command, RecordOption
from graphc.cli.controls import ControlRequest, control_options
from graphc.cli.interrupts import StopRequest, stop_requests
from graphc.cli.network import open_network, read_data, sample_total
from graphc.cli.options import (
    EXISTING_FILE,
    DataFile,
    Definitions,
    FiniteRange,
    backend_option,
    check_reports,
    contraction_option,
    data_options,
    definition_options,
    json_option,
    no_cache_option,
    precision_option,
    require_writable,
    stack,
    threads_option,
)
from graphc.cli.plugged_learners import LearnerName, LearnerSetting, plugged_learner
from graphc.cli.profiling import ProfileReports, profile_options
from graphc.cli.report import TrainingReport
from graphc.cli.schedules import ScheduleType
from graphc.cli.terminal import Terminal, common_options
from graphc.cli.timing import TimingReports, timing_options
from graphc.data.order import Order
from graphc.driver.options import DEFAULT_BATCH, CompileOptions
from graphc.learn.learner import Learner
from graphc.learn.loop import run_training
from graphc.learn.plan import DEFAULT_DROPOUT, TrainingPlan
from graphc.learn.records import EpochRecord, EpochStart, Progress
from graphc.learn.schedule import Schedule
from graphc.learn.sgd import SGD
from graphc.learn.source import Data
from graphc.learn.step import training_outputs
from graphc.learn.stepping import BETA, HISTORY, SteppingHeuristic
from graphc.learn.training import Extras
from graphc.model.model import Model
from graphc.support.diagnostics import GraphcError
from graphc.support.memory import peak_resident_bytes

SCHEMA = 1
MODEL_SUFFIX = ".safetensors"
LEARNERS = ("sgd", "stepping-heuristic")

EPILOG = """\b
Example:
  graphc train net.ndl --data train.txt --features 0:64 --labels 64 --classes 10 \\
      --epochs 30 --minibatch 32 --learning-rate 1.0 --momentum 0.9 -o net.safetensors

Rates and sizes are one value or a list over epochs: 0.5:0.2*20:0.1 is 0.5 in the first epoch,
0.2 in the next twenty, then 0.1. Ctrl-C finishes the minibatch, saves and leaves with exit code
130; a second Ctrl-C leaves at once. With --checkpoint FILE the same command and --resume go on from
there, also after a crash.
"""


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """What is asked of a training; `plan` is what becomes of it. `beta` and `history` are of the
    stepping heuristic."""

    epochs: int
    minibatch: Schedule | None
    learning_rate: Schedule | None
    learning_rate_per_sample: Schedule | None
    momentum: Schedule | None
    momentum_per_sample: Schedule | None
    l2: float
    learner: str
    learner_setting: Sequence[tuple[str, object]]
    beta: float | None
    history: int | None
    dropout: Schedule
    criterion: str | None
    seed: int
    shuffle: bool

    def plan(self) -> TrainingPlan:
        """click.UsageError for options that do not go together."""
        return TrainingPlan(
            self._learner(),
            epochs=self.epochs,
            minibatch=self.minibatch,
            seed=self.seed,
            shuffle=self.shuffle,
            criterion=self.criterion,
            dropout=self.dropout,
        )

    def _learner(self) -> Learner:
        if self.learner not in LEARNERS:
            return self._plugged()
        if self.learner_setting:
            raise click.UsageError("--learner-setting is for learners of other distributions")
        return self._sgd() if self.learner == "sgd" else self._stepping_heuristic()

    def _plugged(self) -> Learner:
        if self.beta is not None or self.history is not None:
            raise click.UsageError("--beta and --history are for --learner stepping-heuristic")
        if self.momentum or self.momentum_per_sample:
            raise click.UsageError("--momentum and --momentum-per-sample are for --learner sgd")
        rates = {
            "learning_rate": self.learning_rate,
            "learning_rate_per_sample": self.learning_rate_per_sample,
            "l2": self.l2,
        }
        return plugged_learner(self.learner, self.learner_setting, rates)

    def _sgd(self) -> SGD:
        if self.beta is not None or self.history is not None:
            raise click.UsageError("--beta and --history are for --learner stepping-heuristic")
        if (self.learning_rate is None) == (self.learning_rate_per_sample is None):
            raise click.UsageError(
                "one of --learning-rate and --learning-rate-per-sample is required"
            )
        if self.momentum is not None and self.momentum_per_sample is not None:
            raise click.UsageError("--momentum and --momentum-per-sample exclude each other")
        return SGD(
            self.learning_rate,
            self.momentum,
            learning_rate_per_sample=self.learning_rate_per_sample,
            momentum_per_sample=self.momentum_per_sample,
            l2=self.l2,
        )

    def _stepping_heuristic(self) -> SteppingHeuristic:
        if self.learning_rate_per_sample or self.momentum or self.momentum_per_sample:
            raise click.UsageError(
                "--learner stepping-heuristic takes --learning-rate, its first step size, --beta "
                "and --history, and no other rates"
            )
        if self.learning_rate is None or len(self.learning_rate.values) != 1:
            raise click.UsageError(
                "--learner stepping-heuristic requires one --learning-rate: its first step size"
            )
        return SteppingHeuristic(
            self.learning_rate.at(0),
            beta=BETA if self.beta is None else self.beta,
            history=HISTORY if self.history is None else self.history,
            l2=self.l2,
        )


class TrainingOption(RecordOption):
    parameter, make = "training", TrainingRequest


training_options = stack(
    click.option(
        "--epochs",
        cls=TrainingOption,
        type=click.IntRange(min=1),
        default=TrainingPlan.epochs,
        show_default=True,
        metavar="E",
    ),
    click.option(
        "--minibatch",
        cls=TrainingOption,
        type=ScheduleType(minimum=1, whole=True),
        metavar="B",
        help=f"Samples in one update.  [default: {DEFAULT_BATCH}, or all if there are fewer]",
    ),
    click.option(
        "--learning-rate",
        cls=TrainingOption,
        type=ScheduleType(minimum=0),
        metavar="R",
        help="Rate for a whole minibatch.",
    ),
    click.option(
        "--learning-rate-per-sample",
        cls=TrainingOption,
        type=ScheduleType(minimum=0),
        metavar="R",
        help="Rate for each sample, in place of --learning-rate.",
    ),
    click.option(
        "--momentum",
        cls=TrainingOption,
        type=ScheduleType(minimum=0, below=1),
        metavar="M",
        help="Momentum from one minibatch to the next, from 0 to below 1.",
    ),
    click.option(
        "--momentum-per-sample",
        cls=TrainingOption,
        type=ScheduleType(minimum=0, below=1),
        metavar="M",
        help="Momentum from one sample to the next, in place of --momentum.",
    ),
    click.option(
        "--l2",
        cls=TrainingOption,
        type=FiniteRange(min=0),
        default=SGD.l2,
        show_default=True,
        metavar="W",
        help="Weight of L2 regularisation, for each sample.",
    ),
    click.option(
        "--learner",
        cls=TrainingOption,
        type=LearnerName(LEARNERS),
        default=LEARNERS[0],
        show_default=True,
        help="What updates the parameters: sgd, stepping-heuristic, whose step size starts at "
        "--learning-rate and follows the losses, or the learner of a plug-in.",
    ),
    click.option(
        "--learner-setting",
        cls=TrainingOption,
        type=LearnerSetting(),
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of a plug-in's learner; may be given again.",
    ),
    click.option(
        "--beta",
        cls=TrainingOption,
        type=FiniteRange(min=0, min_open=True, max=1),
        metavar="W",
        help=f"stepping-heuristic: weight of a new gradient in its direction.  [default: {BETA}]",
    ),
    click.option(
        "--history",
        cls=TrainingOption,
        type=click.IntRange(min=1),
        metavar="M",
        help=f"stepping-heuristic: minibatches whose losses it averages.  [default: {HISTORY}]",
    ),
    click.option(
        "--dropout",
        cls=TrainingOption,
        type=ScheduleType(minimum=0, below=1),
        default=f"{DEFAULT_DROPOUT:g}",
        show_default=True,
        metavar="P",
        help="Share of elements that Dropout nodes set to zero.",
    ),
    click.option(
        "--criterion",
        cls=TrainingOption,
        metavar="NODE",
        help="What to minimise, if not the first criterion.",
    ),
    click.option(
        "--seed",
        cls=TrainingOption,
        type=click.IntRange(0, 2**63 - 1),
        default=TrainingPlan.seed,
        show_default=True,
        metavar="N",
        help="Decides initial values, the order of samples, and what Dropout sets to zero.",
    ),
    click.option(
        "--shuffle/--no-shuffle",
        cls=TrainingOption,
        default=TrainingPlan.shuffle,
        help="Visit samples in a new order each epoch.",
    ),
)


def model_file(ctx: click.Context, param: click.Parameter, value: Path) -> Path:
    """The file to write, whose suffix is what it will be read by."""
    if value.suffix.lower() != MODEL_SUFFIX:
        raise click.BadParameter(f"a name that ends in {MODEL_SUFFIX} is required, got {value}")
    return value


@click.command(cls=Command, epilog=EPILOG, short_help="Train a network on data and save the model.")
@click.argument("model", type=EXISTING_FILE, metavar="MODEL")
@data_options
@training_options
@control_options
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    callback=model_file,
    metavar="FILE",
    help="The model file to write (.safetensors).",
)
@backend_option
@precision_option
@contraction_option
@threads_option
@definition_options
@no_cache_option
@timing_options
@profile_options
@json_option
@common_options
@click.pass_obj
def command(
    terminal: Terminal,
    /,
    model: Path,
    data: DataFile,
    training: TrainingRequest,
    control: ControlRequest,
    output: Path,
    options: CompileOptions,
    definitions: Definitions,
    timing: TimingReports,
    profiling: ProfileReports,
    as_json: bool,
) -> int:
    """Train MODEL, a network (.ndl) or a model to train further (.safetensors).

    Mean and variance nodes are computed over the data first. Loss and error are printed for each
    epoch on stderr; with --json the record of all epochs goes to stdout.
    """
    plan = replace(training.plan(), epoch_size=control.epoch_size, control=control.controls())
    files = [model, *data.files, output, *definitions.macros]
    check_reports([control.checkpoint], files)
    check_reports([timing.time_json, *profiling.files], [*files, *control.files])
    options = replace(options, profile=profiling.profile())
    require_writable(output)
    with options.phases.measure("read the network"):
        network = open_network(model, definitions, seed=plan.seed).model
    order = Order("auto" if plan.shuffle else None, plan.seed)
    samples = read_data(network, terminal, data, options, order)
    validation = None
    if control.validation is not None:
        other = replace(data, data=control.validation)
        validation = read_data(network, terminal, other, options)
    extras = Extras(validation, control.checkpoints(), control.adaptation())
    epoch_samples = plan.epoch_size or sample_total(samples)
    nodes = training_outputs(network, plan.criterion)
    report = TrainingReport(
        terminal, plan.epochs, epoch_samples, nodes, has_validation=validation is not None
    )
    start = time.perf_counter()
    with stop_requests(terminal) as stop:
        job = TrainingJob(network, samples, plan, options, extras, output)
        records = job.train_and_save(report, stop)
        report.finish(records, time.perf_counter() - start, output)
        if stop and control.checkpoint is not None:
            terminal.remark(f"checkpoint in {control.checkpoint}: --resume goes on from there")
    if as_json:
        terminal.write(records_json(records, output, interrupted=bool(stop)))
    timing.make(terminal, options.phases)
    profiling.make(terminal, options.profile)
    return stop.exit_code


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A training and the file that its model goes to."""

    model: Model
    data: Data
    plan: TrainingPlan
    options: CompileOptions
    extras: Extras
    output: Path

    def train_and_save(self, report: TrainingReport, stop: StopRequest) -> list[EpochRecord]:
        """Train and write the model file; also when after some epochs the criterion is no number,
        or a checkpoint cannot be written.

        The parameters are then those of the last good epoch, and the error is raised after saving.
        """
        finished = 0

        def start(begun: EpochStart) -> None:
            nonlocal finished
            finished = begun.epoch - 1
            report.start(begun)

        def epoch(record: EpochRecord) -> None:
            nonlocal finished
            finished = record.epoch
            report.epoch(record)

        progress = Progress(
            minibatch=report.minibatch,
            epoch=epoch,
            should_stop=lambda: bool(stop),
            start=start,
            event=report.event,
        )
        try:
            with report:
                records = run_training(
                    self.model, self.data, self.plan, self.options, progress, self.extras
                )
        except GraphcError as error:
            if finished and error.diagnostics[0].slug in ("not-a-number", "file"):
                self.model.save(self.output)
                said = f"saved the parameters of epoch {finished} to {self.output}"
                report.terminal.message(said)
            raise
        self.model.save(self.output)
        return records


def records_json(records: Sequence[EpochRecord], output: Path, *, interrupted: bool) -> str:
    """The training as JSON: one record for each epoch, with averages per sample; and the most
    memory that was resident so far, null where that is unknown."""
    epochs = [_without_nan(asdict(record)) for record in records]
    record = {
        "schema": SCHEMA,
        "model": str(output),
        "interrupted": interrupted,
        "peak_memory_bytes": peak_resident_bytes(),
        "epochs": epochs,
    }
    return json.dumps(record, indent=1)


def _without_nan(value: object) -> object:
    """As JSON can say it: null where an epoch that was undone has no number."""
    if isinstance(value, Mapping):
        return {name: _without_nan(item) for name, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
