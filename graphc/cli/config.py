"""`graphc config`: a configuration, put together from files and arguments, with its places."""

from __future__ import annotations

import json
from pathlib import Path

import click

from graphc.cli.command import Command
from graphc.cli.options import json_option
from graphc.cli.terminal import Terminal, common_options
from graphc.config.assemble import assemble
from graphc.config.listing import as_data, as_text
from graphc.config.lookup import Scope

SCHEMA = 1

EPILOG = """\b
Examples:
  graphc config simple.config                       all keys, with file, line and column
  graphc config simple.config SGD=[maxEpochs=3]     what a command line makes of it
  graphc config a.config b.config --resolve         with every $name$ put in
"""


@click.command(cls=Command, epilog=EPILOG, short_help="Print a configuration of the toolkit.")
@click.argument("words", nargs=-1, metavar="FILE… [KEY=VALUE…]")
@click.option("--resolve", is_flag=True, help="Put in the value of every $name$.")
@json_option
@common_options
@click.pass_obj
def command(terminal: Terminal, /, words: tuple[str, ...], resolve: bool, as_json: bool) -> None:
    """Print the configuration that `graphc cntk` would read: files joined, sets merged.

    Each line says where its value came from; the text can be read again as a configuration.
    """
    if not words:
        raise click.UsageError("at least one file is required")
    top = Scope.top(assemble([_argument(word) for word in words]))
    if as_json:
        record = {"schema": SCHEMA, "entries": as_data(top, resolve=resolve)}
        terminal.write(json.dumps(record, indent=1))
    else:
        terminal.write(as_text(top, resolve=resolve))


def _argument(word: str) -> str:
    """A file stands for `configFile=` of it."""
    return f"configFile={word}" if "=" not in word or Path(word).is_file() else word
