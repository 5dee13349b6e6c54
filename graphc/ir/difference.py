"""What is different between two modules, as lines of IR text in which a local change stays local.

Values are not called by their number, which every operation before them shifts, but by their name,
or by the kind of what makes them: `%tanh.2` is the second tanh without a name. Pairs
(`pairing.py`) have one name in both modules. The order of operations does not count, nor do
locations; places in memory only when asked for, since one more buffer moves all others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from graphc.ir.core import Block, Function, Module, Operation, Region, RegionKind, Trait, Value
from graphc.ir.names import operands_of_arguments
from graphc.ir.pairing import Pairing, pair_functions
from graphc.ir.printer import dim_text, operation_text, print_name
from graphc.ir.traversal import walk

Mark = Literal[" ", "-", "+"]
Count = Literal["added", "removed", "changed", "same", "moved"]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of both (' '), of the first ('-') or of the second ('+') module."""

    mark: Mark
    depth: int
    text: str


@dataclass(eq=False)
class FunctionDifference:
    """Two functions next to each other; one is None where only the other module has it.

    added, removed, changed, same  how many operations; a body is changed with its lines
    moved      operations that are the same but live elsewhere in memory
    """

    a: Function | None
    b: Function | None
    lines: list[Line] = field(default_factory=list)
    pairing: Pairing = field(default_factory=Pairing)
    counts: Counter[Count] = field(default_factory=Counter)
    different: set[Operation] = field(default_factory=set)  # of both; bodies count for their owner

    @property
    def is_empty(self) -> bool:
        return all(line.mark == " " for line in self.lines)


def module_difference(a: Module, b: Module, *, places: bool = False) -> list[FunctionDifference]:
    """Function by function, those of the same name with each other; dims stand in `dim_lines`.

    If each module has one function, the two are compared whatever they are called.
    """
    found: list[FunctionDifference] = []
    alone = len(a.functions) == len(b.functions) == 1
    for function in a.functions:
        other = b.functions[0] if alone else b.function(function.name)
        if other is None:
            found.append(_whole(function, "-"))
        else:
            found.append(function_difference(function, other, places=places))
    if not alone:
        found += [_whole(f, "+") for f in b.functions if a.function(f.name) is None]
    return found


def dim_lines(a: Module, b: Module) -> list[Line]:
    """The dims of both modules."""
    return _lists([dim_text(d) for d in a.dims], [dim_text(d) for d in b.dims])


def _lists(a: Sequence[str], b: Sequence[str], depth: int = 0) -> list[Line]:
    """Lines whose order says nothing; those that begin alike, up to a colon, stand together."""
    both = set(a) & set(b)
    new = {text.partition(":")[0]: text for text in b if text not in both}
    lines: list[Line] = []
    for text in a:
        lines.append(Line(" " if text in both else "-", depth, text))
        successor = new.pop(text.partition(":")[0], None) if text not in both else None
        if successor is not None:
            lines.append(Line("+", depth, successor))
    return [*lines, *(Line("+", depth, text) for text in new.values())]


def function_difference(a: Function, b: Function, *, places: bool = False) -> FunctionDifference:
    """The lines of two functions."""
    pairing = pair_functions(a, b)
    taken: _Taken = defaultdict(Counter)
    names_a = _names_of(a, taken, {})
    names_b = _names_of(b, taken, _inherited(a, pairing, names_a))
    found = FunctionDifference(a, b, pairing=pairing)
    found.lines += _lists([_title(a)], [_title(b)])
    found.lines += _lists(_head(a, names_a), _head(b, names_b), 1)
    found.lines += _Comparison(found, names_a, names_b, places).blocks(a.block, b.block, 1)
    return found


def _title(function: Function) -> str:
    tail = "" if function.contraction == "fma" else f" contraction {function.contraction}"
    tail += "" if function.launch == "auto" else f" launch {function.launch}"
    return f"{function.kind.value} {print_name('@', function.name)}{tail}"


def _head(function: Function, names: Mapping[Value, str]) -> list[str]:
    """Arguments, results and scratch memory, each on a line of its own."""
    arguments = [
        f"argument {names[v]}: {v.type} {role}"
        for v, role in zip(function.arguments, function.roles, strict=True)
    ]
    results = [
        f"result {print_name('', info.name)}: {v.type} = {names[v]}"
        + (f" updates {print_name('%', info.updates)}" if info.updates is not None else "")
        for info, v in zip(function.results, function.returned, strict=False)
    ]
    arena = [] if function.arena is None else [f"arena {function.arena}"]
    return [*arguments, *results, *arena]


