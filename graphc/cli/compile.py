"""`graphc compile`: a model in, files out that work without graphc."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from time import perf_counter

import click

import graphc
from graphc.artifacts.interface import artifact_name, check_name
from graphc.cli.command import Command, RecordOption
from graphc.cli.learners import LearnerRequest, learner_options
from graphc.cli.network import open_network
from graphc.cli.objectives import (
    OF_PROGRAMS,
    ObjectiveRequest,
    objective_options,
    refuse_objective,
    trained_options,
)
from graphc.cli.options import (
    Definitions,
    Wanted,
    bound_option,
    check_reports,
    contraction_option,
    definition_options,
    json_option,
    launch_option,
    machine_option,
    no_cache_option,
    nodes_option,
    parameters_option,
    precision_option,
    program_options,
    refuse_given,
    refuse_overwriting,
    sequence_options,
    split_names,
    stack,
    train_option,
)
from graphc.cli.programs import MODEL_FILE, open_program
from graphc.cli.terminal import Terminal, common_options
from graphc.cli.timing import TimingReports, timing_options
from graphc.driver.artifact import (
    KINDS,
    ArtifactRequest,
    Source,
    contents,
    emit,
    hidden_from_python,
    kind_of,
)
from graphc.driver.options import CompileOptions
from graphc.learn.learner import Learner
from graphc.learn.program_loss import Objective
from graphc.learn.program_step import Trained
from graphc.learn.step_files import Minibatches, step_of_network, step_of_program
from graphc.support.diagnostics import GraphcError

SCHEMA = 1
TEXTS = [name for name, kind in KINDS.items() if kind.is_text]

OF_STEPS = (
    *OF_PROGRAMS,
    *(field.name for made in (LearnerRequest, Minibatches) for field in fields(made)),
)
"""Options, by their names in Python, that only a training step has."""

LISTED = "\n".join(
    f"  {name:<8} {kind.summary:<42} {kind.suffix or '(nothing)'}" for name, kind in KINDS.items()
)

EPILOG = f"""\b
Examples:
  graphc compile net.safetensors -o net             a program: ./net --help
  graphc compile net.safetensors -o libnet.so       a library, for the header of --emit header
  graphc compile net.safetensors -o net.c           one C file with the parameters in it
  graphc compile net.safetensors -o net --emit exe,header,so,obj
  graphc compile net.safetensors -o libnet.so --emit so,header
  graphc compile net.safetensors -o - --emit ll | less
  graphc compile net.onnx --train --loss softmax_cross_entropy --learning-rate 0.1 \\
      --dim batch=32 -o step --emit so,header
  graphc compile net.safetensors --train --members --learning-rate 0.1 -o step --emit so,header
  graphc compile edited.gir --parameters net.safetensors -o net

