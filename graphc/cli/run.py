"""`graphc run`: a model's outputs for inputs from files or stdin, without an executable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from graphc.builder import GraphBuilder
from graphc.cli.command import Command
from graphc.cli.members import MembersRequest, comm_option, comm_patience_option, is_first, joined
from graphc.cli.network import open_network
from graphc.cli.options import (
    Definitions,
    Wanted,
    backend_option,
    check_reports,
    contraction_option,
    definition_options,
    launch_option,
    no_cache_option,
    nodes_option,
    precision_option,
    program_options,
    refuse_overwriting,
    threads_option,
)
from graphc.cli.profiling import ProfileReports, profile_options
from graphc.cli.programs import MODEL_FILE, open_program
from graphc.cli.terminal import Terminal, common_options
from graphc.cli.timing import TimingReports, timing_options
from graphc.cli.values import FileValueType
from graphc.data.arrays import DASH, read_array, write_array
from graphc.data.plain_rows import NativeRows
from graphc.driver.compile import bind, evaluation_passes
from graphc.driver.native_rows import native_rows
from graphc.driver.options import DEFAULT_BATCH, CompileOptions
from graphc.driver.program import bind_program
from graphc.learn.agreement import digest_of, require_agreement
from graphc.learn.shuffle import minibatches
from graphc.model.program import Program
from graphc.runtime.communicators.communicator import Communicator
from graphc.runtime.communicators.sums import gather_rows
from graphc.runtime.executable import Executable, check_inputs
from graphc.support.diagnostics import fail

Named = tuple[str | None, str]

EPILOG = """\b
Examples:
  graphc run net.safetensors samples.npy -o scores.npy
  cut -d' ' -f1-64 test.txt | graphc run net.safetensors --nodes z > scores.txt
  graphc run net.safetensors --input features=x.npy --output z=z.npy --output L1.h=h.txt
  mpirun -n 4 graphc run net.safetensors samples.npy -o scores.npy --comm mpi

