"""`graphc cntk`: the commands of a configuration of the toolkit."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path

import click

from graphc.cli.command import Command
from graphc.cli.interrupts import stop_requests
from graphc.cli.members import MembersRequest, end_by_rank, hold, joined, release
from graphc.cli.options import backend_option, no_cache_option
from graphc.cli.report import TrainingReport
from graphc.cli.terminal import Terminal, common_options
from graphc.config.assemble import assemble
from graphc.config.lookup import Scope
from graphc.driver.options import CompileOptions
from graphc.learn.records import Progress
from graphc.runtime.communicators.alone import alone
from graphc.runtime.communicators.communicator import PATIENCE, Communicator
from graphc.runtime.communicators.mpi import started
from graphc.support.diagnostics import GraphcError
from graphc.toolkit.action import Report, Session, Showing
from graphc.toolkit.configuration import (
    Settings,
    log_of,
    plan_commands,
    read_settings,
    run_commands,
    unused_keys,
)
from graphc.toolkit.log import LogReport
from graphc.toolkit.top import PARALLEL

EPILOG = """\b
Examples:
  graphc cntk configFile=simple.config
  graphc cntk configFile=simple.config train=[SGD=[maxEpochs=2]]
  graphc cntk configFile=a.config+b.config command=train:test stderr=run
  mpirun -n 4 graphc cntk configFile=simple.config parallelTrain=true

Relative paths start at the working directory. The log goes to stderr, in the toolkit's lines, or
to a file that `stderr=` begins the name of; on a terminal there are bars and tables instead.
"""


@click.command(cls=Command, epilog=EPILOG, short_help="Run a configuration of the CNTK toolkit.")
@click.argument("words", nargs=-1, metavar="configFile=FILE[+FILE…] [KEY=VALUE…]")
@click.option("--check", is_flag=True, help="Check the whole configuration, and run nothing.")
@click.option("--allow-exec", is_flag=True, help="Let the action `plot` run its RenderCmd.")
@backend_option
@no_cache_option
@common_options
@click.pass_obj
def command(
    terminal: Terminal,
    /,
    words: tuple[str, ...],
    check: bool,
    allow_exec: bool,
    options: CompileOptions,
) -> int:
    """Run the commands of a configuration file: train, test, write and the others.

    All of it is checked before the first command runs: a wrong key of the last one is found before
    the first one trains.
    """
    if started() > 1:  # what fails before it shows whether they run it together
        held = hold(terminal)
        terminal.after_failure = lambda code: end_by_rank(held, code)
    top = Scope.top(assemble([_argument(word) for word in words]))
    settings = read_settings(top, options)
    release(terminal)
    with ExitStack() as stack:
        report = _Delayed()
        member = stack.enter_context(_members(terminal, top, settings))
        stop = stack.enter_context(stop_requests(terminal))
        session = Session(
            top,
            settings.options,
            report,
            allow_exec=allow_exec,
            should_stop=lambda: bool(stop),
            member=member,
        )
        planned = plan_commands(top, settings.commands, session)
        terminal.diagnostics(list(unused_keys(top)))
        if check:
            terminal.remark(f"{len(planned)} actions can run")
            return 0
        report.chosen = stack.enter_context(_report(terminal, log_of(settings.log, member), member))
        try:
            run_commands(planned, session, settings)
        except GraphcError as error:
            report.line(f"EXCEPTION occurred: {error.diagnostics[0].message}")
            raise
        return stop.exit_code


@contextmanager
def _members(terminal: Terminal, top: Scope, settings: Settings) -> Generator[Communicator | None]:
    """This process as one of those that run the commands together, None if it runs them alone."""
    if not settings.members:
        yield None
    elif started() == 1:
        yield alone()  # a world of one needs no MPI
    else:
        with ExitStack() as stack:
            asked = top.find(PARALLEL.name)
            with asked.blamed() if asked is not None else nullcontext():
                member = stack.enter_context(joined(terminal, MembersRequest("mpi", PATIENCE)))
            yield member


def _argument(word: str) -> str:
    """An argument; a file that stands there alone is likely meant as `configFile=` of it."""
    if "=" not in word and Path(word).is_file():
        raise click.UsageError(f"a configuration is named configFile={word}")
    return word


class _Delayed:
    """The report of a session whose log is opened when everything is checked."""

    chosen: Report

    def line(self, text: str) -> None:
        self.chosen.line(text)

    def training(self, showing: Showing) -> AbstractContextManager[Progress]:
        return self.chosen.training(showing)


class _Silent:
    """Says nothing, for members that have no log of their own."""

    def line(self, text: str) -> None:
        pass

    @contextmanager
    def training(self, showing: Showing) -> Generator[Progress]:
        yield Progress()


@contextmanager
def _report(terminal: Terminal, log: Path | None, member: Communicator | None) -> Generator[Report]:
    """A log file, bars and tables on a terminal, or the log on stderr, of the first member."""
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w", encoding="utf-8") as stream:
            terminal.remark(f"the log goes to {log}")
            yield LogReport(stream)
    elif member is not None and member.rank > 0:
        yield _Silent()
    elif terminal.stderr.isatty():
        yield TerminalReport(terminal)
    else:
        yield LogReport(terminal.stderr)


class TerminalReport:
    """Bars and tables, as `graphc train` has them."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal

    def line(self, text: str) -> None:
        self.terminal.remark(text)

    @contextmanager
    def training(self, showing: Showing) -> Generator[Progress]:
        report = TrainingReport(
            self.terminal, showing.epochs, showing.samples() or 0, showing.nodes
        )
        with report:
            yield Progress(minibatch=report.minibatch, epoch=report.epoch)
