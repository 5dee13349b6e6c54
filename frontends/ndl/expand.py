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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from frontends.ndl import arguments as reading
from frontends.ndl.ast import (
    Array,
    Call,
    Literal,
    Macro,
    Name,
    Operand,
    Option,
    Statement,
    Word,
    names_in,
)
from frontends.ndl.functions import FUNCTION_BY_NAME, Function
from frontends.ndl.macros import MacroTable
from frontends.ndl.scopes import (
    BROKEN,
    Broken,
    Forward,
    Items,
    Made,
    Number,
    Scope,
    Symbol,
    Text,
    Value,
    assigned_names,
    final_names,
    look_up,
    settled,
)
from graphc.support.diagnostics import GraphcError, Note, fail, suggestion
from graphc.support.source import Location, Span

if TYPE_CHECKING:
    from graphc.builder import GraphBuilder, Node


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
    script = Scope(
        prefix="",
        assigned=assigned_names(statements),
        node_names=final_names(statements, table.macros, frozenset(defines)),
        overridden=frozenset(defines),
        symbols={key: Symbol(key, value, None) for key, value in defines.items()},
    )
    expansion = _Expansion(builder, table, script)
    for statement in statements:
        expansion.run(script, statement)
    expansion.bind_operands()
    expansion.check_aliases()
    expansion.add_tags()


@dataclass(frozen=True, slots=True)
class _OpenOperand:
    """Operand `index` of `node`, to be bound to what `value` will stand for."""

    node: Node
    index: int
    value: Value
    scope: Scope
    span: Span


@dataclass(frozen=True, slots=True)
class _TagRequest:
    """The nodes of `value` get `tag`, because of `what` (an array or the option `tag=`)."""

    value: Value
    tag: str
    what: str
    where: Location


@dataclass(slots=True)
class _Arguments:
    """What a function's arguments came to. An operand is None while its name is not defined."""

    operands: list[Node | None] = field(default_factory=list["Node | None"])
    open_at: list[tuple[int, Value, Span]] = field(default_factory=list[tuple[int, Value, Span]])
    settings: dict[str, object] = field(default_factory=dict[str, object])
    tags: list[str] = field(default_factory=list[str])


