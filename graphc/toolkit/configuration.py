"""Runs a configuration: every command of it is planned, and only then the first one runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphc.config.lookup import Scope, Value
from graphc.driver.options import CompileOptions
from graphc.support.diagnostics import Diagnostic, DiagnosticSink, GraphcError
from graphc.support.files import write_atomically
from graphc.toolkit.action import Run, Session
from graphc.toolkit.actions import ACTIONS, BY_NAME, unknown
from graphc.toolkit.top import (
    ACTION,
    COMMAND,
    DONE_FILE,
    STDERR,
    TOP_KEYS,
    computing_options,
)

COMPLETED = "COMPLETED"


@dataclass(frozen=True)
class Planned:
    """One action of a command, ready to run."""

    command: str
    action: str
    run: Run


@dataclass(frozen=True)
class Settings:
    """What the top level says besides the commands. log: where the log goes, None: where messages
    go."""

    commands: tuple[str, ...]
    options: CompileOptions
    log: Path | None
    done: Path | None


def read_settings(top: Scope, given: CompileOptions) -> Settings:
    """The keys of the top level. GraphcError for values that are none."""
    top.ask(*(key.name for key in TOP_KEYS))
    commands = COMMAND.of(top)
    log = STDERR.of(top)
    if log is not None:
        log = log.with_name("_".join([log.name, *commands]) + ".log")
    return Settings(commands, computing_options(top, given), log, DONE_FILE.of(top))


def plan_commands(top: Scope, commands: Sequence[str], session: Session) -> list[Planned]:
    """All commands, checked. GraphcError with the mistakes of all of them."""
    sink = DiagnosticSink()
    planned: list[Planned] = []
    for name in commands:
        try:
            planned += _planned(top, name, session)
        except GraphcError as error:
            sink.extend(error.diagnostics)
            session.has_edits = True  # what it would have written is not missed again
    sink.raise_if_errors()
    return planned


def unused_keys(top: Scope) -> Iterator[Diagnostic]:
    """A warning for each key that nothing takes. At the top level whatever some action takes may
    stand, for commands that do not run today."""
    for action in ACTIONS:
        top.ask(*(key.name for key in action.keys))
        for block in action.blocks:
            top.ask(block.name, *(key.name for key in block.keys))
    yield from top.unused()


def run_commands(planned: Sequence[Planned], session: Session, settings: Settings) -> None:
    """Run what was planned, up to a request to stop."""
    for note in ignored_keys(session.top):
        session.report.line(note)
    for command in planned:
        if session.should_stop():
            return
        session.report.line(f"CNTK command: {command.command}, action {command.action}")
        command.run()
    if session.should_stop():
        return
    if settings.done is not None:
        settings.done.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(settings.done, b"successfully finished\n")
    session.report.line(COMPLETED)


def ignored_keys(top: Scope) -> Iterator[str]:
    """A note for each key of the top level that is there and that nothing follows from."""
    for key in TOP_KEYS:
        if key.ignored and top.find(key.name) is not None:
            yield f"note: nothing follows from `{key.name}`: {key.ignored}"


def _planned(top: Scope, name: str, session: Session) -> list[Planned]:
    command = top.section(name)
    value = command.require(ACTION.name)
    return [
        Planned(name, action, _plan(action, value, command, session)) for action in value.texts()
    ]


def _plan(name: str, value: Value, command: Scope, session: Session) -> Run:
    action = BY_NAME.get(name.lower())
    if action is None:
        raise unknown(name, value)
    command.ask(*(key.name for key in action.keys))
    return action.plan(command, session)
