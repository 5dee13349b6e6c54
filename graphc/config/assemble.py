"""Joins the files and arguments of a command line to the one text that a configuration is.

    configFile=a.config+b.config    files, one after the other
    include=c.config                on a line of a file: that file, in its place
    train=[SGD=[maxEpochs=3]]       any other argument: a line, after what stands before it

A later value wins and sets are merged, so arguments behind the files override them. Each file is
read once: a second `configFile` of it is an error, a second `include` leaves nothing and warns.
Relative names of included files start at the working directory, else beside the file that names
them. `#` at the start of a line or after a blank begins a comment; quotes do not protect it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from graphc.config.text import Text, joined
from graphc.support.diagnostics import DiagnosticSink, fail, warn
from graphc.support.files import read_regular_file
from graphc.support.source import SourceFile, Span

MAX_CHARACTERS = 1 << 24  # of all files together
MAX_FILES = 1000
MAX_DEPTH = 100  # files that include files

COMMAND_LINE = "<command line>"

_CONFIG_FILE = re.compile(r"\s*configFile\s*=(?P<files>.*)", re.IGNORECASE | re.DOTALL)
_INCLUDE = re.compile(r"^[ \t]*include[ \t]*=(?P<files>[^\r\n]*)", re.IGNORECASE | re.MULTILINE)
_COMMENT = re.compile(r"(?:^|(?<=[ \t]))#[^\r\n]*", re.MULTILINE)


def assemble(arguments: Sequence[str]) -> Text:
    """The text of a command line. GraphcError `file` for a file that cannot be read,
    `duplicate-name` for one that is given twice, `limit` for too much text."""
    line = SourceFile(COMMAND_LINE, "\n".join(arguments))
    files = _Files()
    parts: list[Text] = []
    start = 0
    for argument in arguments:
        end = start + len(argument)
        named = _CONFIG_FILE.fullmatch(argument)
        if named is None:
            parts.append(files.counted(Text.of(line).part(start, end)))
        else:
            place = line.span(start, end)
            for name in _names(named["files"]):
                parts += files.read(_existing(name, None, place), place, 0)
        start = end + 1
    files.sink.raise_if_errors()
    warn(files.sink.diagnostics)
    return joined(parts, "\n") if parts else Text.of(line)


def assemble_text(text: str, name: str = "<text>") -> Text:
    """The configuration in a text, which may include files."""
    files = _Files()
    parts = files.included(SourceFile(name, text), 0)
    warn(files.sink.diagnostics)
    return joined(parts)


@dataclass
class _Files:
    """What was read so far."""

    seen: dict[Path, str] = field(default_factory=dict[Path, str])
    size: int = 0
    sink: DiagnosticSink = field(default_factory=DiagnosticSink)

    def read(self, path: Path, place: Span, depth: int) -> list[Text]:
        """The text of a file with what it includes. The file was not read before."""
        real = path.resolve()
        if real in self.seen:
            raise fail("duplicate-name", f"the file {path} is given twice", place)
        if len(self.seen) >= MAX_FILES or depth > MAX_DEPTH:
            raise fail("limit", f"{MAX_FILES} files, {MAX_DEPTH} deep, are the most", place)
        self.seen[real] = str(path)
        return self.included(SourceFile(str(path), _read_text(path)), depth)

    def included(self, source: SourceFile, depth: int) -> list[Text]:
        """A text without comments, with the files that it includes in their places."""
        whole = Text.of(source)
        plain = Text(_COMMENT.sub(lambda m: " " * len(m[0]), source.text), whole.pieces)
        self.counted(plain)
        parts: list[Text] = []
        done = 0
        for line in _INCLUDE.finditer(plain.chars):
            parts.append(plain.part(done, line.start()))
            place = source.span(line.start("files"), line.end())
            for name in _names(line["files"]):
                parts += self._include(_existing(name, Path(source.name), place), place, depth)
            done = line.end()
        return [*parts, plain.part(done, len(plain.chars))]

    def counted(self, text: Text) -> Text:
        self.size += len(text.chars)
        if self.size > MAX_CHARACTERS:
            message = f"a configuration may have {MAX_CHARACTERS} characters in all"
            raise fail("limit", message, text.span(0, 1))
        return text

    def _include(self, path: Path, place: Span, depth: int) -> list[Text]:
        if path.resolve() in self.seen:
            self.sink.warning("duplicate-name", f"{path} is there already: not read again", place)
            return []
        return self.read(path, place, depth + 1)


def _names(files: str) -> list[str]:
    """The names in `a+b`."""
    names = (name.strip().strip('"') for name in files.split("+"))
    return [name for name in names if name]


def _existing(name: str, beside: Path | None, place: Span) -> Path:
    """The file of that name. GraphcError `file` if there is none."""
    if "\0" in name:
        raise fail("file", "a file name without NUL is required", place)
    given = Path(name.replace("\\", "/"))
    for path in (given, *((beside.parent / given,) if beside is not None else ())):
        try:
            if path.exists():
                return path
        except OSError:  # a name that is too long for the system
            break
    raise fail("file", f"there is no file `{name}`", place)


def _read_text(path: Path) -> str:
    content = read_regular_file(path, 4 * MAX_CHARACTERS)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise fail(
            "lexical", f"{path} requires UTF-8 text: {error.reason} at byte {error.start}"
        ) from None