\b
Kinds, and what stands behind OUT, or in place of its suffix, when several are made (with py a so
is called libOUT.so):
{LISTED}
Without --emit the suffix of OUT says the kind. A suffix is letters only: `net-1.0` is a program.
Programs and libraries are linked by the system's C compiler (cc, gcc, clang, or $CC).
"""


def c_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    """A name that C functions can begin with; '' where none is given."""
    if value is None:
        return ""
    try:
        check_name(value)
    except GraphcError as error:
        raise click.BadParameter(error.diagnostics[0].message) from error
    return value


class ArtifactOption(RecordOption):
    parameter, make = "request", ArtifactRequest


OF_COMMUNICATORS = (
    *("--comm", "--comm-order", "--comm-patience", "--comm-shards", "--comm-split", "--comm-wire"),
)
FLAGS_OF_COMMUNICATORS = ("--comm-overlap", "--no-comm-overlap")
"""Options of `graphc train` that steps in files do not have."""


def refuse_communicator(_: click.Context, _param: click.Parameter, given: Sequence[str]) -> None:
    """A usage error for options of `graphc train` that say how members add."""
    if given:
        message = "say how `graphc train` adds over members. A step in a file is given the function"
        *names, last = sorted((*OF_COMMUNICATORS, *FLAGS_OF_COMMUNICATORS))
        said = f"{', '.join(names)} and {last} {message}"
        raise click.UsageError(f"{said} that adds: --train --members (docs/c.md)")


class MinibatchOption(RecordOption):
    parameter, make = "minibatches", Minibatches


minibatch_options = stack(
    click.option(
        "--members",
        cls=MinibatchOption,
        is_flag=True,
        help="Make the step for one of several members (processes, threads) who share each "
        "minibatch: the caller gives a function that adds over all of them, such as "
        "MPI_Allreduce, in a table that the header declares (docs/c.md).",
    ),
    click.option(
        "--minibatch",
        "nominal",
        cls=MinibatchOption,
        type=click.IntRange(min=1),
        metavar="N",
        help="The samples of a minibatch, of all members together, that rates refer to and the "
        "numbers in the header are for.  [default: the most of a call]",
    ),
    click.option(
        "--comm-sync-batchnorm",
        "sync_batchnorm",
        cls=MinibatchOption,
        is_flag=True,
        help="With --members: normalise by the samples of all members in BatchNormalization, in "
        "place of each member's own. The step then has more than one sum (docs/c.md).",
    ),
    click.option(
        *OF_COMMUNICATORS,
        hidden=True,
        multiple=True,
        expose_value=False,
        callback=refuse_communicator,
    ),
    click.option(
        *FLAGS_OF_COMMUNICATORS,
        "has_flag_of_communicators",
        hidden=True,
        is_flag=True,
        multiple=True,
        expose_value=False,
        callback=refuse_communicator,
    ),
)


@click.command(
    cls=Command,
    epilog=EPILOG,
    short_help="Compile a model to a program, library, object or source.",
)
@click.argument("model", type=MODEL_FILE, metavar="MODEL")
@click.option(
    "-o",
    "--output",
    "out",
    cls=ArtifactOption,
    type=click.Path(path_type=Path, allow_dash=True),
    required=True,
    metavar="OUT",
    help="The file to write; with several kinds their names without the suffix; `-` is stdout.",
)
@click.option(
    "--emit",
    "kinds",
    cls=ArtifactOption,
    multiple=True,
    callback=split_names,
    metavar="KIND,…",
    help="What to make; can be repeated. Default: what the name of OUT says, else exe.",
)
@nodes_option("What to compute, if not the output nodes.")
@train_option("Make a training step, which is given its memory and minibatches (docs/c.md).")
@objective_options
@trained_options
@minibatch_options
@learner_options
@click.option(
    "--target",
    cls=ArtifactOption,
    default=ArtifactRequest.target,
    show_default=True,
    metavar="ISA",
    help="The instruction set: native, x86-64, x86-64-v2, x86-64-v3, x86-64-v4, sapphirerapids or "
    "aarch64; of GPUs one or several with commas between, such as sm_80,sm_90 (docs/gpu-files.md).",
)
@bound_option
@sequence_options
@click.option(
    "--name",
    cls=ArtifactOption,
    callback=c_name,
    metavar="NAME",
    help="What the C functions' names begin with; made from OUT if left out.",
)
@precision_option
@contraction_option
@launch_option
@machine_option
@definition_options
@program_options
@parameters_option
@no_cache_option
@timing_options
@json_option
@common_options
@click.pass_obj
def command(
    terminal: Terminal,
    /,
    model: Path,
    request: ArtifactRequest,
    wanted: Wanted,
    objective: ObjectiveRequest,
    learner: LearnerRequest,
    minibatches: Minibatches,
    options: CompileOptions,
    definitions: Definitions,
    parameters: Path | None,
    timing: TimingReports,
    as_json: bool,
) -> None:
    """Compile MODEL (.safetensors, or .ndl with its initial values) to files.

    MODEL may be a program: FILE.py:NAME, one that Python made with gc.program, a file that it
    saved, or a function of graphc's IR (.gir), such as `graphc dump` prints, of which what is
    written there of schedules and memory is kept. What is made holds the parameters and needs
    nothing of graphc.
    """
    to_stdout = str(request.out) == "-"
    if to_stdout and (len(request.kinds) != 1 or request.kinds[0] not in TEXTS):
        raise click.UsageError(f"`-o -` requires --emit with one of {', '.join(TEXTS)}")
    request = replace(
        request,
        kinds=request.kinds or [kind_of(request.out)],
        outputs=wanted.nodes,
        version=graphc.__version__,
        name=request.name or (artifact_name(model) if to_stdout else ""),
    )
    targets = request.paths()  # an unknown kind shows before any work
    made_files = [] if to_stdout else list(targets.values())
    refuse_overwriting(model, made_files)
    check_reports([timing.time_json], [model, *definitions.macros, *made_files])
    if not wanted.train:
        refuse_given(OF_STEPS, "is for --train")
    if not minibatches.members:
        refuse_given(("sync_batchnorm",), "is for --train --members")
    with options.phases.measure("read the network"):
        if wanted.train:
            asked = objective.objective()
            step = learner.made(), minibatches
            source = open_step(model, definitions, parameters, asked, step, options)
        else:
            source = open_source(model, definitions, parameters)
    if to_stdout:
        made, _ = contents(source, request.kinds, request, options)
        terminal.stdout.write(b"".join(made[request.kinds[0]]).decode("utf-8"))
    else:
        make_files(terminal, source, request, options, as_json=as_json)
    timing.make(terminal, options.phases)


def open_source(model: Path, definitions: Definitions, parameters: Path | None) -> Source:
    """The network or program, which may have the parameters of another model."""
    program = open_program(model, definitions, parameters=parameters)
    return program if program is not None else open_network(model, definitions).model


def open_step(
    model: Path,
    definitions: Definitions,
    parameters: Path | None,
    objective: Objective,
    step: tuple[Learner, Minibatches],
    options: CompileOptions,
) -> Source:
    """The training step of the network or program, by a learner on such minibatches."""
    learner, minibatches = step
    program = open_program(model, definitions, parameters=parameters, taken=("train",))
    if program is not None:
        return step_of_program(Trained.of(program, objective), learner, minibatches)
    refuse_objective()
    return step_of_network(open_network(model, definitions).model, learner, options, minibatches)


def make_files(
    terminal: Terminal,
    source: Source,
    request: ArtifactRequest,
    options: CompileOptions,
    *,
    as_json: bool,
) -> None:
    """Make the files and say what was made."""
    start = perf_counter()
    paths = emit(source, request, options)
    seconds = perf_counter() - start
    if as_json:
        terminal.write(as_json_text(paths, seconds))
    else:
        for kind, path in paths.items():
            terminal.remark(f"{kind:<6}  {path.stat().st_size:>9,} bytes  {path}")
        terminal.remark(f"compiled in {seconds:.2f} s")
    for library, module in hidden_from_python(paths.values()):
        terminal.message(
            f"warning: `import {module.stem}` will find {library} and not {module}: give one of "
            f"them another name, such as lib{library.name}"
        )


def as_json_text(paths: Mapping[str, Path], seconds: float) -> str:
    """The files made, by kind."""
    files = {kind: {"path": str(p), "bytes": p.stat().st_size} for kind, p in paths.items()}
    return json.dumps({"schema": SCHEMA, "files": files, "seconds": seconds}, indent=1)
