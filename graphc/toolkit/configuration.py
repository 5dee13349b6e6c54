"""Runs a configuration: every command of it is planned, and only then the first one runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphc.config.lookup import Scope, Value
from graphc.driver.options import CompileOptions
from graphc.runtime.communicators.communicator import Communicator, wait_for_all
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
    asks_for_members,
    computing_options,
)

COMPLETED = "COMPLETED"


@dataclass(frozen=True)
class Planned:
    """One action of a command, ready to run."""

    command: str
    action: str
    run: Run
    shared: bool


@dataclass(frozen=True)
class Settings:
    """What the top level says besides the commands.

    log      where the log goes, None: where messages go
    members  all processes that a launcher has started run the commands together
    """

    commands: tuple[str, ...]
    options: CompileOptions
    log: Path | None
    done: Path | None
    members: bool = False


def read_settings(top: Scope, given: CompileOptions) -> Settings:
    """The keys of the top level. GraphcError for values that are none."""
    top.ask(*(key.name for key in TOP_KEYS))
    commands = COMMAND.of(top)
    log = STDERR.of(top)
    if log is not None:
        log = log.with_name("_".join([log.name, *commands]) + ".log")
    options = computing_options(top, given)
    return Settings(commands, options, log, DONE_FILE.of(top), members=asks_for_members(top))


def log_of(log: Path | None, member: Communicator | None) -> Path | None:
    """Where a member's log goes: each has a file, as the toolkit named them."""
    if log is None or member is None:
        return log
    return log.with_name(f"{log.name}rank{member.rank}")


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
        _meet(session)  # what was planned, or written, all of them see
        if session.stops():
            return
        session.report.line(f"CNTK command: {command.command}, action {command.action}")
        if command.shared or session.is_first:
            command.run()
    _meet(session)
    if session.stops():
        return
    if settings.done is not None and session.is_first:
        settings.done.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(settings.done, b"successfully finished\n")
    session.report.line(COMPLETED)


def _meet(session: Session) -> None:
    if session.member is not None:
        wait_for_all(session.member)


def ignored_keys(top: Scope) -> Iterator[str]:
    """A note for each key of the top level that is there and that nothing follows from."""
    for key in TOP_KEYS:
        if key.ignored and top.find(key.name) is not None:
            yield f"note: nothing follows from `{key.name}`: {key.ignored}"


def _planned(top: Scope, name: str, session: Session) -> list[Planned]:
    command = top.section(name)
    value = command.require(ACTION.name)
    return [_planned_action(name, word, value, command, session) for word in value.texts()]


def _planned_action(
    name: str, word: str, value: Value, command: Scope, session: Session
) -> Planned:
    action = BY_NAME.get(word.lower())
    if action is None:
        raise unknown(word, value)
    command.ask(*(key.name for key in action.keys))
    return Planned(name, word, action.plan(command, session), action.shared)