def _whole(function: Function, mark: Mark) -> FunctionDifference:
    """A function that the other module does not have."""
    names = _names_of(function, defaultdict(Counter), {})
    sides = (None, function) if mark == "+" else (function, None)
    found = FunctionDifference(*sides, [Line(mark, 0, _title(function))])
    found.lines += [Line(mark, 1, text) for text in _head(function, names)]
    for op in function.block:
        found.lines += _whole_operation(op, names, mark, 1)
    found.different.update(function.block)
    found.counts["added" if mark == "+" else "removed"] = len(function.block)
    return found


# ------------------------------------------------------------------------------------- names


_Taken = defaultdict[str, Counter[str]]
"""How often each name is given, by region: the first results of the operations around it."""


def _names_of(function: Function, taken: _Taken, given: dict[Value, str]) -> dict[Value, str]:
    """A name for each value, unique in its region, new ones counted in `taken`; `given` ones stay.

    Arguments of bodies are called as the operands that they stand for.
    """
    names = dict(given)
    path = {function.block: ""}
    for argument in function.arguments:
        if argument not in names:
            names[argument] = _new(argument.name or "argument", taken[""])
    for op in walk(function):
        assert op.block is not None
        around = path[op.block]
        for value in op.results:
            if value not in names:
                names[value] = _result_name(value, op, taken[around])
        inside = f"{around}/{names[op.results[0]] if op.results else op.opdef.name}"
        for region in op.regions:
            path.update(dict.fromkeys(region.blocks, inside))
            _name_arguments(op, region, names, taken[inside])
    return names


def _name_arguments(
    op: Operation, region: Region, names: dict[Value, str], taken: Counter[str]
) -> None:
    """As the operands; a loop may read one value whole and carry it on too, that is two names."""
    operands = operands_of_arguments(op, region)
    arguments = [a for block in region.blocks for a in block.arguments]
    used = {names[v] for v in arguments if v in names}
    for argument in arguments:
        if argument in names:
            continue
        operand = names[operands[argument]] if argument in operands else None
        if operand is None or operand in used:
            operand = _new(argument.called, taken)
        else:
            taken[operand.removeprefix("%")] += 1
        names[argument] = operand
        used.add(operand)


def _result_name(value: Value, op: Operation, taken: Counter[str]) -> str:
    """Its own name; of a second one, `h.reshape`; without one, what it is a part of."""
    if value.name is None:
        return _new(value.called, taken)
    return _new(f"{value.name}.{op.opdef.name}" if taken[value.name] else value.name, taken)


def _new(base: str, taken: Counter[str]) -> str:
    """`%base`, `%base_1`, `%base_2`, …"""
    taken[base] += 1
    name = base if taken[base] == 1 else f"{base}_{taken[base] - 1}"
    if name != base:
        if taken[name]:
            return _new(base, taken)
        taken[name] = 1
    return print_name("%", name)


def _inherited(
    function: Function, pairing: Pairing, names: Mapping[Value, str]
) -> dict[Value, str]:
    """The names of paired values. Those of nodes count, so a renamed node has its own."""
    return {
        other: names[value]
        for value, other in pairing.values.items()
        if function.kind is not RegionKind.GRAPH or value.name == other.name
    }


# -------------------------------------------------------------------------------- operations


