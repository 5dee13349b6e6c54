"""Commands take their options as records: each value arrives in its field, defaults are written
once."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import click
import pytest
from click.testing import CliRunner

from graphc.backends import BACKENDS
from graphc.backends.base import Backend
from graphc.cli.command import Command, RecordOption
from graphc.cli.options import CompileOption
from graphc.driver.cache import Cache
from graphc.driver.options import CompileOptions
from tests.unit.cli.test_given_once import commands


@dataclass(frozen=True)
class Size:
    rows: int
    columns: int = 7

    def __post_init__(self) -> None:
        if self.rows == self.columns:
            raise click.UsageError("a square is not required")


class SizeOption(RecordOption):
    parameter, make = "size", Size


def run(*argv: str, command: click.Command) -> str:
    done = CliRunner().invoke(command, argv)
    return done.output.strip() if done.exit_code == 0 else f"{done.exit_code}: {done.output}"


@click.command(cls=Command)
@click.option("--rows", cls=SizeOption, type=int, default=1)
@click.option("--name")
def one_option(size: Size, name: str | None) -> None:
    click.echo(f"{name} {size}")


@click.command(cls=Command)
@click.option("--high", "rows", cls=SizeOption, type=int, default=1)
@click.option("--size", "columns", cls=SizeOption, type=int, default=2)
def two_options(size: Size) -> None:
    click.echo(size)


def test_a_command_gets_the_record_and_the_defaults_of_fields_without_an_option() -> None:
    assert run("--name", "a", command=one_option) == "a Size(rows=1, columns=7)"


def test_each_value_arrives_in_its_field() -> None:
    made = run("--high", "3", "--size", "4", command=two_options)
    assert made == "Size(rows=3, columns=4)"


def test_what_a_record_refuses_is_a_mistake_of_the_command_line() -> None:
    done = run("--high", "4", "--size", "4", command=two_options)
    assert done.startswith("2: ")
    assert "a square is not required" in done


def record_options() -> Iterator[tuple[str, RecordOption]]:
    for name, command in commands():
        for option in command.params:
            if isinstance(option, RecordOption):
                yield name, option


def test_every_option_of_a_record_is_one_of_its_fields() -> None:
    strays = [
        (name, option.name)
        for name, option in record_options()
        if option.name not in inspect.signature(type(option).make).parameters
    ]
    assert strays == []


def test_every_command_takes_the_records_of_its_options() -> None:
    taken = {(name, type(option).parameter) for name, option in record_options()}
    assert ("train", "options") in taken
    callbacks = {name: command.callback for name, command in commands()}
    for name, parameter in taken:
        callback = callbacks[name]
        assert callback is not None
        assert parameter in inspect.signature(inspect.unwrap(callback)).parameters, name


def compile_options() -> dict[str, list[tuple[str, CompileOption]]]:
    """By their names: those of the commands."""
    found: dict[str, list[tuple[str, CompileOption]]] = defaultdict(list)
    for name, option in record_options():
        if isinstance(option, CompileOption):
            found[option.opts[0]].append((name, option))
    return found


@pytest.mark.parametrize("spelling", sorted(compile_options()))
def test_a_compile_option_is_the_same_in_every_command(spelling: str) -> None:
    texts = {option.help for _, option in compile_options()[spelling]}
    assert len(texts) == 1


CAN: dict[str, Callable[[Backend], bool]] = {
    "--backend": lambda backend: True,
    "--emit": lambda backend: backend.source is not None,
    "--profile": lambda backend: backend.profile is not None,
}


@pytest.mark.parametrize(
    ("command", "spelling"), [("train", "--backend"), ("opt", "--emit"), ("run", "--profile")]
)
def test_the_help_names_the_backends_that_can(command: str, spelling: str) -> None:
    (help_text,) = [
        option.help or ""
        for option in dict(commands())[command].params
        if isinstance(option, click.Option) and spelling in option.opts
    ]
    named = set(re.findall(r"\w+", help_text.replace("C compiler", ""))) & set(BACKENDS)
    assert named == {name for name, load in BACKENDS.items() if CAN[spelling](load())}


def test_a_command_line_without_options_asks_for_the_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GRAPHC_CACHE", "off")
    monkeypatch.delenv("GRAPHC_NUM_THREADS", raising=False)

    def command(options: CompileOptions) -> None:
        assert not isinstance(options.cache, Cache)
        different = [
            f.name
            for f in fields(options)
            if f.compare and getattr(options, f.name) != getattr(CompileOptions(), f.name)
        ]
        click.echo(f"different: {different}")

    every = [found[0][1] for found in compile_options().values()]
    assert len(every) > 8
    made = Command("all", callback=command, params=list(every))
    assert run(command=made) == "different: []"
