"""Warnings on the command line: on stderr with their place, once, and not with -q."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from tests.support.commands import NETWORK, graphc, write_network


@pytest.mark.parametrize("command", ["dump", "compile"])
def test_a_warning_is_shown_once_with_its_place(tmp_path: Path, command: str) -> None:
    network = write_network(tmp_path, f"run = net\nleft = 3\nnet = [\n{NETWORK}\n]\n")
    more = ("-o", tmp_path / "net", "--emit", "ir") if command == "compile" else ()
    done = graphc(command, network, *more)
    assert done.code == 0, done.err
    assert done.err.count("warning[parse]: `left` is in no section, so it is left out") == 1
    assert f"{network}:2:1" in done.err
    assert "left" not in done.out


@pytest.mark.parametrize("emit", ["exe", "py", "ir"])
def test_what_several_stages_warn_of_is_shown_once(tmp_path: Path, emit: str) -> None:
    network = write_network(tmp_path, f"{NETWORK}\nV = Parameter(2, 7)\nleft = Times(V, z)\n")
    done = graphc("compile", network, "-o", tmp_path / "net", "--emit", emit)
    assert done.code == 0, done.err
    assert done.err.count("warning[shape-mismatch]: Times requires") == 1
    assert "no output, criterion or evaluation node needs it, so it is left out" in done.err


def test_quiet_shows_errors_alone(tmp_path: Path) -> None:
    network = write_network(tmp_path)
    assert "used nowhere" in graphc("dump", network, "-D", "nowhere=1").err
    assert graphc("dump", network, "-D", "nowhere=1", "-q").err == ""
    assert (
        "error[missing-node]"
        in graphc("dump", network, "--stage", "tensor", "--nodes", "no", "-q").err
    )


def test_a_file_of_macros_is_told_from_an_empty_network() -> None:
    macros = Path(__file__).parents[3] / "examples" / "lstm.ndl"
    done = graphc("dump", macros)
    assert done.code == 0
    assert f"warning[missing-node]: {macros} makes no nodes, it only defines macros" in done.err
    assert "--macros" in done.err


def test_opt_compares_warnings_too(tmp_path: Path) -> None:
    announced = "x = Input(2)\nrun = net # warning@+1: parse: `left` is in no section\nleft = 3\n"
    network = write_network(tmp_path, f"{announced}net = [ y = Input(2) ]")
    done = graphc("opt", network, "--check-errors")
    assert done.code == 1
    assert "reported but not announced: warning: parse: `x` is in no section" in done.err
    assert "`left`" not in done.err


def test_a_warning_of_another_package_goes_on_to_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def alarming(*_args: object, **_settings: object) -> None:
        warnings.warn("from elsewhere", RuntimeWarning, stacklevel=1)

    monkeypatch.setattr("graphc.cli.dump.infer", alarming)
    with pytest.warns(RuntimeWarning, match="from elsewhere"):
        graphc("dump", write_network(tmp_path))
