"""Golden tests: files under `tests/golden/` that say how to run themselves.

A `.gir`, `.ndl` or `.mel` file names its commands in comments (`//` in `.gir`, `#` in the others)
and says what must come out:

    // RUN: graphc-opt %s -p cse
    // CHECK:     %[[SUM:.+]] = add
    // CHECK-NOT: add

* `RUN:` the command, run in this process, without a shell. The program is `graphc-opt` or
  `graphc`, with `not` before it if it has to fail. `%s` is the file and `%t` a path in an empty
  folder of its own. `2>&1` adds the diagnostics to the text that is checked. After
  `| filecheck %s --check-prefix=NAME` the lines to match start with `NAME` instead of `CHECK`.
  A line that ends in a backslash goes on in the next `RUN:` line.
* `CHECK` lines are matched by the `filecheck` package, the Python twin of LLVM's FileCheck.
* `BLESS` alone on a line: the rest of the file is the exact output, as comments.
  `pytest --bless` rewrites that part and never touches a file without the marker.
* `error: slug: substring` at the end of a line: this diagnostic must be reported for this line,
  and no other may be. A file with such comments and no `RUN:` line is run as
  `graphc-opt %s --check-errors`.

This is the only file that imports `filecheck`: its classes are not a documented interface, which
is why `pyproject.toml` pins its version.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import DumpInputKind, Options
from filecheck.parser import Parser, pattern_for_opts

COMMENTS = {".gir": "//", ".ndl": "#", ".mel": "#"}

Program = Callable[[Sequence[str], TextIO, TextIO, TextIO], int]


class GoldenError(Exception):
    """The file is no usable golden test: a bad RUN line, or nothing that could fail."""


class GoldenMismatch(Exception):
    """The command ran, and something else came out than the file says."""


@dataclass(frozen=True, slots=True)
class Run:
    """One RUN line.

    argv           program and arguments, `%s` and `%t` not yet replaced
    fails          the command must not exit with 0
    with_messages  the error stream is part of the checked text
    prefix         what CHECK lines for this command start with
    line           where it is written, from 1
    """

    argv: tuple[str, ...]
    fails: bool
    with_messages: bool
    prefix: str
    line: int


# ------------------------------------------------------------------------------ reading a file


def comment_of(path: Path) -> str:
    """What starts a comment in this kind of file."""
    return COMMENTS[path.suffix]


def parse_runs(text: str, comment: str) -> list[Run]:
    """The commands of a golden file, in order; the implied one if it only expects errors."""
    runs: list[Run] = []
    pending, first_line = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        command = _after_keyword(line, comment, "RUN:")
        if command is None:
            if pending:
                raise GoldenError(f"line {number}: the RUN line before ends in a backslash")
            continue
        first_line = first_line if pending else number
        if command.endswith("\\"):
            pending += command[:-1] + " "
            continue
        runs.append(parse_run(pending + command, first_line))
        pending = ""
    if not runs and expects_errors(text, comment):
        runs.append(parse_run("graphc-opt %s --check-errors", 1))
    if not runs:
        raise GoldenError(f"no `{comment} RUN:` line")
    return runs


def parse_run(command: str, line: int) -> Run:
    """One command out of its text."""
    run, _, check = command.partition("|")
    words = shlex.split(run)
    fails = words[:1] == ["not"]
    words = words[1:] if fails else words
    with_messages = "2>&1" in words
    words = [word for word in words if word != "2>&1"]
    if not words or words[0] not in ("graphc", "graphc-opt"):
        raise GoldenError(f"line {line}: the program is `graphc` or `graphc-opt`, got {command!r}")
    return Run(tuple(words), fails, with_messages, _check_prefix(check, line), line)


def _check_prefix(command: str, line: int) -> str:
    if not command.strip():
        return "CHECK"
    match = re.fullmatch(r"\s*filecheck\s+%s(?:\s+--check-prefix[= ](\S+))?\s*", command)
    if match is None:
        raise GoldenError(f"line {line}: only `filecheck %s --check-prefix=NAME` may follow `|`")
    return match.group(1) or "CHECK"


def expects_errors(text: str, comment: str) -> bool:
    """Whether lines of the text carry `error:` comments (see `graphc opt --check-errors`)."""
    return re.search(rf"{re.escape(comment)}\s*error(@\S+)?:", text) is not None


def split_blessed(text: str, comment: str) -> tuple[str, str] | None:
    """The text up to and with the BLESS line, and the exact output after it; None without one."""
    lines = text.splitlines(keepends=True)
    for index, line in enumerate(lines):
        if line.strip() == f"{comment} BLESS":
            head = "".join(lines[: index + 1])
            return head, "".join(_uncomment(rest, comment) for rest in lines[index + 1 :])
    return None


def blessed_text(head: str, output: str, comment: str) -> str:
    """A golden file whose exact output is `output`."""
    body = "".join(f"{comment} {line}".rstrip() + "\n" for line in output.splitlines())
    return head + body


def _uncomment(line: str, comment: str) -> str:
    if not line.startswith(comment):
        raise GoldenError(f"after BLESS every line is a comment, got {line.rstrip()!r}")
    return line[len(comment) :].removeprefix(" ")


def _after_keyword(line: str, comment: str, keyword: str) -> str | None:
    line = line.strip()
    if not line.startswith(comment):
        return None
    line = line[len(comment) :].strip()
    return line[len(keyword) :].strip() if line.startswith(keyword) else None


# ----------------------------------------------------------------------------- running a file


def run_command(run: Run, path: str) -> str:
    """Run one command; the text to check. Raises GoldenMismatch on the wrong exit code."""
    with tempfile.TemporaryDirectory() as scratch:
        replace = {"%s": path, "%t": str(Path(scratch) / "out")}
        argv = [re.sub("%[st]", lambda m: replace[m.group()], word) for word in run.argv]
        stdout, stderr = io.StringIO(), io.StringIO()
        code = program(argv[0])(argv[1:], io.StringIO(), stdout, stderr)
    if (code != 0) != run.fails:
        wanted = "an exit code other than 0" if run.fails else "exit code 0"
        raise GoldenMismatch(
            f"expected {wanted}, got {code}\n{_shown(stderr.getvalue() or stdout.getvalue())}"
        )
    return stdout.getvalue() + (stderr.getvalue() if run.with_messages else "")


def program(name: str) -> Program:
    """The main function of `graphc` or `graphc-opt`, imported when first used."""
    if name == "graphc-opt":
        from graphc.cli.opt import main
    else:
        from graphc.cli.main import main
    return main


def match_output(path: Path, text: str, output: str, prefix: str) -> None:
    """Match `output` against the check lines of the golden file; GoldenMismatch says why not."""
    options = Options(str(path), check_prefixes=[prefix], dump_input=DumpInputKind.FAIL)
    # Empty output would be an error of its own before any CHECK-NOT is looked at.
    checks = Parser(options, io.StringIO(text), *pattern_for_opts(options))
    matcher = Matcher(options, FInput("<output>", output or " \n"), checks)
    matcher.stderr = io.StringIO()
    with contextlib.redirect_stderr(io.StringIO()) as warnings:
        code = matcher.run()
    if code != 0:
        complaint = matcher.stderr.getvalue() + warnings.getvalue()
        raise GoldenMismatch(f"{_plain(complaint)}\n{_shown(output)}")


def check_file(path: Path, run: Run, name: str) -> None:
    """Run one command of a file and judge its output by what the file says."""
    text = path.read_text(encoding="utf-8")
    comment = comment_of(path)
    output = run_command(run, name)
    blessed = split_blessed(text, comment)
    if blessed is not None:
        expected = blessed_text("", output, comment)
        if expected != text[len(blessed[0]) :]:
            wanted = blessed_text("", blessed[1], comment).splitlines()
            diff = "\n".join(
                difflib.unified_diff(wanted, expected.splitlines(), "in the file", "now", "", "", 2)
            )
            raise GoldenMismatch(f"{diff}\n`pytest --bless {name}` writes the output of now")
        return
    if "--check-errors" in run.argv:
        return  # the command itself has compared
    match_output(path, text, output, run.prefix)


def bless_file(path: Path, run: Run, name: str) -> None:
    """Write the output of now into a file with a BLESS marker."""
    text = path.read_text(encoding="utf-8")
    comment = comment_of(path)
    blessed = split_blessed(text, comment)
    if blessed is None:
        raise GoldenError("no BLESS marker: hand-written checks are never rewritten")
    path.write_text(blessed_text(blessed[0], run_command(run, name), comment), encoding="utf-8")


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text).rstrip()


def _shown(output: str) -> str:
    lines = output.splitlines()
    return "output:\n" + "\n".join(f"  {line}" for line in lines) if lines else "output: nothing"


# ------------------------------------------------------------------------------------- pytest


class GoldenFile(pytest.File):
    """Collects one test for each RUN line."""

    def collect(self) -> Iterator[GoldenItem]:
        text = self.path.read_text(encoding="utf-8")
        comment = comment_of(self.path)
        runs = parse_runs(text, comment)
        if len(runs) > 1 and split_blessed(text, comment) is not None:
            raise GoldenError("a file with exact output (BLESS) has one RUN line")
        for run in runs:
            label = f"line {run.line}"
            yield GoldenItem.from_parent(self, name=label, run=run)  # pyright: ignore[reportUnknownMemberType]

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> str:  # type: ignore[override]
        if isinstance(excinfo.value, GoldenError):
            return f"{self.path}: {excinfo.value}"
        return str(super().repr_failure(excinfo))


class GoldenItem(pytest.Item):
    """One command of a golden file."""

    def __init__(self, *, run: Run, **kwargs: object) -> None:
        super().__init__(**kwargs)  # type: ignore[arg-type]
        self.command = run

    def runtest(self) -> None:
        name = self.path.relative_to(self.config.rootpath).as_posix()
        with contextlib.chdir(self.config.rootpath):
            if self.config.getoption("--bless") and split_blessed(
                self.path.read_text(encoding="utf-8"), comment_of(self.path)
            ):
                bless_file(self.path, self.command, name)
            check_file(self.path, self.command, name)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> str:  # type: ignore[override]
        if isinstance(excinfo.value, GoldenError | GoldenMismatch):
            name = self.path.relative_to(self.config.rootpath).as_posix()
            command = " ".join(self.command.argv).replace("graphc-opt", "graphc opt", 1)
            return (
                f"{name}:{self.command.line}: {excinfo.value}\n"
                f"run it yourself: {command.replace('%s', name)}"
            )
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.command.line - 1, f"{self.path.name}, {self.name}"


def collect_golden(file_path: Path, parent: pytest.Collector, folder: Path) -> GoldenFile | None:
    """The hook of `conftest.py`: golden files are those with a known suffix inside `folder`."""
    if file_path.suffix in COMMENTS and folder in file_path.parents:
        return GoldenFile.from_parent(parent, path=file_path)  # pyright: ignore[reportUnknownMemberType]
    return None
