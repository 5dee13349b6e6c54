"""NDL, the network description language of the Computational Network Toolkit, as a front end.

`load` reads a text and builds its network through `graphc.builder`; `write` and `save` go the
other way. The way of a text:

    preprocess   comments out, $name$ in         lexer     words, numbers, brackets
    parser       statements, macros, sections    macros    one table; recursion and limits
    expand       statements and macro calls      assembly  nodes, names, what had to wait

with `functions` as the table of what can be called, `arguments` to read what it is called with, and
`scopes` for what a name means where. `docs/ndl.md` describes the language.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from graphc.support.diagnostics import (
    Diagnostic,
    DiagnosticSink,
    GraphcError,
    Severity,
    fail,
    suggestion,
)
from graphc.support.source import SourceFile
from graphc_frontends.ndl.arguments import array_tag
from graphc_frontends.ndl.ast import Block, Name, Script
from graphc_frontends.ndl.expand import expand
from graphc_frontends.ndl.lexer import number_value, tokenize
from graphc_frontends.ndl.macros import Limits, collect_macros, within_limits
from graphc_frontends.ndl.mistakes import Mistakes
from graphc_frontends.ndl.parser import parse
from graphc_frontends.ndl.preprocess import preprocess
from graphc_frontends.ndl.scopes import Number, Text, Value
from graphc_frontends.ndl.values import save as save
from graphc_frontends.ndl.writer import write as write

if TYPE_CHECKING:
    from graphc.builder import GraphBuilder

SUFFIXES = (".ndl",)
"""What files of this language end in."""

_DEFINE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def load(
    builder: GraphBuilder,
    text: str,
    *,
    file: str,
    macros: Sequence[tuple[str, str]] = (),
    defines: Mapping[str, object] | None = None,
) -> None:
    """Build the network that an NDL text describes.

    `macros` are further texts as (name for messages, text), read before `text`; their statements
    count like those of `text`. `defines` replace `$name$`, and a variable of the script with such
    a name has that value whatever the script assigns; `load` and `run` choose sections as the keys
    of that name do. Mistakes go to `builder.sink`, none are raised.
    """
    errors = error_count(builder.sink)
    try:
        given = define_texts(defines or {})
        scripts = [read_script(name, source, given) for name, source in macros]
        main = read_script(file, text, given)
        names = [*_section_names("load", main.load, given), *_section_names("run", main.run, given)]
        for script in scripts:
            _report_mistakes(script, (), builder.sink)
        _report_mistakes(main, names or [section.name for section in main.sections], builder.sink)
        if error_count(builder.sink) == errors:
            chosen = chosen_blocks(main, names, builder.sink)
            blocks = [*(script.block for script in scripts), *chosen]
            _build(builder, blocks, given)
            if error_count(builder.sink) == errors:
                _warn_of_no_nodes(blocks, file, builder.sink)
            warn_of_unused_defines(given, [*(t for _, t in macros), text], builder.sink)
    except GraphcError as error:
        builder.sink.extend(error.diagnostics)


def read_script(name: str, text: str, given: Mapping[str, str]) -> Script:
    """Parse one file, a byte order mark before it left out; its mistakes stay with its parts."""
    source = SourceFile(name, text.removeprefix("\ufeff"))
    sink = Mistakes()
    try:
        plain = preprocess(source, given, sink)
        script = parse(tokenize(plain, sink), plain, sink)
    except GraphcError as too_much:
        raise GraphcError([*sink.diagnostics, *too_much.diagnostics]) from None
    return _with_mistakes(script, sink.diagnostics)


def _with_mistakes(script: Script, diagnostics: Sequence[Diagnostic]) -> Script:
    """The script with each mistake given to the section that it is in, if it is in one."""
    inside: dict[str, list[Diagnostic]] = {s.name.key: list(s.problems) for s in script.sections}
    outside: list[Diagnostic] = []
    starts = [(s.name.span.line, s.name.span.column) for s in script.sections]
    for d in diagnostics:
        index = bisect_right(starts, (d.span.line, d.span.column)) - 1 if d.span else -1
        section = script.sections[index] if index >= 0 else None
        is_inside = section is not None and d.span is not None and section.encloses(d.span)
        (inside[section.name.key] if section is not None and is_inside else outside).append(d)
    sections = tuple(replace(s, problems=tuple(inside[s.name.key])) for s in script.sections)
    return replace(script, sections=sections, problems=tuple(outside))


def _report_mistakes(script: Script, run: Sequence[Name], sink: DiagnosticSink) -> None:
    """Report what is wrong with a file; of sections that are not run one warning each."""
    sink.extend(script.problems)
    keys = {name.key for name in run}
    for section in script.sections:
        if section.name.key in keys:
            sink.extend(section.problems)
        elif section.problems:
            first, *others = section.problems
            more = f" (and {len(others)} more)" if others else ""
            message = f"the section `{section.name.text}`, which is not run, cannot be read"
            sink.warning(first.slug, f"{message}: {first.message}{more}", first.span)


def chosen_blocks(main: Script, names: Sequence[Name], sink: DiagnosticSink) -> list[Block]:
    """The parts of a file that count: all of it, or the sections that are named."""
    if not main.sections and main.load is None and main.run is None:
        return [main.block]
    if not names:
        first = main.sections[0].name
        message = f"a file with sections names those to run, as in `run={first.text}`"
        raise fail("parse", message, first.span)
    for statement in main.block.statements:
        if statement.target is not None:
            message = f"`{statement.target.text}` is in no section, so it is left out"
            sink.warning("parse", message, statement.target.span)
    sections = {section.name.key: section.block for section in main.sections}
    blocks = {"": Block((), main.block.macros)}
    for name in names:
        if name.key not in sections:
            near = suggestion(name.text, sections)
            message = f"the file has no section `{name.text}`{near}"
            sink.error("undefined-name", message, name.span)
        else:
            blocks[name.key] = sections[name.key]
    return list(blocks.values())


def _section_names(
    key: str, written: tuple[Name, ...] | None, given: Mapping[str, str]
) -> Sequence[Name]:
    """The sections that a key names; a define of that name wins over the file."""
    if key not in given:
        return written or ()
    span = SourceFile(f"define {key}", given[key]).span(0, len(given[key]))
    return [Name(name.strip(), span) for name in given[key].split(":")]


def _build(builder: GraphBuilder, blocks: Sequence[Block], given: Mapping[str, str]) -> None:
    table = collect_macros([macro for block in blocks for macro in block.macros], builder.sink)
    statements = [statement for block in blocks for statement in block.statements]
    if within_limits(statements, table, Limits(), builder.sink):
        expand(builder, statements, table, variables_of(given))


def _warn_of_no_nodes(blocks: Sequence[Block], file: str, sink: DiagnosticSink) -> None:
    """A text that calls nothing outside of macros makes an empty network."""
    if any(statement.calls for block in blocks for statement in block.statements):
        return
    macros = [macro.name for block in blocks for macro in block.macros]
    message = f"{file} makes no nodes"
    if macros:
        first = ", ".join(f"`{name.text}`" for name in macros[:3])
        more = ", …" if len(macros) > 3 else ""
        message += (
            f", it only defines macros ({first}{more}): give it beside a network that calls them, "
            "by `--macros` or, in Python, `macros=`"
        )
    sink.warning("missing-node", message, macros[0].span if macros else None)


def define_texts(defines: Mapping[str, object]) -> dict[str, str]:
    """The text of every define, by name in lower case."""
    texts: dict[str, str] = {}
    for name, value in defines.items():
        if isinstance(value, bool):
            text = "true" if value else "false"
        elif isinstance(value, str | int | float):
            text = str(value)
        else:
            kind = type(value).__name__
            raise fail("bad-value", f"the define `{name}` has to be a number or text, got a {kind}")
        if name.lower() in texts:
            message = f"names know no case: one value for `{name}` is required, got two"
            raise fail("duplicate-name", message)
        # How NDL writes infinity; str() writes it as inf.
        texts[name.lower()] = {"inf": "1#INF", "-inf": "-1#INF"}.get(text, text)
    return texts


def variables_of(given: Mapping[str, str]) -> dict[str, Value]:
    """The defines as variables of the script."""
    variables: dict[str, Value] = {}
    for name, text in given.items():
        number = number_value(text)
        if _DEFINE_NAME.fullmatch(name) and array_tag(name) is None:
            variables[name] = Value(Text(text) if number is None else Number(number, text))
    return variables


def warn_of_unused_defines(
    given: Mapping[str, str], texts: Sequence[str], sink: DiagnosticSink
) -> None:
    """A define that occurs in no text is likely to be misspelt."""
    seen = [*texts, *given.values()]
    words = {word.lower(): word for text in seen for word in re.findall(r"[A-Za-z_]\w*", text)}
    for name in given:
        if name not in words:
            near = suggestion(name, words.values())
            sink.warning("bad-option", f"the define `{name}` is used nowhere{near}")


def error_count(sink: DiagnosticSink) -> int:
    return sum(d.severity is Severity.ERROR for d in sink.diagnostics)