Files that start like .npy are read as such, others as text: one sample a line, numbers separated
by blanks, or CSV. Files that end in .npy are written as such, others as text. A network that looks
along time takes the samples of a file as the steps of one sequence.
"""


@click.command(cls=Command, epilog=EPILOG, short_help="Compute a model's outputs for inputs.")
@click.argument("model", type=MODEL_FILE, metavar="MODEL")
@click.argument("file", required=False, metavar="[FILE]")
@click.option(
    "--input",
    "inputs",
    type=FileValueType(),
    multiple=True,
    metavar="NAME=FILE",
    help="The samples of one input, if there are several; `-` is stdin.",
)
@nodes_option("What to compute, if not the output nodes.")
@click.option(
    "-o",
    "--output",
    "outputs",
    type=FileValueType(),
    multiple=True,
    metavar="[NAME=]FILE",
    help="Where an output goes; without NAME the first one. Default: the first one to stdout.",
)
@backend_option
@precision_option
@contraction_option
@launch_option
@threads_option
@definition_options
@program_options
@comm_option
@comm_patience_option
@no_cache_option
@timing_options
@profile_options
@common_options
@click.pass_obj
def command(
    terminal: Terminal,
    /,
    model: Path,
    file: str | None,
    inputs: Sequence[Named],
    wanted: Wanted,
    outputs: Sequence[Named],
    options: CompileOptions,
    definitions: Definitions,
    members: MembersRequest,
    timing: TimingReports,
    profiling: ProfileReports,
) -> None:
    """Compute the outputs of MODEL for the samples in FILE, or from stdin.

    Writes numbers as text to stdout, one sample a line, unless -o names a file. MODEL may be a
    program, also FILE.py:NAME.
    """
    named = [f for f in (file, *(f for _, f in [*inputs, *outputs])) if f not in (None, DASH)]
    check_reports(
        [timing.time_json, *profiling.files], [model, *definitions.macros, *map(Path, named)]
    )
    options = replace(options, profile=profiling.profile(), freeze=True)
    with joined(terminal, members) as member:
        with options.phases.measure("read the network"):
            opened = open_program(model, definitions) or open_network(model, definitions)
        if isinstance(opened, Program):
            executable = bind_program(opened, wanted_results(wanted.nodes, outputs), (), options)
        else:
            nodes = output_names(opened, wanted.nodes, outputs)
            executable = bind(
                opened.model, lambda m, o: evaluation_passes(m, nodes, (), o), options
            )
        targets = output_targets(list(executable_outputs(executable)), outputs)
        refuse_overwriting(model, (Path(target) for target in targets.values() if target != DASH))
        native = native_rows(options.cache)
        in_rows = not isinstance(opened, Program)  # whose arrays need not be of samples
        if member is not None and member.size > 1:
            require_shareable(opened, executable, [file, *(f for _, f in inputs)])
        arrays = read_inputs(executable, file, inputs, terminal, native, in_rows=in_rows)
        if isinstance(opened, Program):
            results = executable(**arrays)
        elif member is not None and member.size > 1:
            results = run_by_members(executable, arrays, member, opened.model.values)
        else:
            results = run_in_batches(executable, arrays)
        if is_first(member):
            for name, target in targets.items():
                array = _writable(name, target, results[name])
                stdout = terminal.binary_stdout() if target == DASH else None
                # stdout is only used for `-`
                write_array(target, array, stdout=stdout)  # type: ignore[arg-type]
    if not is_first(member):
        return
    timing.make(terminal, options.phases)
    profiling.make(terminal, options.profile)
    samples = len(next(iter(arrays.values()), ()))
    terminal.remark(f"{samples:,} samples", level=1)


def output_names(
    network: GraphBuilder, nodes: Sequence[str], outputs: Sequence[Named]
) -> list[str]:
    """What has to be computed: the nodes asked for, and those that files are named for."""
    named = [name for name, _ in outputs if name is not None]
    if nodes or not named:
        return list(nodes) + [name for name in named if name not in nodes] if nodes else []
    unnamed = len(named) < len(outputs)
    return [*(network.model.tagged("output") if unnamed else ()), *named]


def wanted_results(nodes: Sequence[str], outputs: Sequence[Named]) -> list[str]:
    """The results of a program that are asked for, or that files are named for; all for none."""
    named = [name for name, _ in outputs if name is not None]
    return list(dict.fromkeys([*nodes, *named])) if nodes or len(named) == len(outputs) else []


def _writable(name: str, target: str, array: np.ndarray) -> np.ndarray:
    """`array` with rows, which text has. GraphcError for one of more axes that goes to text."""
    if np.ndim(array) > 2 and Path(target).suffix.lower() != ".npy":
        shape = "x".join(map(str, array.shape))
        message = f"text has rows of numbers, the output `{name}` is {shape}: -o {name}={name}.npy"
        raise fail("not-supported", message)
    return np.atleast_2d(array)


def executable_outputs(executable: Executable) -> list[str]:
    """The names of the results."""
    return [r.name for r in executable.signature.fresh_results]


def output_targets(names: Sequence[str], outputs: Sequence[Named]) -> dict[str, str]:
    """Where each output goes, by its name; GraphcError for one that is not computed or twice."""
    if not outputs:
        return {names[0]: DASH}
    by_lower = {name.lower(): name for name in names}
    targets: dict[str, str] = {}
    for given, target in outputs:
        name = names[0] if given is None else by_lower.get(given.lower())
        if name is None:
            raise fail("missing-node", f"the output `{given}` is not computed; see --nodes")
        if name in targets:
            raise click.UsageError(f"two files are given for the output {name!r}")
        targets[name] = target
    return targets


def read_inputs(
    executable: Executable,
    file: str | None,
    inputs: Sequence[Named],
    terminal: Terminal,
    native: NativeRows,
    *,
    in_rows: bool,
) -> dict[str, np.ndarray]:
    """The arrays of all inputs: named ones from their files, the one left over from FILE."""
    expected = executable.signature.input_names
    by_lower = {name.lower(): name for name in expected}
    sources: dict[str, str] = {}
    for given, source in inputs:
        name = by_lower.get(given.lower()) if given is not None else None
        if name is None:
            known = ", ".join(expected) or "none"
            raise click.UsageError(f"--input requires NAME=FILE with NAME one of {known}")
        if name in sources:
            raise click.UsageError(f"two files are given for the input {name!r}")
        sources[name] = source
    left = [name for name in expected if name not in sources]
    if len(left) > 1:
        raise click.UsageError(f"the inputs {', '.join(left)} are required: --input NAME=FILE")
    if left:
        sources[left[0]] = file if file is not None else DASH
    elif file is not None:
        raise click.UsageError(f"all inputs are named already; what is {file!r} for?")
    if list(sources.values()).count(DASH) > 1:
        raise click.UsageError("only one input can come from stdin")
    return {n: read_source(sources[n], terminal, native, in_rows=in_rows) for n in expected}


def read_source(
    source: str, terminal: Terminal, native: NativeRows, *, in_rows: bool
) -> np.ndarray:
    """The array in a file or from stdin."""
    stdin = terminal.binary_stdin() if source == DASH else None
    # `stdin` is only used for `-`
    return read_array(source, stdin=stdin, native=native, in_rows=in_rows)  # type: ignore[arg-type]


def require_shareable(
    opened: GraphBuilder | Program, executable: Executable, files: Sequence[str | None]
) -> None:
    """GraphcError unless members can share the samples: each row of the outputs is of a sample, in
    files that all of them can read."""
    signature = executable.signature
    if isinstance(opened, Program):
        raise fail("not-supported", "members share the samples of networks, got a program")
    if signature.sequences is not None:
        raise fail("not-supported", "members cannot share the steps of a sequence")
    if not _is_per_sample(executable):
        raise fail(
            "not-supported", "members cannot share an output that is of all samples together"
        )
    if DASH in files or len([f for f in files if f]) < len(signature.input_names):
        raise fail(
            "bad-option", "members require files that all of them read, standard input is none"
        )


def run_by_members(
    executable: Executable,
    arrays: Mapping[str, np.ndarray],
    member: Communicator,
    parameters: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """The outputs for all samples, of which each member computes a part; all of them have them.

    GraphcError `training` where members have other samples or parameters.
    """
    said = {"the parameters": digest_of(parameters), "the data": digest_of(arrays)}
    require_agreement(member, said, "model and samples")
    _, samples = check_inputs(executable.signature, arrays)
    ends = [samples * rank // member.size for rank in (member.rank, member.rank + 1)]
    mine = slice(*ends)
    made = run_in_batches(executable, {name: array[mine] for name, array in arrays.items()})
    return {name: gather_rows(member, rows, mine, samples) for name, rows in made.items()}


def _is_per_sample(executable: Executable) -> bool:
    dims = {d.name for d in executable.signature.call_dims}
    return all(r.shape[0] in dims for r in executable.signature.fresh_results)


def run_in_batches(
    executable: Executable, arrays: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The outputs for all samples. Values that sum over samples need them all in one call.

    Where time matters all samples are one sequence.
    """
    names = executable_outputs(executable)
    if executable.signature.sequences is not None:
        results = executable(**arrays)
        return {name: results[name] for name in names}
    checked, samples = check_inputs(executable.signature, arrays)
    size = DEFAULT_BATCH if _is_per_sample(executable) else max(samples, 1)
    parts = [
        executable(**{name: array[part] for name, array in checked.items()})
        for part in minibatches(samples, size)
    ] or [executable(**checked)]
    if len(parts) == 1:
        return {name: parts[0][name] for name in names}
    return {name: np.concatenate([part[name] for part in parts]) for name in names}
