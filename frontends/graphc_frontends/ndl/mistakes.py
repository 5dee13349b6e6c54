"""The mistakes found while a text is read, up to a number after which nobody reads on.

Every message takes time and memory; a text that is no NDL would give one for each of its words.
"""

from __future__ import annotations

from collections.abc import Iterable

from graphc.support.diagnostics import Diagnostic, DiagnosticSink, Note, fail
from graphc.support.source import Location, Span

MAX_MISTAKES = 1000


class Mistakes(DiagnosticSink):
    """A sink that raises GraphcError `limit` when it is full."""

    def error(
        self,
        slug: str,
        message: str,
        where: Location | Span | None = None,
        *,
        label: str = "",
        notes: Iterable[Note] = (),
    ) -> None:
        super().error(slug, message, where, label=label, notes=notes)
        self._stop_when_full()

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        super().extend(diagnostics)
        self._stop_when_full()

    def _stop_when_full(self) -> None:
        if len(self.diagnostics) >= MAX_MISTAKES:
            last = self.diagnostics[-1]
            message = f"after {MAX_MISTAKES} mistakes the rest of the text is not read"
            raise fail("limit", message, last.span)
