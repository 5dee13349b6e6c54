"""`graphc train`: a network and data in, a model file out."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click
import numpy as np

from graphc.backends import BACKENDS
from graphc.cli.given_once import Command
from graphc.cli.interrupts import StopRequest, stop_requests
from graphc.cli.network import open_network, read_data
from graphc.cli.options import (
    EXISTING_FILE,
    Block,
    FiniteRange,
    backend_option,
    cache_for,
    check_reports,
    contraction_option,
    data_options,
    define_option,
    json_option,
    macros_option,
    no_cache_option,
    precision_option,
    require_writable,
    threads_option,
)
from graphc.cli.profiling import profile_for, profile_options, report_profile
from graphc.cli.report import TrainingReport
from graphc.cli.schedules import ScheduleType
from graphc.cli.terminal import Terminal, common_options
from graphc.cli.timing import report_phases, timing_options
from graphc.driver.options import DEFAULT_BACKEND, DEFAULT_BATCH, CompileOptions, parse_precision
from graphc.ir.core import ContractionMode
from graphc.learn.loop import EpochRecord, Progress, TrainingPlan, run_training
from graphc.learn.schedule import Schedule
from graphc.learn.step import training_outputs
from graphc.learn.stepping import BETA, HISTORY, SteppingHeuristic
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
130; a second Ctrl-C leaves at once.
"""


def model_file(ctx: click.Context, param: click.Parameter, value: Path) -> Path:
    """The file to write, whose suffix is what it will be read by."""
    if value.suffix.lower() != MODEL_SUFFIX:
        raise click.BadParameter(f"a name that ends in {MODEL_SUFFIX} is required, got {value}")
    return value


@click.command(cls=Command, epilog=EPILOG, short_help="Train a network on data and save the model.")
@click.argument("model", type=EXISTING_FILE, metavar="MODEL")
@data_options
@click.option("--epochs", type=click.IntRange(min=1), default=1, show_default=True, metavar="E")
@click.option(
    "--minibatch",
    type=ScheduleType(minimum=1, whole=True),
    metavar="B",
    help=f"Samples in one update.  [default: {DEFAULT_BATCH}, or all if there are fewer]",
)
@click.option(
    "--learning-rate", type=ScheduleType(minimum=0), metavar="R", help="Rate for a whole minibatch."
)
@click.option(
    "--learning-rate-per-sample",
    type=ScheduleType(minimum=0),
    metavar="R",
    help="Rate for each sample, in place of --learning-rate.",
)
@click.option(
    "--momentum",
    type=ScheduleType(minimum=0, below=1),
    metavar="M",
    help="Momentum from one minibatch to the next, from 0 to below 1.",
)
@click.option(
    "--momentum-per-sample",
    type=ScheduleType(minimum=0, below=1),
    metavar="M",
    help="Momentum from one sample to the next, in place of --momentum.",
)
@click.option(
    "--l2",
    type=FiniteRange(min=0),
    default=0.0,
    show_default=True,
    metavar="W",
    help="Weight of L2 regularisation, for each sample.",
)
@click.option(
    "--learner",
    type=click.Choice(LEARNERS),
    default=LEARNERS[0],
    show_default=True,
    help="What updates the parameters: sgd, or stepping-heuristic, whose step size starts at "
    "--learning-rate and follows the losses.",
)
@click.option(
    "--beta",
    type=FiniteRange(min=0, min_open=True, max=1),
    metavar="W",
    help=f"stepping-heuristic: weight of a new gradient in its direction.  [default: {BETA}]",
)
@click.option(
    "--history",
    type=click.IntRange(min=1),
    metavar="M",
    help=f"stepping-heuristic: minibatches whose losses it averages.  [default: {HISTORY}]",
)
@click.option(
    "--dropout",
    type=ScheduleType(minimum=0, below=1),
    default="0",
    show_default=True,
    metavar="P",
    help="Share of elements that Dropout nodes set to zero.",
)
@click.option("--criterion", metavar="NODE", help="What to minimise, if not the first criterion.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    metavar="N",
    help="Decides initial values, the order of samples, and what Dropout sets to zero.",
)
@click.option(
    "--shuffle/--no-shuffle", default=True, help="Visit samples in a new order each epoch."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    callback=model_file,
    metavar="FILE",
    help="The model file to write (.safetensors).",
)
@backend_option(list(BACKENDS), DEFAULT_BACKEND)
@precision_option
@contraction_option
@threads_option
@define_option
@macros_option
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
    data: Path,
    features: Sequence[Block],
    labels: Sequence[Block],
    classes: int | None,
    label_mapping: Path | None,
    epochs: int,
    minibatch: Schedule | None,
    learning_rate: Schedule | None,
    learning_rate_per_sample: Schedule | None,
    momentum: Schedule | None,
    momentum_per_sample: Schedule | None,
    l2: float,
    learner: str,
    beta: float | None,
    history: int | None,
    dropout: Schedule,
    criterion: str | None,
    seed: int,
    shuffle: bool,
    output: Path,
    backend: str,
    precision: str,
    contraction: ContractionMode,
    threads: int | None,
    defines: Sequence[tuple[str, object]],
    macros: Sequence[Path],
    no_cache: bool,
    time_passes: bool,
    time_json: Path | None,
    profiles: bool,
    profile_json: Path | None,
    trace: Path | None,
    as_json: bool,
) -> int:
    """Train MODEL, a network (.ndl) or a model to train further (.safetensors).

    Mean and variance nodes are computed over the data first. Loss and error are printed for each
    epoch on stderr; with --json the record of all epochs goes to stdout.
    """
    plan = TrainingPlan(
        epochs=epochs,
        minibatch=minibatch,
        seed=seed,
        shuffle=shuffle,
        criterion=criterion,
        dropout=dropout,
    )
    if learner == "sgd":
        if beta is not None or history is not None:
            raise click.UsageError("--beta and --history are for --learner stepping-heuristic")
        plan = sgd_plan(
            plan, learning_rate, learning_rate_per_sample, momentum, momentum_per_sample, l2
        )
    else:
        if learning_rate_per_sample or momentum or momentum_per_sample:
            raise click.UsageError(
                "--learner stepping-heuristic takes --learning-rate, its first step size, --beta "
                "and --history, and no other rates"
            )
        plan = replace(plan, learner=stepping_heuristic(learning_rate, beta, history, l2))
    files = [model, data, output, *macros, *([label_mapping] if label_mapping else [])]
    check_reports([time_json, profile_json, trace], files)
    profile = profile_for(profiles, profile_json, trace)
    options = CompileOptions(
        backend=backend,
        precision=parse_precision(precision),
        cache=cache_for(no_cache),
        contraction=contraction,
        profile=profile,
        threads=threads,
    )
    require_writable(output)
    with options.phases.measure("read the network"):
        network = open_network(model, defines=defines, macros=macros, seed=seed)
    arrays = read_data(
        network.model,
        terminal,
        data=data,
        features=features,
        labels=labels,
        classes=classes,
        label_mapping=label_mapping,
        precision=options.precision,
    )
    samples = len(next(iter(arrays.values())))
    nodes = training_outputs(network.model, criterion)
    report = TrainingReport(terminal, plan.epochs, samples, nodes)
    start = time.perf_counter()
    with stop_requests(terminal) as stop:
        records = train_and_save(network.model, arrays, plan, options, report, stop, output)
        report.finish(records, time.perf_counter() - start, output)
    if as_json:
        terminal.write(records_json(records, output, interrupted=bool(stop)))
    report_phases(terminal, options.phases, time_passes=time_passes, time_json=time_json)
    report_profile(terminal, profile, profiles=profiles, profile_json=profile_json, trace=trace)
    return stop.exit_code


