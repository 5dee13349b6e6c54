"""Reads the IR's text form back (grammar: `docs/ir.md`); the exact inverse of `printer.py`.

Errors go to the sink with the span of the offending token; after one, parsing goes on at the next
line that starts an operation or a function, so one run reports them all. Types are taken as
printed: the verifier asks every operation again and compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from graphc.ir.context import Context
from graphc.ir.core import (
    CONTRACTION_MODES,
    Block,
    Function,
    Module,
    OpDef,
    Operation,
    Region,
    RegionKind,
    ResultInfo,
    Value,
)
from graphc.ir.lexer import Token, unquote
from graphc.ir.params import Literalish, NoParams, Params, ParamsError, make_params
from graphc.ir.placement import PLACE_KINDS, Place, Workspace, is_place_kind
from graphc.ir.token_reader import MAX_ERRORS, Misread, TokenReader
from graphc.ir.types import (
    DIM_NAME,
    Dim,
    DType,
    Image,
    MatrixDim,
    MatrixType,
    Samples,
    Symbol,
    TensorType,
    Type,
    part_of,
    product_of,
)
from graphc.support.diagnostics import DiagnosticSink, suggestion
from graphc.support.source import NOT_AT_HAND, UNKNOWN, Location, SourceFile, Span

MAX_NESTING = 64
MAX_INTEGER = 2**63 - 1
_SAMPLES = re.compile(r"([1-9][0-9]{0,9})?\*(?:/([1-9][0-9]{0,9}))?")
_ROLES = ("input", "parameter", "transposed", "state", "setting", "carried")


def parse_module(text: str, context: Context, *, file: str = "<text>") -> Module:
    """The module in `text`. Errors are in `context.sink`; what could be read is returned."""
    return _Parser(SourceFile(file, text), context).module()


def parse_params_text(
    text: str, sink: DiagnosticSink, dims: Iterable[Symbol] = (), *, file: str = "<text>"
) -> dict[str, Literalish]:
    """Settings as they stand between braces, `name = value, …`: the options of a pass.

    `dims` are the dimensions that a value may name. Errors are in `sink`; the first one ends the
    reading, and what came before it is returned.
    """
    parser = _Parser(SourceFile(file, text), Context({}, sink), dims)
    return parser.bare_params()


@dataclass
class _Scope:
    """Values of one region by printed name.

    unread   results of lines with a mistake: their uses are no further ones
    pending  operands of the whole function that wait for values, and the regions they are read in
    outer    of the region around it: to read what is there is legal text, but no legal IR
    """

    values: dict[str, Value] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    pending: list[tuple[Operation, list[Token], _Scope]] = field(default_factory=list)
    outer: _Scope | None = None

    def inner(self) -> _Scope:
        return _Scope({}, self.unread, self.pending, self)

    def find(self, name: str) -> Value | None:
        scope: _Scope | None = self
        while scope is not None and name not in scope.values:
            scope = scope.outer
        return scope.values[name] if scope is not None else None


class _Parser(TokenReader):
    def __init__(self, source: SourceFile, context: Context, dims: Iterable[Symbol] = ()) -> None:
        super().__init__(source, context.sink)
        self._context = context
        self._dims: dict[str, Symbol] = {d.name: d for d in dims}

    # --- module and functions --------------------------------------------------------------

    def module(self) -> Module:
        module = Module()
        names: set[str] = set()
        while self._token.kind != "end":
            start = self._at
            try:
                if self._is("dim"):
                    module.dims.append(self._dim())
                elif self._is("graph") or self._is("func"):
                    module.functions.append(self._function(names))
                else:
                    raise self._error(f"`dim`, `graph` or `func` is required, got {self._seen()}")
            except Misread:
                self._skip_to_top_level(start)
        return module

    def _skip_to_top_level(self, start: int) -> None:
        """Go on at the next declaration behind the token at index `start`."""
        if self._at == start:
            self._advance()
        while self._token.kind != "end" and not self._starts_top_level():
            self._advance()

    def _starts_top_level(self) -> bool:
        if self._is("dim"):  # and no parameter of that name
            return [t.text for t in self._tokens[self._at + 2 : self._at + 3]] in (["<="], ["="])
        return self._is("graph") or self._is("func")

    def _dim(self) -> Symbol:
        self._expect("dim")
        name = self._expect_kind("name", "a dimension name")
        try:
            symbol = self._dim_called(name.text)
        except Misread:  # its uses are no further mistakes
            self._dims.setdefault(name.text, Symbol(name.text, 1))
            raise
        if not DIM_NAME.fullmatch(name.text):
            raise self._error("a dimension name is capital letters and digits", name)
        if name.text in self._dims:
            raise self._error(f"dimension {name.text} is declared twice", name, "duplicate-name")
        self._dims[name.text] = symbol
        return symbol

    def _dim_called(self, name: str) -> Symbol:
        if self._accept("="):
            return self._made_of(name, self._factors())
        self._expect("<=")
        return Symbol(name, self._integer("a bound"))

    def _made_of(self, name: str, factors: Sequence[Symbol]) -> Symbol:
        """The product of `factors`, or of the only one what `* INTEGER / INTEGER` makes of it."""
        if len(factors) != 1:
            return product_of(name, factors)
        times = self._positive("a factor") if self._accept("*") else 1
        divisor = self._positive("a divisor") if self._accept("/") else 1
        if times == divisor == 1:
            return product_of(name, factors)
        return part_of(name, factors[0], divisor, times)

    def _positive(self, what: str) -> int:
        token = self._token
        value = self._integer(what)
        if not value:
            raise self._error(f"{what} is at least 1, got 0", token)
        return value

    def _factors(self) -> list[Symbol]:
        """`T * S`: dims that were declared before."""
        tokens = [self._expect_kind("name", "a dimension name")]
        while self._is("*") and self._tokens[self._at + 1].kind == "name":
            self._advance()
            tokens.append(self._expect_kind("name", "a dimension name"))
        for token in tokens:
            known = self._dims.get(token.text)
            if known is None or known.factors:
                message = f"`{token.text}` is no dimension with a bound declared before"
                raise self._error(message, token, "undefined-name")
        return [self._dims[token.text] for token in tokens]

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

    def _function(self, names: set[str]) -> Function:
        errors = self._errors
        kind = RegionKind(self._advance().text)
        name_token = self._expect_kind("symbol", "a function name (`@name`)")
        name = self._plain_name(name_token)
        if name in names:
            self._error(f"function @{name} is defined twice", name_token, "duplicate-name")
        names.add(name)
        function = Function(name, kind, location=Location(self._span(name_token)))
        scope = _Scope()
        if self._accept("("):
            self._arguments(function, scope)
        result_types: list[tuple[Type, Token]] = []
        if self._accept("->"):
            result_types = self._results(function)
        if self._accept("arena"):
            function.arena = self._integer("the arena's size")
        if self._accept("contraction"):
            token = self._expect_kind("name", "a mode of contraction")
            if token.text not in CONTRACTION_MODES:
                known = ", ".join(CONTRACTION_MODES)
                raise self._error(f"contraction is one of {known}, got `{token.text}`", token)
            function.contraction = token.text  # type: ignore[assignment]
        self._expect("{")
        self._body(function.block, scope, 0)
        self._expect("}")
        self._resolve(scope)
        if self._errors == errors:  # otherwise a value or the `return` itself may be missing
            self._compare_results(function, result_types)
        return function

    def _arguments(self, function: Function, scope: _Scope) -> None:
        while not self._accept(")"):
            token = self._expect_kind("value", "an argument (`%name`)")
            self._expect(":")
            type = self._type()
            role = self._expect_kind("name", "a role")
            if role.text not in _ROLES:
                raise self._error(f"a role is one of {', '.join(_ROLES)}, got `{role.text}`", role)
            value = function.add_argument(self._plain_name(token) or "", type, role.text)  # type: ignore[arg-type]
            self._define(scope, token, value)
            if not self._is(")"):
                self._expect(",")

    def _results(self, function: Function) -> list[tuple[Type, Token]]:
        self._expect("(")
        types: list[tuple[Type, Token]] = []
        while not self._accept(")"):
            if self._token.kind not in ("name", "string"):
                raise self._error(f"a result name is required, got {self._seen()}")
            token = self._advance()
            self._expect(":")
            types.append((self._type(), token))
            updates = None
            if self._accept("updates"):
                updates = self._plain_name(self._expect_kind("value", "an argument (`%name`)"))
            function.results.append(ResultInfo(self._plain_name(token), updates))
            if not self._is(")"):
                self._expect(",")
        return types

    def _compare_results(self, function: Function, declared: list[tuple[Type, Token]]) -> None:
        returned = function.returned
        if len(returned) != len(declared):
            self._sink.error(
                "parse",
                f"@{function.name} declares {len(declared)} results but returns {len(returned)}",
                function.location,
            )
            return
        for (type, token), value in zip(declared, returned, strict=True):
            if type != value.type:
                self._sink.error(
                    "parse", f"declared as {type} but {value.type} is returned", self._span(token)
                )

    # --- operations ------------------------------------------------------------------------

    def _body(self, block: Block, scope: _Scope, depth: int) -> None:
        while not self._is("}") and not self._is("^") and self._token.kind != "end":
            line_start = self._at
            try:
                self._operation(block, scope, depth)
            except Misread:
                scope.unread.update(self._results_at(line_start))
                self._skip_line(line_start)

    def _results_at(self, start: int) -> list[str]:
        """The values that the line of the token at index `start` gives names to."""
        at, names = start, list[str]()
        while (token := self._tokens[at]).kind == "value" or token.text == ",":
            names.append(token.text)
            at += 1
        return names if token.text == "=" else []

    def _skip_line(self, start: int) -> None:
        """Go on at the first token on a later line than the token at index `start`."""
        line, _ = self._source.position(self._tokens[start].start)
        self._at = max(self._at, start)
        while self._token.kind != "end":
            if self._source.position(self._token.start)[0] > line:
                return
            self._advance()

    def _operation(self, block: Block, scope: _Scope, depth: int) -> None:
        results: list[Token] = []
        if self._token.kind == "value":
            results = self._list("value", "a result (`%name`)")
            self._expect("=")
        op_token = self._expect_kind("name", "an operation name")
        opdef = self._context.ops.get(op_token.text)
        if opdef is None:
            near = suggestion(op_token.text, self._context.ops)
            raise self._error(f"no operation `{op_token.text}`{near}", op_token, "unknown-op")
        operands: list[Token] = []
        if self._token.kind == "value" and self._is_on_line_of(op_token):
            operands = self._list("value", "an operand")
        given = self._params() if self._starts_params() else {}
        schedule = self._schedule(opdef)
        placement = self._placement()
        workspace = self._workspace()
        types: list[Type] = []
        if self._accept(":"):
            types.append(self._type())
            while self._accept(","):
                types.append(self._type())
        if len(types) != len(results):
            raise self._error(f"{len(results)} results need {len(results)} types, got {len(types)}")
        location = self._location() if self._is("loc") else Location(self._span(op_token))
        regions = [self._region(scope.inner(), depth + 1)] if self._is("{") else []
        op = self._build(opdef, op_token, given, types, regions, location, results)
        op.schedule, op.placement, op.workspace = schedule, placement, workspace
        block.append(op)
        scope.pending.append((op, operands, scope))
        for token, value in zip(results, op.results, strict=True):
            self._define(scope, token, value)

    def _schedule(self, opdef: OpDef) -> Params:
        """`schedule {…}`, behind the params."""
        token = self._token
        if not self._accept("schedule"):
            return opdef.schedule()
        if opdef.schedule is NoParams:
            raise self._error(f"`{opdef.name}` has no schedule", token, "bad-value")
        return self._made(opdef.schedule, f"the schedule of {opdef.name}", self._params(), token)

    def _placement(self) -> tuple[Place, ...]:
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

    def _place(self) -> Place:
        token = self._expect_kind("name", f"a place ({', '.join(PLACE_KINDS)})")
        if not is_place_kind(token.text):
            kinds = ", ".join(PLACE_KINDS)
            raise self._error(f"a place is one of {kinds}, got `{token.text}`", token, "bad-value")
        self._expect(":")
        return Place(token.text, self._integer("an offset or an index"))

    def _is_on_line_of(self, earlier: Token) -> bool:
        """Whether no line ends between `earlier` and here; a value on a later line is a result."""
        return "\n" not in self._source.text[earlier.end : self._token.start]

    def _build(
        self,
        opdef: OpDef,
        token: Token,
        given: Mapping[str, Literalish],
        types: list[Type],
        regions: list[Region],
        location: Location,
        results: list[Token],
    ) -> Operation:
        params = self._made(opdef.params, opdef.name, given, token)
        names = [self._plain_name(t) or None for t in results]
        return Operation(opdef, (), types, params, regions=regions, location=location, names=names)

    def _made(
        self, cls: type[Params], what: str, given: Mapping[str, Literalish], token: Token
    ) -> Params:
        try:
            return make_params(cls, given)
        except ParamsError as problem:
            raise self._error(f"{what}: {problem}", token, "bad-value") from None

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

    def _number(self, token: Token) -> int | float:
        if len(token.text) > 400:
            raise self._error("a number has at most 400 characters", token, "limit")
        if re.fullmatch(r"-?[0-9]+", token.text):
            return int(token.text)
        return float(token.text)

    def _string(self, token: Token) -> str:
        content = unquote(token.text)
        if content is None:
            raise self._error('a string may hold the escapes \\n \\r \\t \\" \\\\ \\u{…}', token)
        return content

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

    def _region(self, scope: _Scope, depth: int) -> Region:
        if depth > MAX_NESTING:
            raise self._error(f"regions may be nested at most {MAX_NESTING} deep", slug="limit")
        self._expect("{")
        region = Region()
        while self._accept("^"):
            block = region.add_block(Block())
            self._expect("(")
            while not self._accept(")"):
                token = self._expect_kind("value", "a block argument (`%name`)")
                self._expect(":")
                value = block.add_argument(self._type(), self._plain_name(token) or None)
                self._define(scope, token, value)
                if not self._is(")"):
                    self._expect(",")
            self._expect(":")
            self._body(block, scope, depth)
        self._expect("}")
        return region

    # --- names, types, locations -------------------------------------------------------------

    def _list(self, kind: str, what: str) -> list[Token]:
        tokens = [self._expect_kind(kind, what)]
        while self._accept(","):
            tokens.append(self._expect_kind(kind, what))
        return tokens

    def _plain_name(self, token: Token) -> str:
        """The name without sigil and quotes; '' for a numbered value."""
        text = token.text.lstrip("%@") if token.kind in ("value", "symbol") else token.text
        if text.startswith('"'):
            content = unquote(text)
            if content is None:
                raise self._error("a quoted name holds an unknown escape", token)
            return content
        return "" if text.isdigit() else text

    def _define(self, scope: _Scope, token: Token, value: Value) -> None:
        if token.text in scope.values:
            self._error(f"value {token.text} is defined twice", token, "duplicate-name")
            return
        scope.values[token.text] = value

    def _resolve(self, scope: _Scope) -> None:
        for op, operands, where in scope.pending:
            values: list[Value] = []
            for token in operands:
                value = where.find(token.text)
                if value is None and token.text in scope.unread:
                    continue
                if value is None:
                    few = self._errors < MAX_ERRORS  # finding near names takes time
                    near = suggestion(token.text, where.values) if few else ""
                    self._error(f"value {token.text} is not defined{near}", token, "undefined-name")
                else:
                    values.append(value)
            op.set_operands(values)

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
