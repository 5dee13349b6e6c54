"""`graphc eval`: criterion and error of a trained model on a data set."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from graphc.cli.command import Command
from graphc.cli.data_inputs import network_inputs
from graphc.cli.members import MembersRequest, comm_option, comm_patience_option, is_first, joined
from graphc.cli.network import open_network, read_data, read_for_program
from graphc.cli.objectives import (
    OF_NETWORKS,
    ObjectiveRequest,
    objective_options,
    refuse_objective,
)
from graphc.cli.options import (
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
    parameters_option,
    precision_option,
    program_options,
    refuse_given,
    threads_option,
)
from graphc.cli.programs import MODEL_FILE, open_program
from graphc.cli.terminal import Terminal, common_options
from graphc.cli.timing import TimingReports, timing_options
from graphc.driver.options import CompileOptions
from graphc.learn.evaluate import Evaluation, evaluate_dataset
from graphc.learn.program_loss import with_loss
from graphc.learn.program_training import measure_program

SCHEMA = 1

EPILOG = """\b
Example:
  graphc eval net.safetensors --data test.txt --features 0:64 --labels 64 --classes 10
  graphc eval net.onnx --data test.txt --features 0:64 --labels 64 --classes 10 \\
      --loss softmax_cross_entropy --measure classification_error
  mpirun -n 4 graphc eval net.safetensors --data test.txt … --comm mpi
"""


@click.command("eval", cls=Command, epilog=EPILOG, short_help="Measure a trained model on data.")
@click.argument("model", type=MODEL_FILE, metavar="MODEL")
@data_options
@objective_options
@nodes_option("What to measure, if not the criterion and evaluation nodes.")
@backend_option
@precision_option
@contraction_option
@launch_option
@threads_option
@definition_options
@program_options
@parameters_option
@comm_option
@comm_patience_option
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
    objective: ObjectiveRequest,
    wanted: Wanted,
    options: CompileOptions,
    definitions: Definitions,
    parameters: Path | None,
    members: MembersRequest,
    timing: TimingReports,
    as_json: bool,
) -> None:
    """Measure MODEL on data: the average per sample of each criterion and evaluation node, or of
    a program's loss and measures.

    One line for each on stdout: its name and its average. MODEL may be an ONNX file, FILE.py:NAME,
    IR (.gir), or a program that Python or `graphc train` saved.
    """
    files = [model, *data.files, *definitions.macros, *([parameters] if parameters else [])]
    check_reports([timing.time_json], files)
    start = time.perf_counter()
    with joined(terminal, members) as member:
        with options.phases.measure("read the network"):
            program = open_program(model, definitions, parameters=parameters)
        if program is not None:
            refuse_given(OF_NETWORKS, f"is for networks, {model} is a program")
            held = with_loss(program, objective.objective())
            samples = read_for_program(held, terminal, data, options, keep=False)
            found = measure_program(held, samples, options, member)
        else:
            refuse_objective()
            with options.phases.measure("read the network"):
                network = open_network(model, definitions).model
            samples = read_data(network_inputs(network), terminal, data, options, keep=False)
            found = evaluate_dataset(network, samples, options, wanted.nodes, communicator=member)
        seconds = time.perf_counter() - start
        terminal.write(as_text(found) if not as_json else as_json_text(found, model))
        terminal.remark(f"{found.samples:,} samples, {seconds:.2f} s with compilation")
    if is_first(member):
        timing.make(terminal, options.phases)


def as_text(found: Evaluation) -> str:
    """`name  average` for each node, aligned."""
    width = max(len(name) for name in found.averages)
    return "\n".join(f"{name:<{width}}  {value:.7g}" for name, value in found.averages.items())


def as_json_text(found: Evaluation, model: Path) -> str:
    """The same as JSON."""
    record = {"schema": SCHEMA, "model": str(model), "samples": found.samples}
    return json.dumps(record | {"averages": dict(found.averages)}, indent=1)