@dataclass(frozen=True, eq=False, slots=True)
class _Comparison:
    """Fills `found` with the lines of two functions; values are called by the two tables."""

    found: FunctionDifference
    names_a: Mapping[Value, str]
    names_b: Mapping[Value, str]
    places: bool

    def blocks(self, a: Block, b: Block, depth: int) -> list[Line]:
        """The operations of both, in the order of `b`; removed ones where they stood in `a`."""
        lines: list[Line] = []
        for left, right in _merged(a, b, self.found.pairing):
            if left is not None and right is not None:
                lines += self._pair(left, right, depth)
            elif left is not None:
                lines += self._single(left, "-", depth)
            elif right is not None:
                lines += self._single(right, "+", depth)
        return lines

    def _single(self, op: Operation, mark: Literal["-", "+"], depth: int) -> list[Line]:
        self.found.counts["removed" if mark == "-" else "added"] += 1
        self.found.different.add(op)
        return _whole_operation(op, self.names_a if mark == "-" else self.names_b, mark, depth)

    def _pair(self, left: Operation, right: Operation, depth: int) -> list[Line]:
        if left.opdef.has(Trait.RETURN):
            return []  # its operands stand with the results
        old = operation_text(left, self.names_a.__getitem__, places=self.places)
        new = operation_text(right, self.names_b.__getitem__, places=self.places)
        if bool(left.regions) != bool(right.regions):
            self._changed(left, right)
            return [
                *_whole_operation(left, self.names_a, "-", depth),
                *_whole_operation(right, self.names_b, "+", depth),
            ]
        inner = self._bodies(left, right, depth + 1)
        if old == new and not inner:
            moved = (left.placement, left.workspace) != (right.placement, right.workspace)
            self.found.counts["moved" if moved else "same"] += 1
        else:
            self._changed(left, right)
        open_, close = (" {", [Line(" ", depth, "}")]) if inner else ("", [])
        if not inner and left.regions:
            open_ = " { … }"
        return [
            *(Line(x.mark, depth, x.text + open_) for x in _lists([old], [new])),
            *inner,
            *close,
        ]

    def _changed(self, left: Operation, right: Operation) -> None:
        self.found.counts["changed"] += 1
        self.found.different.update((left, right))

    def _bodies(self, left: Operation, right: Operation, depth: int) -> list[Line]:
        """The lines of the bodies, none if they are the same."""
        outer = FunctionDifference(None, None, pairing=self.found.pairing)
        inner = _Comparison(outer, self.names_a, self.names_b, self.places)
        lines: list[Line] = []
        for x, y in zip(left.regions, right.regions, strict=False):
            lines += inner.blocks(x.block, y.block, depth)
        return lines if any(line.mark != " " for line in lines) else []


def _merged(
    a: Block, b: Block, pairing: Pairing
) -> Iterator[tuple[Operation | None, Operation | None]]:
    """Pairs and single operations of two blocks, in one order."""
    after: dict[Operation | None, list[Operation]] = defaultdict(list)
    last: Operation | None = None
    for op in a:
        if op in pairing.operations:
            last = op
        else:
            after[last].append(op)
    partners = {right: left for left, right in pairing.operations.items()}
    yield from ((op, None) for op in after[None])
    for op in b:
        yield partners.get(op), op
        if op in partners:
            yield from ((gone, None) for gone in after[partners[op]])


def _whole_operation(
    op: Operation, names: Mapping[Value, str], mark: Mark, depth: int
) -> list[Line]:
    """All lines of an operation that only one of the modules has."""
    if op.opdef.has(Trait.RETURN):
        return []
    text = operation_text(op, names.__getitem__, places=False)
    if not op.regions:
        return [Line(mark, depth, text)]
    inner = [
        line
        for region in op.regions
        for block in region.blocks
        for each in block
        for line in _whole_operation(each, names, mark, depth + 1)
    ]
    return [Line(mark, depth, text + " {"), *inner, Line(mark, depth, "}")]


# ------------------------------------------------------------------------------------- text


def with_context(lines: Sequence[Line], context: int) -> list[Line]:
    """The lines that differ, `context` lines on either side, and what they stand inside of.

    A line `…` stands for those between; none at the ends.
    """
    keep: set[int] = set()
    for i, line in enumerate(lines):
        if line.mark != " ":
            keep.update(range(max(i - context, 0), min(i + context + 1, len(lines))))
            keep.update(_around(i, lines))
    shown: list[Line] = []
    previous = -1
    for i in sorted(keep):
        if i > previous + 1:
            shown.append(Line(" ", lines[i].depth, "…"))
        shown.append(lines[i])
        previous = i
    return shown


def _around(place: int, lines: Sequence[Line]) -> Iterator[int]:
    """The lines that open and close what a line stands inside of."""
    for way in (range(place, -1, -1), range(place, len(lines))):
        depth = lines[place].depth
        for i in way:
            if lines[i].depth < depth:
                depth = lines[i].depth
                yield i
