"""`graphc eval`: criterion and error of a trained model on a data set."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from graphc.cli.command import Command
from graphc.cli.network import open_network, read_data
from graphc.cli.options import (
    EXISTING_FILE,
    DataFile,
    Definitions,
    Wanted,
    backend_option,
    check_reports,
    contraction_option,
    data_options,
    definition_options,
    json_option,
    launch_option,
    no_cache_option,
    nodes_option,
    precision_option,
    threads_option,
)
from graphc.cli.terminal import Terminal, common_options
from graphc.cli.timing import TimingReports, timing_options
from graphc.driver.options import CompileOptions
from graphc.learn.evaluate import Evaluation, evaluate_dataset

SCHEMA = 1

EPILOG = """\b
Example:
  graphc eval net.safetensors --data test.txt --features 0:64 --labels 64 --classes 10
"""


@click.command("eval", cls=Command, epilog=EPILOG, short_help="Measure a trained model on data.")
@click.argument("model", type=EXISTING_FILE, metavar="MODEL")
@data_options
@nodes_option("What to measure, if not the criterion and evaluation nodes.")
@backend_option
@precision_option
@contraction_option
@launch_option
@threads_option
@definition_options
@no_cache_option
@timing_options
@json_option
@common_options
@click.pass_obj
def command(
    terminal: Terminal,
    /,
    model: Path,
    data: DataFile,
    wanted: Wanted,
    options: CompileOptions,
    definitions: Definitions,
    timing: TimingReports,
    as_json: bool,
) -> None:
    """Measure MODEL on data: the average per sample of each criterion and evaluation node.

    One line for each node on stdout: its name and its average.
    """
    check_reports([timing.time_json], [model, *data.files, *definitions.macros])
    with options.phases.measure("read the network"):
        network = open_network(model, definitions)
    samples = read_data(network.model, terminal, data, options, keep=False)
    start = time.perf_counter()
    found = evaluate_dataset(network.model, samples, options, wanted.nodes)
    seconds = time.perf_counter() - start
    terminal.write(as_text(found) if not as_json else as_json_text(found, model))
    timing.make(terminal, options.phases)
    terminal.remark(f"{found.samples:,} samples, {seconds:.2f} s with compilation")


def as_text(found: Evaluation) -> str:
    """`name  average` for each node, aligned."""
    width = max(len(name) for name in found.averages)
    return "\n".join(f"{name:<{width}}  {value:.7g}" for name, value in found.averages.items())


def as_json_text(found: Evaluation, model: Path) -> str:
    """The same as JSON."""
    record = {"schema": SCHEMA, "model": str(model), "samples": found.samples}
    return json.dumps(record | {"averages": dict(found.averages)}, indent=1)
