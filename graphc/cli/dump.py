"""`graphc dump`: a network as text, at any stage of its compilation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from graphc.backends import BACKENDS
from graphc.builder import GraphBuilder
from graphc.cli.command import Command
from graphc.cli.network import open_network
from graphc.cli.options import (
    Definitions,
    Wanted,
    contraction_option,
    definition_options,
    precision_option,
    program_options,
    stage_options,
    train_option,
)
from graphc.cli.programs import MODEL_FILE, open_program
from graphc.cli.terminal import Terminal, common_options
from graphc.cli.transform import source_text, timing_table
from graphc.driver import pipelines
from graphc.driver.compile import machine_of, run_passes
from graphc.driver.options import CompileOptions
from graphc.driver.prepare import infer
from graphc.driver.program import program_passes, tensor_passes, with_results
from graphc.frontend import writer_for
from graphc.ir.clone import clone_module
from graphc.ir.core import Module
from graphc.ir.machine import GpuMachine
from graphc.ir.printer import print_module
from graphc.learn.stages import STAGES, pretend_statistics, stage_passes
from graphc.model.drawing import Drawing, dot_text
from graphc.model.picture import function_drawing, network_drawing
from graphc.model.program import Program
from graphc.model.svg import svg
from graphc.ops import default_context
from graphc.passes import PASSES
from graphc.passes.manager import Pass
from graphc.support.diagnostics import fail, suggestion

EPILOG = """\b
Examples:
  graphc dump net.ndl                               the nodes with their sizes
  graphc dump net.ndl --format svg > net.svg        a drawing of them, of later stages too
  graphc dump net.safetensors --format ndl          the network as NDL
  graphc dump net.ndl --stage tensor                what is computed, optimised
  graphc dump net.ndl --stage kernels --train       the kernels of a training step
  graphc dump net.ndl --stage schedule --machine x86-64-v3   how they are computed there
  graphc dump net.ndl --stage cuda                  their CUDA C++, and what a call launches
  graphc dump net.ndl --stage kernels --after all   the text after each pass
  graphc dump net.ndl --stage tensor --after cse    after one pass, and stop there
"""


CUDA = "cuda"
"""The stage behind all levels of the IR, and the backend whose it is."""


@click.command(
    cls=Command, epilog=EPILOG, short_help="Print a network at any stage of compilation."
)
@click.argument("model", type=MODEL_FILE, metavar="MODEL")
@click.option(
    "--stage",
    type=click.Choice([*STAGES, CUDA]),
    default="nodes",
    show_default=True,
    help="Which level: the network, the operations on arrays, the fused and placed kernels, "
    "these with all that is decided for a machine, the text that a GPU runs.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "ndl", "dot", "svg"]),
    default="text",
    show_default=True,
    help="Text of the IR, or of NDL (nodes only), or a drawing: for Graphviz, or drawn (by it, if "
    "installed).",
)
@click.option("--after", metavar="PASS|all", help="The text after this pass, or after every pass.")
@train_option("A training step instead of the outputs.")
@stage_options
@click.option("--print-locations", is_flag=True, help="Print where each operation came from.")
@click.option(
    "--timing", "--time-passes", "timing", is_flag=True, help="Print what each pass did, on stderr."
)
@precision_option
@contraction_option
@definition_options
@program_options
@common_options
@click.pass_obj
def command(
    terminal: Terminal,
    /,
    model: Path,
    stage: str,
    form: str,
    after: str | None,
    wanted: Wanted,
    options: CompileOptions,
    print_locations: bool,
    timing: bool,
    definitions: Definitions,
) -> None:
    """Print MODEL (.ndl or .safetensors) as text or as a drawing on stdout.

    MODEL may be a program, also FILE.py:NAME: the stage nodes is then what was traced.
    """
    if form != "text" and after == "all":
        raise click.UsageError(f"--format {form} shows one module: --after requires one pass")
    if form == "ndl" and stage != "nodes":
        raise click.UsageError("--format ndl shows nodes: it goes with --stage nodes")
    program = open_program(model, definitions)
    if form == "ndl" and program is not None:
        raise click.UsageError("--format ndl is for networks")
    if stage == "nodes" and (after or wanted.train or wanted.nodes):
        raise click.UsageError("--after, --train and --nodes need a stage behind nodes")
    if stage == CUDA:
        if form != "text":
            raise click.UsageError("--stage cuda is text: it goes without --format")
        options = replace(options, backend=CUDA)
    level = "schedule" if stage == CUDA else stage
    if program is not None:
        module = clone_module(with_results(program, wanted.nodes).module)
        passes = program_stage_passes(program, level, options)
    else:
        opened = open_network(model, definitions)
        network = opened.model
        infer(network)
        if stage == "nodes":
            terminal.stdout.write(shown_nodes_of(opened, form, locations=print_locations))
            return
        pretend_statistics(network)
        module = clone_module(network.module)
        passes = stage_passes(network, level, options, train=wanted.train, nodes=wanted.nodes)
    if after not in (None, "all"):
        passes = up_to(passes, after)

    def show(done: Pass, module: Module) -> None:
        text = print_module(module, locations=print_locations)
        terminal.stdout.write(f"// ----- after {done}\n{text}")

    options = replace(options, verify=True, after=show if after == "all" else None)
    records = run_passes(module, passes, default_context(), options)
    if form != "text":
        terminal.stdout.write(drawn(function_drawing(module.functions[0]), form))
    elif stage == CUDA and not after:
        terminal.stdout.write(_cuda_text(module, options))
    elif after != "all":
        terminal.stdout.write(print_module(module, locations=print_locations))
    if timing:
        terminal.message(timing_table(records))


def shown_nodes_of(network: GraphBuilder, form: str, *, locations: bool) -> str:
    """The network as it was written, in this form."""
    if form == "ndl":
        return writer_for("ndl").write(network)
    if form == "text":
        return print_module(network.model.module, locations=locations)
    return drawn(network_drawing(network.model.graph), form)


def program_stage_passes(program: Program, stage: str, options: CompileOptions) -> list[Pass]:
    """The passes from what was traced to the stage; none to show that."""
    if stage == "nodes":
        return []
    if stage == "schedule" or program.is_written:
        return program_passes(program, options)
    fused = pipelines.kernels() if stage == "kernels" else []
    return [*tensor_passes(program, options), *fused]


def _cuda_text(module: Module, options: CompileOptions) -> str:
    """The kernels of the module's function, for `options.machine` or the GPU that there is."""
    machine = machine_of(options)
    if not isinstance(machine, GpuMachine):
        raise fail("bad-option", "--stage cuda requires a GPU such as sm_90, got a processor")
    source = BACKENDS[CUDA]().source
    assert source is not None
    module.functions[0].contraction = options.contraction
    return source_text(module, module.functions[0], source, machine.arch)


def drawn(drawing: Drawing, form: str) -> str:
    """The drawing as `svg` or as `dot` text."""
    return svg(drawing) if form == "svg" else dot_text(drawing)


def up_to(passes: Sequence[Pass], name: str) -> list[Pass]:
    """The passes up to the last one called `name`."""
    for index in range(len(passes) - 1, -1, -1):
        if passes[index].name == name:
            return list(passes[: index + 1])
    known = list(dict.fromkeys(p.name for p in passes))
    what = "is not run for this stage" if name in PASSES else "is unknown"
    raise fail(
        "bad-option",
        f"the pass `{name}` {what}; run are: {', '.join(known)}{suggestion(name, known)}",
    )
