"""Counts the lines of a data file that cannot be used, and decides when they are too many; and the
numbers that are none to compute with."""

from __future__ import annotations

from dataclasses import dataclass, field

from graphc.support.diagnostics import (
    MAX_SHOWN,
    Diagnostic,
    DiagnosticSink,
    GraphcError,
    Note,
    Severity,
    make,
)
from graphc.support.source import Span

LONGEST_QUOTE = 80


@dataclass
class BadLines:
    """What is wrong in one file: the first `MAX_SHOWN` errors, and how many lines have any.

    Up to `allowed` bad lines are left out of the data; one more and the file is refused. Numbers
    that are nan or infinite are used, but counted: they are likely to spoil what is computed.
    """

    file: str
    allowed: int
    errors: list[Diagnostic] = field(default_factory=list[Diagnostic])
    lines: int = 0
    infinite: int = 0
    first_infinite: Diagnostic | None = None

    @property
    def is_full(self) -> bool:
        """Whether further errors change nothing: refused, and enough to show."""
        return self.lines > self.allowed and len(self.errors) >= MAX_SHOWN

    def add(self, slug: str, message: str, span: Span) -> None:
        """Note an error. Lines are counted apart, since one line can have several."""
        if len(self.errors) < MAX_SHOWN:
            self.errors.append(make(Severity.ERROR, slug, message, span, "", ()))

    def add_infinite(self, count: int, message: str, span: Span) -> None:
        """Count numbers that are not finite; the message is about the first one."""
        self.infinite += count
        if self.first_infinite is None:
            self.first_infinite = make(Severity.WARNING, "bad-data", message, span, "", ())

    def raise_if_too_many(self) -> None:
        """GraphcError with the errors found if more lines are bad than allowed."""
        if self.lines <= self.allowed:
            return
        if self.allowed:
            note = Note(f"at most {self.allowed} bad lines are allowed, there are more")
            last = self.errors[-1]
            self.errors[-1] = make(
                last.severity, last.slug, last.message, last.span, last.label, (note,)
            )
        raise GraphcError(self.errors)

    def report(self, sink: DiagnosticSink | None, used: int) -> None:
        """Warn once about the lines left out, and once about numbers that are not finite."""
        if sink is None:
            return
        if self.first_infinite is not None:
            odd = self.first_infinite
            notes = (Note(f"{self.file} has {self.infinite} such numbers"),)
            sink.warning("bad-data", odd.message, odd.span, notes=notes * (self.infinite > 1))
        if not self.lines:
            return
        first = self.errors[0]
        plural = "lines were" if self.lines > 1 else "line was"
        message = f"{self.lines} bad {plural} left out of {self.file}, {used} were used"
        sink.warning("bad-data", message, notes=(Note(first.message, first.span),))


def quoted(text: str) -> str:
    """A cell as messages show it: in backticks, cut to `LONGEST_QUOTE` characters."""
    return f"`{text}`" if len(text) <= LONGEST_QUOTE else f"`{text[: LONGEST_QUOTE - 1]}…`"
