"""Tokens of NDL: words, numbers, quoted text, brackets and separators.

Words are taken as the toolkit takes them: everything up to a blank, a bracket, a separator, `=` or
a quote. What a word is, is decided from its text: a number, a name, or other text (a file path).
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from typing import Literal

from graphc.support.diagnostics import DiagnosticSink, fail
from graphc_frontends.ndl.preprocess import PlainText

TokenKind = Literal[
    "name", "number", "text", "string", "newline", "end", "(", ")", "[", "]", "{", "}", "=", ",",
    ";", ":",
]  # fmt: skip

MAX_TOKENS = 1_000_000  # some 100,000 statements; a token takes over 100 bytes
MAX_NAME = 256  # characters
MAX_NUMBER = 64
MAX_WORD = 65_536

# Right after an opening bracket, one of these separates the parts of that bracket: `[|a=1|b=2]`.
# The toolkit's list also has $ _ - + and a full stop, and so loses the sign of `Constant(-1)`.
OWN_SEPARATORS = frozenset("`~!@%^&*|:;,?")


@functools.cache
def _token_pattern(separator: str) -> re.Pattern[str]:
    """What comes next in a bracket of this separator; blank lines are part of a line's end."""
    own = re.escape(separator)
    return re.compile(
        r"(?P<blank>[ \t]+)"
        r"|(?P<newline>[\r\n][ \t\r\n]*)"
        r"|(?P<mark>[()\[\]{}=,;:])"
        r'|(?P<string>"[^"\r\n]*"?)'
        + (f"|(?P<separator>{own})" if separator else "")
        + rf'|(?P<word>[^\s()\[\]{{}}=,;:"{own}]+)'
        r"|(?P<other>.)",
        re.DOTALL,
    )


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*")
_NUMBER = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(#[iI][nN][fF])?")
_NUMBER_LIKE = re.compile(r"[+.eE-]*[0-9][+.0-9eE-]*")


@dataclass(frozen=True, slots=True)
class Token:
    """`text` as written (a string without its quotes), at text[start:end] of the plain text."""

    kind: TokenKind
    text: str
    start: int
    end: int


def number_value(text: str) -> float | None:
    """The value of a numeric constant, `1#INF` among them, or None if `text` is none.

    A number too large for 64 bits is none either.
    """
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    value = float(found[1])
    if found[2]:
        return math.copysign(math.inf, value)
    return None if math.isinf(value) else value


def tokenize(
    plain: PlainText, sink: DiagnosticSink, *, separators: frozenset[str] = OWN_SEPARATORS
) -> list[Token]:
    """The tokens of a text, an `end` token last. Reports what is no token and goes on.

    separators  what right after an opening bracket separates the parts of that bracket

    Raises GraphcError for more than `MAX_TOKENS`.
    """
    nul = plain.text.find("\0")
    if nul >= 0:
        sink.error("lexical", "text is required, got a NUL byte", plain.span(nul, nul + 1))
        return [Token("end", "", nul, nul)]
    tokens: list[Token] = []
    own_separators: list[str] = []  # of the open brackets, "" where there is none
    position = 0
    while position < len(plain.text):
        separator = own_separators[-1] if own_separators else ""
        match = _token_pattern(separator).match(plain.text, position)
        assert match is not None, "the last alternative takes any character"
        position = match.end()
        if match["mark"]:
            _update_separators(own_separators, plain.text, match, separators)
        token = _token(plain, match.start(), position, match.lastgroup or "", separator, sink)
        if token is None:
            continue
        if len(tokens) == MAX_TOKENS:
            message = f"a text has at most {MAX_TOKENS} words and marks, got more"
            raise fail("limit", message, plain.span(match.start(), position))
        tokens.append(token)
    tokens.append(Token("end", "", len(plain.text), len(plain.text)))
    return tokens


def _update_separators(
    own_separators: list[str], text: str, match: re.Match[str], separators: frozenset[str]
) -> None:
    """Push for an opening bracket, pop for a closing one."""
    if match["mark"] in "([{":
        following = text[match.end() : match.end() + 1]
        own_separators.append(following if following in separators else "")
    elif match["mark"] in ")]}" and own_separators:
        own_separators.pop()


def _token(
    plain: PlainText, start: int, end: int, group: str, separator: str, sink: DiagnosticSink
) -> Token | None:
    """The token for text[start:end], None for blanks and for what is reported as no token."""
    text = plain.text[start:end]
    if group == "blank":
        return None
    if group == "newline":
        return Token("newline", text, start, end)
    if group == "other" or not text.isprintable():
        _report_unprintable(plain, start, end, sink)
        return None if group == "other" else Token("text", text, start, end)
    if text == separator:
        return Token(",", text, start, end)
    if group == "mark":
        return Token(text, text, start, end)  # pyright: ignore[reportArgumentType]
    if group == "string":
        if len(text) == 1 or not text.endswith('"'):
            sink.error("lexical", "a quote has to be closed on its line", plain.span(start, end))
        return Token("string", text.strip('"'), start, end)
    return Token(_word_kind(plain, text, start, end, sink), text, start, end)


def _word_kind(
    plain: PlainText, word: str, start: int, end: int, sink: DiagnosticSink
) -> Literal["name", "number", "text"]:
    kind: Literal["name", "number", "text"] = "text"
    limit = MAX_WORD
    if number_value(word) is not None:
        kind, limit = "number", MAX_NUMBER
    elif _NAME.fullmatch(word):
        kind, limit = "name", MAX_NAME
    elif _NUMBER_LIKE.fullmatch(word):
        message = "a number is written like 12, -0.5 or 1e-3 and fits in 64 bits, got"
        sink.error("lexical", f"{message} `{word[:MAX_NUMBER]}`", plain.span(start, end))
        kind = "number"
    if len(word) > limit:
        message = f"a {'word' if kind == 'text' else kind} has at most {limit} characters, got"
        sink.error("limit", f"{message} {len(word)}", plain.span(start, end))
    return kind


def _report_unprintable(plain: PlainText, start: int, end: int, sink: DiagnosticSink) -> None:
    for offset in range(start, end):
        character = plain.text[offset]
        if not character.isprintable():
            message = f"a printable character is required, got U+{ord(character):04X}"
            sink.error("lexical", message, plain.span(offset, offset + 1))
            return
