"""The text that `graphc opt` works on: files by their suffix, stdin, and sections of one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from graphc.cli.streams import StandardStream
from graphc.support.diagnostics import fail
from graphc.support.files import read_text

COMMENTS = {".gir": "//", ".ndl": "#"}


@dataclass(frozen=True, slots=True)
class Section:
    """One text to work on. Line numbers are those of the file: blank lines stand before it.

    file    its name in messages
    text    what it says
    suffix  `.gir` or `.ndl`: the language
    """

    file: str
    text: str
    suffix: str

    @property
    def comment(self) -> str:
        """What starts a comment."""
        return COMMENTS[self.suffix]


def read_sections(file: str, stdin: TextIO | StandardStream, *, split: bool) -> list[Section]:
    """The sections of a file, or of stdin for `-`; one unless `split`. Stdin holds IR text.

    GraphcError `file` if it cannot be read, `limit` if it is too large, `bad-option` for a suffix
    that is none of a network's or IR's text, `lexical` if it is not UTF-8.
    """
    if file == "-":
        name, text, suffix = "<stdin>", stdin.read(), ".gir"
    else:
        name, suffix = file, Path(file).suffix.lower()
        if suffix not in COMMENTS:
            known = " or ".join(COMMENTS)
            raise fail("bad-option", f"a file that ends in {known} is required, got `{file}`")
        text = read_text(Path(file))
    if not split:
        return [Section(name, text, suffix)]
    return [Section(name, part, suffix) for part in split_text(text, COMMENTS[suffix])]


def split_text(text: str, comment: str) -> list[str]:
    """The parts between lines that hold only `// -----`, each at its own line numbers."""
    parts: list[list[str]] = [[]]
    for number, line in enumerate(text.splitlines(keepends=True)):
        if line.strip() == f"{comment} -----":
            parts.append(["\n"] * (number + 1))
        else:
            parts[-1].append(line)
    return ["".join(part) for part in parts]
