"""The frame of the command line: help, exit codes, internal errors, colour."""

from __future__ import annotations

import errno
import io
import os
import tempfile
from pathlib import Path

import click
import pytest

import graphc.cli.main as main_module
from graphc.cli.main import COMMANDS, main
from graphc.cli.runner import run_command
from graphc.cli.terminal import Terminal, common_options
from graphc.support.diagnostics import InternalError, fail
from graphc.support.source import SourceFile


def run(*argv: str) -> tuple[int, str, str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    code = main(argv, io.StringIO(), stdout, stderr)
    return code, stdout.getvalue(), stderr.getvalue()


def run_raising(error: BaseException, *argv: str) -> tuple[int, str]:
    """The exit code and stderr of a command that raises `error`."""

    @click.command()
    @common_options
    @click.argument("words", nargs=-1)
    def command(words: tuple[str, ...]) -> None:
        raise error

    stderr = io.StringIO()
    terminal = Terminal(io.StringIO(), io.StringIO(), stderr)
    return run_command(command, "graphc", argv, terminal), stderr.getvalue()


def test_no_arguments_print_the_help() -> None:
    code, out, _ = run()
    assert code == 0
    assert out == run("--help")[1]


def test_the_help_lists_every_command_and_an_example() -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert all(f"  {name}" in out for name in COMMANDS)
    assert "graphc train net.ndl" in out


def test_an_unknown_command_is_a_usage_error_with_the_nearest_name() -> None:
    code, out, err = run("trian")
    assert (code, out) == (2, "")
    assert "did you mean `train`" in err


def test_an_unknown_option_is_a_usage_error() -> None:
    code, _, err = run("--frobnicate")
    assert code == 2
    assert "--frobnicate" in err


def test_the_version_names_graphc_python_llvm_and_the_gpu() -> None:
    code, out, _ = run("--version")
    assert code == 0
    *first, gpu = out.splitlines()
    assert [line.split()[0] for line in first] == ["graphc", "Python", "LLVM"]
    assert gpu.startswith(("GPUs by cupy", "no GPUs: "))


def test_a_wrong_model_is_exit_code_3_with_the_place() -> None:
    span = SourceFile("net.ndl", "h = Foo(x)").span(4, 7)
    code, err = run_raising(fail("unknown-function", "there is no function Foo", span))
    assert code == 3
    assert err.startswith("error[unknown-function]: there is no function Foo\n  --> net.ndl:1:5\n")


def test_an_option_that_turns_out_wrong_later_is_exit_code_2_all_the_same() -> None:
    code, err = run_raising(fail("bad-option", "no pass is called `x`"))
    assert (code, err) == (2, "error[bad-option]: no pass is called `x`\n")


def test_a_file_error_names_the_file() -> None:
    code, err = run_raising(FileNotFoundError(2, "No such file or directory", "net.ndl"))
    assert (code, err) == (3, "error[file]: net.ndl: No such file or directory\n")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_an_interrupt_is_exit_code_130(error: BaseException) -> None:
    code, err = run_raising(error)
    assert (code, err.strip()) == (130, "interrupted")


@pytest.mark.parametrize("error", [ValueError("surprise"), InternalError("surprise in cse")])
def test_an_internal_error_is_exit_code_4_with_a_report(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    network = tmp_path / "net.ndl"
    network.write_text("x = 1\n")
    code, err = run_raising(error, str(network))
    (folder,) = tmp_path.glob("graphc-error-*")
    assert code == 4
    assert "surprise" in err
    assert str(folder) in err
    assert (folder / "net.ndl").read_text() == "x = 1\n"
    assert (folder / "command.txt").read_text() == "graphc net.ndl\n"
    assert "surprise" in (folder / "traceback.txt").read_text()


def test_an_internal_error_is_told_even_where_no_report_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    code, err = run_raising(ValueError("surprise"))
    assert code == 4
    assert "surprise" in err
    assert "no report could be written" in err


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "error[limit]: this takes more memory than the system gives\n"),
        (OSError(errno.ENOSPC, "No space"), "error[file]: No space\n"),
        (OSError(errno.EMFILE, "Too many", "a.npy"), "error[file]: a.npy: Too many\n"),
    ],
)
def test_what_the_machine_has_no_more_of_is_no_mistake_of_graphc(
    error: Exception, message: str
) -> None:
    assert run_raising(error) == (3, message)


def test_a_broken_pipe_is_left_to_the_console_entry() -> None:
    with pytest.raises(BrokenPipeError):
        run_raising(BrokenPipeError(32, "Broken pipe"))


def test_colour_is_used_when_asked_for_and_not_on_plain_streams() -> None:
    error = fail("parse", "no")
    assert run_raising(error)[1] == "error[parse]: no\n"
    assert run_raising(error, "--color=always")[1] == "\x1b[1;31merror[parse]\x1b[0m: no\n"
    assert run_raising(error, "--color=never")[1] == "error[parse]: no\n"


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("color", "no_color", "expected"),
    [
        ("auto", "", True),
        ("auto", "1", False),
        ("always", "1", True),
        ("never", "", False),
    ],
)
def test_no_color_yields_to_an_explicit_option_only(
    color: str, no_color: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal(io.StringIO(), Tty(), Tty(), color)  # type: ignore[arg-type]
    assert terminal.use_color(terminal.stderr) is expected


def test_quiet_silences_remarks_but_not_errors() -> None:
    stderr = io.StringIO()
    terminal = Terminal(io.StringIO(), io.StringIO(), stderr, verbosity=-1)
    terminal.remark("working")
    terminal.message("error: it broke")
    assert stderr.getvalue() == "error: it broke\n"


@pytest.mark.parametrize(
    ("limit", "given", "threads"),
    [
        (None, None, None),
        (300 << 20, None, "1"),
        (640 << 20, None, "2"),
        (64 << 30, None, None),
        (300 << 20, "7", "7"),
    ],
)
def test_in_little_address_space_numpy_has_few_threads(
    limit: int | None, given: str | None, threads: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "OPENBLAS_NUM_THREADS"
    if given is None:
        # Set and taken back, so that what the code sets is undone after the test.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, given)
    monkeypatch.setattr(main_module, "soft_limit", lambda _name: limit)
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    main_module._spare_memory()
    assert os.environ.get(name) == threads
