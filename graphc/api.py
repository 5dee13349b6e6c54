"""What users call: load, edit, compile, compile_training, train, evaluate, to_networkx, …"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from graphc.builder import Edited, GraphBuilder, Workshop
from graphc.driver.cache_key import default_cache
from graphc.driver.compile import bind, evaluation_passes, node_names
from graphc.driver.onnx_export import export_model
from graphc.driver.options import CompileOptions, parse_arithmetic, parse_precision
from graphc.driver.program import bind_program
from graphc.frontend import (
    EditingFrontend,
    editing_frontend,
    frontend_for,
    languages,
    model_format_of,
    network_class,
    program_format_for,
)
from graphc.ir.core import ContractionMode, Function, LaunchMode
from graphc.learn.adaptation import Adaptation
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
from graphc.learn.network_training import NetworkTrainee
from graphc.learn.plan import DEFAULT_DROPOUT, Control, TrainingPlan, read_controls
from graphc.learn.records import EpochRecord, Progress
from graphc.learn.schedule import Rates, Schedule
from graphc.learn.sgd import SGD, learner_or_sgd
from graphc.learn.source import Data, check_source
from graphc.learn.step import TrainingStep, compile_training_step
from graphc.learn.trainee import Trainee
from graphc.learn.training import Extras
from graphc.model.container import MAX_FILE_BYTES, looks_like_container
from graphc.model.model import Model, load_model
from graphc.model.program import Program, read_program
from graphc.passes.loop_gradient import Recompute
from graphc.runtime.communicators.communicator import Communicator, checked_communicator
from graphc.runtime.executable import Executable
from graphc.support import arguments
from graphc.support.diagnostics import fail, warn
from graphc.support.files import open_regular_file, read_regular_file

if TYPE_CHECKING:
    import networkx as nx

    from graphc.learn.losses import Loss
    from graphc.learn.program_loss import Measures, Objective
    from graphc.learn.stages import Stage
    from graphc.tensor.function import ArrayFunction

MODEL_SUFFIX = "safetensors"
MAX_SOURCE_BYTES = 16 * 2**20
HEAD_BYTES = 64
"""Of a file, to see what it is."""


def load(
    path: str | Path,
    *,
    macros: str | Path | Sequence[str | Path] = (),
    defines: Mapping[str, object] | None = None,
    seed: int = 0,
) -> GraphBuilder:
    """The network in a file: a language by its suffix (.ndl), or a model file, by its content: of
    graphc (.safetensors), of the toolkit (versions 1 and 2), or a DBN file.

    macros   files of macros, read before it
    defines  values of variables: they replace `$name$` and the variable `name` of the text
    seed     of the initial values

    Raises GraphcError with every mistake found, each with its place in the text. What may not be
    meant is a GraphcWarning, which Python's `warnings` can show, silence or make an error.
    """
    path = arguments.path(path, "load")
    files = arguments.paths(macros, "macros")
    suffix = path.suffix.removeprefix(".").lower()
    model = _load_model_file(path, suffix, seed)
    if model is not None:
        if files or defines:
            raise fail("bad-option", "a model file takes no macros and no defines")
        return model
    if program_format_for(path) is not None:
        message = f"{path} holds a program, a network is required: gc.load_program reads programs"
        raise fail("bad-model-file", message)
    frontend_for(suffix, [MODEL_SUFFIX])
    sources = [(str(m), _read_text(m)) for m in files]
    text = _read_text(path)
    return _read(text, str(path), sources, defines, suffix, path.parent, seed)


def load_program(
    path: str | Path,
    *,
    bounds: Mapping[str, int] | None = None,
    sizes: Mapping[str, int] | None = None,
    values: Mapping[str, object] | None = None,
) -> Program:
    """The program in a file: what `Program.save` wrote, or an ONNX model (.onnx, docs/onnx.md).

    Of an ONNX model the sizes that the file leaves open are decided by each call, unless they are
    given here, by the names that they have in the file:

    bounds  the largest sizes that need no new compilation
    sizes   sizes that are the same in every call
    values  inputs that are the same in every call, arrays by name

    Raises GraphcError for any other file, and for what cannot be read of this one.
    """
    path = arguments.path(path, "load_program")
    reader = program_format_for(path)
    if reader is not None:
        return reader.load_program(
            path, bounds=bounds or {}, sizes=sizes or {}, values=values or {}
        )
    for name, given in (("bounds", bounds), ("sizes", sizes), ("values", values)):
        if given:
            raise fail("bad-option", f"{path} says its own sizes and values: it takes no {name}=")
    return read_program(path)


def _load_model_file(path: Path, suffix: str, seed: int) -> GraphBuilder | None:
    """The network in a model file of any kind and name, None for a file of another kind."""
    with open_regular_file(path, MAX_FILE_BYTES) as (stream, _):
        head = stream.read(HEAD_BYTES)
    if suffix == MODEL_SUFFIX or looks_like_container(head):
        return network_class()(load_model(path))
    if suffix in languages() and b"\0" not in head:
        return None  # no need to load readers of binary files
    model_format = model_format_of(head)
    if model_format is None:
        return None
    builder = network_class()(Model(folder=path.parent, seed=seed))
    data = read_regular_file(path, MAX_FILE_BYTES)
    model_format.load_bytes(builder, data, file=str(path))
    return builder


def loads(
    text: str,
    *,
    macros: str | Sequence[str] = (),
    defines: Mapping[str, object] | None = None,
    language: str = "ndl",
    seed: int = 0,
) -> GraphBuilder:
    """The network in a text; `macros` are texts too. As `load` otherwise."""
    text, language = arguments.text(text, "loads"), arguments.text(language, "language")
    texts = arguments.texts(macros, "macros")
    sources = [(f"<macros {i}>", m) for i, m in enumerate(texts, start=1)]
    return _read(text, "<text>", sources, defines, language, Path(), seed)


def edit(
    path: str | Path,
    *,
    macros: str | Path | Sequence[str | Path] = (),
    defines: Mapping[str, object] | None = None,
    models: Mapping[str, GraphBuilder] | None = None,
    check_only: bool = False,
) -> dict[str, GraphBuilder]:
    """Edit networks by the commands in a file, a language by its suffix (.mel, docs/mel.md).

    macros      files of NDL, read before it for their macros
    defines     values of variables: they replace `$name$`, also in the macros
    models      networks that are there from the start, by the names that they have in the file; the
                first is the default model. They are changed themselves
    check_only  read the texts and report every mistake that shows without the model files; gives {}

    Gives the networks that there are at the end, by name. Model files are read and written by the
    file's own commands, paths from the current folder on. After any error (GraphcError) no file is
    written and `models` are what they were.
    """
    return edit_file(
        path, macros=macros, defines=defines, models=models, check_only=check_only
    ).networks


def edit_file(
    path: str | Path,
    *,
    macros: str | Path | Sequence[str | Path] = (),
    defines: Mapping[str, object] | None = None,
    models: Mapping[str, GraphBuilder] | None = None,
    check_only: bool = False,
) -> Edited:
    """As `edit`, with the files written too."""
    path = arguments.path(path, "edit")
    files = arguments.paths(macros, "macros")
    frontend = editing_frontend(path.suffix.removeprefix("."))
    sources = [(str(m), _read_text(m)) for m in files]
    text = _read_text(path)
    return _edit(frontend, text, str(path), sources, defines, models, check_only)


def edits(
    text: str,
    *,
    macros: str | Sequence[str] = (),
    defines: Mapping[str, object] | None = None,
    models: Mapping[str, GraphBuilder] | None = None,
    check_only: bool = False,
    language: str = "mel",
) -> dict[str, GraphBuilder]:
    """Edit networks by the commands in a text; `macros` are texts too. As `edit` otherwise."""
    text, language = arguments.text(text, "edits"), arguments.text(language, "language")
    texts = arguments.texts(macros, "macros")
    sources = [(f"<macros {i}>", m) for i, m in enumerate(texts, start=1)]
    frontend = editing_frontend(language)
    return _edit(frontend, text, "<text>", sources, defines, models, check_only).networks


def _edit(
    frontend: EditingFrontend,
    text: str,
    file: str,
    macros: Sequence[tuple[str, str]],
    defines: Mapping[str, object] | None,
    models: Mapping[str, GraphBuilder] | None,
    check_only: bool,
) -> Edited:
    given = dict(arguments.table(models or {}, "models", "networks"))
    workshop = Workshop(
        new=network_class(),
        open=load,
        models={
            name: arguments.instance(net, GraphBuilder, f"the model {name}", "a network")
            for name, net in given.items()
        },
        only_check=arguments.truth(check_only, "check_only"),
    )
    if defines is not None:
        defines = arguments.table(defines, "defines", "values")
    found = frontend.edit(text, file=file, workshop=workshop, macros=macros, defines=defines)
    warn(found.warnings)
    return found


def _read(
    text: str,
    file: str,
    macros: Sequence[tuple[str, str]],
    defines: Mapping[str, object] | None,
    language: str,
    folder: Path,
    seed: int,
) -> GraphBuilder:
    if defines is not None:
        defines = arguments.table(defines, "defines", "values")
    frontend = frontend_for(language)
    builder = network_class()(Model(folder=folder, seed=seed))
    frontend.load(builder, text, file=file, macros=macros, defines=defines)
    builder.sink.raise_if_errors()
    warn(builder.sink.diagnostics)
    return builder


def _read_text(path: Path) -> str:
    data = read_regular_file(path, MAX_SOURCE_BYTES)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise fail(
            "file", f"{path} requires UTF-8 text: {error.reason} at byte {error.start}"
        ) from None


def compile(
    network: GraphBuilder | Model | Program,
    outputs: str | Sequence[str] = (),
    *,
    gradients: str | Sequence[str] = (),
    backend: str = CompileOptions.backend,
    precision: str = CompileOptions.precision.value,
    batch: int = CompileOptions.batch,
    time: int = CompileOptions.time,
    sequences: int = CompileOptions.sequences,
    recompute: Recompute = CompileOptions.recompute,
    contraction: ContractionMode = CompileOptions.contraction,
    launch: LaunchMode = CompileOptions.launch,
    threads: int | None = CompileOptions.threads,
    freeze: bool = CompileOptions.freeze,
    seldom: str | Sequence[str] = (),
    verify: bool = CompileOptions.verify,
) -> Executable:
    """A callable that computes `outputs`, by default the network's output nodes.

    gradients  names of parameters, inputs or nodes: also compute the gradient of the first
               output's sum with respect to each
    batch      bound on the samples of a call; a larger call recompiles for the next power of two
    time       for sequences: bound on their steps, 64 if a network that looks along time is
               compiled without it; `sequences`: on how many lie side by side in a call. Beyond them
               a call recompiles too
    recompute  for gradients of recurrent networks, "none", "auto", "all" or "sqrt": what is
               computed again to save memory (docs/loops.md)
    contraction  "fma" or "off": whether native code may round a product and the sum that it goes
               to together; "tf32" and "bf16", as precision = "tf32" and "bf16" say too: factors of
               matrix products of f32 are rounded, on a GPU or everywhere (docs/numerics.md)
    launch     how a GPU runs it, "graph", "grid" or "block": many kernels, one, or one of one
               block; "auto": what takes least time by estimate
    threads    how many compute a call, `exe.threads` from then on; by default what the variable
               GRAPHC_NUM_THREADS says, else one for each core (docs/threads.md)
    freeze     the parameters stay as they are now: kept a second time, in the form that products
               read fastest; what depends on them alone is computed once, here
    seldom     names of inputs that not every call gives: what depends on them alone (and on frozen
               parameters) is computed when they are given, and kept; of networks without sequences

    `exe(features=x)` takes one array (N, rows) per input and gives one (N, rows) per output; a 1x1
    output is a scalar, a parameter's gradient has its shape (rows, cols). A sparse input takes what
    `train` says. Of sequences it takes one list of arrays (steps, rows) per input and gives a list
    of arrays per output, or arrays (T, S, rows) with `lengths=` or `flags=` (docs/sequences.md);
    with `carry=True` they go on from `exe.state`. Parameters are read at every call unless frozen.
    Raises GraphcError for a bad network or option.
    """
    dtype, contraction = parse_arithmetic(precision, contraction)
    options = CompileOptions(
        backend=backend,
        precision=dtype,
        batch=batch,
        verify=verify,
        time=time,
        sequences=sequences,
        recompute=recompute,
        cache=default_cache(),
        contraction=contraction,
        launch=launch,
        threads=threads,
        freeze=freeze,
    )
    wanted, of = arguments.texts(outputs, "outputs"), arguments.texts(gradients, "gradients")
    rare = arguments.texts(seldom, "seldom")
    if isinstance(network, Program):
        if rare:
            raise fail("not-supported", "seldom= is for networks, got a program")
        return bind_program(network, wanted, of, options)
    model = _model_of(network)
    options = replace(options, seldom=tuple(node_names(model, rare)))
    return bind(model, lambda m, o: evaluation_passes(m, wanted, of, o), options)


def export_onnx(
    network: GraphBuilder | Model | Program,
    path: str | Path,
    outputs: str | Sequence[str] = (),
    *,
    precision: str = CompileOptions.precision.value,
    batch: int = CompileOptions.batch,
    time: int = CompileOptions.time,
    sequences: int = CompileOptions.sequences,
) -> list[Path]:
    """Write `outputs` of a network or program, by default the network's output nodes and all that
    a program gives, as an ONNX file (docs/onnx.md).

    precision               of a network, "f32" or "f64"; a program says its own
    batch, time, sequences  of a network, as in `compile`: a file tells its reader what is bounded

    The files written: `path`, and beside it `path` with `.data` at its end where parameters take
    more than 1 GB. Raises GraphcError for a bad network or option, with every operation that ONNX
    has nothing for and its place, and without the package `onnx`.
    """
    path = arguments.path(path, "export_onnx")
    options = CompileOptions(
        precision=parse_precision(precision), batch=batch, time=time, sequences=sequences
    )
    source = network if isinstance(network, Program) else _model_of(network)
    return export_model(source, path, arguments.texts(outputs, "outputs"), options)


def compile_training(
    network: GraphBuilder | Model | Program,
    *,
    learner: Learner,
    loss: str | Loss | None = None,
    output: str | None = None,
    labels: object = None,
    train: str | Sequence[str] = (),
    measure: Measures = (),
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
    communicator: Communicator | None = None,
) -> TrainingStep:
    """A compiled training step: `step(features=x, labels=t)` updates the network's parameters.

    learner    `SGD` or `SteppingHeuristic`
    loss, output, labels, train, measure  of a program alone: what is minimised of which result, the
               type of the labels, patterns of the names of parameters that are trained, and what is
               measured besides (docs/tensor.md)
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
    communicator  one of several members who train together, each calling a step of its own network
               with its part of every minibatch (docs/training.md); `batch` is then of a part

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
    if isinstance(network, Program):
        from graphc.learn.program_step import compile_program_step

        _refuse_of_networks(
            time=bool(time),
            sequences=sequences != CompileOptions.sequences,
            criterion=criterion is not None,
            dropout=dropout != DEFAULT_DROPOUT,
            communicator=communicator is not None,
        )
        objective = _objective(loss, output, labels, train, measure)
        return compile_program_step(network, objective, learner, options, batch=batch, seed=seed)
    _refuse_of_programs(loss, output, labels, train, measure)
    return compile_training_step(
        _model_of(network),
        learner,
        options,
        criterion=criterion,
        dropout=dropout,
        seed=seed,
        communicator=checked_communicator(communicator),
    )


