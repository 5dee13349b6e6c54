"""Excerpts in documents: what commands print, written between markers by `docs/generate.py`.

    <!-- excerpt
    $ graphc dump digits.ndl --stage tensor > digits.gir
    $ graphc diff digits.gir -p cse
    show: matmul|operations:
    -->

    …

    <!-- end of excerpt -->

The commands run in this process, those of a page one after the other in one folder, without a
shell. `> FILE` keeps what a command prints, and `sed s/A/B/ FILE > FILE` makes a variant of a text.
What the last command of a marker printed stands below it:

* `hide:` leaves the excerpt out: the commands prepare something that is not worth showing.
* `show: REGEX` keeps the lines in which something matches, an operation with its body. `…` stands
  for what is between them. A REGEX that matches nothing is an error.
* `lines: REGEX to REGEX` keeps the first line that matches and what follows up to the second.
* `drop: REGEX` deletes what matches from each line, as times that differ from run to run.

A line that is too long for a page ends in `…`. Pictures (`> NAME.svg`) belong to the page.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

from tests.support.commands import graphc

WIDTH = 110
DIFFERENT = 1  # exit code of `graphc diff` where there is a difference

_EXCERPT = re.compile(
    r"(?P<marker>^<!-- excerpt\n(?P<text>.*?)^-->\n).*?(?P<end>^<!-- end of excerpt -->\n)",
    re.MULTILINE | re.DOTALL,
)


class ExcerptError(Exception):
    """A command failed, or nothing of what it printed is to be shown."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What a marker says."""

    commands: tuple[str, ...]
    show: str | None = None
    lines: tuple[str, str] | None = None
    drop: str | None = None
    hide: bool = False


def filled(page: str, folder: Path) -> str:
    """The page with the excerpts as the commands give them now; they run in `folder`."""

    def fill(match: re.Match[str]) -> str:
        excerpt = parse(match["text"])
        # Without Graphviz: how that draws differs from version to version.
        with patch.object(shutil, "which", which_but_dot):
            return f"{match['marker']}{shown(excerpt, folder)}{match['end']}"

    return _EXCERPT.sub(fill, page)


def which_but_dot(program: str, which: Callable[[str], str | None] = shutil.which) -> str | None:
    """`shutil.which` on a machine without Graphviz."""
    return None if program == "dot" else which(program)


def parse(text: str) -> Excerpt:
    """The lines of a marker."""
    commands: list[str] = []
    excerpt = Excerpt(())
    for line in text.splitlines():
        keyword, _, value = line.partition(" ")
        first, _, last = value.partition(" to ")
        match keyword:
            case "$":
                commands.append(value)
            case "hide:":
                excerpt = replace(excerpt, hide=True)
            case "show:":
                excerpt = replace(excerpt, show=value)
            case "lines:" if last:
                excerpt = replace(excerpt, lines=(first, last))
            case "drop:":
                excerpt = replace(excerpt, drop=value)
            case _:
                raise ExcerptError(f"`$`, hide, show, lines or drop is required, got `{line}`")
    return replace(excerpt, commands=tuple(commands))


def shown(excerpt: Excerpt, folder: Path) -> str:
    """The block that stands for the excerpt, or nothing."""
    printed = ""
    for command in excerpt.commands:
        printed = run(command, folder)
    if excerpt.hide:
        return ""
    lines = printed.splitlines()
    if excerpt.drop is not None:
        lines = [rest for line in lines if (rest := re.sub(excerpt.drop, "", line))]
    if excerpt.lines is not None:
        lines = between(lines, *excerpt.lines)
    if excerpt.show is not None:
        lines = selected(lines, excerpt.show)
    commands = [f"$ {command}" for command in excerpt.commands]
    short = [line if len(line) <= WIDTH else f"{line[: WIDTH - 2]} …" for line in lines]
    return "\n".join(["", "```", *commands, *short, "```", "", ""])


def run(command: str, folder: Path) -> str:
    """What a command prints, on both streams; without what goes into a file."""
    words = shlex.split(command)
    target = None
    if words[-2:-1] == [">"]:
        target = folder / words[-1]
        words = words[:-2]
    match words:
        case ["graphc", *arguments]:
            out, err = run_graphc(arguments, folder)
        case ["sed", script, file]:
            _, old, new, _ = script.split("/")
            out, err = (folder / file).read_text(encoding="utf-8").replace(old, new), ""
        case _:
            raise ExcerptError(f"a command of graphc is required, got `{command}`")
    if target is None:
        return out + err
    target.write_text(out, encoding="utf-8")
    return err


def run_graphc(arguments: Sequence[str], folder: Path) -> tuple[str, str]:
    """Its two streams."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        done = graphc(*arguments)
    finally:
        os.chdir(before)
    if done.code not in (0, DIFFERENT if arguments[0] == "diff" else 0):
        raise ExcerptError(f"`graphc {shlex.join(arguments)}` ended with {done.code}: {done.err}")
    return done.out, done.err


def between(lines: Sequence[str], first: str, last: str) -> list[str]:
    """From the first line that matches `first` to the next one that matches `last`."""
    for start, line in enumerate(lines):
        if re.search(first, line):
            for end in range(start, len(lines)):
                if re.search(last, lines[end]):
                    return list(lines[start : end + 1])
    raise ExcerptError(f"nothing matches `{first}` to `{last}`")


def selected(lines: Sequence[str], pattern: str) -> list[str]:
    """The lines that match, with the bodies that they open; `…` for each gap between them."""
    wanted = re.compile(pattern)
    kept: list[str] = []
    gap, inside = False, None
    for line in lines:
        indent = len(line) - len(line.lstrip("+- "))
        if inside is None and wanted.search(line) is None:
            gap = True
            continue
        if gap:
            kept.append(f"{' ' * indent}…")
            gap = False
        kept.append(line)
        if inside is None and line.endswith("{") and indent:
            inside = indent
        elif inside is not None and indent <= inside and line.strip("+- ").startswith("}"):
            inside = None
    if not kept:
        raise ExcerptError(f"nothing matches `{pattern}`")
    return [*kept, "…"] if gap else kept
