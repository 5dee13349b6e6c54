"""`graphc train`: a network and data in, a model file out."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import click

from graphc.cli.command import Command, RecordOption
from graphc.cli.controls import ControlRequest, control_options
from graphc.cli.data_inputs import network_inputs
from graphc.cli.interrupts import StopRequest, stop_requests
from graphc.cli.learners import LearnerRequest, learner_options
from graphc.cli.members import (
    MembersRequest,
    comm_option,
    comm_order_option,
    comm_overlap_option,
    comm_patience_option,
    comm_shards_option,
    comm_split_option,
    comm_sync_batchnorm_option,
    comm_wire_option,
    is_first,
    joined,
)
from graphc.cli.network import open_network, read_data, read_for_program
from graphc.cli.objectives import (
    OF_NETWORKS,
    ObjectiveRequest,
    objective_options,
    refuse_objective,
    trained_options,
)
from graphc.cli.options import (
    DataFile,
    Definitions,
    backend_option,
    check_reports,
    contraction_option,
    data_options,
    definition_options,
    json_option,
    launch_option,
    no_cache_option,
    parameters_option,
    precision_option,
    program_options,
    refuse_given,
    require_writable,
    stack,
    threads_option,
)
from graphc.cli.profiling import ProfileReports, profile_options
from graphc.cli.programs import MODEL_FILE, open_program
from graphc.cli.report import TrainingReport
from graphc.cli.schedules import ScheduleType
from graphc.cli.terminal import Terminal, common_options
from graphc.cli.timing import TimingReports, timing_options
from graphc.data.order import Order
from graphc.driver.options import DEFAULT_BATCH, CompileOptions
from graphc.learn.learner import Learner
from graphc.learn.loop import run_training
from graphc.learn.network_training import NetworkTrainee
from graphc.learn.plan import DEFAULT_DROPOUT, TrainingPlan
from graphc.learn.program_training import ProgramTrainee
from graphc.learn.records import EpochRecord, EpochStart, Progress
from graphc.learn.schedule import Schedule
from graphc.learn.source import Data, samples_of
from graphc.learn.trainee import Trainee
from graphc.learn.training import Extras
from graphc.support.diagnostics import GraphcError
from graphc.support.locks import sole_writer
from graphc.support.memory import peak_resident_bytes

SCHEMA = 1
MODEL_SUFFIX = ".safetensors"

EPILOG = """\b
Example:
  graphc train net.ndl --data train.txt --features 0:64 --labels 64 --classes 10 \\
      --epochs 30 --minibatch 32 --learning-rate 1.0 --momentum 0.9 -o net.safetensors

  graphc train net.onnx --data train.txt --features 0:64 --labels 64 --classes 10 \\
      --loss softmax_cross_entropy --measure classification_error \\
      --learning-rate 0.1 -o tuned.safetensors

