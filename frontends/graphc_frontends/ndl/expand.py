"""From syntax to nodes: runs the statements, expands macro calls, binds what was used too early.

Pass 1 runs the statements in order and makes a node for every function call. A macro call runs the
macro's body in a scope of its own. A name that is not defined yet is left as an open operand.
Pass 2, when every name is known, binds the open operands (that is how loops through PastValue
close) and hands out the tags. How names are looked up is `scopes.py`; what a function accepts is
`arguments.py`.

An error does not stop the expansion: it makes a value `Broken`, and what is made from a broken
value is broken too, silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphc.support.diagnostics import GraphcError, Note, fail
from graphc_frontends.ndl import arguments as reading
from graphc_frontends.ndl.assembly import Assembly, Source
from graphc_frontends.ndl.ast import (
    Array,
    Call,
    Literal,
    Macro,
    Name,
    Operand,
    Option,
    Result,
    Statement,
    Word,
    names_in,
)
from graphc_frontends.ndl.functions import Function, Positional, find_function, spellings
from graphc_frontends.ndl.functions import Option as OptionRow
from graphc_frontends.ndl.macros import MacroTable
from graphc_frontends.ndl.scopes import (
    BROKEN,
    Broken,
    Forward,
    Items,
    Number,
    Scope,
    Symbol,
    Text,
    Value,
    assigned_names,
    final_names,
)

if TYPE_CHECKING:
    from graphc.builder import GraphBuilder


def expand(
    builder: GraphBuilder,
    statements: Sequence[Statement],
    table: MacroTable,
    defines: Mapping[str, Value],
) -> None:
    """Build the network that `statements` describe; everything wrong goes into `builder.sink`.

    `defines` are to the script what named arguments are to a macro's body: they are variables from
    the start, and assignments to them do not count. Their keys are in lower case.
    """
    expansion = expansion_of(builder, statements, table, defines)
    for statement in statements:
        expansion.run(expansion.script, statement)
    expansion.assembly.finish()


def expansion_of(
    builder: GraphBuilder,
    statements: Sequence[Statement],
    table: MacroTable,
    defines: Mapping[str, Value],
) -> Expansion:
    """The expansion of a script, before its first statement; see `expand`."""
    script = Scope(
        prefix="",
        assigned=assigned_names(statements),
        node_names=final_names(statements, table.macros, frozenset(defines)),
        overridden=frozenset(defines),
        symbols={key: Symbol(key, value, None) for key, value in defines.items()},
    )
    return Expansion(Assembly(builder), table, script)


@dataclass(slots=True)
class _Arguments:
    """What the arguments of a function came to."""

    operands: list[Source] = field(default_factory=list[Source])
    settings: dict[str, reading.Constant] = field(default_factory=dict[str, reading.Constant])
    tags: list[str] = field(default_factory=list[str])
    is_broken: bool = False
    """An operand is broken, or an error was reported for an argument."""


class Expansion:
    """Statements being run, those of a script and of the macros that it calls."""

    def __init__(self, assembly: Assembly, table: MacroTable, script: Scope) -> None:
        self.assembly = assembly
        self.table = table
        self.script = script

    # ---- statements -----------------------------------------------------------------------

    def run(self, scope: Scope, statement: Statement) -> Value:
        """Evaluate one statement, give its target the value, and return it."""
        target = statement.target
        if target is not None and target.key in scope.overridden:
            return self._keep_override(scope, target, statement)
        if target is not None and target.key in scope.symbols:
            self._report_second_definition(scope, target)
            return BROKEN
        tag = None
        if target is not None and not target.is_quoted:
            tag = reading.array_tag(target.text)
        results: list[Value] = []
        for call in statement.calls:
            # The outermost call comes last; what it gives is the statement's value.
            is_outermost = len(results) == len(statement.calls) - 1
            name = None
            if is_outermost and target is not None and tag is None:
                name = scope.node_names[target.key]
            results.append(self._call(scope, call, results, name))
        value = self._statement_value(scope, statement, results)
        if target is None:
            return value
        scope.symbols[target.key] = Symbol(target.text, value, target.span)
        if tag is not None:
            self._request_array(scope, target, statement, value, tag)
        else:
            self.assembly.expect_defined(value)
        return value

    def _keep_override(self, scope: Scope, target: Name, statement: Statement) -> Value:
        """A define or a named argument has given `target` its value already."""
        if scope is self.script and statement.calls:
            message = f"a define can only replace a number, `{target.text}` is given by a call"
            self.assembly.report(fail("argument-type", message, target.span))
        return scope.symbols[target.key].value

    def _report_second_definition(self, scope: Scope, target: Name) -> None:
        first = scope.symbols[target.key].span
        notes = [Note("first defined here", first)] if first is not None else []
        message = f"`{target.text}` is already defined"
        where = scope.place(target.span)
        self.assembly.report(fail("duplicate-name", message, where, notes=notes))

    def _statement_value(
        self, scope: Scope, statement: Statement, results: Sequence[Value]
    ) -> Value:
        if isinstance(statement.value, Array):
            elements = statement.value.elements
            return Value(Items(tuple(self._evaluate(scope, e, results) for e in elements)))
        return self._evaluate(scope, statement.value, results)

    def _evaluate(self, scope: Scope, operand: Operand, results: Sequence[Value] = ()) -> Value:
        """The value of an operand; a name without one yet becomes a `Forward`."""
        match operand:
            case Literal():
                return Value(Number(operand.value, operand.text))
            case Word():
                return Value(Text(operand.text))
            case Name():
                return self.assembly.find(scope, operand) or Value(Forward(operand, scope))
            case _:
                return results[operand.index]

    def _request_array(
        self, scope: Scope, target: Name, statement: Statement, value: Value, tag: str
    ) -> None:
        """`OutputNodes = (a, b)` and its like."""
        if scope is not self.script:
            message = f"`{target.text}` belongs to the script, got it in a macro"
            self.assembly.report(fail("unknown-tag", message, scope.place(target.span)))
        elif isinstance(statement.value, Array) and isinstance(value.content, Items):
            for element, written in zip(
                value.content.values, statement.value.elements, strict=True
            ):
                self.assembly.request_tag(element, tag, target.text, scope.place(written.span))
        else:
            where = scope.place(statement.value.span)
            self.assembly.request_tag(value, tag, target.text, where)

    # ---- calls ----------------------------------------------------------------------------

    def _call(self, scope: Scope, call: Call, results: Sequence[Value], name: str | None) -> Value:
        """Make what a call stands for; its node or nodes are called after `name`."""
        name = name or self.assembly.fresh_name(scope)
        macro = self.table.called_by(call)
        if macro is not None:
            return self._expand(scope, call, macro, results, name)
        try:
            function = find_function(call.function.key)
        except GraphcError as broken:  # a plug-in
            message = broken.diagnostics[0].message
            where = scope.place(call.function.span)
            self.assembly.report(fail(broken.diagnostics[0].slug, message, where))
            return self.assembly.broken_node(scope.prefix + name)
        if function is not None:
            return self._apply(scope, call, function, results, name)
        known = [m.name.text for m in self.table.macros.values()]
        known += spellings()
        near = self.assembly.near(call.function.text, known)
        message = f"`{call.function.text}` is no function and no macro{near}"
        where = scope.place(call.function.span)
        self.assembly.report(fail("unknown-function", message, where))
        return self.assembly.broken_node(scope.prefix + name)

    # ---- calls of macros ------------------------------------------------------------------

    def _expand(
        self, scope: Scope, call: Call, macro: Macro, results: Sequence[Value], name: str
    ) -> Value:
        """Run a macro's body in a scope of its own; its nodes are called `name.…`."""
        if macro.name.key in self.table.recursive:
            return BROKEN
        if not self._has_right_count(scope, call, macro):
            return BROKEN
        named = self._named_arguments(scope, call, macro)
        body = Scope(
            prefix=f"{scope.prefix}{name}.",
            assigned=assigned_names(macro.body),
            node_names=final_names(macro.body, self.table.macros, frozenset(named)),
            macro=macro,
            call=scope.place(call.span),
            script=self.script,
            overridden=frozenset(named),
        )
        for formal, argument in zip(macro.formals, call.arguments, strict=True):
            value = self._evaluate(scope, argument, results)
            body.symbols[formal.key] = Symbol(formal.text, value, formal.span)
        body.symbols.update(named)
        last = BROKEN
        for statement in macro.body:
            last = self.run(body, statement)
        own = body.symbols.get(macro.name.key) if macro.name.key in body.assigned else None
        body.result = last if own is None else own.value
        value = Value(body.result.content, body)
        for tag in self._tags(scope, call):
            self.assembly.request_tag(value, tag, "tag=", scope.place(call.span))
        return value

    def _has_right_count(self, scope: Scope, call: Call, macro: Macro) -> bool:
        wanted, given = len(macro.formals), len(call.arguments)
        if wanted != given:
            usage = f"{macro.name.text}({', '.join(f.text for f in macro.formals)})"
            message = f"the macro `{usage}` takes {reading.count(wanted)}, got {given}"
            notes = [Note("it is defined here", macro.name.span)]
            where = scope.place(call.span)
            self.assembly.report(fail("argument-count", message, where, notes=notes))
        return wanted == given

    def _named_arguments(self, scope: Scope, call: Call, macro: Macro) -> dict[str, Symbol]:
        """The arguments `name=value` of a macro call, which become variables of its body."""
        named: dict[str, Symbol] = {}
        if not call.options:
            return named
        used = {name.key: name.text for name in names_in(macro.body)}
        for option in self._options(scope, call):
            if option.name.key in used:
                value = self._evaluate(scope, option.value)
                named[option.name.key] = Symbol(option.name.text, value, option.name.span)
            else:
                self._ignore_option(scope, option, f"the macro `{macro.name.text}`", used.values())
        return named

    def _ignore_option(self, scope: Scope, option: Option, who: str, known: Iterable[str]) -> None:
        """Leave out an argument `name=value` that nobody reads; so does the toolkit, silently."""
        self.assembly.used_as_text(self._evaluate(scope, option.value))
        near = self.assembly.near(option.name.text, known)
        message = f"{who} takes no `{option.name.text}`, it is ignored{near}"
        self.assembly.warn("bad-option", message, scope.place(option.name.span))

    # ---- calls of functions ---------------------------------------------------------------

    def _apply(
        self, scope: Scope, call: Call, function: Function, results: Sequence[Value], name: str
    ) -> Value:
        """Make the node of a function call."""
        where = scope.place(call.span)
        name = scope.prefix + name
        if function.op is None:
            message = f"`{call.function.text}` is not supported yet"
            self.assembly.report(fail("not-supported", message, where))
        read = self._read_arguments(scope, call, function, results)
        if read.is_broken or function.op is None:
            return self.assembly.broken_node(name)
        return self.assembly.add_node(
            function.op, read.operands, read.settings, read.tags, name, where
        )

    def _read_arguments(
        self, scope: Scope, call: Call, function: Function, results: Sequence[Value]
    ) -> _Arguments:
        """Operands, settings and tags of a call; reports every argument that is wrong."""
        failures = self.assembly.failures
        read = _Arguments()
        try:
            matched = reading.match_positionals(function, call, scope.place(call.span))
        except GraphcError as error:
            self.assembly.report(error)
            matched = []
        for place, written in matched:
            argument = written
            if place.kind == "node" and isinstance(written, Word):
                argument = written.as_name
            value = self._evaluate(scope, argument, results)
            if isinstance(value.content, Broken):
                read.is_broken = True
            elif place.kind == "node":
                read.operands.append(Source(value, scope, argument.span))
            else:
                constant = self._constant(scope, place, value, argument)
                if constant is not None and place.setting is not None:
                    read.settings[place.setting] = constant
        self._read_options(read, scope, call, function)
        read.tags += self._tags(scope, call)
        read.is_broken |= self.assembly.failures > failures
        return read

    def _read_options(self, read: _Arguments, scope: Scope, call: Call, function: Function) -> None:
        given: dict[str, reading.Constant] = {}
        for option in self._options(scope, call):
            row = reading.find_option(function, option.name.text)
            if row is None:
                known = reading.option_names(function)
                self._ignore_option(scope, option, f"`{call.function.text}`", known)
                continue
            constant = self._constant(scope, row, self._evaluate(scope, option.value), option.value)
            if constant is not None:
                given[option.name.key] = constant
        read.settings.update(reading.merge_options(function, given))
        try:
            reading.finish_initializer(read.settings, scope.place(call.span))
        except GraphcError as error:
            self.assembly.report(error)

    def _constant(
        self, scope: Scope, place: Positional | OptionRow, value: Value, written: Operand
    ) -> reading.Constant | None:
        """An argument that is no node, None if it is wrong or broken."""
        word = "" if isinstance(written, Result) else written.text
        if place.kind not in ("size", "count", "number"):
            self.assembly.used_as_text(value)
        try:
            return reading.read_constant(place, value, word, scope.place(written.span))
        except GraphcError as error:
            self.assembly.report(error)
            return None

    def _options(self, scope: Scope, call: Call) -> list[Option]:
        """The options of a call but `tag=`, each once."""
        first: dict[str, Option] = {}
        for option in call.options:
            if option.name.key in first:
                message = f"the option `{option.name.text}` is given twice"
                where = scope.place(option.name.span)
                notes = [Note("first given here", first[option.name.key].name.span)]
                self.assembly.report(fail("bad-option", message, where, notes=notes))
            elif option.name.key != "tag":
                first[option.name.key] = option
        return list(first.values())

    def _tags(self, scope: Scope, call: Call) -> list[str]:
        """The tags that a call gives its node; `tag=` may come several times."""
        tags: list[str] = []
        for option in call.options:
            if option.name.key == "tag":
                value = self._evaluate(scope, option.value)
                self.assembly.used_as_text(value)
                where = scope.place(option.value.span)
                try:
                    tags.append(reading.read_tag(value, option.value.text, where))
                except GraphcError as error:
                    self.assembly.report(error)
        return tags
