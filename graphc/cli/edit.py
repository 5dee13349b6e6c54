"""`graphc edit`: models changed by a file of commands."""

from __future__ import annotations

from pathlib import Path

import click

from graphc import api
from graphc.cli.command import Command
from graphc.cli.options import EXISTING_FILE, Definitions, definition_options
from graphc.cli.terminal import Terminal, common_options

EPILOG = """\b
Example:
  graphc edit add_layer.mel --macros layers.ndl -D OldModel=one.dnn -D NewModel=two.dnn

\b
add_layer.mel puts a layer on top of a trained one:
  m1 = LoadModel($OldModel$)
  L2 = Layer(L1.S, 512, 512)      # in-line NDL; Layer is a macro of layers.ndl
  SetInput(L2.T, 1, L1.S)         # L2.T reads L1.S as its second operand
  SetInput(Out.T, 1, L2.S)
  SaveModel($NewModel$)

\b
The commands: LoadModel CreateModel SaveModel SetDefaultModel UnloadModel LoadNDLSnippet
  Copy CopySubTree SetInput SetInputs CopyInputs Remove Rename SetProperty
  SetPropertyForSubTree DumpModel DumpNode; docs/mel.md says what they do.
Exit codes: 0 done, 2 a mistake on the command line, 3 one in the file or a model.
"""


@click.command(
    "edit", cls=Command, epilog=EPILOG, short_help="Edit trained models by a file of commands."
)
@click.argument("script", type=EXISTING_FILE, metavar="FILE.mel")
@click.option("--check", "check_only", is_flag=True, help="Only look for mistakes; change nothing.")
@definition_options
@common_options
@click.pass_obj
def command(
    terminal: Terminal, /, script: Path, check_only: bool, definitions: Definitions
) -> None:
    """Run the commands of FILE.mel, in the toolkit's model editing language.

    They read model files, copy, rename, remove and reconnect nodes, add new ones in NDL, and write
    model files. The whole file is checked before the first command runs, and files are written when
    the last one has succeeded: after a mistake all of them are as they were. Paths start from the
    current folder. The files written are listed on stdout.
    """
    found = api.edit_file(
        script,
        macros=definitions.macros,
        defines=dict(definitions.defines),
        check_only=check_only,
    )
    for path in found.files:
        terminal.write(str(path))
    if check_only:
        terminal.remark(f"{script}: no mistakes found")
    elif not found.files:
        terminal.remark(f"{script} writes no file: SaveModel saves a model")
