"""Loads NDL text for the tests of that front end, into a builder that only records."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from graphc.support.diagnostics import Diagnostic, render
from graphc_frontends import ndl
from tests.support.recording_builder import RecordedNode, RecordingBuilder

if TYPE_CHECKING:
    from graphc.builder import GraphBuilder


def load(
    text: str,
    *,
    macros: Sequence[tuple[str, str]] = (),
    defines: Mapping[str, object] | None = None,
) -> RecordingBuilder:
    """Load a text, wrong or not."""
    builder = RecordingBuilder()
    ndl.load(
        cast("GraphBuilder", builder),
        textwrap.dedent(text),
        file="net.ndl",
        macros=macros,
        defines=defines,
    )
    return builder


def network(
    text: str,
    *,
    macros: Sequence[tuple[str, str]] = (),
    defines: Mapping[str, object] | None = None,
) -> str:
    """The nodes of a text without mistakes, one a line: `name = op(operands) settings #tags`."""
    builder = load(text, macros=macros, defines=defines)
    assert not builder.sink.diagnostics, render(builder.sink.diagnostics)
    return str(builder)


def node(text: str, name: str) -> RecordedNode:
    """One node of a text without mistakes."""
    builder = load(text)
    assert not builder.sink.diagnostics, render(builder.sink.diagnostics)
    found = builder.find(name)
    assert found is not None, f"no {name} in:\n{builder}"
    return found


def problems(
    text: str,
    *,
    macros: Sequence[tuple[str, str]] = (),
    defines: Mapping[str, object] | None = None,
) -> list[str]:
    """The diagnostics as `line:column-end slug: message`, by place."""
    found = load(text, macros=macros, defines=defines).sink.diagnostics
    return sorted(
        (_line(d) for d in found), key=lambda line: [int(n) for n in line.split("-")[0].split(":")]
    )


def problem(text: str, *, defines: Mapping[str, object] | None = None) -> str:
    """The only diagnostic of a text."""
    found = problems(text, defines=defines)
    assert len(found) == 1, found
    return found[0]


def _line(diagnostic: Diagnostic) -> str:
    span = diagnostic.span
    place = f"{span.line}:{span.column}-{span.end_column}" if span is not None else "0:0-0"
    return f"{place} {diagnostic.slug}: {diagnostic.message}"
