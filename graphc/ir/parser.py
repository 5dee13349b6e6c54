"""Reads the IR's text form back (grammar: `docs/ir.md`); the exact inverse of `printer.py`.

Errors go to the sink with the span of the offending token; after one, parsing goes on at the next
line that starts an operation or a function, so one run reports them all. Types are taken as
printed: the verifier asks every operation again and compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from graphc.ir.context import Context
from graphc.ir.core import (
    CONTRACTION_MODES,
    LAUNCH_MODES,
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
from graphc.ir.dims import (
    DIM_NAME,
    Dim,
    Symbol,
    dims_behind,
    product_of,
    size_difference,
    size_floor,
    size_product,
    size_sum,
)
from graphc.ir.lexer import Token
from graphc.ir.literal_reader import MAX_NESTING, LiteralReader
from graphc.ir.params import Literalish, NoParams, Params, ParamsError, make_params
from graphc.ir.token_reader import MAX_ERRORS, Misread
from graphc.ir.types import Type
from graphc.support.diagnostics import DiagnosticSink, suggestion
from graphc.support.source import Location, SourceFile

_ROLES = ("input", "parameter", "transposed", "state", "hyperparameter", "carried", "kept")


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
    return LiteralReader(SourceFile(file, text), sink, dims).bare_params()


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


class _Parser(LiteralReader):
    def __init__(self, source: SourceFile, context: Context) -> None:
        super().__init__(source, context.sink)
        self._context = context

    # --- module and functions --------------------------------------------------------------

    def module(self) -> Module:
        module = Module()
        names: set[str] = set()
        while self._token.kind != "end":
            start = self._at
            try:
                if self._is("dim"):
                    module.dims.extend(self._dim())
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

    def _dim(self) -> list[Symbol]:
        """A dim, behind what it is made of and the text does not name."""
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
        made = [d for d in dims_behind(symbol) if d.name not in self._dims]
        self._dims.update({d.name: d for d in made})
        return made

    def _dim_called(self, name: str) -> Symbol:
        if not self._accept("="):
            self._expect("<=")
            bound = self._integer("a bound")
            return Symbol(name, bound, step=self._positive("a step") if self._accept("step") else 1)
        start = self._token
        if (product := self._product_alone(name)) is not None:
            return product
        made = self._size()
        if not isinstance(made, Symbol) or not made.is_made or made.name in self._dims:
            raise self._error(f"{name} is the size {made}, which needs no dim of its own", start)
        return replace(made, name=name)

    def _product_alone(self, name: str) -> Symbol | None:
        """`T * S`, `N * 3 / 2`: dims of the call in the order in which they stand, others where
        there is a divisor; None for any other size."""
        at = self._at
        factors = self._factors()
        times = self._positive("a factor") if factors and self._accept("*") else 1
        divisor = self._positive("a divisor") if factors and self._accept("/") else 1
        is_other = divisor == 1 and any(dim.is_made for dim in factors)
        if (
            not factors
            or is_other
            or self._is("+")
            or self._is("-")
            or self._token.text.startswith("-")
        ):
            self._at = at
            return None
        return product_of(name, factors, divisor, times)

    def _factors(self) -> list[Symbol]:
        """The dims of a product; none where something else is among them."""
        found: list[Symbol] = []
        while self._token.kind == "name" and self._token.text in self._dims:
            found.append(self._dims[self._advance().text])
            if not (self._is("*") and self._tokens[self._at + 1].kind == "name"):
                return found
            self._advance()
        return []

    def _size(self, depth: int = 0) -> Dim:
        """`T + U * 2 - 3`, `(T - 1) / 2`."""
        if depth > MAX_NESTING:
            raise self._error(f"sizes may be nested at most {MAX_NESTING} deep", slug="limit")
        total = self._size_term(depth)
        while True:
            if self._accept("+"):
                total = size_sum([total, self._size_term(depth)])
            elif self._accept("-"):
                total = size_difference(total, self._size_term(depth))
            elif self._token.kind == "number" and self._token.text.startswith("-"):
                number = self._number(self._advance())  # `T -1` is read as two tokens
                total = size_sum([total, int(number)])
            else:
                return total

    def _size_term(self, depth: int) -> Dim:
        if self._accept("("):
            whole = self._size(depth + 1)
            self._expect(")")
            self._expect("/")
            return size_floor(whole, self._positive("a divisor"))
        factors = [self._size_factor()]
        while self._accept("*"):
            factors.append(self._size_factor())
        return size_product(factors) if len(factors) > 1 else factors[0]

    def _size_factor(self) -> Dim:
        if self._token.kind == "number":
            return self._integer("a size")
        token = self._expect_kind("name", "a dimension name or a number")
        if token.text not in self._dims:
            message = f"`{token.text}` is no dimension with a bound declared before"
            raise self._error(message, token, "undefined-name")
        return self._dims[token.text]

    def _positive(self, what: str) -> int:
        token = self._token
        value = self._integer(what)
        if not value:
            raise self._error(f"{what} is at least 1, got 0", token)
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
            function.contraction = self._mode("contraction", CONTRACTION_MODES)  # type: ignore[assignment]
        if self._accept("launch"):
            function.launch = self._mode("launch", LAUNCH_MODES)  # type: ignore[assignment]
        self._expect("{")
        self._body(function.block, scope, 0)
        self._expect("}")
        self._resolve(scope)
        if self._errors == errors:  # otherwise a value or the `return` itself may be missing
            self._compare_results(function, result_types)
        return function

    def _mode(self, what: str, known: Sequence[str]) -> str:
        """One word out of those that are known."""
        token = self._expect_kind("name", f"a mode of {what}")
        if token.text not in known:
            raise self._error(f"{what} is one of {', '.join(known)}, got `{token.text}`", token)
        return token.text

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

    # --- names -----------------------------------------------------------------------------

    def _list(self, kind: str, what: str) -> list[Token]:
        tokens = [self._expect_kind(kind, what)]
        while self._accept(","):
            tokens.append(self._expect_kind(kind, what))
        return tokens

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
