"""`graphc convert`: a network or a program from one kind of file into another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from graphc.api import MODEL_SUFFIX
from graphc.builder import GraphBuilder
from graphc.cli.command import Command
from graphc.cli.network import open_network
from graphc.cli.options import (
    Definitions,
    Wanted,
    bound_option,
    definition_options,
    nodes_option,
    parameters_option,
    precision_option,
    program_options,
    refuse_given,
    sequence_options,
)
from graphc.cli.programs import MODEL_FILE, open_program
from graphc.cli.terminal import Terminal, common_options
from graphc.driver.onnx_export import export_model
from graphc.driver.options import CompileOptions
from graphc.frontend import writer_for
from graphc.model.program import Program

NDL, ONNX = "ndl", "onnx"
OUTPUTS = (MODEL_SUFFIX, NDL, ONNX)
OF_ONNX = ("nodes", "precision", "batch", "time", "sequences")
"""Options, by their names in Python, that say what an ONNX file computes."""

EPILOG = """\b
Read are, by their content:
  model files of graphc (safetensors)
  model files of the toolkit, CNTK of 2015 (versions 1 and 2 of its format)
  DBN files
  anything else by its suffix: .ndl, and of programs FILE.py:NAME, .gir and .onnx
\b
Written are, by the suffix:
  .safetensors  network or program, and values, for all commands of graphc
  .ndl          a network as text; with --values also a folder of text files beside it
  .onnx         network or program, and values, for other tools (docs/onnx.md)
\b
Examples:
  graphc convert simple.dnn -o simple.safetensors
  graphc convert net.safetensors -o net.ndl --values
  graphc convert net.safetensors -o net.onnx --nodes z
"""


@click.command(
    cls=Command, epilog=EPILOG, short_help="Convert a model file, of the toolkit among them."
)
@click.argument("model", type=MODEL_FILE, metavar="MODEL")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="OUT",
    help="The file to write; its suffix says what kind it is.",
)
@click.option(
    "--values", is_flag=True, help="With NDL: write the parameters' values beside it as text files."
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Of initial values that MODEL does not hold.",
)
@nodes_option("With ONNX: what the file computes, if not the output nodes.")
@precision_option
@bound_option
@sequence_options
@definition_options
@program_options
@parameters_option
@common_options
@click.pass_obj
def command(
    terminal: Terminal,
    /,
    model: Path,
    output: Path,
    values: bool,
    seed: int,
    wanted: Wanted,
    options: CompileOptions,
    definitions: Definitions,
    parameters: Path | None,
) -> None:
    """Write the network or program in MODEL as another kind of file. OUT is replaced as a whole or
    not at all; it cannot be MODEL itself."""
    suffix = output.suffix.removeprefix(".").lower()
    if suffix not in OUTPUTS:
        known = ", ".join(f".{name}" for name in OUTPUTS[:-1])
        message = f"{known} or .{OUTPUTS[-1]}"
        raise click.UsageError(f"-o requires a name that ends in {message}, got {output}")
    if values and suffix != NDL:
        raise click.UsageError(f"--values goes with .{NDL}: a .{suffix} file holds them anyway")
    if suffix != ONNX:
        refuse_given(OF_ONNX, f"goes with .{ONNX}, got -o {output}")
    if output.exists() and model.exists() and output.samefile(model):
        raise click.UsageError(f"-o requires another file than the one that is read, got {output}")
    program = open_program(model, definitions, parameters=parameters)
    if program is not None:
        _convert_program(terminal, program, model, output, wanted.nodes, options)
        return
    network = open_network(model, definitions, seed=seed)
    if suffix == ONNX:
        _tell(terminal, export_model(network.model, output, wanted.nodes, options))
        return
    if suffix == NDL:
        writer_for(NDL).save(network, output, values=values)
    else:
        network.save(output)
    terminal.message(f"{output}: {len(network.nodes)} nodes{_left_out(network, suffix, values)}")


def _convert_program(
    terminal: Terminal,
    program: Program,
    model: Path,
    output: Path,
    outputs: Sequence[str],
    options: CompileOptions,
) -> None:
    suffix = output.suffix.removeprefix(".").lower()
    if suffix == NDL:
        raise click.UsageError(f".{NDL} is for networks, {model} is a program")
    if suffix == ONNX:
        _tell(terminal, export_model(program, output, outputs, options))
        return
    if program.is_written:
        raise click.UsageError(f"IR can be written as .{ONNX} alone, got -o {output}")
    program.save(output)
    _tell(terminal, [output])


def _tell(terminal: Terminal, files: Sequence[Path]) -> None:
    for path in files:
        terminal.message(f"{path}: {path.stat().st_size:,} bytes")


def _left_out(network: GraphBuilder, suffix: str, values: bool) -> str:
    """What the file does not hold of the network's values."""
    if suffix != NDL:
        return ""
    computed = any(node.op in ("mean", "inv_std_dev") for node in network.nodes)
    again = "; statistics are to be computed from data again" if computed else ""
    return again if values else f"; no values, parameters are to be drawn again{again}"
