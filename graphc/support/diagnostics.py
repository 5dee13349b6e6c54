"""Messages for users: one `Diagnostic` class, a sink that collects them, rendering with carets.

Stages report into a `DiagnosticSink` and go on; whoever owns the stage calls `raise_if_errors`,
and then hands the warnings that are left to `warn`.
A message says what is required and what came, with names and types, no internal class names.

    error[shape-mismatch]: Times requires cols(W) = rows(x), got 128 and 784
      --> mlp.ndl:14:5
       |
    14 | h = Times(W, x)
       |     ^^^^^ W is matrix<10x128>
      note: x is matrix<784x*>, from mlp.ndl:9:1
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice

from graphc.support.callers import user_frame
from graphc.support.slugs import SLUGS
from graphc.support.source import Location, Span

MAX_SHOWN = 20
MAX_LINE = 160  # characters of a source line that a message shows
MAX_SUGGESTED_FROM = 1000  # names that a suggestion looks through, each of at most
MAX_SUGGESTED_LENGTH = 64  # characters: finding near names takes time in both


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

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled as it was made: pools of processes hand errors to their callers so."""
        return type(self), (self.diagnostics,), self.__dict__


class GraphcWarning(UserWarning):
    """What the user gave can be used, but may not be what was meant; carries diagnostics."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(render(self.diagnostics))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled as it was made: pools of processes hand errors to their callers so."""
        return type(self), (self.diagnostics,), self.__dict__


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

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Take over what another sink or an error holds."""
        self.diagnostics.extend(diagnostics)

    def raise_if_errors(self) -> None:
        if self.has_errors:
            raise GraphcError(self.diagnostics)


def warn(diagnostics: Iterable[Diagnostic]) -> None:
    """Give the warnings among the diagnostics to Python's `warnings`, as one `GraphcWarning`.

    It is counted at the user's line, so that Python shows it once for each.
    """
    found = [d for d in diagnostics if d.severity is Severity.WARNING]
    if not found:
        return
    frame = user_frame()
    names: dict[str, object] = frame.f_globals if frame is not None else {}
    warnings.warn_explicit(
        GraphcWarning(found),
        GraphcWarning,
        frame.f_code.co_filename if frame is not None else "<unknown>",
        frame.f_lineno if frame is not None else 0,
        registry=names.setdefault("__warningregistry__", {}),  # type: ignore[arg-type]
    )


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
    import difflib  # only for mistakes: its import takes 4 ms

    if len(name) > MAX_SUGGESTED_LENGTH:
        return ""
    short = (k for k in known if len(k) <= MAX_SUGGESTED_LENGTH)
    by_lower = {k.lower(): k for k in islice(short, MAX_SUGGESTED_FROM)}
    near = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return f"; did you mean `{by_lower[near[0]]}`?" if near else ""


def printable(text: str) -> str:
    """`text` with control characters written as escapes, safe for a terminal."""
    return "".join(c if c.isprintable() or c == " " else repr(c)[1:-1] for c in text)


def render(diagnostics: Sequence[Diagnostic], *, limit: int = MAX_SHOWN) -> str:
    """The diagnostics as text, sorted by place, at most `limit` of them, errors before warnings."""
    ordered = sorted(diagnostics, key=_sort_key)
    errors_first = sorted(ordered, key=lambda d: d.severity is not Severity.ERROR)
    parts = [_render_one(d) for d in sorted(errors_first[:limit], key=_sort_key)]
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
        lines.append(f"  note: {printable(note.message + place)}")
    return "\n".join(lines)


def _excerpt(span: Span, label: str) -> list[str]:
    lines = [f"  --> {printable(str(span))}"]
    text = span.line_text()
    if text is None:
        return lines
    first, part = _visible_part(text, span.column)
    # One character shown for each of the source, so that the caret stays under its column.
    shown = "".join(c if c.isprintable() else " " if c == "\t" else "?" for c in part)
    gutter = " " * len(str(span.line))
    start = min(max(span.column - first, 0), len(part))
    width = max(min(span.end_column - first, len(part)) - start, 1)
    lines.append(f"{gutter} |")
    lines.append(f"{span.line} | {shown}".rstrip())
    lines.append(f"{gutter} | {' ' * start}{'^' * width}{' ' + printable(label) if label else ''}")
    return lines


def _visible_part(text: str, column: int) -> tuple[int, str]:
    """What is shown of a line: the column of the first character shown, and the text.

    A long line is cut to a stretch around `column`, with `…` for what is left out.
    """
    if len(text) <= MAX_LINE:
        return 1, text
    start = min(max(column - 1 - MAX_LINE // 2, 0), len(text) - MAX_LINE)
    part = text[start : start + MAX_LINE]
    before = "…" if start else ""
    after = "…" if start + MAX_LINE < len(text) else ""
    return start + 1 - len(before), before + part + after