def _objective(
    loss: str | Loss | None,
    output: str | None,
    labels: object,
    train: str | Sequence[str],
    measure: Measures,
) -> Objective:
    """What a program is trained by. Networks import no functions of arrays."""
    from graphc.learn.program_loss import Objective, read_measures

    patterns = arguments.texts(train, "train")
    return Objective(loss, output, labels, tuple(patterns), read_measures(measure))


def _refuse_of_programs(
    loss: object, output: object, labels: object, train: str | Sequence[str], measure: Measures
) -> None:
    """GraphcError for options of programs that are given with a network."""
    is_given = any(given is not None for given in (loss, output, labels))
    measured = measure if isinstance(measure, Mapping) else arguments.texts(measure, "measure")
    if is_given or measured or arguments.texts(train, "train"):
        names = "loss=, output=, labels=, train= and measure="
        raise fail("bad-option", f"{names} are for programs: a network has criteria")


def _refuse_of_networks(**given: bool) -> None:
    """GraphcError for options of networks that are given with a program."""
    for name, is_given in given.items():
        if is_given:
            raise fail("not-supported", f"{name}= is for networks, got a program")


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
        _model_of(network), options, criterion=criterion, dropout=dropout, seed=seed
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
    communicator: Communicator | None = None,
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

    loss, output, labels, train, measure  of a program, as in `compile_training`; its data are
                  arrays (samples, …) by input, and `labels`
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
    communicator  one of several members who train together, each calling `train` with a network of
                  its own and the same data, of which it takes its share of every minibatch
    """
    check_source("train", data)
    if validation is not None:
        check_source("validation", validation)
    if checkpoints is not None:
        arguments.instance(checkpoints, Checkpoints, "checkpoints", "a gc.Checkpoints")
    if adaptation is not None:
        arguments.instance(adaptation, Adaptation, "adaptation", "a gc.Adaptation")
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
    if progress is None:
        progress = Progress()
    arguments.instance(progress, Progress, "progress", "a gc.Progress")
    member = checked_communicator(communicator)
    extras = Extras(validation, checkpoints, adaptation, member)
    trainee: Trainee
    if isinstance(network, Program):
        from graphc.learn.program_training import ProgramTrainee

        _refuse_of_networks(time=bool(time))
        trainee = ProgramTrainee(network, _objective(loss, output, labels, train, measure))
    else:
        _refuse_of_programs(loss, output, labels, train, measure)
        trainee = NetworkTrainee(_model_of(network))
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
) -> Mapping[str, float]:
    """Averages per sample over `data`, or over all that a reader gives, of criteria and evaluation
    nodes, by default all of them.

    Each has to be a sum over the samples (1x1). Sequences are given as to `train`, and measured
    `sequences` at a time; `truncate=K` computes K steps in a call, for sequences of any length in
    the memory for K. Of a program what is measured is `loss` and `measure` of `output`, as in
    `train`, each by its name; without `loss` the measures alone. `contraction`, `launch` and
    `threads` as in `compile`. Raises GraphcError as `compile`, and for bad data.
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
    wanted = arguments.texts(names, "names")
    if isinstance(network, Program):
        from graphc.learn.program_training import evaluate_program

        given = {"names": bool(wanted), "time": bool(time), "truncate": bool(truncate)}
        _refuse_of_networks(**given, sequences=sequences != DEFAULT_SIDE_BY_SIDE)
        objective = _objective(loss, output, labels, (), measure)
        return evaluate_program(network, objective, data, options).averages
    _refuse_of_programs(loss, output, labels, (), measure)
    return evaluate_dataset(_model_of(network), data, options, wanted, truncate).averages


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
        _model_of(network),
        minibatch,
        options,
        digits=digits,
        elements=elements,
        criterion=criterion,
        dropout=dropout,
        seed=seed,
    )


