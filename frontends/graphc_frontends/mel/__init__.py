"""MEL, the model editing language of the Computational Network Toolkit, as a front end.

`edit` carries a text of commands out. The way of a text:

    ndl.preprocess   comments out, $name$ in      parser     commands, in-line NDL, models
    plan             models, names, all checks    session    the commands, one after the other

with `commands` as the table of what can be called and `outbox` for the files that are written.
What the commands do to a network is `graphc.builder.Editor`. `docs/mel.md` describes the language.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from graphc.builder import Edited
from graphc.support.diagnostics import DiagnosticSink
from graphc.support.source import SourceFile
from graphc_frontends.mel.parser import parse
from graphc_frontends.mel.plan import Plan, make_plan
from graphc_frontends.mel.session import Session
from graphc_frontends.ndl import define_texts, read_script, variables_of, warn_of_unused_defines
from graphc_frontends.ndl.mistakes import Mistakes
from graphc_frontends.ndl.preprocess import preprocess

if TYPE_CHECKING:
    from graphc.builder import Workshop

SUFFIXES = (".mel",)
"""What files of this language end in."""


def edit(
    text: str,
    *,
    file: str,
    workshop: Workshop,
    macros: Sequence[tuple[str, str]] = (),
    defines: Mapping[str, object] | None = None,
) -> Edited:
    """Carry out a text of MEL.

    `macros` are texts of NDL as (name for messages, text). `defines` replace `$name$`, and a
    variable of in-line NDL with such a name has that value. GraphcError with all mistakes found;
    then nothing is written and the networks of the workshop are what they were.
    """
    given = define_texts(defines or {})
    sink = Mistakes()
    plan = _plan(text, file, workshop, macros, given, sink)
    sink.raise_if_errors()
    if workshop.only_check:
        return Edited({}, (), tuple(sink.diagnostics))
    session = Session(plan, workshop, variables_of(given))
    networks = session.run()
    warnings = (*sink.diagnostics, *session.warnings)
    return Edited(networks, tuple(session.written), warnings)


def _plan(
    text: str,
    file: str,
    workshop: Workshop,
    macros: Sequence[tuple[str, str]],
    given: Mapping[str, str],
    sink: DiagnosticSink,
) -> Plan:
    """Read all texts and understand the script; everything wrong goes into `sink`."""
    others = [read_script(name, source, given) for name, source in macros]
    for other in others:
        sink.extend(other.problems)
        sink.extend(p for section in other.sections for p in section.problems)
        for statement in other.block.statements:
            span = statement.calls[-1].span if statement.target is None else statement.target.span
            message = "a file of macros is read for these, this statement is left out"
            sink.warning("parse", message, span)
    plain = preprocess(SourceFile(file, text.removeprefix("\ufeff")), given, sink)
    script = parse(plain, sink)
    known = [m for other in others for m in other.block.macros]
    known += [m for other in others for section in other.sections for m in section.block.macros]
    plan = make_plan(
        script,
        models=[*workshop.models],
        macros=known,
        given=given,
        check_files=not workshop.only_check,
        sink=sink,
    )
    warn_of_unused_defines(given, [*(t for _, t in macros), text], sink)
    return plan
