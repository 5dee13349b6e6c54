"""The golden collector: what it reads out of a file, and that it fails when it should."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

import pytest

from tests.support import golden
from tests.support.golden import (
    GoldenError,
    GoldenMismatch,
    bless_file,
    check_file,
    parse_run,
    parse_runs,
)

ROOT = Path(__file__).parents[3]
Use = Callable[[golden.Program], None]


def fake_program(output: str = "", *, errors: str = "", code: int = 0) -> golden.Program:
    """A `graphc` that prints what it is told."""

    def main(argv: Sequence[str], stdin: TextIO, stdout: TextIO, stderr: TextIO) -> int:
        stdout.write(output.replace("ARGV", " ".join(argv)))
        stderr.write(errors)
        return code

    return main


@pytest.fixture
def program_is(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Makes the collector run this program in place of graphc."""

    def use(main: golden.Program) -> None:
        monkeypatch.setattr(golden, "program", lambda name: main)

    return use


def write(tmp_path: Path, text: str, name: str = "case.gir") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def check(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for run in parse_runs(text, golden.comment_of(path)):
        check_file(path, run, path.name)


def test_run_lines_are_read_in_order_with_their_line_numbers() -> None:
    runs = parse_runs("// RUN: graphc-opt %s\nx\n  // RUN: graphc dump %s\n", "//")
    assert [(r.argv, r.line) for r in runs] == [
        (("graphc-opt", "%s"), 1),
        (("graphc", "dump", "%s"), 3),
    ]


def test_a_run_line_can_go_on_after_a_backslash() -> None:
    (run,) = parse_runs("// RUN: graphc-opt %s \\\n// RUN:   -p cse\n", "//")
    assert run.argv == ("graphc-opt", "%s", "-p", "cse")


def test_not_and_redirection_and_prefix_are_taken_out_of_the_command() -> None:
    run = parse_run("not graphc-opt %s 2>&1 | filecheck %s --check-prefix=BAD", 1)
    assert (run.argv, run.fails, run.with_messages, run.prefix) == (
        ("graphc-opt", "%s"),
        True,
        True,
        "BAD",
    )


@pytest.mark.parametrize(
    "command", ["rm %s", "", "graphc-opt %s | grep x", "graphc-opt %s | filecheck other"]
)
def test_commands_other_than_the_known_ones_are_refused(command: str) -> None:
    with pytest.raises(GoldenError):
        parse_run(command, 1)


def test_a_file_that_could_not_fail_is_refused() -> None:
    with pytest.raises(GoldenError, match="no `// RUN:` line"):
        parse_runs("// CHECK: nothing runs this\n", "//")


def test_a_file_with_error_comments_is_run_with_check_errors() -> None:
    (run,) = parse_runs("x = Foo()  # error: unknown-function: Foo\n", "#")
    assert run.argv == ("graphc-opt", "%s", "--check-errors")


def test_a_matching_check_passes(tmp_path: Path, program_is: Use) -> None:
    program_is(fake_program("%a = add %x, %y\n%b = mul %a, %a\n"))
    check(
        write(
            tmp_path,
            "// RUN: graphc-opt %s\n"
            "// CHECK: %[[A:.+]] = add\n// CHECK-NEXT: mul %[[A]], %[[A]]\n// CHECK-NOT: add\n",
        )
    )


@pytest.mark.parametrize(
    "checks",
    [
        "// CHECK: mul",
        "// CHECK-NOT: add",
        "// CHECK: %[[A:.+]] = add\n// CHECK-NEXT: sub",
        "// OTHER: add",
    ],
)
def test_a_check_that_does_not_match_fails(tmp_path: Path, program_is: Use, checks: str) -> None:
    program_is(fake_program("%a = add %x, %y\n"))
    path = write(tmp_path, f"// RUN: graphc-opt %s\n{checks}\n")
    with pytest.raises(GoldenMismatch, match="output:"):
        check(path)


def test_check_not_holds_for_empty_output(tmp_path: Path, program_is: Use) -> None:
    program_is(fake_program(""))
    check(write(tmp_path, "// RUN: graphc-opt %s\n// CHECK-NOT: add\n"))


def test_an_unexpected_exit_code_fails_and_shows_the_messages(
    tmp_path: Path, program_is: Use
) -> None:
    program_is(fake_program("fine\n", errors="error[parse]: no\n", code=3))
    path = write(tmp_path, "// RUN: graphc-opt %s\n// CHECK: fine\n")
    with pytest.raises(GoldenMismatch, match=r"got 3\noutput:\n  error\[parse\]: no"):
        check(path)


def test_a_command_that_has_to_fail_and_does_not_fails(tmp_path: Path, program_is: Use) -> None:
    program_is(fake_program("fine\n"))
    path = write(tmp_path, "// RUN: not graphc-opt %s\n// CHECK: fine\n")
    with pytest.raises(GoldenMismatch, match="other than 0"):
        check(path)


def test_messages_are_checked_only_when_asked_for(tmp_path: Path, program_is: Use) -> None:
    program_is(fake_program("", errors="error[parse]: no\n", code=3))
    check(write(tmp_path, "// RUN: not graphc-opt %s 2>&1\n// CHECK: error[parse]: no\n"))
    with pytest.raises(GoldenMismatch):
        check(write(tmp_path, "// RUN: not graphc-opt %s\n// CHECK: error[parse]: no\n"))


def test_the_file_stands_for_percent_s(tmp_path: Path, program_is: Use) -> None:
    program_is(fake_program("ARGV\n"))
    check(write(tmp_path, "# RUN: graphc dump %s --all\n# CHECK: dump net.ndl --all\n", "net.ndl"))


def test_exact_output_passes_when_equal_and_fails_when_a_blank_differs(
    tmp_path: Path,
    program_is: Use,
) -> None:
    path = write(tmp_path, "// RUN: graphc-opt %s\nx\n// BLESS\n// one\n//\n//   two\n")
    program_is(fake_program("one\n\n  two\n"))
    check(path)
    program_is(fake_program("one\n\n two\n"))
    with pytest.raises(GoldenMismatch, match="--bless"):
        check(path)


def test_missing_and_additional_lines_of_exact_output_fail(tmp_path: Path, program_is: Use) -> None:
    path = write(tmp_path, "// RUN: graphc-opt %s\n// BLESS\n// one\n// two\n")
    for output in ("one\n", "one\ntwo\nthree\n", ""):
        program_is(fake_program(output))
        with pytest.raises(GoldenMismatch):
            check(path)


def test_bless_writes_the_output_and_keeps_the_rest(tmp_path: Path, program_is: Use) -> None:
    program_is(fake_program("new\n\n  lines\n"))
    path = write(tmp_path, "# RUN: graphc dump %s\nx = y\n# BLESS\n# old\n", "net.ndl")
    (run,) = parse_runs(path.read_text(), "#")
    bless_file(path, run, path.name)
    assert path.read_text() == "# RUN: graphc dump %s\nx = y\n# BLESS\n# new\n#\n#   lines\n"
    check(path)


def test_bless_refuses_files_with_hand_written_checks(tmp_path: Path, program_is: Use) -> None:
    program_is(fake_program("new\n"))
    path = write(tmp_path, "// RUN: graphc-opt %s\n// CHECK: old\n")
    (run,) = parse_runs(path.read_text(), "//")
    with pytest.raises(GoldenError, match="never rewritten"):
        bless_file(path, run, path.name)
    assert "old" in path.read_text()


def test_pytest_collects_golden_files_and_reports_place_and_command(tmp_path: Path) -> None:
    """The whole way through pytest, in a project of its own with a fake program."""
    folder = tmp_path / "tests" / "golden"
    folder.mkdir(parents=True)
    write(folder, "// RUN: graphc-opt %s -p a\n// CHECK: yes\n", "good.gir")
    write(folder, "x\n// RUN: graphc-opt %s -p b\n// CHECK: no\n", "bad.gir")
    write(folder, "x\n", "empty.gir")
    write(tmp_path / "tests", "// not in the golden folder\n", "elsewhere.gir")
    write(tmp_path, "[pytest]\n", "pytest.ini")
    write(
        tmp_path,
        "from pathlib import Path\n"
        "from tests.support import golden\n"
        "def main(argv, stdin, stdout, stderr):\n"
        "    stdout.write('yes\\n')\n"
        "    return 0\n"
        "golden.program = lambda name: main\n"
        "FOLDER = Path(__file__).parent / 'tests' / 'golden'\n"
        "def pytest_addoption(parser):\n"
        "    parser.addoption('--bless', action='store_true')\n"
        "def pytest_collect_file(file_path, parent):\n"
        "    return golden.collect_golden(file_path, parent, FOLDER)\n",
        "conftest.py",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "tests/golden/empty.gir: no `// RUN:` line" in done.stdout
    assert done.returncode != 0
    (folder / "empty.gir").unlink()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 1 passed" in done.stdout
    assert "tests/golden/bad.gir:2:" in done.stdout
    assert "run it yourself: graphc opt tests/golden/bad.gir -p b" in done.stdout
