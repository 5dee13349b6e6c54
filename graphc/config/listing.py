"""Lists a configuration with where each value came from: as text that can be read again, as data.

A value between brackets that is no set (a network in NDL stands there too) is shown as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphc.config.lookup import Entry, Scope
from graphc.support.diagnostics import GraphcError
from graphc.support.source import Span

INDENT = "  "


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a listing. depth: sets around it; value: None where a set begins or ends."""

    depth: int
    key: str
    value: str | None
    span: Span | None
    opens: bool = False


def lines(scope: Scope, *, resolve: bool, depth: int = 0) -> Iterator[Line]:
    """The keys and values of a set and of the sets in it. With `resolve`, `$name$` is put in."""
    for entry in scope.entries.values():
        inner = _inner(scope, entry)
        if inner is None:
            value = entry.value
            user = (scope.path, entry.key.chars.lower())
            shown = scope.resolve(value, (user,)) if resolve and not entry.is_set else value
            yield Line(depth, entry.key.chars, shown.chars, entry.key.span())
            continue
        yield Line(depth, entry.key.chars, None, entry.key.span(), opens=True)
        yield from lines(inner, resolve=resolve, depth=depth + 1)
        yield Line(depth, "", None, None)


def as_text(scope: Scope, *, resolve: bool) -> str:
    """One key a line, its place behind it as a comment."""
    texts: list[tuple[str, str]] = []
    for line in lines(scope, resolve=resolve):
        place = f"# {line.span}" if line.span is not None else ""
        texts.append((INDENT * line.depth + _shown(line), place))
    width = min(max((len(t) for t, _ in texts if "\n" not in t), default=0), 60)
    return "\n".join(f"{text:<{width}}  {place}".rstrip() for text, place in texts)


def as_data(scope: Scope, *, resolve: bool) -> list[dict[str, object]]:
    """The same as records, one in another: key, value or entries, file, line, column."""
    top: list[dict[str, object]] = []
    open_lists = [top]
    for line in lines(scope, resolve=resolve):
        if line.span is None:
            open_lists.pop()
            continue
        record: dict[str, object] = {"key": line.key}
        entries: list[dict[str, object]] = []
        record |= {"entries": entries} if line.opens else {"value": line.value}
        record |= {"file": line.span.file, "line": line.span.line, "column": line.span.column}
        open_lists[-1].append(record)
        if line.opens:
            open_lists.append(entries)
    return top


def _shown(line: Line) -> str:
    if line.span is None:
        return "]"
    return f"{line.key}=[" if line.opens else f"{line.key}={line.value}"


def _inner(scope: Scope, entry: Entry) -> Scope | None:
    """The set that a value is; None if it is none."""
    if not entry.is_set:
        return None
    try:
        return Scope(entry.key.chars, entry.parts, scope)
    except GraphcError:
        return None
