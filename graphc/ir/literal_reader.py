"""Reads the literals of IR text: settings, types, places and source locations.

What they are made of are the dims that the text has declared; `parser.py` reads the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction

from graphc.ir.lexer import Token, unquote
from graphc.ir.params import Literalish
from graphc.ir.placement import ADDRESS_KINDS, Address, Workspace, is_address_kind
from graphc.ir.token_reader import Misread, TokenReader
from graphc.ir.types import (
    Dim,
    DType,
    Image,
    MatrixDim,
    MatrixType,
    Samples,
    Symbol,
    TensorType,
    Type,
)
from graphc.support.diagnostics import DiagnosticSink
from graphc.support.source import NOT_AT_HAND, UNKNOWN, Location, SourceFile, Span

MAX_NESTING = 64
MAX_INTEGER = 2**63 - 1
_SAMPLES = re.compile(r"([1-9][0-9]{0,9})?\*(?:/([1-9][0-9]{0,9}))?")


class LiteralReader(TokenReader):
    """A place among the tokens, and the dims known there. Not for use outside of the parser."""

    def __init__(
        self, source: SourceFile, sink: DiagnosticSink, dims: Iterable[Symbol] = ()
    ) -> None:
        super().__init__(source, sink)
        self._dims: dict[str, Symbol] = {d.name: d for d in dims}

    # --- settings ------------------------------------------------------------------------

    def bare_params(self) -> dict[str, Literalish]:
        """Parameters without braces, up to the end of the text."""
        given: dict[str, Literalish] = {}
        try:
            while not self._at_end():
                self._param(given)
                if not self._at_end():
                    self._expect(",")
        except Misread:
            pass
        return given

    def _starts_params(self) -> bool:
        """`{name =` or `{}` opens params; any other `{` opens a region."""
        if not self._is("{"):
            return False
        following = self._tokens[self._at + 1 : self._at + 3]
        return len(following) == 2 and following[0].kind == "name" and following[1].text == "="

    def _params(self, depth: int = 0) -> dict[str, Literalish]:
        self._expect("{")
        given: dict[str, Literalish] = {}
        while not self._accept("}"):
            self._param(given, depth)
            if not self._is("}"):
                self._expect(",")
        return given

    def _param(self, given: dict[str, Literalish], depth: int = 0) -> None:
        name = self._expect_kind("name", "a parameter name")
        if name.text in given:
            raise self._error(f"parameter `{name.text}` is given twice", name)
        self._expect("=")
        given[name.text] = self._literal(depth)

    def _literal(self, depth: int) -> Literalish:
        if depth > MAX_NESTING:
            raise self._error(f"values may be nested at most {MAX_NESTING} deep", slug="limit")
        if self._accept("["):
            items: list[Literalish] = []
            while not self._accept("]"):
                items.append(self._literal(depth + 1))
                if not self._is("]"):
                    self._expect(",")
            return items
        if self._is("{"):
            return self._params(depth + 1)
        token = self._token
        if token.kind == "type":
            return self._type()
        if token.kind not in ("number", "string", "name"):
            raise self._error(f"a value is required, got {self._seen()}")
        self._advance()
        match token.kind:
            case "number":
                return self._number(token)
            case "string":
                return self._string(token)
            case _:
                return self._word(token)

    def _word(self, token: Token) -> Literalish:
        match token.text:
            case "true":
                return True
            case "false":
                return False
            case "none":
                return None
            case text if text in {d.value for d in DType}:
                return DType(text)
            case text if text in self._dims:
                return self._dims[text]
            case text:
                raise self._error(f"`{text}` is no value and no declared dimension", token)

    def _number(self, token: Token) -> int | float:
        if len(token.text) > 400:
            raise self._error("a number has at most 400 characters", token, "limit")
        if re.fullmatch(r"-?[0-9]+", token.text):
            return int(token.text)
        return float(token.text)

    def _integer(self, what: str) -> int:
        token = self._expect_kind("number", what)
        value = self._number(token)
        if isinstance(value, float):
            raise self._error(f"{what} is an integer, got `{token.text}`", token)
        if value < 0:
            raise self._error(f"{what} is not negative, got {value}", token)
        if value > MAX_INTEGER:
            raise self._error(f"{what} is at most {MAX_INTEGER}, got {value}", token, "limit")
        return value

    def _string(self, token: Token) -> str:
        content = unquote(token.text)
        if content is None:
            raise self._error('a string may hold the escapes \\n \\r \\t \\" \\\\ \\u{…}', token)
        return content

    def _plain_name(self, token: Token) -> str:
        """The name without sigil and quotes; '' for a numbered value."""
        text = token.text.lstrip("%@") if token.kind in ("value", "symbol") else token.text
        if text.startswith('"'):
            content = unquote(text)
            if content is None:
                raise self._error("a quoted name holds an unknown escape", token)
            return content
        return "" if text.isdigit() else text

    # --- types ---------------------------------------------------------------------------

    def _type(self) -> Type:
        token = self._expect_kind("type", "a type")
        kind, inside = token.text[:-1].split("<", 1)
        if kind == "matrix":
            return self._matrix_type(inside, token)
        parts = inside.split("x")
        try:
            dtype = DType(parts[-1])
        except ValueError:
            names = ", ".join(d.value for d in DType)
            raise self._error(
                f"an element type is one of {names}, got `{parts[-1]}`", token
            ) from None
        return TensorType(tuple(self._dim_of(p, token) for p in parts[:-1]), dtype)

    def _dim_of(self, text: str, token: Token) -> Dim:
        if text.isascii() and text.isdigit() and len(text) <= 19:
            return int(text)
        if text in self._dims:
            return self._dims[text]
        raise self._error(f"`{text}` is no size and no declared dimension", token, "undefined-name")

    def _matrix_type(self, inside: str, token: Token) -> MatrixType:
        sizes_text, is_image, image_text = inside.partition(" image ")
        sizes: list[MatrixDim] = []
        for part in sizes_text.split("x"):
            if part == "?":
                sizes.append(None)
            elif (samples := _SAMPLES.fullmatch(part)) is not None:
                sizes.append(Samples.of(Fraction(int(samples[1] or 1), int(samples[2] or 1))))
            elif part.isascii() and part.isdigit() and len(part) <= 19:
                sizes.append(int(part))
            else:
                raise self._error(f"`{part}` is no matrix size", token)
        if len(sizes) != 2 or isinstance(sizes[0], Samples):
            raise self._error("a matrix type is matrix<ROWSxCOLS>", token)
        rows, cols = sizes
        assert not isinstance(rows, Samples)
        if not is_image:
            return MatrixType(rows, cols)
        return MatrixType(rows, cols, self._image(image_text, rows, token))

    def _image(self, text: str, rows: int | None, token: Token) -> Image:
        parts = text.split("x")
        if len(parts) != 3 or not all(p.isascii() and p.isdigit() and len(p) <= 19 for p in parts):
            raise self._error("an image is WIDTHxHEIGHTxCHANNELS", token)
        image = Image(*map(int, parts))
        if image.rows != rows:
            raise self._error(f"an image {image} has {image.rows} rows, got `{token.text}`", token)
        return image

    # --- places --------------------------------------------------------------------------

    def _placement(self) -> tuple[Address, ...]:
        """`at arena:0, result:1`: a place for each result."""
        if not self._accept("at"):
            return ()
        found = [self._place()]
        while self._accept(","):
            found.append(self._place())
        return tuple(found)

    def _workspace(self) -> tuple[Workspace, ...]:
        """`workspace tensor<8xf32> at arena:0, …`: arrays, each with its place."""
        if not self._accept("workspace"):
            return ()
        found = [self._placed_array()]
        while self._accept(","):
            found.append(self._placed_array())
        return tuple(found)

    def _placed_array(self) -> Workspace:
        token, type = self._token, self._type()
        if not isinstance(type, TensorType):
            raise self._error(f"a workspace is a tensor, got {type}", token, "bad-value")
        self._expect("at")
        return Workspace(type, self._place())

    def _place(self) -> Address:
        token = self._expect_kind("name", f"a place ({', '.join(ADDRESS_KINDS)})")
        if not is_address_kind(token.text):
            kinds = ", ".join(ADDRESS_KINDS)
            raise self._error(f"a place is one of {kinds}, got `{token.text}`", token, "bad-value")
        self._expect(":")
        return Address(token.text, self._integer("an offset or an index"))

    # --- locations -----------------------------------------------------------------------

    def _location(self) -> Location:
        self._expect("loc")
        self._expect("(")
        if self._accept("unknown"):
            self._expect(")")
            return UNKNOWN
        chains = [self._location_chain()]
        while self._accept(","):
            chains.append(self._location_chain())
        self._expect(")")
        first = chains[0]
        return Location(first.span, first.called_from, tuple(chains[1:]))

    def _location_chain(self) -> Location:
        spans = [self._location_span()]
        while self._accept("from"):
            if len(spans) > MAX_NESTING:
                raise self._error(f"at most {MAX_NESTING} calls lead to a place", slug="limit")
            spans.append(self._location_span())
        location: Location | None = None
        for span in reversed(spans):
            location = Location(span, location)
        assert location is not None
        return location

    def _location_span(self) -> Span:
        file = self._string(self._expect_kind("string", "a file name"))
        self._expect(":")
        line = self._integer("a line")
        self._expect(":")
        column = self._integer("a column")
        # `3-9` lexes as 3 and -9: the end column follows as a negative number.
        token = self._expect_kind("number", "an end column (`-9`)")
        end = self._number(token)
        if not isinstance(end, int) or not -MAX_INTEGER <= end < 0:
            raise self._error(f"an end column (`-9`) is required, got `{token.text}`", token)
        return Span(file, line, column, -end, NOT_AT_HAND)
