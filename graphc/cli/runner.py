"""Runs a command and turns every outcome into an exit code. Nothing here leaves the process.

Exit codes: 0 fine, 1 a check failed, 2 the command line is wrong, 3 the model or the data is
wrong, 4 a mistake in graphc itself (a report is written), 130 interrupted.
"""

from __future__ import annotations

import contextlib
import errno
import warnings
from collections.abc import Generator, Sequence
from typing import TextIO

import click

from graphc.cli.terminal import Terminal
from graphc.support.diagnostics import GraphcError, GraphcWarning, InternalError

EXIT_CHECK_FAILED = 1
EXIT_USAGE = 2
EXIT_BAD_INPUT = 3
EXIT_INTERNAL = 4
EXIT_INTERRUPTED = 130
EXIT_PIPE = 141  # what a shell reports for a program that SIGPIPE ended

OF_THE_MACHINE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}
    | {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}
)
"""What the system has no more of, or what is broken there: no mistake of a program."""


def run_command(command: click.Command, name: str, argv: Sequence[str], terminal: Terminal) -> int:
    """Run `command`; its result or what it raised, as an exit code with a message on stderr."""
    code = _exit_code(command, name, argv, terminal)
    if code and terminal.after_failure is not None:
        terminal.after_failure(code)
    return code


def _exit_code(command: click.Command, name: str, argv: Sequence[str], terminal: Terminal) -> int:
    try:
        # click prints help and usage to sys.stdout and sys.stderr, whatever they are. Its own
        # `main` is not used: on a broken pipe it leaves the process.
        with (
            contextlib.redirect_stdout(terminal.stdout),
            contextlib.redirect_stderr(terminal.stderr),
            _warnings_shown(terminal),
            command.make_context(name, list(argv), obj=terminal) as context,
        ):
            result = command.invoke(context)
            terminal.stdout.flush()  # a full disk shows here, not after the exit code is decided
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.UsageError as error:
        error.show(terminal.stderr)
        return EXIT_USAGE
    except click.ClickException as error:
        error.show(terminal.stderr)
        return EXIT_BAD_INPUT
    except (click.Abort, KeyboardInterrupt):
        terminal.message("interrupted")
        return EXIT_INTERRUPTED
    except GraphcError as error:
        terminal.diagnostics(error.diagnostics)
        # What only the command line can have said is a wrong command line, wherever it was found.
        usage = all(d.slug == "bad-option" for d in error.diagnostics)
        return EXIT_USAGE if usage else EXIT_BAD_INPUT
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is None and error.errno not in OF_THE_MACHINE:
            return _internal_error(argv, error, terminal)
        where = f"{error.filename}: " if error.filename is not None else ""
        terminal.message(f"error[file]: {where}{error.strerror}")
        return EXIT_BAD_INPUT
    except MemoryError:
        terminal.message("error[limit]: this takes more memory than the system gives")
        return EXIT_BAD_INPUT
    except Exception as error:  # the border of the program: nothing may pass as a bare traceback
        return _internal_error(argv, error, terminal)
    return result if isinstance(result, int) else 0


@contextlib.contextmanager
def _warnings_shown(terminal: Terminal) -> Generator[None]:
    """Every `GraphcWarning` goes to the terminal, with its place in the user's text."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", GraphcWarning)
        show_others = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if isinstance(message, GraphcWarning):
                terminal.diagnostics(message.diagnostics)
            else:
                show_others(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def _internal_error(argv: Sequence[str], error: Exception, terminal: Terminal) -> int:
    from graphc.cli.crash import write_report

    what = str(error) if isinstance(error, InternalError) else f"{type(error).__name__}: {error}"
    terminal.message(f"error[internal]: a mistake in graphc itself: {what}")
    folder = write_report(argv, error)
    terminal.message(
        f"  note: {folder} has all that is needed to reproduce it; please attach it to a report"
        if folder is not None
        else "  note: no report could be written to the folder for temporary files"
    )
    return EXIT_INTERNAL
