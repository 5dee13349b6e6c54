"""Tokens of the IR's text form. Positions are offsets; `SourceFile.span` turns them into spans."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast

from graphc.support.diagnostics import DiagnosticSink, printable
from graphc.support.source import SourceFile, Span

Kind = Literal["value", "symbol", "name", "number", "string", "type", "punct", "end", "wrong"]

MAX_ERRORS = 100
"""Lexical mistakes after which the rest of a text is not read: it is no IR text."""

_TOKEN = re.compile(
    r"""
      (?P<skip>(?:[ \t\r\n]+|//[^\n]*)+)
    | (?P<type>(?:tensor|matrix)<[^<>\n]*>)
    | (?P<value>%(?:[A-Za-z_][A-Za-z0-9_.]*|[0-9]+|"(?:[^"\\\n]|\\.)*"))
    | (?P<symbol>@(?:[A-Za-z_][A-Za-z0-9_.]*|"(?:[^"\\\n]|\\.)*"))
    | (?P<number>-?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|inf\b|nan\b))
    | (?P<name>[A-Za-z_][A-Za-z0-9_.]*)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<punct>->|<=|[{}()\[\],=:^*/+-])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token: kind, text as written, offset in the source."""

    kind: Kind
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def tokenize(source: SourceFile, sink: DiagnosticSink) -> list[Token]:
    """The tokens, closed by an `end` token; what starts none is reported and is a `wrong` one."""
    text, tokens, at, errors = source.text, [], 0, 0
    while at < len(text) and errors < MAX_ERRORS:
        match = _TOKEN.match(text, at)
        if match is None:
            errors += 1
            after = _report(source, at, sink)
            tokens.append(Token("wrong", text[at:after], at))
            at = after
            continue
        if match.lastgroup != "skip":
            kind = cast(Kind, match.lastgroup)  # the groups are named after the kinds
            tokens.append(Token(kind, match.group(), at))
        at = match.end()
    if errors == MAX_ERRORS:
        sink.error("limit", f"{MAX_ERRORS} mistakes: the rest is not read", source.span(at, at))
    tokens.append(Token("end", "", at))
    return tokens


def _report(source: SourceFile, at: int, sink: DiagnosticSink) -> int:
    """Say that no token starts at `at`; the offset to go on at.

    After an unclosed string that is the next line: looking for strings inside it would take a time
    that grows with the square of its length.
    """
    text = source.text
    quote = at + (text[at] in "%@")
    if text[quote : quote + 1] == '"':
        sink.error(
            "lexical",
            'a string ends on the line it starts on, with `"`',
            source.span(at, quote + 1),
        )
        line_end = text.find("\n", at)
        return len(text) if line_end < 0 else line_end
    sink.error(
        "lexical",
        f"`{printable(text[at])}` starts no token of the IR text",
        source.span(at, at + 1),
    )
    return at + 1


_ESCAPE = re.compile(r'\\(u\{[0-9a-fA-F]{1,6}\}|["\\nrt])|\\')
_PLAIN = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}


def unquote(text: str) -> str | None:
    """The content of a string literal with its quotes; None for an escape that does not exist."""
    bad = False

    def replace(match: re.Match[str]) -> str:
        nonlocal bad
        code = match.group(1)
        if code is None:
            bad = True
            return ""
        if code[0] != "u":
            return _PLAIN[code]
        number = int(code[2:-1], 16)
        if number > 0x10FFFF:
            bad = True
            return ""
        return chr(number)

    content = _ESCAPE.sub(replace, text[1:-1])
    return None if bad else content


def token_span(source: SourceFile, token: Token) -> Span:
    return source.span(token.start, max(token.end, token.start + 1))