class _Expansion:
    def __init__(self, builder: GraphBuilder, table: MacroTable, script: Scope) -> None:
        self.builder = builder
        self.table = table
        self.script = script
        self.unnamed = 0
        self.open_operands: list[_OpenOperand] = []
        self.aliases: list[Forward] = []
        self.used_as_text: set[Forward] = set()
        self.tag_requests: list[_TagRequest] = []
        self.broken_nodes: set[str] = set()
        self.reported: set[tuple[str, Span | None]] = set()

    # ---- pass 1: statements ---------------------------------------------------------------

    def run(self, scope: Scope, statement: Statement) -> Value:
        """Evaluate one statement, give its target the value, and return it."""
        target = statement.target
        if target is not None and target.key in scope.overridden:
            return self._keep_override(scope, target, statement)
        if target is not None and target.key in scope.symbols:
            self._report_second_definition(scope, target)
            return BROKEN
        tag = reading.array_tag(target.text) if target is not None else None
        results: list[Value] = []
        for call in statement.calls:
            # The outermost call comes last, and what it gives is the statement's value.
            is_value = len(results) == len(statement.calls) - 1
            has_name = is_value and target is not None and tag is None
            name = scope.node_names[target.key] if has_name and target is not None else None
            results.append(self._call(scope, call, results, name))
        value = self._statement_value(scope, statement, results)
        if target is None:
            return value
        scope.symbols[target.key] = Symbol(target.text, value, target.span)
        if tag is not None:
            self._request_array(scope, target, value, tag)
        else:
            self._remember_aliases(value)
        return value

    def _keep_override(self, scope: Scope, target: Name, statement: Statement) -> Value:
        """A define or a named argument has given `target` its value already."""
        if scope is self.script and statement.calls:
            message = f"a define can replace a number only, `{target.text}` is given by a call"
            self._report(fail("argument-type", message, target.span))
        return scope.symbols[target.key].value

    def _report_second_definition(self, scope: Scope, target: Name) -> None:
        first = scope.symbols[target.key].span
        notes = [Note("first defined here", first)] if first is not None else []
        message = f"`{target.text}` is already defined"
        self._report(fail("duplicate-name", message, scope.place(target.span), notes=notes))

    def _statement_value(
        self, scope: Scope, statement: Statement, results: Sequence[Value]
    ) -> Value:
        if isinstance(statement.value, Array):
            elements = statement.value.elements
            return Value(Items(tuple(self._evaluate(scope, e, results) for e in elements)))
        return self._evaluate(scope, statement.value, results)

    def _remember_aliases(self, value: Value) -> None:
        """Names that other names stand for have to be defined in the end, used or not."""
        values = value.content.values if isinstance(value.content, Items) else (value,)
        self.aliases += [v.content for v in values if isinstance(v.content, Forward)]

    def _request_array(self, scope: Scope, target: Name, value: Value, tag: str) -> None:
        if scope is not self.script:
            message = f"`{target.text}` belongs to the script, got it in a macro"
            self._report(fail("unknown-tag", message, scope.place(target.span)))
            return
        self._request_tag(value, tag, target.text, scope.place(target.span))

    def _request_tag(self, value: Value, tag: str, what: str, where: Location) -> None:
        self.tag_requests.append(_TagRequest(value, tag, what, where))

    # ---- pass 1: values and names ---------------------------------------------------------

    def _evaluate(self, scope: Scope, operand: Operand, results: Sequence[Value]) -> Value:
        """The value of an operand; a name without one yet becomes a `Forward`."""
        match operand:
            case Literal():
                return Value(Number(operand.value, operand.text))
            case Word():
                return Value(Text(operand.text))
            case Name():
                return self._find(scope, operand) or Value(Forward(operand, scope))
            case _:
                return results[operand.index]

    def _find(self, scope: Scope, name: Name) -> Value | None:
        """What a name stands for: a symbol of the body, or else a node of the network.

        A name that the body assigns further down is not looked for in the network: it is meant to
        be the body's own.
        """
        found = look_up(scope, name.text)
        if found is not None:
            return settled(found)
        first = name.key.split(".", 1)[0]
        if first in scope.assigned and first not in scope.symbols:
            return None
        return self._find_node(name)

    def _find_node(self, name: Name) -> Value | None:
        """The node of the network with exactly this name."""
        if name.key in self.broken_nodes:
            return BROKEN
        node = self.builder.find(name.text)
        return None if node is None else Value(Made(node))

    def _fresh_name(self, scope: Scope) -> str:
        """`unnamedN`, free in the network and not assigned by the script."""
        while True:
            self.unnamed += 1
            name = f"unnamed{self.unnamed}"
            if name not in scope.assigned and self.builder.find(scope.prefix + name) is None:
                return name

    # ---- pass 1: calls --------------------------------------------------------------------

    def _call(
        self, scope: Scope, call: Call, results: Sequence[Value], name: str | None
    ) -> Value:
        """Make what a call stands for; its node or nodes are called after `name`."""
        name = name or self._fresh_name(scope)
        macro = self.table.called_by(call)
        if macro is not None:
            return self._expand(scope, call, macro, results, name)
        function = FUNCTION_BY_NAME.get(call.function.key)
        if function is not None:
            return self._apply(scope, call, function, results, name)
        known = [m.name.text for m in self.table.macros.values()]
        known += [spelling for f in FUNCTION_BY_NAME.values() for spelling in f.names]
        near = suggestion(call.function.text, known)
        message = f"`{call.function.text}` is no function and no macro{near}"
        self._report(fail("unknown-function", message, scope.place(call.function.span)))
        return BROKEN

    def _expand(
        self, scope: Scope, call: Call, macro: Macro, results: Sequence[Value], name: str
    ) -> Value:
        """Run a macro's body in a new scope."""
        if macro.name.key in self.table.recursive:
            return BROKEN
        where = scope.place(call.span)
        if len(call.arguments) != len(macro.formals):
            formals = ", ".join(f.text for f in macro.formals)
            message = f"the macro `{macro.name.text}({formals})` takes {len(macro.formals)}"
            message += f" arguments, got {len(call.arguments)}"
            notes = [Note("the macro is defined here", macro.name.span)]
            self._report(fail("argument-count", message, where, notes=notes))
            return BROKEN
        named = self._named_arguments(scope, call, macro)
        body = Scope(
            prefix=f"{scope.prefix}{name}.",
            assigned=assigned_names(macro.body),
            node_names=final_names(macro.body, self.table.macros, frozenset(named)),
            macro=macro,
            call=where,
            overridden=frozenset(named),
        )
        for formal, argument in zip(macro.formals, call.arguments, strict=True):
            value = self._evaluate(scope, argument, results)
            body.symbols[formal.key] = Symbol(formal.text, value, formal.span)
        body.symbols.update(named)
        last = BROKEN
        for statement in macro.body:
            last = self.run(body, statement)
        body.result = _macro_result(body, macro, last)
        value = Value(body.result.content, body)
        for tag in self._tags(scope, call):
            self._request_tag(value, tag, "tag=", where)
        return value

    def _named_arguments(self, scope: Scope, call: Call, macro: Macro) -> dict[str, Symbol]:
        """The arguments `name=value` of a macro call, which become variables of its body."""
        named: dict[str, Symbol] = {}
        used = {name.key: name.text for name in names_in(macro.body)}
        for option in call.options:
            if option.name.key == "tag":
                continue
            if option.name.key not in used:
                near = suggestion(option.name.text, used.values())
                message = f"the macro `{macro.name.text}` uses no `{option.name.text}`{near}"
                self._report(fail("bad-option", message, scope.place(option.name.span)))
            elif option.name.key in named:
                self._report_repeated_option(scope, option)
            else:
                value = self._evaluate(scope, option.value, ())
                named[option.name.key] = Symbol(option.name.text, value, option.name.span)
        return named

    def _apply(
        self, scope: Scope, call: Call, function: Function, results: Sequence[Value], name: str
    ) -> Value:
        """Make the node of a function call."""
        where = scope.place(call.span)
        if function.op is None:
            message = f"`{call.function.text}` is not supported yet"
            self._report(fail("not-supported", message, where))
        arguments = self._read_arguments(scope, call, function, results)
        if arguments is None or function.op is None:
            self.broken_nodes.add((scope.prefix + name).lower())
            return BROKEN
        node = self.builder.apply(
            function.op,
            arguments.operands,
            arguments.settings,
            name=scope.prefix + name,
            tags=arguments.tags,
            location=where,
        )
        for index, value, span in arguments.open_at:
            self.open_operands.append(_OpenOperand(node, index, value, scope, span))
        return Value(Made(node))

    # ---- pass 1: the arguments of functions -----------------------------------------------

    def _read_arguments(
        self, scope: Scope, call: Call, function: Function, results: Sequence[Value]
    ) -> _Arguments | None:
        """Operands, settings and tags of a call, None if any of them is wrong or broken."""
        read = _Arguments()
        is_good = True
        try:
            matched = reading.match_positionals(function, call, scope.place(call.span))
        except GraphcError as error:
            self._report(error)
            matched, is_good = [], False
        for place, argument in matched:
            value = self._evaluate(scope, argument, results)
            if isinstance(value.content, Broken):
                is_good = False
                continue
            try:
                if place.kind == "node":
                    self._add_operand(read, scope, value, argument.span)
                    continue
                where = scope.place(argument.span)
                number = reading.read_constant(place.kind, value, _spelling(argument), where)
                if place.setting is not None:
                    read.settings[place.setting] = number
            except GraphcError as error:
                self._report(error)
                is_good = False
        is_good &= self._read_options(read, scope, call, function)
        return read if is_good else None

    def _read_options(
        self, read: _Arguments, scope: Scope, call: Call, function: Function
    ) -> bool:
        """Put the options of a call into `read`; False if one of them is wrong."""
        problems = len(self.builder.sink.diagnostics)
        given = {option.name.key: option for option in call.options if option.name.key != "tag"}
        for option in call.options:
            if option.name.key in given and given[option.name.key] is not option:
                self._report_repeated_option(scope, option)
        constants: dict[str, reading.Constant] = {}
        for key, option in given.items():
            try:
                row = reading.find_option(function, option.name.text, scope.place(option.name.span))
                value = self._evaluate(scope, option.value, ())
                self._note_text(value, row.kind in ("size", "number"))
                where = scope.place(option.value.span)
                spelling = _spelling(option.value)
                constants[key] = reading.read_constant(
                    row.kind, value, spelling, where, least=row.least
                )
            except GraphcError as error:
                self._report(error)
        read.settings.update(reading.merge_options(function, constants))
        read.tags += self._tags(scope, call)
        try:
            reading.finish_initializer(read.settings, scope.place(call.span))
        except GraphcError as error:
            self._report(error)
        return len(self.builder.sink.diagnostics) == problems
