"""The macros of a network: one table, and what is checked before any of them is expanded.

Recursion, nesting and the number of calls that an expansion will make are properties of the call
graph between macros. They are computed here once, from the innermost macros outwards, so the
expansion itself needs no counters and a text that would explode is refused at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphc.support.diagnostics import DiagnosticSink, Note
from graphc.support.graphs import strongly_connected_components
from graphc_frontends.ndl.ast import Call, Macro, Statement
from graphc_frontends.ndl.functions import FUNCTION_BY_NAME


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a text may ask for: macro calls inside macro calls, and calls in all."""

    depth: int = 64
    calls: int = 1_000_000


@dataclass(frozen=True, slots=True)
class MacroTable:
    """Macros by name in lower case, and those that cannot be expanded since they recur."""

    macros: Mapping[str, Macro]
    recursive: frozenset[str]
    order: tuple[str, ...]
    """Every macro after those it calls."""

    def called_by(self, call: Call) -> Macro | None:
        """The macro that a call means, None if it means a function or nothing."""
        return self.macros.get(call.function.key)


def collect_macros(definitions: Iterable[Macro], sink: DiagnosticSink) -> MacroTable:
    """Enter the macros of all files; reports repeated names and recursion."""
    macros: dict[str, Macro] = {}
    for macro in definitions:
        function = FUNCTION_BY_NAME.get(macro.name.key)
        first = macros.get(macro.name.key)
        if function is not None and function.in_book:
            message = f"`{macro.name.text}` is a function of NDL, a macro needs another name"
            sink.error("duplicate-name", message, macro.name.span)
        elif first is not None:
            notes = [Note("first defined here", first.name.span)]
            message = f"the macro `{macro.name.text}` is already defined"
            sink.error("duplicate-name", message, macro.name.span, notes=notes)
        else:
            macros[macro.name.key] = macro
    callees = {key: list(_callees(macro.body, macros)) for key, macro in macros.items()}
    order: list[str] = []
    recursive: set[str] = set()
    for component in strongly_connected_components(macros, lambda key: callees[key]):
        order += component
        if len(component) > 1 or component[0] in callees[component[0]]:
            recursive.update(component)
            _report_recursion(macros, component, callees, sink)
    return MacroTable(macros, frozenset(recursive), tuple(order))


def within_limits(
    statements: Sequence[Statement], table: MacroTable, limits: Limits, sink: DiagnosticSink
) -> bool:
    """Whether these statements of the script can be expanded; reports the call that cannot."""
    depth: dict[str, int] = {}
    calls: dict[str, int] = {}
    for key in table.order:
        inner = [k for k in _callees(table.macros[key].body, table.macros) if k in depth]
        depth[key] = 1 + max((depth[k] for k in inner), default=0)
        # Cut at the limit: the exact numbers of a long chain of macros would fill the memory.
        calls[key] = min(_count(table.macros[key].body, calls), limits.calls + 1)
    total = 0
    for statement in statements:
        for call in statement.calls:
            key = call.function.key
            total += 1 + calls.get(key, 0)
            if depth.get(key, 0) > limits.depth:
                message = f"macros may call each other {limits.depth} deep, got {depth[key]}"
                sink.error("limit", message, call.span)
                return False
            if total > limits.calls:
                message = f"macros may expand to {limits.calls} calls in all, this makes it more"
                sink.error("limit", message, call.span)
                return False
    return True


def _callees(body: Iterable[Statement], macros: Mapping[str, Macro]) -> Iterable[str]:
    """The macros that a body calls, one entry for each call."""
    keys = (call.function.key for statement in body for call in statement.calls)
    return (key for key in keys if key in macros)


def _count(body: Iterable[Statement], calls: Mapping[str, int]) -> int:
    """The calls that one expansion of a body makes."""
    return sum(1 + calls.get(call.function.key, 0) for s in body for call in s.calls)


def _report_recursion(
    macros: Mapping[str, Macro],
    component: Sequence[str],
    callees: Mapping[str, Sequence[str]],
    sink: DiagnosticSink,
) -> None:
    """One error for a set of macros that call each other, at the first call of the cycle."""
    start = min(component, key=list(macros).index)
    cycle = [*_way_back(start, set(component), callees), start]
    names = " -> ".join(macros[key].name.text for key in cycle)
    calls = (c for s in macros[start].body for c in s.calls if c.function.key == cycle[1])
    message = f"a macro cannot call itself, got {names}"
    sink.error("recursion", message, next(calls).span)


def _way_back(start: str, among: set[str], callees: Mapping[str, Sequence[str]]) -> list[str]:
    """The shortest way from `start` through `among` to a macro that calls `start`."""
    came_from: dict[str, str] = {}
    queue = deque([start])
    while start not in callees[queue[0]]:
        key = queue.popleft()
        for callee in callees[key]:
            if callee in among and callee != start and callee not in came_from:
                came_from[callee] = key
                queue.append(callee)
    way = [queue[0]]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    way.reverse()
    return way
