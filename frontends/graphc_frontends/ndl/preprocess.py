"""First step of reading NDL: comments go, `$name$` is replaced, and places are remembered.

The result is a plain text for the lexer, with a map back to the file: a token that came out of a
`$name$` is reported at that `$name$`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from graphc.support.diagnostics import DiagnosticSink, GraphcError, fail, suggestion
from graphc.support.source import SourceFile, Span

MAX_TEXT = 16_000_000  # characters, before and after substitution
MAX_VALUE = 65_536  # characters of one substituted value
MAX_NESTING = 16  # $a$ in the value of $b$ in the value of …

# A comment starts at a line's start, after a blank, a bracket or a separator. The `#` of
# 1#INF does neither. Quotes do not protect it: the toolkit removes comments before it sees them.
_COMMENT = r"(?<![^\s()\[\]{},;])#[^\r\n]*"
_VARIABLE = r"\$(?P<name>[^\s$,/<>?;':\"\[\]{}\\|!@#%^&*()+=~`]+)\$"
_MARK = re.compile(rf"(?P<comment>{_COMMENT})|{_VARIABLE}|\$")


@dataclass(frozen=True, slots=True)
class _Piece:
    """Text from `start` on came from source[origin:origin_end]."""

    start: int
    origin: int
    origin_end: int
    is_copy: bool


@dataclass(frozen=True, slots=True)
class PlainText:
    """Text without comments and variables, and where each part of it came from."""

    text: str
    source: SourceFile
    pieces: tuple[_Piece, ...]
    starts: tuple[int, ...]

    def span(self, start: int, end: int) -> Span:
        """The place in the file of text[start:end]."""
        first = self._origin(start)[0]
        last = self._origin(max(end - 1, start))[1]
        return self.source.span(first, max(last, first))

    def _origin(self, offset: int) -> tuple[int, int]:
        """Where the character at `offset` starts and ends in the file."""
        if offset >= len(self.text):
            return len(self.source.text), len(self.source.text)
        piece = self.pieces[bisect_right(self.starts, offset) - 1]
        if not piece.is_copy:
            return piece.origin, piece.origin_end
        origin = piece.origin + offset - piece.start
        return origin, origin + 1


def preprocess(source: SourceFile, variables: Mapping[str, str], sink: DiagnosticSink) -> PlainText:
    """Remove comments and put in `variables` (keys in lower case). Reports into `sink`."""
    if len(source.text) > MAX_TEXT:
        message = f"a text has at most {MAX_TEXT} characters, got {len(source.text)}"
        raise fail("limit", message, source.span(0, 1))
    parts: list[str] = []
    pieces: list[_Piece] = []
    length = done = 0

    def add(text: str, origin: int, origin_end: int, is_copy: bool) -> None:
        nonlocal length
        if text:
            parts.append(text)
            pieces.append(_Piece(length, origin, origin_end, is_copy))
            length += len(text)

    for mark in _MARK.finditer(source.text):
        add(source.text[done : mark.start()], done, mark.start(), True)
        done = mark.end()
        if mark["comment"] is None:
            value = _substitute(mark, source, variables, sink)
            if length + len(value) > MAX_TEXT:
                raise fail(
                    "limit",
                    f"with every $name$ replaced the text has more than {MAX_TEXT} characters",
                    source.span(mark.start(), mark.end()),
                )
            add(value, mark.start(), mark.end(), False)
    add(source.text[done:], done, len(source.text), True)
    return PlainText("".join(parts), source, tuple(pieces), tuple(p.start for p in pieces))


def _substitute(
    mark: re.Match[str], source: SourceFile, variables: Mapping[str, str], sink: DiagnosticSink
) -> str:
    """The text for one `$name$`; after an error a text that seldom causes another."""
    span = source.span(mark.start(), mark.end())
    if mark["name"] is None:
        sink.error("lexical", "a variable is written `$name$`, got a `$` alone", span)
        return ""
    try:
        return _value(mark["name"], variables, span, nesting=1)
    except GraphcError as error:
        sink.extend(error.diagnostics)
        return "1"


def _value(name: str, variables: Mapping[str, str], span: Span, nesting: int) -> str:
    """The value of a variable with the variables inside it replaced too."""
    value = variables.get(name.lower())
    if value is None:
        known = suggestion(name, variables)
        raise fail("undefined-name", f"`${name}$` is given no value by any define{known}", span)
    if not value:
        raise fail("bad-value", f"the define `{name}` needs a value, got empty text", span)
    if "\n" in value or "\r" in value:
        raise fail("bad-value", f"the define `{name}` has to be one line, got several", span)
    if nesting > MAX_NESTING:
        raise fail("limit", f"`${name}$` leads through more than {MAX_NESTING} variables", span)
    done = 0
    parts: list[str] = []
    for mark in re.finditer(_VARIABLE, value):
        parts += value[done : mark.start()], _value(mark["name"], variables, span, nesting + 1)
        done = mark.end()
        if sum(map(len, parts)) > MAX_VALUE:
            break
    text = "".join([*parts, value[done:]])
    if len(text) > MAX_VALUE:
        raise fail("limit", f"the value of `${name}$` has more than {MAX_VALUE} characters", span)
    return text
