"""A place in the tokens of a text: what the parser looks at, takes and complains about.

Nothing here knows the grammar; see `parser.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.support.diagnostics import GraphcError, fail
from graphc.support.source import Span
from graphc_frontends.ndl.ast import Name
from graphc_frontends.ndl.lexer import Token
from graphc_frontends.ndl.preprocess import PlainText

OPENERS = {"(": ")", "[": "]", "{": "}"}
CLOSERS = frozenset(OPENERS.values())


class Cursor:
    """Tokens and the index `at` of the current one; the last token is always `end`."""

    def __init__(self, tokens: Sequence[Token], plain: PlainText) -> None:
        self.tokens = list(tokens)
        self.plain = plain
        self.at = 0
        self.matching = _matching_brackets(tokens)

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def is_at(self, *kinds: str) -> bool:
        """Whether the current token is of one of these kinds."""
        return self.token.kind in kinds

    def peek(self, distance: int = 1) -> str:
        """The kind of a later token."""
        index = self.at + distance
        return self.tokens[index].kind if index < len(self.tokens) else "end"

    def advance(self) -> Token:
        """Take the current token; the end is never taken."""
        token = self.token
        if token.kind != "end":
            self.at += 1
        return token

    def name(self) -> Name:
        """Take the current token as a name."""
        token = self.advance()
        return Name(token.text, self.span(token), token.kind == "string")

    def skip_newlines(self) -> None:
        while self.is_at("newline"):
            self.at += 1

    def span(self, first: Token, last: Token | None = None) -> Span:
        """The place of a token, or of all from `first` to `last`."""
        return self.plain.span(first.start, (last or first).end)

    def expected(self, what: str) -> GraphcError:
        """The error that `what` is required where the current token is."""
        token = self.token
        span = self.span(token)
        if token.kind == "text" and any(sign in token.text for sign in "+-*/"):
            message = f"{what} is required, got {describe(token)}; NDL has no operators"
            return fail("parse", f"{message}, write `Plus(a, b)` or `Times(a, b)`", span)
        return fail("parse", f"{what} is required, got {describe(token)}", span)


def describe(token: Token) -> str:
    """A token as a message names it."""
    if token.kind == "newline":
        return "the end of the line"
    if token.kind == "end":
        return "the end of the section" if token.text else "the end of the text"
    return f"`{token.text}`" if len(token.text) <= 40 else f"`{token.text[:40]}…`"


def _matching_brackets(tokens: Sequence[Token]) -> dict[int, int]:
    """The index of the closing bracket for each opening one that has it.

    A bracket that is still open where one around it is closed has none: it does not reach out of
    what surrounds it, so a mistake in one section leaves the others alone.
    """
    matching: dict[int, int] = {}
    open_at: list[int] = []
    open_for = dict.fromkeys(CLOSERS, 0)
    for index, token in enumerate(tokens):
        if token.kind in OPENERS:
            open_at.append(index)
            open_for[OPENERS[token.kind]] += 1
        elif token.kind in CLOSERS and open_for[token.kind]:
            while (closer := OPENERS[tokens[open_at[-1]].kind]) != token.kind:
                open_for[closer] -= 1
                open_at.pop()
            open_for[token.kind] -= 1
            matching[open_at.pop()] = index
    return matching
