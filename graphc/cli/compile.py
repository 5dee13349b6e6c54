"""`graphc compile`: a model in, files out that work without graphc."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter

import click

import graphc
from graphc.artifacts.header import artifact_name, check_name
from graphc.cli.given_once import Command
from graphc.cli.network import open_network
from graphc.cli.options import (
    EXISTING_FILE,
    cache_for,
    check_reports,
    contraction_option,
    define_option,
    json_option,
    macros_option,
    no_cache_option,
    nodes_option,
    precision_option,
    refuse_overwriting,
    sequence_options,
    split_names,
)
from graphc.cli.terminal import Terminal, common_options
from graphc.cli.timing import report_phases, timing_options
from graphc.driver.artifact import (
    KINDS,
    ArtifactRequest,
    contents,
    emit,
    hidden_from_python,
    kind_of,
)
from graphc.driver.options import DEFAULT_BATCH, CompileOptions, parse_precision
from graphc.ir.core import ContractionMode
from graphc.support.diagnostics import GraphcError

SCHEMA = 1
TEXTS = [name for name, kind in KINDS.items() if kind.is_text]

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

\b
Kinds, and what stands behind OUT, or in place of its suffix, when several are made (with py a so
is called libOUT.so):
{LISTED}
Without --emit the suffix of OUT says the kind. A suffix is letters only: `net-1.0` is a program.
Programs and libraries are linked by the system's C compiler (cc, gcc, clang, or $CC).
"""


def c_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A name that C functions can begin with."""
    try:
        if value is not None:
            check_name(value)
    except GraphcError as error:
        raise click.BadParameter(error.diagnostics[0].message) from error
    return value


@click.command(
    cls=Command,
    epilog=EPILOG,
    short_help="Compile a model to a program, library, object or source.",
)
@click.argument("model", type=EXISTING_FILE, metavar="MODEL")
@click.option(
    "-o",
    "--output",
    "out",
    type=click.Path(path_type=Path, allow_dash=True),
    required=True,
    metavar="OUT",
    help="The file to write; with several kinds their names without the suffix; `-` is stdout.",
)
@click.option(
    "--emit",
    "kinds",
    multiple=True,
    callback=split_names,
    metavar="KIND,…",
    help="What to make; can be repeated. Default: what the name of OUT says, else exe.",
)
@nodes_option("What to compute, if not the output nodes.")
@click.option(
    "--target",
    default="native",
    show_default=True,
    metavar="ISA",
    help="The instruction set: native, x86-64, x86-64-v2, x86-64-v3, x86-64-v4 or aarch64.",
)
@click.option(
    "--bound",
    type=click.IntRange(1, 2**31 - 1),
    default=DEFAULT_BATCH,
    show_default=True,
    metavar="N",
    help="The largest number of samples in a call; memory is planned for it.",
)
@sequence_options
@click.option(
    "--name",
    callback=c_name,
    metavar="NAME",
    help="What the C functions' names begin with; made from OUT if left out.",
)
@precision_option
@contraction_option
@define_option
@macros_option
@no_cache_option
@timing_options
@json_option
@common_options
@click.pass_obj
def command(
    terminal: Terminal,
    /,
    model: Path,
    out: Path,
    kinds: Sequence[str],
    nodes: Sequence[str],
    target: str,
    bound: int,
    time: int,
    sequences: int,
    name: str | None,
    precision: str,
    contraction: ContractionMode,
    defines: Sequence[tuple[str, object]],
    macros: Sequence[Path],
    no_cache: bool,
    time_passes: bool,
    time_json: Path | None,
    as_json: bool,
) -> None:
    """Compile MODEL (.safetensors, or .ndl with its initial values) to files.

    What is made holds the parameters and needs nothing of graphc.
    """
    to_stdout = str(out) == "-"
    if to_stdout and (len(kinds) != 1 or kinds[0] not in TEXTS):
        raise click.UsageError(f"`-o -` requires --emit with one of {', '.join(TEXTS)}")
    options = CompileOptions(
        precision=parse_precision(precision),
        batch=bound,
        time=time,
        sequences=sequences,
        cache=cache_for(no_cache),
        contraction=contraction,
    )
    request = ArtifactRequest(
        kinds=kinds or [kind_of(out)],
        out=out,
        outputs=nodes,
        target=target,
        version=graphc.__version__,
        name=name or (artifact_name(model) if to_stdout else ""),
    )
    targets = request.paths()  # an unknown kind shows before any work
    made_files = [] if to_stdout else list(targets.values())
    refuse_overwriting(model, made_files)
    check_reports([time_json], [model, *macros, *made_files])
    with options.phases.measure("read the network"):
        network = open_network(model, defines=defines, macros=macros)
    if to_stdout:
        made, _ = contents(network.model, kinds, request, options)
        terminal.stdout.write(made[kinds[0]].decode("utf-8"))
        report_phases(terminal, options.phases, time_passes=time_passes, time_json=time_json)
        return
    start = perf_counter()
    paths = emit(network.model, request, options)
    seconds = perf_counter() - start
    if as_json:
        terminal.write(as_json_text(paths, seconds))
    else:
        for kind, path in paths.items():
            terminal.remark(f"{kind:<6}  {path.stat().st_size:>9,} bytes  {path}")
        terminal.remark(f"compiled in {seconds:.2f} s")
    for library, source in hidden_from_python(paths.values()):
        terminal.message(
            f"warning: `import {source.stem}` will find {library} and not {source}: give one of "
            f"them another name, such as lib{library.name}"
        )
    report_phases(terminal, options.phases, time_passes=time_passes, time_json=time_json)


def as_json_text(paths: Mapping[str, Path], seconds: float) -> str:
    """The files made, by kind."""
    files = {kind: {"path": str(p), "bytes": p.stat().st_size} for kind, p in paths.items()}
    return json.dumps({"schema": SCHEMA, "files": files, "seconds": seconds}, indent=1)
