"""The parser of MEL: tokens in, `Script` out, every mistake reported.

    script   = { item | section | "load" "=" names | "edit" "=" names }
    item     = call | model | statement of NDL
    call     = [NAME "="] NAME "(" [ argument { "," argument } ] ")"
    argument = WORD | NAME "=" WORD                 (`L1.*`, paths and quoted text are words)
    model    = NAME ["="] "[" { statement or macro of NDL } "]"

With the key `edit` only the sections count that it names, in that order, and those that `load`
names are NDL, read for their macros. Without these keys the whole file is the script. Tokens,
statements and sections are those of NDL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphc.support.diagnostics import DiagnosticSink, GraphcError, fail, suggestion
from graphc_frontends.mel.ast import Call, Inline, Item, NewModel, Script
from graphc_frontends.mel.commands import COMMAND_BY_NAME, commands_named
from graphc_frontends.ndl.ast import Block, Macro, Name, Option, Word
from graphc_frontends.ndl.cursor import CLOSERS, OPENERS, describe
from graphc_frontends.ndl.functions import FUNCTION_BY_NAME
from graphc_frontends.ndl.lexer import OWN_SEPARATORS, Token, tokenize
from graphc_frontends.ndl.parser import Parser
from graphc_frontends.ndl.preprocess import PlainText

KEYS = ("load", "edit")

# A pattern may start with the star: `Copy(*.W, *.V)`.
SEPARATORS = OWN_SEPARATORS - {"*"}

_ENDS = frozenset(["newline", ";", ",", "end"])
_SEPARATORS = frozenset([",", ":", "newline"])
_WORDS = frozenset(["name", "number", "text", "string"])


def parse(plain: PlainText, sink: DiagnosticSink) -> Script:
    """Parse a whole file; what could not be read is reported and left out."""
    tokens = tokenize(plain, sink, separators=SEPARATORS)
    return _Parser(tokens, plain, sink).mel_script()


class _Parser(Parser):
    def mel_script(self) -> Script:
        """The whole file; one bracket around all of it is peeled off."""
        self._peel()
        keys = self._key_values()
        if "edit" not in keys:
            items: list[Item] = []
            macros: list[Macro] = []
            self._items(items, {n.key for n in keys.get("load", ())}, macros)
            return Script(tuple(items), tuple(macros))
        return self._sections(keys)

    # ---- sections and keys ----------------------------------------------------------------

    def _key_values(self) -> dict[str, list[Name]]:
        """What `load=` and `edit=` outside of all brackets name; the tokens stay where they are."""
        found: dict[str, list[Name]] = {}
        for start in self._starts():
            kinds = [t.kind for t in self.tokens[start : start + 4]]
            key = self.tokens[start].text.lower()
            if kinds[:3] != ["name", "=", "name"] or kinds[3] == "(" or key not in KEYS:
                continue
            self.at = start
            name = self.name()
            self.at += 1
            names = [self.name()]
            while self.is_at(":") and self.peek() == "name":
                self.at += 1
                names.append(self.name())
            if key in found:
                self.sink.error("duplicate-name", f"`{key}=` is given twice", name.span)
            found.setdefault(key, names)
        self.at = 0
        self._peel()
        return found

    def _starts(self) -> Iterator[int]:
        """The tokens outside of all brackets that a statement may start with."""
        depth, is_start = 0, True
        for index in range(self.at, len(self.tokens)):
            kind = self.tokens[index].kind
            if kind == "end":
                return
            if depth == 0 and is_start and kind == "name":
                yield index
            depth += (kind in OPENERS) - (kind in CLOSERS and depth > 0)
            is_start = kind in _ENDS or (kind in CLOSERS and depth == 0)

    def _sections(self, keys: dict[str, list[Name]]) -> Script:
        """The sections that the keys name, wherever they are in the file."""
        places = {}
        for start in self._starts():
            name = self.tokens[start]
            bracket = start + 1 + (self.tokens[start + 1].kind == "=")
            if self.tokens[bracket].kind == "[":
                places.setdefault(name.text.lower(), (start, bracket))
        macros: list[Macro] = []
        items: list[Item] = []
        for key in KEYS:
            for name in keys.get(key, ()):
                if name.key not in places:
                    near = suggestion(name.text, places)
                    message = f"the file has no section `{name.text}`{near}"
                    self.sink.error("undefined-name", message, name.span)
                    continue
                start, bracket = places[name.key]
                if key == "load":
                    self.at = start
                    macros += self._macros(name)
                else:
                    self._section_items(bracket, items, macros)
        return Script(tuple(items), tuple(macros))

    def _section_items(self, bracket: int, items: list[Item], macros: list[Macro]) -> None:
        """The items between a bracket and the one that closes it."""
        closing = self.matching.get(bracket)
        if closing is None:
            opener = self.tokens[bracket]
            self.sink.error("parse", f"`{opener.text}` is never closed", self.span(opener))
            return
        end = self.tokens[closing]
        self.tokens[closing] = Token("end", end.text, end.start, end.end)
        self.at = bracket + 1
        self._items(items, set(), macros)
        self.tokens[closing] = end

    def _macros(self, name: Name) -> Sequence[Macro]:
        """The macros of a section of NDL that comes here."""
        block = self._ndl_section()[1]
        for statement in block.statements:
            where = statement.target.span if statement.target is not None else name.span
            message = f"`{name.text}` is loaded for its macros, this statement is left out"
            self.sink.warning("parse", message, where)
        return block.macros

    def _ndl_section(self) -> tuple[Name, Block]:
        """`name=[ NDL ]`, its mistakes reported."""
        section = self._section()
        self.sink.extend(section.problems)
        return section.name, section.block

    # ---- items ----------------------------------------------------------------------------

    def _items(self, items: list[Item], loaded: set[str], macros: list[Macro]) -> None:
        """What comes up to the end of the text or section."""
        while not self.is_at("end"):
            if self.is_at(*_ENDS):
                self.at += 1
                continue
            start = self.at
            try:
                item = self._item_or_macros(loaded, macros)
            except GraphcError as error:
                self.sink.extend(error.diagnostics)
                self._synchronise(start)
                continue
            if item is not None:
                items.append(item)

    def _item_or_macros(self, loaded: set[str], macros: list[Macro]) -> Item | None:
        """One item; None for a section to load, whose macros are taken, and for a key."""
        token = self.token
        equals = 1 if self.peek() == "=" else 0
        if self.is_at("name") and self.peek(equals + 1) == "[":
            if token.text.lower() in loaded:
                macros += self._macros(Name(token.text, self.span(token)))
                return None
            return NewModel(*self._ndl_section())
        is_key = equals and self.peek(2) == "name" and self.peek(3) != "("
        if is_key and token.text.lower() in KEYS:
            while not self.is_at("newline", ";", ",", "end"):
                self.at += 1
            return None
        if self._starts_macro():
            message = (
                f"the macro `{token.text}` cannot be defined among commands: a file of macros, a "
                "snippet or a model in brackets can define it"
            )
            raise fail("parse", message, self.span(token))
        if self.is_at("name") and self.peek() == "(":
            return self._command(None)
        if self._starts_model():
            target = self.name()
            self.at += 1
            return self._command(target)
        statement = self._statement()
        return Inline(statement, self.span(token, self.tokens[self.at - 1]))

    def _starts_model(self) -> bool:
        """Whether `name = Command(` comes, and no function of NDL of that name is meant."""
        kinds = [t.kind for t in self.tokens[self.at : self.at + 4]]
        if kinds != ["name", "=", "name", "("]:
            return False
        function = self.tokens[self.at + 2].text.lower()
        if function in COMMAND_BY_NAME:
            return True
        named = commands_named(function)
        return function not in FUNCTION_BY_NAME and any(c.makes_model for c in named)

    def _command(self, target: Name | None) -> Call:
        first = self.token
        function, opener = self.name(), self.advance()
        arguments: list[Word] = []
        options: list[Option] = []
        self._skip_argument_separators()
        while not self.is_at(")"):
            if self.is_at("name") and self.peek() == "=":
                name = self.name()
                self.at += 1
                word = self._word(opener)
                options.append(Option(name, word))
            else:
                word = self._word(opener)
                arguments.append(word)
            if self.is_at("("):
                message = f"a command takes names and texts, got a call of `{word.text}`"
                raise fail("argument-type", message, word.span)
            if not self.is_at(")"):
                self._argument_separator(opener, is_optional=False)
        closing = self.advance()
        return Call(target, function, tuple(arguments), tuple(options), self.span(first, closing))

    def _word(self, opener: Token) -> Word:
        """An argument as it is written."""
        token = self.token
        if token.kind in _WORDS:
            self.at += 1
            return Word(token.text, self.span(token))
        message = f"a name, pattern, number or text is required, got {describe(token)}"
        raise self._unclosed(opener) or fail("parse", message, self.span(token))