Rates and sizes are one value or a list over epochs: 0.5:0.2*20:0.1 is 0.5 in the first epoch,
0.2 in the next twenty, then 0.1. Most numbers of learners may be such lists too; docs/learners.md
says what the learners do. Ctrl-C finishes the minibatch, saves and leaves with exit code 130; a
second Ctrl-C leaves at once. With --checkpoint FILE the same command and --resume go
on from there, also after a crash. Several processes train together by
`mpirun -n 4 graphc train … --comm mpi`.
"""


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """What is asked of a training; `plan` is what becomes of it, with a learner."""

    epochs: int
    minibatch: Schedule | None
    dropout: Schedule
    criterion: str | None
    seed: int
    shuffle: bool

    def plan(self, learner: Learner) -> TrainingPlan:
        return TrainingPlan(
            learner,
            epochs=self.epochs,
            minibatch=self.minibatch,
            seed=self.seed,
            shuffle=self.shuffle,
            criterion=self.criterion,
            dropout=self.dropout,
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
@click.argument("model", type=MODEL_FILE, metavar="MODEL")
@data_options
@objective_options
@trained_options
@training_options
@learner_options
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
@launch_option
@threads_option
@definition_options
@program_options
@parameters_option
@comm_option
@comm_order_option
@comm_shards_option
@comm_wire_option
@comm_overlap_option
@comm_split_option
@comm_sync_batchnorm_option
@comm_patience_option
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
    objective: ObjectiveRequest,
    training: TrainingRequest,
    learner: LearnerRequest,
    control: ControlRequest,
    output: Path,
    options: CompileOptions,
    definitions: Definitions,
    parameters: Path | None,
    members: MembersRequest,
    timing: TimingReports,
    profiling: ProfileReports,
    as_json: bool,
) -> int:
    """Train MODEL, a network (.ndl) or a model to train further (.safetensors), or a program: an
    ONNX file, FILE.py:NAME, or IR (.gir) with its --parameters.

    Mean and variance nodes are computed over the data first. Loss and error are printed for each
    epoch on stderr; with --json the record of all epochs goes to stdout.
    """
    plan = training.plan(learner.made())
    plan = replace(plan, epoch_size=control.epoch_size, control=control.controls())
    files = [model, *data.files, output, *definitions.macros, *([parameters] if parameters else [])]
    check_reports([control.checkpoint], files)
    check_reports([timing.time_json, *profiling.files], [*files, *control.files])
    options = replace(options, profile=profiling.profile())
    require_writable(output)
    with joined(terminal, members) as member, ExitStack() as writing:
        if is_first(member):
            writing.enter_context(sole_writer(output))
        opened = _opened(model, definitions, parameters, objective, plan, options)
        if not is_first(member):
            opened = replace(opened, save=lambda _: None)
        order = Order("auto" if plan.shuffle else None, plan.seed)
        samples = opened.read(terminal, data, options, order)
        validation = None
        if control.validation is not None:
            other = replace(data, data=control.validation)
            validation = opened.read(terminal, other, options)
        extras = Extras(
            *(validation, control.checkpoints(), control.adaptation(), member),
            split=members.split,
            sync_batchnorm=members.comm_sync_batchnorm,
        )
        epoch_samples = plan.epoch_size or samples_of(samples) or 0
        nodes = opened.trainee.outputs(plan.criterion)
        report = TrainingReport(
            terminal, plan.epochs, epoch_samples, nodes, has_validation=validation is not None
        )
        start = time.perf_counter()
        with stop_requests(terminal) as stop:
            job = TrainingJob(opened, samples, plan, options, extras, output)
            records = job.train_and_save(report, stop)
            report.finish(records, time.perf_counter() - start, output)
            if stop and control.checkpoint is not None:
                terminal.remark(f"checkpoint in {control.checkpoint}: --resume goes on from there")
    if not is_first(member):
        return stop.exit_code
    if as_json:
        terminal.write(records_json(records, output, interrupted=bool(stop)))
    timing.make(terminal, options.phases)
    profiling.make(terminal, options.profile)
    return stop.exit_code


@dataclass(frozen=True, slots=True)
class Opened:
    """What is trained, what reads its data, and what writes its model file."""

    trainee: Trainee
    read: Callable[..., Data]
    save: Callable[[Path], None]


def _opened(
    model: Path,
    definitions: Definitions,
    parameters: Path | None,
    objective: ObjectiveRequest,
    plan: TrainingPlan,
    options: CompileOptions,
) -> Opened:
    """The network or program of the command line. GraphcError for one that cannot be trained so."""
    with options.phases.measure("read the network"):
        program = open_program(model, definitions, parameters=parameters, taken=("minibatch",))
        if program is None:
            refuse_objective()
            network = open_network(model, definitions, seed=plan.seed).model
            read = partial(read_data, network_inputs(network))
            return Opened(NetworkTrainee(network), read, network.save)
        refuse_given(OF_NETWORKS, f"is for networks, {model} is a program")
        trainee = ProgramTrainee(program, objective.objective())
        return Opened(trainee, partial(read_for_program, trainee.program), program.save)


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A training and the file that its model goes to."""

    opened: Opened
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
                    self.opened.trainee,
                    self.data,
                    self.plan,
                    self.options,
                    progress,
                    self.extras,
                )
        except GraphcError as error:
            if finished and error.diagnostics[0].slug in ("not-a-number", "file"):
                self.opened.save(self.output)
                said = f"saved the parameters of epoch {finished} to {self.output}"
                report.terminal.message(said)
            raise
        self.opened.save(self.output)
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
