"""`graphc opt`: passes over networks and IR, text in, text out. The tool for looking and testing.

The module is verified before the first pass and after each, unless switched off. Also installed
nowhere as a program of its own, but `main` here takes the same arguments, for tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TextIO

import click

from graphc.cli import expectations, listings
from graphc.cli.command import Command, RecordOption
from graphc.cli.options import Definitions, definition_options, each_name_once, json_option
from graphc.cli.runner import EXIT_CHECK_FAILED, run_command
from graphc.cli.sections import Section, read_sections
from graphc.cli.terminal import Terminal, common_options
from graphc.cli.transform import Request, SeedType, SizeType, transform
from graphc.ops import default_context
from graphc.support.diagnostics import Diagnostic, GraphcError
from graphc.support.files import read_text

EPILOG = """\b
Examples:
  graphc dump net.ndl --stage tensor > net.gir      IR text of a network
  graphc opt net.gir                                parse, verify, print
  graphc opt net.gir -p "simplify,cse,dce"          run three passes
  graphc opt net.gir -p simplify --trace-patterns   and tell which rules fired where
  graphc opt net.gir -p kernels --print-after-all --timing
  graphc opt bad.gir --check-errors                 compare with `// error:` comments
  graphc opt net.gir --run --inputs=seed:7          compute it by the references
  graphc opt net.gir --reduce ./still-fails.sh      the smallest module that still fails
  graphc opt --list passes                          what can stand after -p, plug-ins too
"""


class RequestOption(RecordOption):
    parameter, make = "request", Request


@click.command(cls=Command, epilog=EPILOG, short_help="Run passes over IR text: text in, text out.")
@click.argument("file", default="-", metavar="[FILE]")
@click.option(
    "-p",
    "--passes",
    cls=RequestOption,
    multiple=True,
    metavar="PIPELINE",
    help="Passes, with commas between; of several pipelines one runs after the other.",
)
@click.option(
    "--print-after-all",
    cls=RequestOption,
    is_flag=True,
    help="Print the module after each pass (stderr).",
)
@click.option(
    "--print-locations",
    cls=RequestOption,
    is_flag=True,
    help="Print where each operation came from.",
)
@click.option(
    "--timing",
    "--time-passes",
    "timing",
    cls=RequestOption,
    is_flag=True,
    help="Print what each pass did and how long it took.",
)
@click.option(
    "--trace-patterns",
    cls=RequestOption,
    is_flag=True,
    help="Print every rewrite rule that fired.",
)
@click.option(
    "--verify-each/--no-verify-each",
    "verify",
    cls=RequestOption,
    default=True,
    show_default=True,
    help="Verify the module before the first pass and after each.",
)
@click.option("--split", is_flag=True, help="Sections between `// -----` lines stand alone.")
@click.option(
    "--check-errors",
    is_flag=True,
    help="Compare the diagnostics with `// error: slug: text` comments; print no IR.",
)
@click.option(
    "--run", cls=RequestOption, is_flag=True, help="Compute the function by the references."
)
@click.option(
    "--inputs",
    "seed",
    cls=RequestOption,
    type=SeedType(),
    default="seed:0",
    metavar="seed:N",
    help="For --run: random values from this seed.",
)
@click.option(
    "--size",
    "sizes",
    cls=RequestOption,
    type=SizeType(),
    multiple=True,
    callback=each_name_once,
    metavar="N=K",
    help="For --run: the size of a dim; otherwise 3, or its bound.",
)
@click.option(
    "--emit",
    cls=RequestOption,
    metavar="BACKEND",
    help="Print a backend's source instead: numpy, llvm, c or cuda. It needs -p kernels, and "
    "the parameters in it are zeros, since IR text has no values.",
)
@click.option(
    "--reduce",
    "reduce_by",
    cls=RequestOption,
    metavar="CMD",
    help="After the passes, shrink the module while `CMD FILE` ends with exit code 0, which says: "
    "it is still interesting. Prints the smallest; progress on stderr.",
)
@click.option(
    "--function",
    cls=RequestOption,
    metavar="NAME",
    help="For --run and --emit: which function.",
)
@click.option(
    "--list",
    "listing",
    type=click.Choice(["ops", "passes", "backends"]),
    help="List what this version has, and do nothing else.",
)
@json_option
@definition_options
@common_options
@click.pass_obj
def command(
    terminal: Terminal,
    /,
    file: str,
    request: Request,
    split: bool,
    check_errors: bool,
    listing: str | None,
    as_json: bool,
    definitions: Definitions,
) -> int:
    """Run passes over a network (.ndl) or over IR text (.gir, or stdin).

    Prints the resulting IR on stdout. Exit code 1: --check-errors found a difference.
    """
    if listing is not None:
        terminal.write(listings.listing(listing, as_json=as_json))
        return 0
    check_outputs(request, in_parts=split or check_errors)
    macros = [(str(path), read_text(path)) for path in definitions.macros]
    request = replace(request, defines=dict(definitions.defines), macros=macros)
    found = 0
    sections = read_sections(file, terminal.stdin, split=split)
    for index, section in enumerate(sections):
        if check_errors:
            found += check_section(section, request, terminal)
            continue
        context = default_context()
        output = transform(section, request, terminal, context)
        terminal.diagnostics(context.sink.diagnostics)
        separator = f"{section.comment} -----\n" if index else ""
        terminal.stdout.write(separator + output)
    return EXIT_CHECK_FAILED if found else 0


def check_outputs(request: Request, *, in_parts: bool) -> None:
    """A usage error where two outputs are asked for; `in_parts`: none of them is a module."""
    if request.run and request.emit is not None:
        raise click.UsageError("--run and --emit exclude each other: one output is printed")
    others = request.run or request.emit or in_parts or not request.verify
    if request.reduce_by is not None and others:
        raise click.UsageError(
            "--reduce prints a module: leave out --run, --emit, --split, --check-errors and "
            "--no-verify-each"
        )


def check_section(section: Section, request: Request, terminal: Terminal) -> int:
    """Compare a section's diagnostics with what its comments announce; the number of complaints."""
    found = diagnostics_of(section, request, terminal)
    expected = expectations.expected_diagnostics(section.text, section.comment)
    complaints = expectations.complaints(expected, found, section.file)
    for complaint in complaints:
        terminal.message(complaint)
    return len(complaints)


def diagnostics_of(section: Section, request: Request, terminal: Terminal) -> Sequence[Diagnostic]:
    """Everything that reading the section and running the passes reports."""
    context = default_context()
    try:
        transform(section, request, terminal, context)
    except GraphcError as error:
        return error.diagnostics
    return context.sink.diagnostics


def main(argv: Sequence[str], stdin: TextIO, stdout: TextIO, stderr: TextIO) -> int:
    """`graphc opt` with these arguments; the exit code."""
    return run_command(command, "graphc opt", argv, Terminal(stdin, stdout, stderr))
