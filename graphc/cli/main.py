"""The `graphc` command: the list of sub-commands, and the entry of the console script.

Sub-commands live in modules of their own and are imported when they are called, so that
`graphc --help` needs neither numpy nor LLVM.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import TextIO, cast

import click

from graphc.cli.runner import EXIT_PIPE, run_command
from graphc.cli.streams import MessageStream, StandardStream
from graphc.cli.terminal import Terminal
from graphc.support.diagnostics import suggestion
from graphc.support.memory import soft_limit

# name -> (module whose `command` it is, help line); the order is that of `graphc --help`.
COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("graphc.cli.train", "Train a network on data and save the model."),
    "eval": ("graphc.cli.evaluate", "Measure a trained model on data."),
    "run": ("graphc.cli.run", "Compute a model's outputs for inputs from a file or stdin."),
    "compile": ("graphc.cli.compile", "Compile a model to a program, library, object or source."),
    "edit": ("graphc.cli.edit", "Edit trained models by a file of commands (MEL)."),
    "convert": ("graphc.cli.convert", "Convert a model file, of the toolkit among them."),
    "dump": ("graphc.cli.dump", "Print a network at any stage of compilation."),
    "diff": ("graphc.cli.diff", "Show what is different between two networks at any stage."),
    "bench": ("graphc.cli.bench", "Time a network on random data, as a whole and by kernels."),
    "cntk": ("graphc.cli.cntk", "Run a configuration of the CNTK toolkit."),
    "config": ("graphc.cli.config", "Print a configuration of the toolkit, assembled."),
    "cache": ("graphc.cli.cache", "Look after the compiled code that is kept in files."),
    "opt": ("graphc.cli.opt", "Run passes over IR text: text in, text out."),
    "selftest": ("graphc.cli.selftest", "Check gradients on this machine's backends."),
}

MEMORY_BEFORE_THREADS, MEMORY_OF_A_THREAD = 512 << 20, 64 << 20
"""Address space that commands need for other things, and that OpenBLAS takes: measured 300 MiB, and
40 MiB for a thread."""

COLLECT_AFTER = 200_000
"""New objects after which Python looks for garbage in cycles, of which graphc makes little. A start
makes half as many, all of which stay: with Python's own 700 they are looked at 146 times, which is
a tenth of the time."""

EPILOG = """\b
Examples:
  graphc train net.ndl --data train.txt --features 0:64 --labels 64 --classes 10 \\
      --epochs 30 --minibatch 32 --learning-rate 1.0 --momentum 0.9 -o net.safetensors
  graphc eval net.safetensors --data test.txt --features 0:64 --labels 64 --classes 10
  graphc compile net.safetensors -o net --emit exe

Each command has a help of its own, with an example: `graphc train --help`.
"""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called, not when they are listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])  # a name of the table above only
        return module.command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            hint = suggestion(args[0], COMMANDS)
            ctx.fail(f"no such command: {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from graphc.cli.version import version_text

        click.echo(version_text())
        ctx.exit()


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the versions of graphc and of LLVM.",
)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """graphc compiles neural networks, written as text, into small native programs.

    A network comes as NDL text (.ndl) or as a trained model (.safetensors, or a model file of the
    toolkit). What is made of it needs nothing but the C library to run.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(
    argv: Sequence[str], stdin: TextIO | None, stdout: TextIO | None, stderr: TextIO | None
) -> int:
    """Run one command line (without the program's name); the exit code. Never exits.

    None is a stream that the caller has closed. A BrokenPipeError of stdout comes through.
    """
    terminal = Terminal(
        StandardStream("standard input", stdin),
        StandardStream("standard output", stdout),
        cast(TextIO, MessageStream(stderr)),  # all of it that click, rich and `Terminal` use
    )
    return run_command(cli, "graphc", argv, terminal)


def console() -> None:
    """The console script `graphc`."""
    gc.set_threshold(COLLECT_AFTER)
    _spare_memory()
    try:
        code = main(sys.argv[1:], sys.stdin, sys.stdout, sys.stderr)
    except BrokenPipeError:  # the reader went away, as `head` does
        code = EXIT_PIPE
    _drop_unwritten(sys.stdout)
    _drop_unwritten(sys.stderr)
    sys.exit(code)


def _spare_memory() -> None:
    """Where memory is limited (`ulimit -v`), let numpy's OpenBLAS have no more threads than fit: it
    takes memory for each as it is imported, and ends the process if there is none."""
    limit = soft_limit("RLIMIT_AS")
    if limit is not None:
        threads = max(1, (limit - MEMORY_BEFORE_THREADS) // MEMORY_OF_A_THREAD)
        if threads < (os.cpu_count() or 1):
            os.environ.setdefault("OPENBLAS_NUM_THREADS", str(threads))


def _drop_unwritten(stream: TextIO | None) -> None:
    """Python would try to write again on the way out what could not be written, and complain."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