def sgd_plan(
    plan: TrainingPlan,
    learning_rate: Schedule | None,
    learning_rate_per_sample: Schedule | None,
    momentum: Schedule | None,
    momentum_per_sample: Schedule | None,
    l2: float,
) -> TrainingPlan:
    """The plan with the rates of SGD; click.UsageError where they do not go together."""
    if (learning_rate is None) == (learning_rate_per_sample is None):
        raise click.UsageError("one of --learning-rate and --learning-rate-per-sample is required")
    if momentum is not None and momentum_per_sample is not None:
        raise click.UsageError("--momentum and --momentum-per-sample exclude each other")
    return replace(
        plan,
        learning_rate=learning_rate,
        learning_rate_per_sample=learning_rate_per_sample,
        momentum=momentum,
        momentum_per_sample=momentum_per_sample,
        l2=l2,
    )


def stepping_heuristic(
    learning_rate: Schedule | None, beta: float | None, history: int | None, l2: float
) -> SteppingHeuristic:
    """The learner of these options; click.UsageError unless its first step size is one number."""
    if learning_rate is None or len(learning_rate.values) != 1:
        raise click.UsageError(
            "--learner stepping-heuristic requires one --learning-rate: its first step size"
        )
    return SteppingHeuristic(
        learning_rate.at(0),
        beta=BETA if beta is None else beta,
        history=HISTORY if history is None else history,
        l2=l2,
    )


def train_and_save(
    model: Model,
    arrays: Mapping[str, np.ndarray],
    plan: TrainingPlan,
    options: CompileOptions,
    report: TrainingReport,
    stop: StopRequest,
    output: Path,
) -> list[EpochRecord]:
    """Train and write the model file; also when the criterion is no number after some epochs.

    The parameters are then those of the last good epoch, and the error is raised after saving.
    """
    finished = 0

    def epoch(record: EpochRecord) -> None:
        nonlocal finished
        finished += 1
        report.epoch(record)

    progress = Progress(minibatch=report.minibatch, epoch=epoch, should_stop=lambda: bool(stop))
    try:
        with report:
            records = run_training(model, arrays, plan, options, progress)
    except GraphcError as error:
        if finished and error.diagnostics[0].slug == "not-a-number":
            model.save(output)
            report.terminal.message(f"saved the parameters of epoch {finished} to {output}")
        raise
    model.save(output)
    return records


def records_json(records: Sequence[EpochRecord], output: Path, *, interrupted: bool) -> str:
    """The training as JSON: one record for each epoch, with averages per sample; and the most
    memory that was resident so far, null where that is unknown."""
    epochs = [asdict(record) | {"evaluations": dict(record.evaluations)} for record in records]
    record = {
        "schema": SCHEMA,
        "model": str(output),
        "interrupted": interrupted,
        "peak_memory_bytes": peak_resident_bytes(),
        "epochs": epochs,
    }
    return json.dumps(record, indent=1)
