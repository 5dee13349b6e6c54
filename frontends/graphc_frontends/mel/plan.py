"""What a MEL text is going to do, found out before anything is done.

Which models there will be, which one is the default at each command and which model a name belongs
to follow from the text alone. So every command is understood here, with its arguments, and every
mistake that does not depend on what is in a model file is reported before the first file is read:
unknown commands, functions, options and properties, numbers of arguments, models that are not
there. `session.py` carries the steps out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from graphc.builder import property_named
from graphc.support.diagnostics import DiagnosticSink, GraphcError, fail, suggestion
from graphc.support.files import read_text
from graphc.support.source import Location, Span
from graphc_frontends.mel.ast import Call, Inline, NewModel, Script
from graphc_frontends.mel.commands import (
    COMMANDS,
    FLAGS,
    Argument,
    Command,
    commands_named,
    options_named,
)
from graphc_frontends.ndl import chosen_blocks, read_script
from graphc_frontends.ndl.ast import Block, Literal, Macro, Name, Option, Statement, Word
from graphc_frontends.ndl.functions import FUNCTION_BY_NAME, find_function, spellings
from graphc_frontends.ndl.macros import Limits, MacroTable, collect_macros, within_limits

UNNAMED = "default"
"""What a model is called that the text gives no name."""

ALL = "*"

_MODEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Reference:
    """Nodes of a model, or what such are to be called: a name or a pattern."""

    model: int
    text: str
    span: Span


Value = Reference | str | int | bool
"""An argument, understood: a model or index is a number, a file or a prefix text."""


@dataclass(frozen=True)
class CommandStep:
    """`makes` is the model that comes to be; `block` the NDL of a snippet."""

    command: Command
    arguments: tuple[Value, ...]
    options: Mapping[str, str | bool]
    span: Span
    makes: int | None = None
    default: int | None = None
    block: Block | None = None


@dataclass(frozen=True)
class InlineStep:
    """A statement of NDL for a model."""

    model: int
    statement: Statement
    span: Span


@dataclass(frozen=True)
class ModelStep:
    """A model made of NDL."""

    makes: int
    block: Block
    span: Span


Step = CommandStep | InlineStep | ModelStep


@dataclass(frozen=True)
class Plan:
    """The steps; models are numbered as they come to be, those that were given first.

    names    of the models that there are at the end
    table    all macros
    inline   the statements of NDL for each model, in their order
    loaded   the files that are read as models
    """

    steps: tuple[Step, ...]
    names: Mapping[str, int]
    table: MacroTable
    inline: Mapping[int, Sequence[Statement]]
    loaded: frozenset[str]


def make_plan(
    script: Script,
    *,
    models: Sequence[str],
    macros: Sequence[Macro],
    given: Mapping[str, str],
    check_files: bool,
    sink: DiagnosticSink,
) -> Plan:
    """Understand a script; everything wrong goes into `sink`.

    models  names of the models that are there from the start, the first one the default
    macros  those of other files
    given   the defines, for snippets
    """
    planner = _Planner(given, check_files, sink)
    for name in models:
        planner.add_model(name)
    return planner.plan(script, macros)


@dataclass
class _Planner:
    given: Mapping[str, str]
    check_files: bool
    sink: DiagnosticSink
    names: dict[str, int] = field(default_factory=dict[str, int])
    spelling: dict[str, str] = field(default_factory=dict[str, str])
    default: int | None = None
    count: int = 0
    steps: list[Step] = field(default_factory=list[Step])
    inline: dict[int, list[Statement]] = field(default_factory=dict[int, list[Statement]])
    snippets: dict[tuple[str, str], Block] = field(default_factory=dict[tuple[str, str], Block])
    saved: set[str] = field(default_factory=set[str])
    loaded: set[str] = field(default_factory=set[str])
    is_broken: bool = False
    """A command could not be understood: it may have made the model that is missing."""

    def plan(self, script: Script, macros: Sequence[Macro]) -> Plan:
        """All steps of a script."""
        for item in script.items:
            try:
                match item:
                    case Call():
                        self._call(item)
                    case NewModel():
                        made = self._new_model(item.name)
                        self.steps.append(ModelStep(made, item.block, item.name.span))
                    case Inline():
                        self._inline(item)
            except GraphcError as error:
                self.sink.extend(error.diagnostics)
                self._go_on(item)
        blocks = [i.block for i in script.items if isinstance(i, NewModel)]
        blocks += self.snippets.values()
        known = [*macros, *script.macros, *(m for block in blocks for m in block.macros)]
        by_place = {macro.name.span: macro for macro in known}  # a file may be read several times
        table = collect_macros(by_place.values(), self.sink)
        self._check_calls(table, blocks)
        names = {self.spelling[key]: number for key, number in self.names.items()}
        return Plan(tuple(self.steps), names, table, self.inline, frozenset(self.loaded))

    def _go_on(self, item: Call | NewModel | Inline) -> None:
        """After a mistake: let there be the model that the item would have made."""
        target = item.target if isinstance(item, Call) else None
        name = item.name if isinstance(item, NewModel) else target
        if name is not None and name.key not in self.names:
            self.add_model(name.text)
        self.is_broken |= name is None and isinstance(item, Call)

    # ---- models ---------------------------------------------------------------------------

    def add_model(self, name: str) -> int:
        """A model of this name from here on; the first of all is the default."""
        number, self.count = self.count, self.count + 1
        self.names[name.lower()], self.spelling[name.lower()] = number, name
        if self.default is None:
            self.default = number
        return number

    def _new_model(self, name: Name | Word) -> int:
        """A model that the text gives a name."""
        if not _MODEL_NAME.fullmatch(name.text):
            message = f"a model's name is letters, digits and `_`, got `{name.text[:80]}`"
            raise fail("bad-value", message, name.span)
        if name.text.lower() in self.names:
            message = f"there is a model `{name.text}` already; UnloadModel frees its name"
            raise fail("duplicate-name", message, name.span)
        return self.add_model(name.text)

    def _unnamed_model(self, span: Span) -> int:
        """A model without a name, in the place of the one before if there is one."""
        old = self.names.pop(UNNAMED, None)
        if old is not None:
            message = f"this replaces the model before that has no name (it is `{UNNAMED}`)"
            self.sink.warning("duplicate-name", message, span)
            self.default = None if self.default == old else self.default
        return self.add_model(UNNAMED)

    def _model(self, word: Word) -> int:
        number = self.names.get(word.text.lower())
        if number is None:
            near = suggestion(word.text, self.spelling.values())
            message = f"there is no model `{word.text[:80]}` here{near}"
            raise fail("undefined-name", message, word.span)
        return number

    def _default_model(self, span: Span) -> int:
        if self.default is None and self.is_broken:
            raise GraphcError(())  # what there is to say has been said
        if self.default is None:
            message = "there is no default model here: LoadModel or CreateModel makes one"
            raise fail("undefined-name", message, span)
        return self.default

    # ---- commands -------------------------------------------------------------------------

    def _call(self, call: Call) -> None:
        """Understand a command."""
        command = _command_of(call)
        places = _places(command, call)
        options = self._options(command, call)
        values: list[Value] = []
        made: int | None = None
        for argument, word in zip(places, call.arguments, strict=True):
            if argument.kind == "new model" or (
                argument.kind == "any model" and word.text.lower() not in self.names
            ):
                made = self._new_model(word)
                values.append(made)
            else:
                values.append(self._value(argument, word, values, command))
        if command.makes_model:
            where = call.function.span
            named = call.target
            made = self._unnamed_model(where) if named is None else self._new_model(named)
        block = self._files(command, call, values, options)
        default = None
        if command.names[0] == "SaveDefaultModel" or len(places) < len(command.arguments):
            default = self._default_model(call.span) if _needs_default(command) else None
        self.steps.append(
            CommandStep(command, tuple(values), options, call.span, made, default, block)
        )
        self._after(command, values)

    def _after(self, command: Command, values: Sequence[Value]) -> None:
        """What a command changes about models."""
        if command.names[0] == "SetDefaultModel":
            (self.default,) = (v for v in values if isinstance(v, int))
        if command.names[0] == "UnloadModel":
            gone = {v for v in values if isinstance(v, int)}
            self.names = {name: n for name, n in self.names.items() if n not in gone}
            self.default = None if self.default in gone else self.default

    def _value(
        self, argument: Argument, word: Word, before: Sequence[Value], command: Command
    ) -> Value:
        """What an argument means."""
        match argument.kind:
            case "model" | "any model":
                return self._model(word)
            case "nodes" | "copies":
                return self._reference(word, None)
            case "node" | "new names":
                return self._reference(word, before[0])
            case "target":
                return self._reference(word, None)
            case "index":
                return _index(word)
            case "flag":
                return _flag(word)
            case "property":
                subtree = command.names[0] == "SetPropertyForSubTree"
                property_named(word.text, Location(word.span), subtree=subtree)
                return word.text
            case _:
                if not word.text and argument.kind == "file":
                    raise fail("bad-value", "the path of a file is required, got none", word.span)
                return word.text

    def _reference(self, word: Word, beside: Value | None) -> Reference:
        """Nodes of the model that the name starts with, else of that of `beside` or the default."""
        first, _, rest = word.text.partition(".")
        named = self.names.get(first.lower())
        if named is not None and not (rest == "" and "." in word.text):
            model, text = named, rest or ALL
        elif isinstance(beside, Reference):
            model, text = beside.model, word.text
        else:
            model, text = self._default_model(word.span), word.text
        if isinstance(beside, Reference) and beside.model != model:
            message = f"`{word.text}` has to be of the same model as the nodes before it"
            raise fail("argument-type", message, word.span)
        if not text:
            raise fail("bad-value", "a node's name is required, got none", word.span)
        return Reference(model, text, word.span)

    def _options(self, command: Command, call: Call) -> dict[str, str | bool]:
        found: dict[str, str | bool] = {}
        for option in call.options:
            named = options_named(option.name.text, command.options)
            if len(named) != 1:
                known = [name for row in command.options for name in row.names]
                takes = f"it takes {', '.join(known)}" if known else "it takes none"
                near = suggestion(option.name.text, known)
                message = f"{command.names[0]} has no option `{option.name.text}`, {takes}{near}"
                raise fail("bad-option", message, option.name.span)
            (row,) = named
            if row.names[0] in found:
                message = f"the option `{option.name.text}` is given twice"
                raise fail("bad-option", message, option.name.span)
            found[row.names[0]] = (
                _flag(option.value) if row.is_flag else _choice(option, row.values)
            )
        return found

    # ---- files ----------------------------------------------------------------------------

    def _files(
        self,
        command: Command,
        call: Call,
        values: Sequence[Value],
        options: Mapping[str, str | bool],
    ) -> Block | None:
        """Note what files are written and read; the block of a snippet."""
        places = _places(command, call)
        for argument, value, word in zip(places, values, call.arguments, strict=True):
            if argument.kind != "file" or not isinstance(value, str):
                continue
            if command.names[0] == "LoadNDLSnippet":
                return self._snippet(value, options.get("section"), word.span)
            if command.names[0].startswith("Load"):
                self.loaded.add(value)
                is_there = value in self.saved or not self.check_files
                if not (is_there or Path(value).is_file()):
                    raise fail("file", f"there is no model file {value}", word.span)
            elif command.names[0].startswith("Save"):
                self.saved.add(value)
        return None

    def _snippet(self, path: str, section: str | bool | None, span: Span) -> Block:
        """The NDL of a file, or of one of its sections, by default of the first."""
        wanted = section if isinstance(section, str) else ""
        known = self.snippets.get((path, wanted))
        if known is not None:
            return Block(known.statements, ())
        script = read_script(path, _read(path, span), self.given)
        problems = [*script.problems, *(p for s in script.sections for p in s.problems)]
        if problems:
            raise GraphcError(problems)
        names = [Name(wanted, span)] if wanted else [s.name for s in script.sections[:1]]
        found = DiagnosticSink()
        if wanted and not script.sections:
            raise fail("undefined-name", f"{path} has no sections, got section={wanted}", span)
        chosen = chosen_blocks(script, names, found)
        found.raise_if_errors()
        statements = tuple(s for block in chosen for s in block.statements)
        block = Block(statements, tuple(m for part in chosen for m in part.macros))
        self.snippets[path, wanted] = block
        return block

    # ---- NDL ------------------------------------------------------------------------------

    def _inline(self, item: Inline) -> None:
        model = self._default_model(item.span)
        self.steps.append(InlineStep(model, item.statement, item.span))
        self.inline.setdefault(model, []).append(item.statement)

    def _check_calls(self, table: MacroTable, blocks: Sequence[Block]) -> None:
        """Report calls of nothing, and macros that would grow beyond all limits."""
        statements = [s for found in self.inline.values() for s in found]
        for statement in statements:
            for call in statement.calls:
                name = call.function
                if name.key not in table.macros and not self._is_function(name):
                    known = [m.name.text for m in table.macros.values()]
                    known += spellings()
                    known += [n for c in COMMANDS if c.makes_model for n in c.names]
                    near = suggestion(name.text, known)
                    message = f"`{name.text}` is no function, no macro and no command that makes a "
                    self.sink.error("unknown-function", f"{message}model{near}", name.span)
        statements += [s for block in blocks for s in block.statements]
        within_limits(statements, table, Limits(), self.sink)

    def _is_function(self, name: Name) -> bool:
        """Whether NDL has the function; one of a broken plug-in is reported."""
        try:
            return find_function(name.key) is not None
        except GraphcError as broken:
            (problem,) = broken.diagnostics
            self.sink.error(problem.slug, problem.message, name.span)
            return True


def _command_of(call: Call) -> Command:
    """The command that a call means."""
    name, named = call.function, commands_named(call.function.text)
    if not named:
        spellings = [n for c in COMMANDS for n in c.names]
        near = suggestion(name.text, spellings)
        hint = (
            "" if name.key not in FUNCTION_BY_NAME else f"; in-line NDL is `x = {name.text}(...)`"
        )
        message = f"`{name.text}` is no command{near or hint}"
        raise fail("unknown-function", message, name.span)
    if len(named) > 1:
        possible = " or ".join(c.names[0] for c in named)
        message = f"`{name.text}` may stand for {possible}, write more of it"
        raise fail("unknown-function", message, name.span)
    (command,) = named
    if call.target is not None and not command.makes_model:
        message = f"{command.names[0]} makes no model that could be called `{call.target.text}`"
        raise fail("argument-type", message, call.target.span)
    return command


def _places(command: Command, call: Call) -> list[Argument]:
    """The argument that each word of a call is."""
    count, rows = len(call.arguments), command.arguments
    if command.repeats and count >= len(rows):
        return [*rows, *([rows[-1]] * (count - len(rows)))]
    if not command.least <= count <= len(rows):
        few = "" if command.least == len(rows) else f"{command.least} or "
        many = " or more" if command.repeats else ""
        plural = "" if len(rows) == 1 and not (few or many) else "s"
        message = f"`{command.usage}` takes {few}{len(rows)}{many} argument{plural}, got {count}"
        is_path = count > len(rows) and ":" in (call.span.line_text() or "")
        hint = "; a path with a colon needs quotes" if is_path and _has_file(rows) else ""
        raise fail("argument-count", message + hint, call.span)
    left_out = len(rows) - count
    places: list[Argument] = []
    for row in rows:
        if row.optional and left_out:
            left_out -= 1
        else:
            places.append(row)
    return places


def _has_file(rows: Sequence[Argument]) -> bool:
    return any(row.kind == "file" for row in rows)


def _needs_default(command: Command) -> bool:
    return command.names[0].startswith("Save")


def _index(word: Word) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", word.text):
        message = f"the number of an input is required, from 0 on, got `{word.text[:80]}`"
        raise fail("bad-value", message, word.span)
    return int(word.text)


def _flag(word: Word | Name | Literal) -> bool:
    value = FLAGS.get(word.text.lower())
    if value is None:
        raise fail("bad-value", f"true or false is required, got `{word.text[:80]}`", word.span)
    return value


def _choice(option: Option, values: Sequence[str] | None) -> str:
    """The value of an option that is one of `values`, or any text."""
    text = option.value.text
    if values is None:
        return text
    for value in values:
        if text.lower() == value:
            return value
    known = " or ".join(values)
    message = f"`{option.name.text}` is {known}, got `{text[:80]}`{suggestion(text, values)}"
    raise fail("bad-option", message, option.value.span)


def _read(path: str, span: Span) -> str:
    """The text of a snippet's file."""
    try:
        return read_text(Path(path))
    except GraphcError as error:
        raise fail("file", error.diagnostics[0].message, span) from error
