"""Training, measuring and gradients of networks and programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from graphc.api.given import OfProgram, model_of, refuse_of_networks, trainee_of
from graphc.builder import GraphBuilder
from graphc.driver.cache_key import default_cache
from graphc.driver.compile import checked_numbered
from graphc.driver.options import CompileOptions, parse_arithmetic
from graphc.ir.core import ContractionMode, LaunchMode
from graphc.learn.adaptation import Adaptation
from graphc.learn.averaging import Averaging
from graphc.learn.checkpoints import Checkpoints
from graphc.learn.curves import Rate
from graphc.learn.evaluate import DEFAULT_SIDE_BY_SIDE, evaluate_dataset
from graphc.learn.gradient_check import (
    DIGITS,
    ELEMENTS,
    TrainingGradientReport,
    check_gradients,
)
from graphc.learn.gradients import Gradients, compile_gradients
from graphc.learn.learner import Learner, require_learner
from graphc.learn.loop import run_training
from graphc.learn.plan import DEFAULT_DROPOUT, Control, TrainingPlan, read_controls
from graphc.learn.records import EpochRecord, Progress
from graphc.learn.schedule import Rates, Schedule
from graphc.learn.sgd import SGD, learner_or_sgd
from graphc.learn.source import Data, check_source
from graphc.learn.step import TrainingStep, compile_training_step
from graphc.learn.training import Extras
from graphc.model.model import Model
from graphc.model.program import Program
from graphc.passes.loop_gradient import Recompute
from graphc.runtime.communicators.communicator import Communicator, checked_communicator
from graphc.support import arguments
from graphc.support.diagnostics import fail

if TYPE_CHECKING:
    from graphc.learn.losses import Loss
    from graphc.learn.program_loss import Measures


def compile_training(
    network: GraphBuilder | Model | Program,
    *,
    learner: Learner,
    loss: str | Loss | None = None,
    output: str | None = None,
    labels: object = None,
    train: str | Sequence[str] = (),
    measure: Measures = (),
    as_inference: bool = False,
    batch: int | None = None,
    time: int = CompileOptions.time,
    sequences: int = CompileOptions.sequences,
    criterion: str | None = None,
    dropout: float = DEFAULT_DROPOUT,
    seed: int = 0,
    recompute: Recompute = CompileOptions.recompute,
    contraction: ContractionMode = CompileOptions.contraction,
    launch: LaunchMode = CompileOptions.launch,
    backend: str = CompileOptions.backend,
    precision: str = CompileOptions.precision.value,
    threads: int | None = CompileOptions.threads,
    verify: bool = CompileOptions.verify,
    comm: Communicator | None = None,
    split: str | Sequence[str] = (),
    sync_batchnorm: bool = False,
    class_numbers: str | Sequence[str] = (),
) -> TrainingStep:
    """A compiled training step: `step(features=x, labels=t)` updates the network's parameters.

    learner    `SGD` or `SteppingHeuristic`
    loss, output, labels, train, measure  of a program alone: what is minimised of which result, the
               type of the labels, patterns of the names of parameters that are trained, and what is
               measured besides (docs/tensor.md)
    as_inference  of a program: its dropout does nothing, its normalisation keeps the statistics it
               has; `seed` decides what dropout drops
    batch      bound on the samples of a call, and the nominal minibatch that rates refer to; by
               default 256, of a program the bound of their dim
    time       for sequences, as in `compile`: bound on their steps; `sequences`: on how many lie
               side by side. The nominal minibatch is then their product, in steps, unless
               `step.nominal` is set to another one
    criterion  the node to minimise, by default the first criterion node
    dropout    share of elements that Dropout nodes set to zero, `step.dropout_rate` from then on;
               `seed` decides which they are
    recompute, contraction, launch  as in `compile`
    threads    as in `compile`; `step.threads` from then on
    comm          one of several members who train together, each calling a step of its own network
               with its part of every minibatch (docs/training.md); `batch` is then of a part
    split         parameters, such as the matrix of an output layer, whose outputs members split:
                  each updates its own, and `step.gather()` makes all whole (docs/members.md)
    sync_batchnorm  members normalise by the samples of all in BatchNormalization, in place of each
                  by its own
    class_numbers  as in `compile`

    From here on the network holds its parameters in the step's precision. Statistics must have
    been computed (`net.precompute`). Raises GraphcError for a bad network or option.
    """
    require_learner(learner)
    dtype, contraction = parse_arithmetic(precision, contraction)
    options = CompileOptions(
        backend=backend,
        precision=dtype,
        batch=CompileOptions.batch if batch is None else batch,
        verify=verify,
        time=time,
        sequences=sequences,
        recompute=recompute,
        cache=default_cache(),
        contraction=contraction,
        launch=launch,
        threads=threads,
    )
    of_program = OfProgram(loss, output, labels, train, measure, as_inference)
    member = checked_communicator(comm)
    if isinstance(network, Program):
        from graphc.learn.program_step import compile_program_step

        refuse_of_networks(
            time=bool(time),
            sequences=sequences != CompileOptions.sequences,
            criterion=criterion is not None,
            dropout=dropout != DEFAULT_DROPOUT,
            split=bool(split),
            class_numbers=bool(class_numbers),
        )
        objective = of_program.objective()
        return compile_program_step(
            *(network, objective, learner, options),
            batch=batch,
            seed=seed,
            communicator=member,
            sync_batchnorm=sync_batchnorm,
        )
    of_program.refuse()
    model = model_of(network)
    numbered = checked_numbered(model, arguments.texts(class_numbers, "class_numbers"))
    return compile_training_step(
        model,
        learner,
        replace(options, numbered=numbered),
        criterion=criterion,
        dropout=dropout,
        seed=seed,
        communicator=member,
        split=arguments.texts(split, "split"),
        sync_batchnorm=sync_batchnorm,
    )


def gradients(
    network: GraphBuilder | Model,
    *,
    batch: int = CompileOptions.batch,
    time: int = CompileOptions.time,
    sequences: int = CompileOptions.sequences,
    criterion: str | None = None,
    dropout: float = DEFAULT_DROPOUT,
    seed: int = 0,
    recompute: Recompute = CompileOptions.recompute,
    contraction: ContractionMode = CompileOptions.contraction,
    launch: LaunchMode = CompileOptions.launch,
    backend: str = CompileOptions.backend,
    precision: str = CompileOptions.precision.value,
    threads: int | None = CompileOptions.threads,
) -> Gradients:
    """Gradients of minibatches, for a training algorithm with a loop of its own.

    `slopes = gc.gradients(net)`; `value, by_name = slopes(features=x, labels=t)` is the criterion's
    sum over the minibatch and its gradient with respect to every parameter that a training would
    move, computed as in training (Dropout, BatchNormalization). `slopes.point` is all of these
    parameters as one vector, and `slopes.at(point, features=x, labels=t)` the value and gradient
    there. Options as in `compile_training`; the network holds its parameters in this precision from
    here on. Raises GraphcError for a bad network or option.
    """
    dtype, contraction = parse_arithmetic(precision, contraction)
    options = CompileOptions(
        backend=backend,
        precision=dtype,
        batch=batch,
        time=time,
        sequences=sequences,
        recompute=recompute,
        cache=default_cache(),
        contraction=contraction,
        launch=launch,
        threads=threads,
    )
    return compile_gradients(
        model_of(network), options, criterion=criterion, dropout=dropout, seed=seed
    )


def train(
    network: GraphBuilder | Model | Program,
    data: Data,
    *,
    loss: str | Loss | None = None,
    output: str | None = None,
    labels: object = None,
    train: str | Sequence[str] = (),
    measure: Measures = (),
    as_inference: bool = False,
    epochs: int = TrainingPlan.epochs,
    epoch_size: int = TrainingPlan.epoch_size,
    minibatch: Rates | None = None,
    learning_rate: Rate | None = None,
    learning_rate_per_sample: Rate | None = None,
    momentum: Rates | None = None,
    momentum_per_sample: Rates | None = None,
    l2: Rates = SGD.l2,
    learner: Learner | None = None,
    dropout: Rates = DEFAULT_DROPOUT,
    time: int = CompileOptions.time,
    truncate: int = TrainingPlan.truncate,
    recompute: Recompute = CompileOptions.recompute,
    criterion: str | None = None,
    shuffle: bool = TrainingPlan.shuffle,
    seed: int = TrainingPlan.seed,
    contraction: ContractionMode = CompileOptions.contraction,
    launch: LaunchMode = CompileOptions.launch,
    backend: str = CompileOptions.backend,
    precision: str = CompileOptions.precision.value,
    threads: int | None = CompileOptions.threads,
    validation: Data | None = None,
    control: Control | Sequence[Control] = (),
    minimum_rate: float | None = None,
    adaptation: Adaptation | None = None,
    checkpoints: Checkpoints | None = None,
    progress: Progress | None = None,
    comm: Communicator | None = None,
    averaging: Averaging | None = None,
    split: str | Sequence[str] = (),
    sync_batchnorm: bool = False,
) -> list[EpochRecord]:
    """Train `network` on `data`, one array (samples, rows) per input, or what a reader gives; the
    record of each epoch.

    A sparse input also takes a CSR matrix, or a tuple (indices, offsets) or (indices, offsets,
    values): the entries of sample n are those from offsets[n] to offsets[n + 1]. It and an input
    with the tag `label` take class numbers too, whole numbers (samples,) for one-hot rows.

    For a network that looks along time, or with `time`, data are sequences: a list of arrays
    (steps, rows) per input. `minibatch`, by default 256 samples or all if there are fewer, is then
    how many of them lie side by side in an update, by default 16; a sample is a step of one, and
    rates are per sample or for a minibatch of average length.
    `truncate=K` updates after every K steps, going on from the values that the steps before had
    (truncated backpropagation through time); 0 goes through whole sequences. `recompute`,
    `contraction` and `launch` as in `compile`.

    Rates and sizes are a number, one number per epoch, or text such as `0.5:0.2*20:0.1`. Rates and
    momentum are for a minibatch or, in their other form, per sample; `learner` is given in place
    of them all. `dropout` is the share of elements that Dropout nodes set to zero; `seed` decides
    which, and the order of the samples. `threads` as in `compile`. Statistics without a value
    are computed over all data first. Raises GraphcError for a bad network, data or option, and
    when the criterion is not a number any more (the parameters of the last epoch are put back).

    loss, output, labels, train, measure, as_inference  of a program, as in `compile_training`; its
                  data are arrays (samples, …) by input, and `labels`
    epoch_size    samples of an epoch (of sequences their number), which begins where the one before
                  ended in the data, repeated endlessly; 0: all of them
    validation    data, or a reader, that the network is measured on after each epoch
    control       what chooses rates and sizes and ends the training: at most one record of each of
                  `AdjustAfterEpoch`, `SearchBeforeEpoch`, `AdaptiveMinibatch`, `EarlyStopping`,
                  `KeepBest`
    minimum_rate  per sample: training ends before an epoch with less; by default 1e-9 where a
                  record of `control` chooses rates
    adaptation    keeps the network near another one, or near what it is now
    checkpoints   where they are written, and gone on from, bit for bit
    comm          one of several members who train together, each calling `train` with a network of
                  its own and the same data, of which it takes its share of every minibatch
    averaging     `BlockMomentum` or `ModelAveraging`: members train by themselves and average
                  parameters; by default they add the gradients of every minibatch
    split         parameters, such as the matrix of an output layer, whose outputs members split:
                  each has some of them for all samples (docs/members.md)
    sync_batchnorm  BatchNormalization is by the samples of all members, in place of each one's own
    """
    check_source("train", data)
    plan = TrainingPlan(
        learner_or_sgd(
            learner,
            learning_rate=learning_rate,
            learning_rate_per_sample=learning_rate_per_sample,
            momentum=momentum,
            momentum_per_sample=momentum_per_sample,
            l2=l2,
        ),
        epochs=epochs,
        minibatch=None
        if minibatch is None
        else Schedule.parse(minibatch, option="minibatch", minimum=1, whole=True),
        dropout=Schedule.parse(dropout, option="dropout", minimum=0),
        criterion=criterion,
        shuffle=shuffle,
        seed=seed,
        truncate=truncate,
        epoch_size=epoch_size,
        control=read_controls(control),
        minimum_rate=minimum_rate,
    )
    dtype, contraction = parse_arithmetic(precision, contraction)
    options = CompileOptions(
        backend=backend,
        precision=dtype,
        time=time,
        recompute=recompute,
        cache=default_cache(),
        contraction=contraction,
        launch=launch,
        threads=threads,
    )
    progress = Progress() if progress is None else progress
    arguments.instance(progress, Progress, "progress", "a gc.Progress")
    member, names = checked_communicator(comm), arguments.texts(split, "split")
    extras = Extras(
        *(validation, checkpoints, adaptation, member, averaging, names, sync_batchnorm)
    )
    of_program = OfProgram(loss, output, labels, train, measure, as_inference)
    trainee = trainee_of(network, of_program, time=time)
    return run_training(trainee, data, plan, options, progress, extras)


def evaluate(
    network: GraphBuilder | Model | Program,
    data: Data,
    names: str | Sequence[str] = (),
    *,
    loss: str | Loss | None = None,
    output: str | None = None,
    labels: object = None,
    measure: Measures = (),
    backend: str = CompileOptions.backend,
    precision: str = CompileOptions.precision.value,
    batch: int = CompileOptions.batch,
    time: int = CompileOptions.time,
    sequences: int = DEFAULT_SIDE_BY_SIDE,
    truncate: int = TrainingPlan.truncate,
    contraction: ContractionMode = CompileOptions.contraction,
    launch: LaunchMode = CompileOptions.launch,
    threads: int | None = CompileOptions.threads,
    comm: Communicator | None = None,
) -> Mapping[str, float]:
    """Averages per sample over `data`, or over all that a reader gives, of criteria and evaluation
    nodes, by default all of them.

    Each has to be a sum over the samples (1x1). Sequences are given as to `train`, and measured
    `sequences` at a time; `truncate=K` computes K steps in a call, for sequences of any length in
    the memory for K. Of a program what is measured is `loss` and `measure` of `output`, as in
    `train`, each by its name; without `loss` the measures alone. `contraction`, `launch` and
    `threads` as in `compile`. `comm` is one of several members, each with the same network and
    data, who share the minibatches; all get the averages, with the bits of one. Raises GraphcError
    as `compile`, and for bad data.
    """
    check_source("evaluate", data)
    dtype, contraction = parse_arithmetic(precision, contraction)
    options = CompileOptions(
        backend=backend,
        precision=dtype,
        batch=batch,
        time=time,
        sequences=sequences,
        cache=default_cache(),
        contraction=contraction,
        launch=launch,
        threads=threads,
    )
    wanted, member = arguments.texts(names, "names"), checked_communicator(comm)
    of_program = OfProgram(loss, output, labels, (), measure)
    if isinstance(network, Program):
        from graphc.learn.program_training import evaluate_program

        given = {"names": bool(wanted), "time": bool(time), "truncate": bool(truncate)}
        refuse_of_networks(**given, sequences=sequences != DEFAULT_SIDE_BY_SIDE)
        return evaluate_program(network, of_program.objective(), data, options, member).averages
    of_program.refuse()
    return evaluate_dataset(model_of(network), data, options, wanted, truncate, member).averages


def check_training_gradient(
    network: GraphBuilder | Model,
    minibatch: Mapping[str, object],
    *,
    digits: int = DIGITS,
    elements: int = ELEMENTS,
    criterion: str | None = None,
    dropout: float = DEFAULT_DROPOUT,
    seed: int = 0,
    backend: str = CompileOptions.backend,
    time: int = CompileOptions.time,
    recompute: Recompute = CompileOptions.recompute,
) -> TrainingGradientReport:
    """Compare the gradients that `network` is trained by with central differences, in f64.

    minibatch  what a training step is called with: arrays (samples, rows) by input, of sequences
               lists of them
    digits     how many have to agree (the toolkit's sigFigs): computed and difference lie at most
               10^-digits apart, and ten times as far for each power of ten that they are above 1
    elements   of each parameter, chosen at random by `seed`
    criterion, dropout, time, recompute  as in `compile_training`

    The network stays as it is. GraphcError `not-differentiable` with the worst element where they
    do not agree, as at a kink, which another minibatch may avoid.
    """
    arguments.table(minibatch, "minibatch", "arrays")
    for name, given in (("digits", digits), ("elements", elements)):
        if arguments.whole(given, name) < 1:
            raise fail("bad-value", f"{name} requires a whole number of at least 1, got {given}")
    options = CompileOptions(backend=backend, time=time, recompute=recompute, cache=default_cache())
    return check_gradients(
        model_of(network),
        minibatch,
        options,
        digits=digits,
        elements=elements,
        criterion=criterion,
        dropout=dropout,
        seed=seed,
    )
