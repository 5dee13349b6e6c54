"""No option of any command is replaced in silence by the same one further on."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from graphc.cli.main import COMMANDS
from tests.support.commands import graphc, train, write_network
from tests.unit.cli.test_opt import SUM, opt

# A value that each kind of option takes.
VALUES = {
    "block": "0:2",
    "schedule": "1",
    "float range": "0.5",
    "integer range": "1",
    "seed:n": "seed:1",
    "learner": "sgd",
    "steps": "10:0.5",
}


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with its words, those below groups too."""
    for name, (module, _) in COMMANDS.items():
        command = importlib.import_module(module).command
        if isinstance(command, click.Group):
            yield from ((f"{name} {sub}", c) for sub, c in command.commands.items())
        else:
            yield name, command


def single_options() -> list[tuple[str, click.Option]]:
    """Every option that takes one value, and every flag that can be switched on and off."""
    return [
        (name, option)
        for name, command in commands()
        for option in command.params
        if isinstance(option, click.Option)
        if not option.multiple and not option.count
        if not option.is_flag or option.secondary_opts
    ]


def value_of(option: click.Option, tmp_path: Path) -> list[str]:
    """What stands after the option's name."""
    if option.is_flag:
        return []
    if option.opts[0] in (
        "--momentum",
        "--momentum-per-sample",
        "--dropout",
        "--beta1",
        "--beta2",
        "--gamma",
    ):
        return ["0.5"]
    if option.opts[0] == "--machine":
        return ["x86-64-v3"]
    if isinstance(option.type, click.Choice):
        return [str(option.type.choices[-1])]
    if isinstance(option.type, click.Path):
        path = tmp_path / "some.safetensors"
        path.write_text("")
        return [str(path)]
    return [VALUES.get(option.type.name, "abc")]


@pytest.mark.parametrize(
    ("name", "option"), single_options(), ids=lambda p: p if isinstance(p, str) else p.opts[0]
)
def test_an_option_of_one_value_is_refused_the_second_time(
    tmp_path: Path, name: str, option: click.Option
) -> None:
    command = dict(commands())[name]
    needed = [
        part
        for other in command.params
        if isinstance(other, click.Option) and other.required and other is not option
        for part in (other.opts[0], *value_of(other, tmp_path))
    ]
    is_given = any(isinstance(p, click.Argument) and p.required for p in command.params)
    model = [write_network(tmp_path)] if is_given else []
    again = [option.opts[-1], *value_of(option, tmp_path)] * 2
    done = graphc(*name.split(), *model, *needed, *again)
    assert done.code == 2
    assert f"{option.opts[0]}" in done.err
    assert "can be given once, got it 2 times" in " ".join(done.err.split())


def test_all_commands_are_looked_at() -> None:
    names = [name for name, _ in commands()]
    assert {"train", "opt", "cache list"} <= set(names)
    assert len(single_options()) > 50


def test_on_and_off_together_are_refused(tmp_path: Path) -> None:
    done = train(tmp_path, "--shuffle", "--no-shuffle")
    assert done.code == 2
    assert "--shuffle/--no-shuffle can be given once" in done.err


def test_help_is_shown_whatever_else_is_given() -> None:
    assert graphc("train", "--epochs", "1", "--epochs", "2", "--help").code == 0


def test_flags_and_what_is_counted_may_be_repeated(tmp_path: Path) -> None:
    assert train(tmp_path, "--json", "--json", "-v", "-v", "-q", "-q").code == 0


def test_pipelines_run_one_after_the_other() -> None:
    one, two = opt(SUM, "-p", "cse,dce", "--timing"), opt(SUM, "-p", "cse", "-p", "dce", "--timing")
    assert (two.code, two.out) == (0, one.out)
    names = [[line.split()[2] for line in d.err.splitlines()[1:-1]] for d in (one, two)]
    assert names[0] == names[1] == ["cse:", "dce:"]


def test_an_unknown_pass_is_found_in_any_pipeline() -> None:
    assert "csee" in opt(SUM, "-p", "dce", "-p", "csee").err
    assert "csee" in opt(SUM, "-p", "csee", "-p", "dce").err


def test_nodes_of_several_lists_are_all_measured(tmp_path: Path) -> None:
    data = tmp_path / "data.txt"
    data.write_text("1 2 0\n2 1 1\n")
    done = graphc(
        *("eval", write_network(tmp_path), "--data", data, "--features", "0:2", "--labels", "2"),
        *("--classes", "2", "--backend", "reference", "--nodes", "CE", "--nodes", "Err"),
    )
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()] == ["CE", "Err"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("opt", "-D", "Dim=2", "-D", "Dim=3"), "one value for Dim is required, got 2 and 3"),
        (("opt", "--size", "N=2", "--size", "N=3"), "one value for N is required, got 2 and 3"),
    ],
)
def test_a_name_with_two_values_is_refused(argv: tuple[str, ...], message: str) -> None:
    done = graphc(*argv, stdin=SUM.encode())
    assert done.code == 2
    assert message in done.err


def test_two_outputs_of_opt_are_refused() -> None:
    done = opt(SUM, "--run", "--emit", "numpy")
    assert done.code == 2
    assert "--run and --emit exclude each other" in done.err


def test_a_name_in_two_cases_is_one_name(tmp_path: Path) -> None:
    done = graphc("dump", write_network(tmp_path), "-D", "Dim=2", "-D", "dim=3")
    assert done.code == 3
    assert "one value for `dim` is required, got two" in done.err


def test_two_files_for_an_input_are_refused(tmp_path: Path) -> None:
    row = tmp_path / "row.txt"
    row.write_text("1 2\n")
    inputs = ("--input", f"features={row}", "--input", f"Features={row}")
    done = graphc("run", write_network(tmp_path), *inputs, "--nodes", "z", "--backend", "reference")
    assert done.code == 2
    assert "two files are given for the input 'features'" in done.err
