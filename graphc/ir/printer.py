"""The text form of the IR; `parser.py` is its exact inverse (grammar: `docs/ir.md`).

Printing is deterministic: functions and operations in order, params in field order with defaults
left out, values called as `names.py` says.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from graphc.ir.core import Block, Function, Module, Operation, RegionKind, Value
from graphc.ir.names import bare_names
from graphc.ir.params import print_params, quote
from graphc.ir.types import Symbol
from graphc.support.source import Location, Span

_BARE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
_NUMBER_WORD = re.compile(r"(inf|nan)\b")  # what without a sigil would be read as a number


def print_module(module: Module, *, locations: bool = False) -> str:
    """The whole module, ending in a newline."""
    parts: list[str] = []
    if module.dims:
        parts.append("".join(f"{dim_text(d)}\n" for d in module.dims))
    parts.extend(print_function(f, locations=locations) for f in module.functions)
    return "\n".join(parts)


def dim_text(dim: Symbol) -> str:
    """`dim N <= 256`, `dim H <= 512 step 32`, `dim N = T * S`, `dim C = T / 8` or
    `dim P = (T - 1) / 2`."""
    if (formula := dim.formula) is not None:
        return f"dim {dim.name} = {formula}"
    return f"dim {dim.name} <= {dim.bound}" + (f" step {dim.step}" if dim.step != 1 else "")


def print_function(function: Function, *, locations: bool = False) -> str:
    return _Printer(function, locations).function()


def print_operation(op: Operation) -> str:
    """One operation as it stands in its function; for messages. O(size of the function)."""
    return operation_printer(_enclosing_function(op))(op)


def value_names(function: Function) -> dict[Value, str]:
    """What the text of `function` calls each of its values, `%` included."""
    names = {v: print_name("%", name) for v, name in bare_names(function).items()}
    if function.kind is RegionKind.GRAPH:  # a node's name counts: one without stays without
        nameless = (v for v in names if not v.name)
        names.update((v, f"%{number}") for number, v in enumerate(nameless))
    return names


def operation_printer(function: Function | None) -> Callable[[Operation], str]:
    """Prints operations of `function` one by one; its values are named once, when first asked."""
    made: list[_Printer] = []

    def text(op: Operation) -> str:
        if not made:
            made.append(_Printer(function, False))
        lines: list[str] = []
        made[0].operation(op, 0, lines)
        return lines[0].lstrip().removesuffix(" {")

    return text


def _enclosing_function(op: Operation) -> Function | None:
    current: Operation | None = op
    while current is not None and current.block is not None and current.block.region is not None:
        owner = current.block.region.owner
        if isinstance(owner, Function):
            return owner
        current = owner
    return None


def operation_text(op: Operation, name: Callable[[Value], str], *, places: bool = True) -> str:
    """The line of `op` without its location and body, with values called as `name` says."""
    results = ", ".join(map(name, op.results))
    text = f"{results} = {op.opdef.name}" if results else op.opdef.name
    if op.operands:
        text += " " + ", ".join(map(name, op.operands))
    text += print_params(op.params)
    if schedule := print_params(op.schedule):
        text += f" schedule{schedule}"
    if op.placement and places:
        text += f" at {', '.join(map(str, op.placement))}"
    if op.workspace and places:
        text += f" workspace {', '.join(map(str, op.workspace))}"
    if op.results:
        text += " : " + ", ".join(str(v.type) for v in op.results)
    return text


class _Printer:
    """Prints one function; holds the names given to its values."""

    def __init__(self, function: Function | None, locations: bool) -> None:
        self._function = function
        self._locations = locations
        self._names = value_names(function) if function is not None else {}

    def name(self, value: Value) -> str:
        if value not in self._names:  # outside the function: only in messages about broken IR
            self._names[value] = print_name("%", value.called)
        return self._names[value]

    def function(self) -> str:
        f = self._function
        assert f is not None
        head = f"{f.kind.value} {print_name('@', f.name)}"
        if f.arguments or f.results:
            arguments = ", ".join(
                f"{self.name(a)}: {a.type} {role}"
                for a, role in zip(f.arguments, f.roles, strict=True)
            )
            head += f"({arguments})"
        if f.results:
            infos = zip(f.results, f.returned, strict=False)
            head += f" -> ({', '.join(self._result(r.name, v, r.updates) for r, v in infos)})"
        if f.arena is not None:
            head += f" arena {f.arena}"
        if f.contraction != "fma":
            head += f" contraction {f.contraction}"
        if f.launch != "auto":
            head += f" launch {f.launch}"
        lines = [head + " {"]
        self._block(f.block, 1, lines)
        lines.append("}")
        return "\n".join(lines) + "\n"

    def _result(self, name: str, value: Value, updates: str | None) -> str:
        tail = f" updates {print_name('%', updates)}" if updates is not None else ""
        return f"{print_name('', name)}: {value.type}{tail}"

    def _block(self, block: Block, depth: int, lines: list[str]) -> None:
        for op in block:
            self.operation(op, depth, lines)

    def operation(self, op: Operation, depth: int, lines: list[str]) -> None:
        """Append the lines of `op`; nesting is at most a few regions deep."""
        indent = "  " * depth
        text = indent + operation_text(op, self.name)
        if self._locations:
            text += f" {print_location(op.location)}"
        if not op.regions:
            lines.append(text)
            return
        lines.append(text + " {")
        for region in op.regions:
            for block in region.blocks:
                arguments = ", ".join(f"{self.name(a)}: {a.type}" for a in block.arguments)
                lines.append(f"{indent}^({arguments}):")
                self._block(block, depth + 1, lines)
        lines.append(f"{indent}}}")


def print_name(sigil: str, name: str) -> str:
    """`%name`, quoted where the name is not a plain identifier."""
    is_bare = _BARE_NAME.match(name) and (sigil or not _NUMBER_WORD.match(name))
    return sigil + (name if is_bare else quote(name))


def print_location(location: Location) -> str:
    """`loc("net.ndl":3:5-9 from "net.ndl":12:1-8, "b.ndl":1:1-2)`; commas separate merged ones.

    An unknown one is `loc(unknown)`: the parser would take an operation without any to come from
    the line that it stands in.
    """
    if not location.is_known:
        return "loc(unknown)"
    parts = [_print_chain(location), *(_print_chain(m) for m in location.merged)]
    return f"loc({', '.join(parts)})"


def _print_chain(location: Location) -> str:
    spans = [s for s in (location.span, *location.call_path()) if s is not None]
    return " from ".join(_print_span(s) for s in spans)


def _print_span(span: Span) -> str:
    return f"{quote(span.file)}:{span.line}:{span.column}-{span.end_column}"