def to_networkx(
    network: GraphBuilder | Model | ArrayFunction | Function,
    *given: object,
    stage: Stage | None = None,
    outputs: str | Sequence[str] = (),
    training: bool = False,
    precision: str = CompileOptions.precision.value,
    batch: int = CompileOptions.batch,
    time: int = CompileOptions.time,
    sequences: int = CompileOptions.sequences,
    recompute: Recompute = CompileOptions.recompute,
) -> nx.MultiDiGraph[str]:
    """The graph of `network` at a stage of its compilation, for networkx (docs/graphs.md).

    network    a network; a `gc.function`, traced for the arguments `given`; or a function of the
               IR, shown as it is
    stage      "nodes" (what was written, the default for networks), "tensor" (what is computed,
               optimised, the default for functions), "kernels" (fused and placed) or "schedule"
               (kernels with all that is decided for this machine)
    outputs    nodes to compute, by default all outputs and criteria; or `training`, a training step
    precision, batch, time, sequences, recompute  as in `compile`

    Nothing of the network changes. Raises GraphcError for a bad network or option.
    """
    from graphc.learn.stages import STAGES, module_at
    from graphc.model.digraph import function_graph
    from graphc.tensor.function import ArrayFunction

    if stage is not None and stage not in STAGES:
        raise fail("bad-option", f"stage requires one of {', '.join(STAGES)}, got {stage!r}")
    if isinstance(network, Function):
        if stage is not None:
            raise fail("bad-option", "a function of the IR is shown as it is: leave out stage=")
        return function_graph(network)
    if isinstance(network, ArrayFunction):
        if stage == "nodes" or outputs or training:
            raise fail(
                "bad-option",
                'a function of arrays has no stage "nodes", no outputs= and no training=',
            )
        return function_graph(network.module_at(stage or "tensor", *given).functions[0])
    model = _model_of(network)
    if given:
        raise fail("argument-type", "a network takes no arguments; name its nodes by outputs=")
    stage = stage or "nodes"
    if training and outputs:
        raise fail("bad-option", "training decides what is computed: leave out outputs=")
    if stage == "nodes" and (training or outputs):
        raise fail("bad-option", "outputs= and training= need the stage tensor or kernels")
    options = CompileOptions(
        precision=parse_precision(precision),
        batch=batch,
        time=time,
        sequences=sequences,
        recompute=recompute,
    )
    names = arguments.texts(outputs, "outputs")
    module = module_at(model, stage, options, train=training, nodes=names)
    return function_graph(module.functions[0])


def _model_of(network: GraphBuilder | Model) -> Model:
    if isinstance(network, GraphBuilder):
        return network.model
    if not isinstance(network, Model):  # pyright: ignore[reportUnnecessaryIsInstance]
        got = arguments.kind_of(network)
        raise fail("argument-type", f"a network is required, got {got}")
    return network
