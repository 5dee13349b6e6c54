"""Standard streams that are closed or full: one message, exit code 3, no traceback."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from graphc.cli.main import main
from tests.support.commands import write_network

NETWORK = "x = Input(2, tag=feature)\nz = Sigmoid(x)\nOutputNodes = (z)\n"
FULL = Path("/dev/full")

COMMANDS = [
    ("dump", "net.ndl"),
    ("run", "net.ndl", "x.txt", "--backend", "reference"),
    ("compile", "net.ndl", "-o", "-", "--emit", "ir"),
    ("opt", "--list", "passes"),
    ("--version",),
    ("run", "--help"),
]


def shell(folder: Path, redirection: str, *argv: str) -> tuple[int, str]:
    """The exit code and stderr of the console script with a stream closed or redirected."""
    write_network(folder, NETWORK)
    (folder / "x.txt").write_text("1 2\n")
    program = [sys.executable, "-c", "from graphc.cli.main import console; console()", *argv]
    done = subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", *program],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("argv", COMMANDS)
def test_a_closed_stdout_is_a_file_error(tmp_path: Path, argv: tuple[str, ...]) -> None:
    assert shell(tmp_path, ">&-", *argv) == (3, "error[file]: standard output is closed\n")


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("argv", COMMANDS)
def test_a_full_disk_behind_stdout_is_a_file_error(tmp_path: Path, argv: tuple[str, ...]) -> None:
    message = "error[file]: cannot write standard output: No space left on device\n"
    assert shell(tmp_path, f">{FULL}", *argv) == (3, message)


@pytest.mark.parametrize("argv", [("run", "net.ndl", "--backend", "reference"), ("opt",)])
def test_a_closed_stdin_is_a_file_error(tmp_path: Path, argv: tuple[str, ...]) -> None:
    assert shell(tmp_path, "<&-", *argv) == (3, "error[file]: standard input is closed\n")


def test_a_closed_stdout_does_not_matter_to_who_writes_nothing(tmp_path: Path) -> None:
    code, _ = shell(tmp_path, ">&-", "compile", "net.ndl", "-o", "made.gir")
    assert code == 0
    assert (tmp_path / "made.gir").exists()


def test_a_closed_stderr_leaves_the_exit_code(tmp_path: Path) -> None:
    assert shell(tmp_path, "2>&-", "opt", "x.txt") == (2, "")


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("compile", "net.ndl", "-o", "made.gir"), 0),
        (("opt", "x.txt"), 2),
        (("dump", "x.txt"), 3),
        (("run", "--nonsense"), 2),
    ],
)
def test_a_full_disk_behind_stderr_leaves_the_exit_code(
    tmp_path: Path, argv: tuple[str, ...], code: int
) -> None:
    assert shell(tmp_path, f"2>{FULL}", *argv) == (code, "")


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_full_disk_behind_both_is_a_file_error(tmp_path: Path) -> None:
    assert shell(tmp_path, f">{FULL} 2>{FULL}", "dump", "net.ndl") == (3, "")


def test_a_broken_pipe_comes_through() -> None:
    class Broken(io.StringIO):
        def write(self, text: str, /) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    with pytest.raises(BrokenPipeError):
        main(["--help"], io.StringIO(), Broken(), io.StringIO())
