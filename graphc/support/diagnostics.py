"""Messages for users: one `Diagnostic` class, a sink that collects them, rendering with carets.

Stages report into a `DiagnosticSink` and go on; whoever owns the stage calls `raise_if_errors`.
A message says what is required and what came, with names and types, no internal class names.

    error[shape-mismatch]: Times requires cols(W) = rows(x), got 128 and 784
      --> mlp.ndl:14:5
       |
    14 | h = Times(W, x)
       |     ^^^^^ W is matrix<10x128>
      note: x is matrix<784x*>, from mlp.ndl:9:1
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from graphc.support.slugs import SLUGS
from graphc.support.source import Location, Span

MAX_SHOWN = 20


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Note:
    """A remark under a diagnostic, with a place of its own if it has one."""

    message: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message: slug from `SLUGS`, sentence, place, text beside the caret, notes."""

    severity: Severity
    slug: str
    message: str
    span: Span | None = None
    label: str = ""
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        if self.slug not in SLUGS:
            raise ValueError(f"diagnostic slug {self.slug!r} is not listed in support/slugs.py")


class GraphcError(Exception):
    """What the user gave cannot be used; carries one or more diagnostics."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(render(self.diagnostics))


class BackendUnavailable(GraphcError):
    """A package, device or program that a backend needs is missing."""


class InternalError(Exception):
    """A mistake in graphc: it names the pass, the operation and a reproducer if written."""


class DiagnosticSink:
    """Collects diagnostics so that one run reports every mistake it can see."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []

    @property
    def has_errors(self) -> bool:
        return any(d.severity is Severity.ERROR for d in self.diagnostics)

    def error(
        self,
        slug: str,
        message: str,
        where: Location | Span | None = None,
        *,
        label: str = "",
        notes: Iterable[Note] = (),
    ) -> None:
        """Report an error at `where`; the macro call path of a Location becomes notes."""
        self.diagnostics.append(make(Severity.ERROR, slug, message, where, label, notes))

    def warning(
        self,
        slug: str,
        message: str,
        where: Location | Span | None = None,
        *,
        label: str = "",
        notes: Iterable[Note] = (),
    ) -> None:
        self.diagnostics.append(make(Severity.WARNING, slug, message, where, label, notes))

    def raise_if_errors(self) -> None:
        if self.has_errors:
            raise GraphcError(self.diagnostics)


def make(
    severity: Severity,
    slug: str,
    message: str,
    where: Location | Span | None,
    label: str,
    notes: Iterable[Note],
) -> Diagnostic:
    """A diagnostic at a span or location."""
    span, path = where, []
    if isinstance(where, Location):
        span = where.span
        path = [Note("in the macro called here", caller) for caller in where.call_path()]
    assert not isinstance(span, Location)
    return Diagnostic(severity, slug, message, span, label, (*notes, *path))


def fail(
    slug: str,
    message: str,
    where: Location | Span | None = None,
    *,
    label: str = "",
    notes: Iterable[Note] = (),
) -> GraphcError:
    """A `GraphcError` with this one diagnostic, for `raise fail(...)`."""
    return GraphcError([make(Severity.ERROR, slug, message, where, label, notes)])


def suggestion(name: str, known: Iterable[str]) -> str:
    """'; did you mean `x`?' for the nearest known name (any case), or ''."""
    by_lower = {k.lower(): k for k in known}
    near = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return f"; did you mean `{by_lower[near[0]]}`?" if near else ""


def printable(text: str) -> str:
    """`text` with control characters written as escapes, safe for a terminal."""
    return "".join(c if c.isprintable() or c == " " else repr(c)[1:-1] for c in text)


def render(diagnostics: Sequence[Diagnostic], *, limit: int = MAX_SHOWN) -> str:
    """The diagnostics as text, sorted by place, at most `limit` of them."""
    ordered = sorted(diagnostics, key=_sort_key)
    parts = [_render_one(d) for d in ordered[:limit]]
    if len(ordered) > limit:
        parts.append(f"… and {len(ordered) - limit} more")
    return "\n".join(parts)


def _sort_key(d: Diagnostic) -> tuple[str, int, int]:
    return (d.span.file, d.span.line, d.span.column) if d.span else ("", 0, 0)


def _render_one(d: Diagnostic) -> str:
    lines = [f"{d.severity.value}[{d.slug}]: {printable(d.message)}"]
    if d.span is not None:
        lines.extend(_excerpt(d.span, d.label))
    for note in d.notes:
        place = f", from {note.span}" if note.span is not None else ""
        lines.append(f"  note: {printable(note.message)}{place}")
    return "\n".join(lines)


def _excerpt(span: Span, label: str) -> list[str]:
    lines = [f"  --> {span}"]
    text = span.line_text()
    if text is None:
        return lines
    # One character shown for each of the source, so that the caret stays under its column.
    shown = "".join(c if c.isprintable() else " " if c == "\t" else "?" for c in text)
    gutter = " " * len(str(span.line))
    caret = " " * (span.column - 1) + "^" * max(span.end_column - span.column, 1)
    lines.append(f"{gutter} |")
    lines.append(f"{span.line} | {shown}")
    lines.append(f"{gutter} | {caret}{' ' + printable(label) if label else ''}")
    return lines
