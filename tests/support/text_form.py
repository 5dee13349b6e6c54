"""IR out of text for tests, and the diagnostics that reading or verifying it gives."""

from __future__ import annotations

import textwrap

from graphc.ir.core import Module
from graphc.ir.parser import parse_module
from graphc.ir.verifier import verify_module
from graphc.ops import default_context
from graphc.support.diagnostics import Diagnostic, DiagnosticSink, render


def parsed(text: str) -> Module:
    """The module in a text that reads without mistakes; it need not be legal."""
    context = default_context()
    module = parse_module(textwrap.dedent(text), context, file="t.gir")
    assert not context.sink.diagnostics, render(context.sink.diagnostics)
    return module


def legal(text: str) -> Module:
    """The module in a text that reads and verifies without mistakes."""
    module = parsed(text)
    assert broken_rules(module) == []
    return module


def parse_problems(text: str) -> list[str]:
    """What the parser reports, as `line:column-end slug: message`."""
    context = default_context()
    parse_module(textwrap.dedent(text), context, file="t.gir")
    return [_line(d) for d in context.sink.diagnostics]


def broken_rules(module: Module) -> list[str]:
    """What the verifier reports, as `slug: message`."""
    sink = DiagnosticSink()
    verify_module(module, sink)
    return [f"{d.slug}: {d.message}" for d in sink.diagnostics]


def _line(d: Diagnostic) -> str:
    assert d.span is not None
    return f"{d.span.line}:{d.span.column}-{d.span.end_column} {d.slug}: {d.message}"
