"""`graphc diff`: what a pass or an edit changed, at any stage of compilation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import click

from graphc.cli.command import Command, RecordOption
from graphc.cli.dump import drawn
from graphc.cli.network import open_network
from graphc.cli.options import (
    EXISTING_FILE,
    Definitions,
    Wanted,
    definition_options,
    precision_option,
    stage_options,
    train_option,
)
from graphc.cli.runner import EXIT_CHECK_FAILED
from graphc.cli.terminal import Terminal, common_options
from graphc.driver.options import CompileOptions
from graphc.driver.pipelines import PIPELINES
from graphc.driver.program import read_module
from graphc.ir.clone import clone_module
from graphc.ir.core import Module, RegionKind
from graphc.ir.difference import (
    FunctionDifference,
    Line,
    dim_lines,
    module_difference,
    with_context,
)
from graphc.learn.stages import STAGES, Stage, module_at
from graphc.model.model import Model
from graphc.model.picture import difference_drawing
from graphc.ops import default_context
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from graphc.support.diagnostics import fail

EPILOG = """\b
Examples:
  graphc diff old.ndl new.ndl                       the nodes that are different
  graphc diff old.ndl new.ndl --stage kernels --train
  graphc diff old.ndl new.ndl --stage tensor --format svg > diff.svg
  graphc diff net.gir edited.gir                    IR text as it stands
  graphc diff net.gir -p "simplify,cse"             what these passes change
"""


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown of a difference: `form` of it, places in memory, lines around each line."""

    form: str
    context: int
    places: bool


class ShownOption(RecordOption):
    parameter, make = "shown", Shown


@click.command(
    cls=Command, epilog=EPILOG, short_help="Show what is different between two networks."
)
@click.argument("first", type=EXISTING_FILE, metavar="A")
@click.argument("second", type=EXISTING_FILE, metavar="[B]", required=False)
@click.option(
    "--stage",
    type=click.Choice(STAGES),
    default="nodes",
    show_default=True,
    help="The level at which networks are compared; functions in IR text are taken as they stand.",
)
@click.option(
    "-p",
    "--passes",
    default="",
    metavar="PIPELINE",
    help="Passes to run on B first; without B, compare A with what they make of it.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "dot", "svg"]),
    cls=ShownOption,
    default="text",
    show_default=True,
    help="Lines of IR text, or a drawing: added in green, changed in orange, removed in red.",
)
@click.option(
    "--context",
    cls=ShownOption,
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    metavar="N",
    help="Lines to show around what is different.",
)
@click.option("--places", cls=ShownOption, is_flag=True, help="Compare places in memory too.")
@train_option("Compare training steps instead of the outputs.")
@stage_options
@precision_option
@definition_options
@common_options
@click.pass_obj
def command(
    terminal: Terminal,
    /,
    first: Path,
    second: Path | None,
    stage: str,
    passes: str,
    shown: Shown,
    wanted: Wanted,
    options: CompileOptions,
    definitions: Definitions,
) -> int:
    """Show what is different between A and B (.ndl, .safetensors or .gir) as lines of IR text.

    Operations are compared by what they compute and by their nodes' names, not by their order.
    Values without a name are called by their kind: %tanh.2 is the second tanh. Exit code 0: there
    is no difference; 1: there is one.
    """
    if second is None and not passes:
        raise click.UsageError("a second file B is required, or passes to run by -p")
    if stage == "nodes" and (wanted.train or wanted.nodes):
        raise click.UsageError("--train and --nodes need --stage tensor or kernels")

    def module_of(path: Path) -> Module:
        module = _functions(path) if path.suffix.lower() == ".gir" else None
        if module is not None and _kind(module) is RegionKind.SSA:
            return module
        if module is not None:
            model = Model(module, folder=path.parent)
        else:
            model = open_network(path, definitions).model
        level = cast(Stage, stage)  # one of STAGES, by click
        return module_at(model, level, options, train=wanted.train, nodes=wanted.nodes)

    a = module_of(first)
    b = module_of(second) if second is not None else clone_module(a)
    if passes:
        PassManager(pipeline(passes, PIPELINES), verify=True).run(b, default_context())
    if _kind(a) is not _kind(b):
        raise fail("bad-option", "two networks or two functions are required, not one of each")
    found = module_difference(a, b, places=shown.places)
    lines = [*dim_lines(a, b), *(line for each in found for line in each.lines)]
    names = (str(first), str(second or f"{first} after {passes}"))
    if shown.form == "text":
        terminal.stdout.write(difference_text(names, lines, found, shown.context))
    else:
        terminal.stdout.write(drawn(difference_drawing(_only(found)), shown.form))
    return EXIT_CHECK_FAILED if any(line.mark != " " for line in lines) else 0


def difference_text(
    names: tuple[str, str], lines: Sequence[Line], found: Sequence[FunctionDifference], context: int
) -> str:
    """What is different, with a count at its end; '' for nothing."""
    if all(line.mark == " " for line in lines):
        return ""
    counts = sum((each.counts for each in found), Counter())
    count = ", ".join(f"{counts[what]} {what}" for what in ("added", "removed", "changed", "same"))
    moved = f", {counts['moved']} elsewhere in memory" if counts["moved"] else ""
    shown = [f"{x.mark} {'  ' * x.depth}{x.text}" for x in with_context(lines, context)]
    head = [f"--- {names[0]}", f"+++ {names[1]}"]
    return "\n".join([*head, *shown, f"// operations: {count}{moved}", ""])


def _functions(path: Path) -> Module:
    """The module in IR text; GraphcError for a bad one."""
    module = read_module(path)
    if not module.functions:
        raise fail("empty-module", f"{path} requires a function, it has none")
    return module


def _kind(module: Module) -> RegionKind:
    """A network, or functions; networks in IR text stand alone."""
    alone = len(module.functions) == 1
    return module.functions[0].kind if alone else RegionKind.SSA


def _only(found: Sequence[FunctionDifference]) -> FunctionDifference:
    if len(found) != 1 or found[0].a is None or found[0].b is None:
        raise fail("bad-option", f"a drawing requires one function of each, got {len(found)}")
    return found[0]
