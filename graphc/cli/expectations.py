"""Diagnostics that a file itself announces, for `graphc opt --check-errors`.

    h = Sigmod(x)       # error: unknown-function: did you mean `Sigmoid`?

A comment `error: slug: substring` (or `warning: …`) at the end of a line says that this line gets
this diagnostic. `error@+1:` and `error@-2:` mean another line, counted from the comment's, and
`error@none:` a diagnostic without a place. The comparison goes both ways: a missing diagnostic
and one that nobody announced are both complaints.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from graphc.support.diagnostics import Diagnostic

COMMENTS = {".gir": "//", ".ndl": "#"}


@dataclass(frozen=True, slots=True)
class Expected:
    """An announced diagnostic. `line` is where it has to be, None for one without a place."""

    severity: str
    slug: str
    substring: str
    line: int | None
    written_on: int

    def matches(self, found: Diagnostic) -> bool:
        line = found.span.line if found.span is not None else None
        return (
            self.severity == found.severity.value
            and self.slug == found.slug
            and self.line == line
            and self.substring in found.message
        )


def expected_diagnostics(text: str, comment: str) -> list[Expected]:
    """Every announcement in the text, in order."""
    start = rf"{re.escape(comment)}\s*(error|warning)(?:@([+-]\d+|none))?:\s*"
    pattern = re.compile(rf"{start}([\w-]+):\s*(.*?)\s*(?={start}|$)")
    found: list[Expected] = []
    for number, line in enumerate(text.splitlines(), 1):
        for match in pattern.finditer(line):
            severity, offset, slug, substring = match.groups()[:4]
            place = None if offset == "none" else number + int(offset or 0)
            found.append(Expected(severity, slug, substring, place, number))
    return found


def complaints(
    expected: Sequence[Expected], diagnostics: Sequence[Diagnostic], file: str
) -> list[str]:
    """What differs between announced and reported, one sentence each; empty if nothing does.

    Each announcement stands for one diagnostic.
    """
    open_ones = list(expected)
    unexpected: list[Diagnostic] = []
    for found in diagnostics:
        match = next((e for e in open_ones if e.matches(found)), None)
        if match is None:
            unexpected.append(found)
        else:
            open_ones.remove(match)
    missing = [
        f"{file}:{e.written_on}: announced but not reported: {e.severity}: {e.slug}: {e.substring}"
        for e in open_ones
    ]
    extra = [
        f"{d.span or file}: reported but not announced: {d.severity.value}: {d.slug}: {d.message}"
        for d in unexpected
    ]
    return missing + extra
