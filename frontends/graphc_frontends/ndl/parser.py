"""The parser of NDL: tokens in, `Script` out, every mistake reported.

    script     = { statement | macro | section | "load" "=" names | "run" "=" names }
    section    = NAME ["="] "[" { statement | macro } "]"
    macro      = NAME "(" [NAME { "," NAME }] ")" ( ["="] body | "=" expression )
    body       = "{" { statement } "}" | "[" { statement } "]"
    statement  = target "=" ( expression | array ) | call          (a call alone: in bodies only)
    target     = NAME | STRING
    array      = "(" [ element { "," element } ] ")"
    element    = NAME | STRING | NUMBER
    expression = NUMBER | STRING | NAME | call
    call       = NAME "(" [ argument { "," argument } ] ")"
    argument   = expression | NAME "=" (NUMBER | NAME | TEXT | STRING)
    names      = NAME { ":" NAME }

Statements end at `;`, `,`, a line's end, or right after a `)` or a closed body. Inside round
brackets `,`, `:` and line ends separate. After a mistake the parser goes on at the next statement.
Calls are read with a stack of their own, so deep nesting costs no Python frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from graphc.support.diagnostics import DiagnosticSink, GraphcError, Note, fail
from graphc_frontends.ndl.ast import (
    Array,
    Block,
    Call,
    Literal,
    Macro,
    Name,
    Operand,
    Option,
    Result,
    Script,
    Section,
    Statement,
    Word,
)
from graphc_frontends.ndl.cursor import CLOSERS, OPENERS, Cursor, describe
from graphc_frontends.ndl.lexer import Token, number_value
from graphc_frontends.ndl.mistakes import Mistakes
from graphc_frontends.ndl.preprocess import PlainText

MAX_NESTING = 200  # calls inside calls

_STATEMENT_ENDS = frozenset(["newline", ";", ",", "end"])
_ARGUMENT_SEPARATORS = frozenset([",", ":", "newline"])
_SECTION_KEYS = frozenset(["load", "run"])


def parse(tokens: Sequence[Token], plain: PlainText, sink: DiagnosticSink) -> Script:
    """Parse a whole file; what could not be read is reported and left out."""
    return Parser(tokens, plain, sink).script()


@dataclass(slots=True)
class _OpenCall:
    """A call whose closing bracket has not come yet."""

    function: Name
    token: Token
    bracket: Token
    arguments: list[Operand] = field(default_factory=list[Operand])
    options: list[Option] = field(default_factory=list[Option])


@dataclass(slots=True)
class _Contents:
    """What has been read of a block so far."""

    statements: list[Statement] = field(default_factory=list[Statement])
    macros: list[Macro] = field(default_factory=list[Macro])

    def freeze(self) -> Block:
        return Block(tuple(self.statements), tuple(self.macros))


class Parser(Cursor):
    """Reads statements, macros and sections; what cannot be read goes to `sink`."""

    def __init__(self, tokens: Sequence[Token], plain: PlainText, sink: DiagnosticSink) -> None:
        super().__init__(tokens, plain)
        self.sink = sink
        self.sections: dict[str, Section] = {}
        self.keys: dict[str, tuple[Name, ...]] = {}

    # ---- blocks ---------------------------------------------------------------------------

    def script(self) -> Script:
        """The whole file."""
        self._peel()
        block = self._block(is_top=True)
        return Script(
            block, tuple(self.sections.values()), self.keys.get("load"), self.keys.get("run")
        )

    def _peel(self) -> None:
        """Go to the first statement, into a bracket that is around the whole file."""
        self.skip_newlines()
        closing = self.matching.get(self.at) if self.is_at("[", "{") else None
        if closing is not None:
            rest = self.tokens[closing + 1 :]
            if all(t.kind in ("newline", "end") for t in rest):
                last = self.tokens[closing]
                self.tokens[closing] = Token("end", "", last.start, last.start)
                self.at += 1

    def _block(self, *, is_top: bool) -> Block:
        """Statements and macros up to the end of the text or section."""
        contents = _Contents()
        while not self.is_at("end"):
            if self.is_at(*_STATEMENT_ENDS):
                self.at += 1
                continue
            start = self.at
            try:
                self._item(contents, is_top)
            except GraphcError as error:
                self.sink.extend(error.diagnostics)
                self._synchronise(start)
        return contents.freeze()

    def _item(self, contents: _Contents, is_top: bool) -> None:
        """One statement, macro or section."""
        if self._starts_macro():
            contents.macros.append(self._macro())
            return
        if is_top and self.is_at("name") and self._section_or_key():
            return
        statement = self._statement()
        if statement.target is None:
            call = statement.calls[-1]
            message = f"a call outside of macros needs a name: `name = {call.function.text}(...)`"
            self.sink.error("parse", message, call.span)
            return
        contents.statements.append(statement)

    def _section_or_key(self) -> bool:
        """Read `name=[…]`, `name[…]`, `load=…` or `run=…` if that is what comes."""
        name = self.token
        equals = 1 if self.peek() == "=" else 0
        if self.peek(equals + 1) == "[":
            section = self._section()
            first = self.sections.setdefault(section.name.key, section)
            self._check_first(section.name, first.name)
            return True
        if equals and name.text.lower() in _SECTION_KEYS and self.peek(2) == "name":
            if self.peek(3) == "(":
                return False
            key = self.name()
            self.at += 1
            names = [self.name()]
            while self.is_at(":") and self.peek() == "name":
                self.at += 1
                names.append(self.name())
            self._end_of_statement(self.tokens[self.at - 1])
            if key.key in self.keys:
                raise fail("duplicate-name", f"`{key.text}=` is given twice", key.span)
            self.keys[key.key] = tuple(names)
            return True
        return False

    def _section(self) -> Section:
        """`name=[…]`. What is wrong inside neither ends it nor is reported yet: it may not be run.

        To whatever reads the inside the closing bracket is the end of the text.
        """
        name = self.name()
        self.at += self.is_at("=")
        closing = self.matching.get(self.at)
        if closing is None:
            raise fail("parse", f"`{self.token.text}` is never closed", self.span(self.token))
        end = self.tokens[closing]
        self.tokens[closing] = Token("end", end.text, end.start, end.end)
        outer, self.sink = self.sink, Mistakes()
        self.at += 1
        block = Block((), ())
        try:
            block = self._block(is_top=False)
        except GraphcError as too_many:
            self.sink.diagnostics.extend(too_many.diagnostics)
        problems = tuple(self.sink.diagnostics)
        self.sink = outer
        self.tokens[closing] = end
        self.at = closing + 1
        return Section(name, block, self.span(end), problems)

    def _check_first(self, name: Name, first: Name) -> None:
        """Report `name` unless it is the first of its kind itself."""
        if name is not first:
            notes = [Note("first defined here", first.span)]
            message = f"`{name.text}` is already defined"
            self.sink.error("duplicate-name", message, name.span, notes=notes)

    # ---- macros ---------------------------------------------------------------------------

    def _starts_macro(self) -> bool:
        """Whether `name(...)` with `=` or a body after it comes."""
        closing = self.matching.get(self.at + 1)
        if not self.is_at("name") or self.peek() != "(" or closing is None:
            return False
        after = closing + 1
        if self.tokens[after].kind == "=":
            return True
        while self.tokens[after].kind == "newline":
            after += 1
        return self.tokens[after].kind in ("{", "[")

    def _macro(self) -> Macro:
        name = self.name()
        if "." in name.text:
            raise fail("parse", f"a macro's name has no dots, got `{name.text}`", name.span)
        formals = self._formals()
        has_equals = self.is_at("=")
        if has_equals:
            self.at += 1
        ahead = self.at
        self.skip_newlines()
        if self.is_at("{", "["):
            body = self._body(name)
        else:
            self.at = ahead
            body = (self._one_line_body(name),)
        return Macro(name, formals, body)

    def _formals(self) -> tuple[Name, ...]:
        opener = self.advance()
        formals: dict[str, Name] = {}
        self._skip_argument_separators()
        while not self.is_at(")"):
            if not self.is_at("name") or "." in self.token.text:
                raise self.expected("the name of a macro's argument")
            formal = self.name()
            self._check_first(formal, formals.setdefault(formal.key, formal))
            if not self.is_at(")"):
                self._argument_separator(opener, is_optional=False)
        self.at += 1
        return tuple(formals.values())

    def _one_line_body(self, name: Name) -> Statement:
        """`M(x) = expression` says the same as `M(x) { M = expression }`."""
        calls, value = self._expression()
        self._end_of_statement(self.tokens[self.at - 1])
        return Statement(name, calls, value)

    def _body(self, macro: Name) -> tuple[Statement, ...]:
        opener = self.advance()
        statements: list[Statement] = []
        already_reported = len(self.sink.diagnostics)
        while not self.is_at(*CLOSERS, "end"):
            if self.is_at(*_STATEMENT_ENDS):
                self.at += 1
                continue
            start = self.at
            try:
                if self._starts_macro():
                    message = f"`{macro.text}` cannot contain a macro, got `{self.token.text}`"
                    raise fail("parse", message, self.span(self.token))
                statements.append(self._statement())
            except GraphcError as error:
                self.sink.extend(error.diagnostics)
                self._synchronise(start)
        self._close(opener)
        if not statements and len(self.sink.diagnostics) == already_reported:
            raise fail("parse", f"the macro `{macro.text}` needs a statement to return", macro.span)
        return tuple(statements)

    def _close(self, opener: Token) -> None:
        """Take the bracket that closes `opener`, or report that it is missing."""
        closer = OPENERS[opener.kind]
        if self.is_at(closer):
            self.at += 1
        elif self.is_at("end"):
            self.sink.error("parse", f"`{opener.text}` is never closed", self.span(opener))
        else:
            notes = [Note(f"`{opener.text}` is opened here", self.span(opener))]
            message = f"`{closer}` is required, got `{self.token.text}`"
            self.sink.error("parse", message, self.span(self.token), notes=notes)
            self.at += 1

    # ---- statements -----------------------------------------------------------------------

    def _statement(self) -> Statement:
        if self.is_at(*CLOSERS):
            raise fail("parse", f"`{self.token.text}` closes nothing", self.span(self.token))
        if not self.is_at("name") and not (self.is_at("string") and self.peek() == "="):
            raise self.expected("a statement `name = ...`")
        if self.peek() == "(":
            calls, value = self._expression()
            self._end_of_statement(self.tokens[self.at - 1])
            return Statement(None, calls, value)
        target = self.name()
        if not self.is_at("="):
            raise self.expected(f"`=` after `{target.text}`")
        if "." in target.text and not target.is_quoted:
            message = f"a name with dots cannot be defined, got `{target.text}`"
            raise fail("parse", message, target.span)
        if not target.text:
            raise fail("parse", "a name of at least one character is required", target.span)
        self.at += 1
        calls: tuple[Call, ...] = ()
        if self.is_at("("):
            value: Operand | Array = self._array()
        else:
            calls, value = self._expression()
        self._end_of_statement(self.tokens[self.at - 1])
        return Statement(target, calls, value)

    def _end_of_statement(self, last: Token) -> None:
        """After `)` another statement may follow on the line, after anything else it may not."""
        if last.kind != ")" and not self.is_at(*_STATEMENT_ENDS, *CLOSERS):
            raise self.expected("the end of the statement")

    def _array(self) -> Array:
        opener = self.advance()
        elements: list[Name | Literal] = []
        self._skip_argument_separators()
        while not self.is_at(")"):
            if self.is_at("name") and self.peek() == "(":
                message = f"a list holds names, got a call of `{self.token.text}`; name it first"
                raise fail("argument-type", message, self.span(self.token))
            if not self.is_at("name", "string", "number"):
                raise self._unclosed(opener) or self.expected("a name")
            elements.append(self._literal() if self.is_at("number") else self.name())
            if not self.is_at(")"):
                self._argument_separator(opener, is_optional=False)
        return Array(tuple(elements), self.span(opener, self.advance()))

    # ---- expressions ----------------------------------------------------------------------

    def _expression(self) -> tuple[tuple[Call, ...], Operand]:
        """The calls of an expression, innermost first, and its value."""
        calls: list[Call] = []
        open_calls: list[_OpenCall] = []
        while True:
            if open_calls and self.is_at(")"):
                operand: Operand | None = self._close_call(open_calls.pop(), calls)
            elif open_calls and self.is_at("name") and self.peek() == "=":
                open_calls[-1].options.append(self._option(open_calls[-1]))
                operand = None
            elif self.is_at("name") and self.peek() == "(":
                self._open_call(open_calls)
                continue
            else:
                operand = self._atom(open_calls[-1].bracket if open_calls else None)
            if not open_calls:
                assert operand is not None, "an option needs an open call"
                return tuple(calls), operand
            if operand is not None:
                open_calls[-1].arguments.append(operand)
            if not self.is_at(")"):
                is_optional = isinstance(operand, Result)
                self._argument_separator(open_calls[-1].bracket, is_optional=is_optional)

    def _open_call(self, open_calls: list[_OpenCall]) -> None:
        if len(open_calls) == MAX_NESTING:
            message = f"calls may be nested {MAX_NESTING} deep, got one more"
            raise fail("limit", message, self.span(self.token))
        token = self.token
        open_calls.append(_OpenCall(self.name(), token, self.advance()))
        self._skip_argument_separators()

    def _close_call(self, call: _OpenCall, calls: list[Call]) -> Result:
        span = self.span(call.token, self.advance())
        calls.append(Call(call.function, tuple(call.arguments), tuple(call.options), span))
        return Result(len(calls) - 1, span)

    def _option(self, call: _OpenCall) -> Option:
        if self._is_definition(self.at):
            raise self._never_closed(call.bracket)
        name = self.name()
        self.at += 1
        if self.is_at("name") and self.peek() == "(":
            message = f"the option `{name.text}` takes a constant, got a call"
            raise fail("argument-type", message, self.span(self.token))
        value = self._atom(call.bracket, is_option=True)
        assert not isinstance(value, Result)
        return Option(name, value)

    def _atom(self, opener: Token | None, *, is_option: bool = False) -> Name | Literal | Word:
        """A name, a number, or (as the value of an option) text."""
        token = self.token
        if token.kind == "name":
            return self.name()
        if token.kind == "number":
            return self._literal()
        if token.kind == "string" or (is_option and token.kind == "text"):
            self.at += 1
            return Word(token.text, self.span(token))
        unclosed = self._unclosed(opener) if opener is not None else None
        raise unclosed or self.expected("a value" if is_option else "a name, number or call")

    def _literal(self) -> Literal:
        token = self.advance()
        # What the lexer has reported as a malformed number stands for 1.
        value = number_value(token.text)
        return Literal(1.0 if value is None else value, token.text, self.span(token))

    def _argument_separator(self, opener: Token, *, is_optional: bool) -> None:
        """What separates two arguments; after a nested call it may be left out."""
        if self.is_at(*_ARGUMENT_SEPARATORS):
            self._skip_argument_separators()
        elif not is_optional:
            raise self._unclosed(opener) or self.expected("`,` or `)`")

    def _skip_argument_separators(self) -> None:
        """Line ends and at most one comma or colon, in any order."""
        seen = False
        while self.is_at(*_ARGUMENT_SEPARATORS):
            if not self.is_at("newline"):
                if seen:
                    raise fail("parse", "an argument is missing here", self.span(self.token))
                seen = True
            self.at += 1

    # ---- recovery -------------------------------------------------------------------------

    def _unclosed(self, opener: Token) -> GraphcError | None:
        """The error for a bracket that something else than an argument shows to be open."""
        if self.is_at("end", ";", "]", "}", "="):
            return self._never_closed(opener)
        return None

    def _never_closed(self, opener: Token) -> GraphcError:
        notes = [Note(f"missed before {describe(self.token)}", self.span(self.token))]
        return fail("parse", f"`{opener.text}` is never closed", self.span(opener), notes=notes)

    def _synchronise(self, start: int) -> None:
        """Skip from a broken statement that began at token `start` to where the next may begin.

        That is a line end or `;` outside of the statement's brackets, the bracket that closes the
        block around it, or, whatever is open, a line that can only be a statement.
        """
        depth = 0
        index = start
        while self.tokens[index].kind != "end":
            kind = self.tokens[index].kind
            is_end = kind in ("newline", ";") or kind in CLOSERS
            if index > start and index >= self.at and depth == 0 and is_end:
                break
            if index > start and self._is_definition(index):
                break
            depth += (kind in OPENERS) - (kind in CLOSERS and depth > 0)
            index += 1
        self.at = index

    def _is_definition(self, index: int) -> bool:
        """Whether a line starts at `index` with `name = (` or `name = Function(`.

        An option's value has no brackets, so this is no argument and the call before is open.
        """
        if index < 1 or self.tokens[index - 1].kind != "newline":
            return False
        kinds = [t.kind for t in self.tokens[index : index + 4]]
        if kinds[:1] not in (["name"], ["string"]):
            return False
        return kinds[1:] == ["=", "name", "("] or kinds[1:3] == ["=", "("]
