"""What the commands know about where they run: streams, colour, how much to say.

Results go to stdout; everything said about the work (progress, warnings, errors) goes to stderr.
The environment is read here and nowhere below.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Literal, TextIO, TypeVar

import click

from graphc.cli.streams import StandardStream
from graphc.support.diagnostics import Diagnostic, Severity, render

if TYPE_CHECKING:
    from rich.console import Console

Color = Literal["auto", "always", "never"]
F = TypeVar("F", bound=Callable[..., object])

STYLES = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "note": "\x1b[1;36m"}
RESET = "\x1b[0m"


@dataclass(slots=True)
class Terminal:
    """The streams of one command line and how to talk there. Options fill `color` and
    `verbosity`.

    verbosity: -1 for `-q` (errors only), 0, 1 for `-v`, 2 for `-vv`.
    """

    stdin: TextIO | StandardStream
    stdout: TextIO | StandardStream
    stderr: TextIO
    color: Color = "auto"
    verbosity: int = 0
    warned: set[Diagnostic] = field(default_factory=set[Diagnostic])
    """Every warning shown so far: the same network may be looked at several times."""
    after_failure: Callable[[int], None] | None = None
    """What is done, given the exit code, when a failure has been said."""

    def write(self, text: str) -> None:
        """A result, to stdout, with a line end."""
        self.stdout.write(text + "\n")

    def message(self, text: str) -> None:
        """A line that always has to be seen, to stderr."""
        self.stderr.write(self._styled(text) + "\n")
        self.stderr.flush()

    def remark(self, text: str, *, level: int = 0) -> None:
        """A line about the work, to stderr, shown from verbosity `level` on."""
        if self.verbosity >= level:
            self.stderr.write(text + "\n")
            self.stderr.flush()

    def diagnostics(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Errors and warnings with their source lines; warnings that were shown are not again."""
        found = [d for d in diagnostics if d.severity is Severity.ERROR or self._is_new(d)]
        if found:
            self.message(render(found))

    def _is_new(self, warning: Diagnostic) -> bool:
        """Whether a warning is to be shown, for the first time."""
        if self.verbosity < 0 or warning in self.warned:
            return False
        self.warned.add(warning)
        return True

    def use_color(self, stream: TextIO) -> bool:
        """Whether `stream` takes colour: the option, then NO_COLOR, then whether it is a tty."""
        if self.color != "auto":
            return self.color == "always"
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            return False
        return stream.isatty()

    def console(self) -> Console:
        """A rich console on stderr for progress and tables."""
        from rich.console import Console

        color = self.use_color(self.stderr)
        return Console(
            file=self.stderr,
            force_terminal=True if self.color == "always" else None,
            no_color=not color,
            highlight=False,
            quiet=self.verbosity < 0,
        )

    def binary_stdin(self) -> BinaryIO:
        """The bytes behind stdin."""
        return _bytes_of(self.stdin, "stdin")

    def binary_stdout(self) -> BinaryIO:
        """The bytes behind stdout, after all text written so far."""
        self.stdout.flush()
        return _bytes_of(self.stdout, "stdout")

    def _styled(self, text: str) -> str:
        if not self.use_color(self.stderr):
            return text
        return re.sub(
            r"^( *)(error|warning|note)(\[[\w-]+\])?:",
            lambda m: f"{m[1]}{STYLES[m[2]]}{m[2]}{m[3] or ''}{RESET}:",
            text,
            flags=re.MULTILINE,
        )


def _bytes_of(stream: TextIO | StandardStream, name: str) -> BinaryIO:
    buffer: BinaryIO | None = getattr(stream, "buffer", None)
    if buffer is None:
        raise click.UsageError(f"{name} carries text here; name a file instead of `-`")
    return buffer


def common_options(function: F) -> F:
    """`-v`, `-q` and `--color`, which every command takes."""
    options = (
        click.option(
            "--color",
            type=click.Choice(["auto", "always", "never"]),
            expose_value=False,
            is_eager=True,
            callback=_set_color,
            help="Colour in messages (auto: on a terminal, unless NO_COLOR is set).",
        ),
        click.option(
            "-q",
            "--quiet",
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_set_quiet,
            help="Say nothing but errors.",
        ),
        click.option(
            "-v",
            "--verbose",
            count=True,
            expose_value=False,
            is_eager=True,
            callback=_set_verbose,
            help="Say more; twice for even more.",
        ),
    )
    for option in options:
        function = option(function)
    return function


def _terminal(ctx: click.Context) -> Terminal:
    """The terminal that `main` hands to every command."""
    terminal = ctx.find_object(Terminal)
    assert terminal is not None
    return terminal


def _set_color(ctx: click.Context, _: click.Parameter, value: Color | None) -> None:
    if value is not None:
        _terminal(ctx).color = value


def _set_quiet(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        _terminal(ctx).verbosity = -1


def _set_verbose(ctx: click.Context, _: click.Parameter, value: int) -> None:
    if value:
        _terminal(ctx).verbosity = value
