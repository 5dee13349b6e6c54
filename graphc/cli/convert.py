"""`graphc convert`: a network from one kind of file into another."""

from __future__ import annotations

from pathlib import Path

import click

from graphc.api import MODEL_SUFFIX
from graphc.builder import GraphBuilder
from graphc.cli.command import Command
from graphc.cli.network import open_network
from graphc.cli.options import EXISTING_FILE, Definitions, definition_options
from graphc.cli.terminal import Terminal, common_options
from graphc.frontend import writer_for

NDL = "ndl"
OUTPUTS = (MODEL_SUFFIX, NDL)

EPILOG = """\b
Read are, by their content:
  model files of graphc (safetensors)
  model files of the toolkit, CNTK of 2015 (versions 1 and 2 of its format)
  DBN files
  anything else by its suffix: .ndl
\b
Written are, by the suffix:
  .safetensors  network and values, for all commands of graphc
  .ndl          the network as text; with --values also a folder of text files beside it
\b
Examples:
  graphc convert simple.dnn -o simple.safetensors
  graphc convert net.safetensors -o net.ndl --values
"""


@click.command(
    cls=Command, epilog=EPILOG, short_help="Convert a model file, of the toolkit among them."
)
@click.argument("model", type=EXISTING_FILE, metavar="MODEL")
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
@definition_options
@common_options
@click.pass_obj
def command(
    terminal: Terminal,
    /,
    model: Path,
    output: Path,
    values: bool,
    seed: int,
    definitions: Definitions,
) -> None:
    """Write the network in MODEL as another kind of file. OUT is replaced as a whole or not at all;
    it cannot be MODEL itself."""
    suffix = output.suffix.removeprefix(".").lower()
    if suffix not in OUTPUTS:
        known = " or ".join(f".{name}" for name in OUTPUTS)
        raise click.UsageError(f"-o requires a name that ends in {known}, got {output}")
    if values and suffix != NDL:
        raise click.UsageError(f"--values goes with .{NDL}: a .{suffix} file holds them anyway")
    if output.exists() and output.samefile(model):
        raise click.UsageError(f"-o requires another file than the one that is read, got {output}")
    network = open_network(model, definitions, seed=seed)
    if suffix == NDL:
        writer_for(NDL).save(network, output, values=values)
    else:
        network.save(output)
    terminal.message(f"{output}: {len(network.nodes)} nodes{_left_out(network, suffix, values)}")


def _left_out(network: GraphBuilder, suffix: str, values: bool) -> str:
    """What the file does not hold of the network's values."""
    if suffix != NDL:
        return ""
    computed = any(node.op in ("mean", "inv_std_dev") for node in network.nodes)
    again = "; statistics are to be computed from data again" if computed else ""
    return again if values else f"; no values, parameters are to be drawn again{again}"
