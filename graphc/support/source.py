"""Where things come from: source files, spans of text, and the locations that IR operations carry.

A `Span` is one stretch of one line; a `Location` is what an operation remembers: its span, the
macro calls that led there, and the locations merged into it. Only spans of Python code, which have
no `SourceFile`, look at a file: the interpreter's own line cache.
"""

from __future__ import annotations

import linecache
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True, eq=False)
class SourceFile:
    """A named text. `name` is what diagnostics print; it need not exist on disk."""

    name: str
    text: str

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        starts.extend(i + 1 for i, c in enumerate(self.text) if c == "\n")
        return starts

    def line_text(self, line: int) -> str | None:
        """Line number `line` (from 1) without its line end, or None past the end."""
        starts = self._line_starts
        if not 1 <= line <= len(starts):
            return None
        end = starts[line] - 1 if line < len(starts) else len(self.text)
        return self.text[starts[line - 1] : end].rstrip("\r")

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1, of a character offset."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def span(self, start: int, end: int) -> Span:
        """The span of text[start:end], cut at the end of its first line."""
        line, column = self.position(start)
        text = self.line_text(line) or ""
        end_column = min(column + max(end - start, 1), max(len(text) + 1, column + 1))
        return Span(self.name, line, column, end_column, self)


@dataclass(frozen=True, slots=True)
class Span:
    """Columns `column` to `end_column` (exclusive) of one line; lines and columns count from 1."""

    file: str
    line: int
    column: int
    end_column: int
    source: SourceFile | None = field(default=None, compare=False, repr=False)

    def line_text(self) -> str | None:
        """The text of the line, or None where the source is not at hand."""
        if self.source is not None:
            return self.source.line_text(self.line) if self.source.text else None
        try:
            return linecache.getline(self.file, self.line).rstrip("\r\n") or None
        except ValueError:  # a name with a zero character, which no file has
            return None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Location:
    """Where an operation came from.

    span         the text that made it, None if unknown
    called_from  for text inside a macro: the location of the call, outermost last
    merged       locations of operations that were merged into this one
    node         what it computes a part of: a node of the network, `d.NODE` for its gradient. The
                 text form names values by it; it says nothing of the place and is not compared
    """

    span: Span | None = None
    called_from: Location | None = None
    merged: tuple[Location, ...] = ()
    node: str = field(default="", compare=False)

    @property
    def is_known(self) -> bool:
        return self.span is not None

    def within(self, node: str) -> Location:
        """The same place, as a part of `node`."""
        return Location(self.span, self.called_from, self.merged, node)

    def call_path(self) -> Iterator[Span]:
        """Spans of the macro calls around this location, innermost first."""
        caller = self.called_from
        while caller is not None:
            if caller.span is not None:
                yield caller.span
            caller = caller.called_from

    def __str__(self) -> str:
        return "unknown" if self.span is None else str(self.span)


UNKNOWN = Location()

NOT_AT_HAND = SourceFile("", "")
"""The source of spans that were only read about: no message shows their text."""

MAX_MERGED = 8
"""Locations kept beside the first one; thousands of equal operations may become one."""


def merge_locations(locations: Sequence[Location]) -> Location:
    """The location of an operation that stands for several: the first known one leads.

    Keeps the first `MAX_MERGED` others that differ, as one flat list.
    """
    known: dict[Location, None] = {}
    for location in locations:
        own = Location(location.span, location.called_from, (), location.node)
        for part in (own, *location.merged):
            if part.is_known and len(known) <= MAX_MERGED:
                known[part] = None
    if not known:
        return locations[0] if locations else UNKNOWN
    first, *others = known
    return Location(first.span, first.called_from, tuple(others), first.node)
