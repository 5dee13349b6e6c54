"""Goes through the tokens of IR text and reports what does not fit; the parser stands on it."""

from __future__ import annotations

from graphc.ir.lexer import Token, token_span, tokenize
from graphc.support.diagnostics import DiagnosticSink
from graphc.support.source import SourceFile, Span

MAX_ERRORS = 100


class Misread(Exception):
    """Raised inside the parser after the message went to the sink; caught where it resumes."""


class TokenReader:
    """A place among the tokens of a text. Not for use outside of the parser that it is part of."""

    def __init__(self, source: SourceFile, sink: DiagnosticSink) -> None:
        self._source = source
        self._sink = sink
        self._tokens = tokenize(source, sink)
        self._at = 0
        self._errors = 0

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _at_end(self) -> bool:
        return self._token.kind == "end"

    def _advance(self) -> Token:
        token = self._token
        if token.kind != "end":
            self._at += 1
        return token

    def _is(self, text: str) -> bool:
        return self._token.text == text and self._token.kind in ("punct", "name")

    def _accept(self, text: str) -> bool:
        if self._is(text):
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> Token:
        if not self._is(text):
            raise self._error(f"`{text}` is required here, got {self._seen()}")
        return self._advance()

    def _expect_kind(self, kind: str, what: str) -> Token:
        if self._token.kind != kind:
            raise self._error(f"{what} is required here, got {self._seen()}")
        return self._advance()

    def _seen(self) -> str:
        return f"`{self._token.text}`" if self._token.kind != "end" else "the end of the text"

    def _span(self, token: Token) -> Span:
        return token_span(self._source, token)

    def _error(self, message: str, token: Token | None = None, slug: str = "parse") -> Misread:
        """Report at `token`; after `MAX_ERRORS` reports the rest of the text is passed over.

        What is wrong with a `wrong` token has been said.
        """
        token = token or self._token
        self._errors += 1
        if self._errors <= MAX_ERRORS:
            if token.kind != "wrong":
                self._sink.error(slug, message, self._span(token))
        else:
            self._at = len(self._tokens) - 1
        return Misread()
