"""Judges memory plans: runs a function on memory itself, without numbers, and reports its peak.

`check_plan` walks the operations and keeps, for every byte range, which value's data are in it. A
write evicts what it overlaps; a read of an evicted value, or of one overwritten by the operation
that reads it, is an error. It knows nothing of how `plan_memory.py` chooses places.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from graphc.ir.codegen import Collective, FusedProduct, Kernel, Loop, Reduction, RowUpdate, View
from graphc.ir.core import Block, Function, Operation, Trait, Value
from graphc.ir.placement import Address
from graphc.ir.types import Symbol, TensorType
from graphc.ops.loop import loop_parts
from graphc.ops.parts import walked_values
from graphc.ops.schedules import is_behind, is_beside
from graphc.ops.update_rows import updates
from graphc.passes.analysis.chunk_groups import ranges_in_chunks
from graphc.passes.analysis.liveness import Liveness, is_view, live_ranges
from graphc.passes.analysis.loopnest import Size

ALIGNMENT = 64
"""Bytes to which every arena offset is aligned: one cache line, one AVX-512 register."""


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Bytes of the arena, the least that this order of operations needs, and that as a formula."""

    arena_bytes: int
    lower_bound_bytes: int
    peak: str


def check_plan(function: Function) -> list[str]:
    """What is wrong with the memory plan of `function`, in sentences; empty if nothing is."""
    if function.arena is None:
        return [f"@{function.name} has no arena"]
    checker = _Checker(function)
    checker.run()
    return checker.problems


def memory_report(function: Function) -> MemoryReport:
    """The numbers of a planned function."""
    live = _at_peak(live_ranges(function.block))
    return MemoryReport(function.arena or 0, _aligned_bytes(live), _formula(live))


def peak_formula(function: Function) -> str:
    """Bytes of the arena's buffers that live together at the peak, as `4*10*N + 40`.

    The peak is where the function needs most memory with every dimension at its bound; alignment
    and gaps between buffers are not in the formula.
    """
    return memory_report(function).peak


# --- the peak -----------------------------------------------------------------------------------


def _at_peak(liveness: Liveness) -> list[TensorType]:
    """What is in the arena at the operation where it is biggest together: values and workspace.

    Values of a loop's body live while the loop does.
    """
    size: dict[Value, int] = {}
    starts: dict[int, list[Value]] = {}
    ends: dict[int, list[Value]] = {}
    taken_over = _taken_over(liveness)
    for root, live in liveness.ranges.items():
        place = _place_of(root)
        if place is None or place.kind != "arena":
            continue
        size[root] = _aligned(root.tensor.bound_bytes)
        starts.setdefault(live.start, []).append(root)
        # A value whose memory is taken over in place leaves before the new one comes.
        ends.setdefault(live.end if root in taken_over else live.end + 1, []).append(root)
    now, peak, at = 0, 0, -1
    inside: list[TensorType] = []
    for position in range(len(liveness.operations)):
        now -= sum(size[v] for v in ends.get(position, ()))
        now += sum(size[v] for v in starts.get(position, ()))
        op = liveness.operations[position]
        during = [w.type for w in op.workspace]
        if isinstance(op.opdef.codegen, Loop):
            during += _at_peak(live_ranges(op.regions[0].block))
        if now + _aligned_bytes(during) > peak:
            peak, at, inside = now + _aligned_bytes(during), position, during
    if at < 0:
        return []
    gone = {v for p, values in ends.items() if p <= at for v in values}
    here = (v for p, values in starts.items() if p <= at for v in values if v not in gone)
    return [v.tensor for v in here] + inside


def _taken_over(liveness: Liveness) -> set[Value]:
    """Arena values whose last reader writes a result over them."""
    found: set[Value] = set()
    for position, op in enumerate(liveness.operations):
        written = {p for p in op.placement if p.kind == "arena"}
        for value in op.operands if written else ():
            root = liveness.roots[value]
            live = liveness.ranges[root]
            if _place_of(root) in written and live.start < position == live.end:
                found.add(root)
    return found


def _formula(types: list[TensorType]) -> str:
    """`1024*N + 40`: bytes by the symbols that multiply them, more symbols first."""
    terms: dict[tuple[str, ...], int] = {}
    for type in types:
        symbols = tuple(sorted(s.name for s in type.symbols()))
        known = math.prod(d for d in type.dims if not isinstance(d, Symbol))
        terms[symbols] = terms.get(symbols, 0) + known * type.dtype.itemsize
    ordered = sorted(terms.items(), key=lambda item: (-len(item[0]), item[0]))
    return " + ".join("*".join([str(n), *symbols]) for symbols, n in ordered if n) or "0"


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _aligned_bytes(types: list[TensorType]) -> int:
    return sum(_aligned(t.bound_bytes) for t in types)


def has_buffers(op: Operation) -> bool:
    """Whether the results of a kernel-level operation have memory of their own."""
    return bool(op.results) and not isinstance(op.opdef.codegen, View)


def _place_of(value: Value) -> Address | None:
    placement = value.op.placement if value.op is not None else ()
    return placement[value.index] if value.index < len(placement) else None


# --- the checker --------------------------------------------------------------------------------


@dataclass
class _Arena:
    """Which value each byte range holds: disjoint ranges, ordered by where they start."""

    starts: list[int] = field(default_factory=list)
    held: dict[int, tuple[int, Value]] = field(default_factory=dict)

    def overlapping(self, start: int, end: int) -> Iterator[tuple[int, Value]]:
        index = bisect_left(self.starts, start)
        if index > 0 and self.held[self.starts[index - 1]][0] > start:
            index -= 1
        while index < len(self.starts) and self.starts[index] < end:
            at = self.starts[index]
            yield at, self.held[at][1]
            index += 1

    def write(self, start: int, end: int, value: Value) -> None:
        for at, _ in list(self.overlapping(start, end)):
            del self.starts[bisect_left(self.starts, at)]
            del self.held[at]
        insort(self.starts, start)
        self.held[start] = (end, value)

    def holds(self, start: int, value: Value) -> bool:
        return start in self.held and self.held[start][1] is value


@dataclass(frozen=True, slots=True)
class _Touched:
    """Bytes from `start` to `end` of the arena, or all of an argument or a result.

    in_ranges  each chunk of an operation touches a range of its own, of so many bytes in all, which
               say what ranges they are
    """

    memory: str
    start: int
    end: int
    is_written: bool
    in_ranges: Size | None = None

    def disturbs(self, other: _Touched) -> bool:
        """Whether the order matters, but for that in each chunk."""
        if self.in_ranges == other.in_ranges is not None and self.start == other.start:
            return False
        return (
            (self.is_written or other.is_written)
            and self.memory == other.memory
            and self.start < other.end
            and other.start < self.end
        )


class _Checker:
    def __init__(self, function: Function) -> None:
        self.problems: list[str] = []
        self._function = function
        self._arena = _Arena()
        self._arena_bytes = function.arena or 0
        self._root: dict[Value, Value] = {a: a for a in function.arguments}
        self._place: dict[Value, Address] = {
            a: Address("argument", i) for i, a in enumerate(function.arguments)
        }
        # What is in the memory of arguments and results now.
        self._outside: dict[Address, Value] = {p: v for v, p in self._place.items()}
        self._writes: dict[Address, int] = {}
        self._loops: list[Operation] = []
        # What operations have read and written so far: the memory, from where to where.
        self._touched: list[_Touched] = []

    def run(self) -> None:
        self._block(self._function.block)
        terminator = self._function.block.terminator
        if terminator is not None:
            self._results(terminator)

    def _block(self, block: Block) -> None:
        together: list[_Touched] = []
        for op in block:
            if is_view(op):
                self._root[op.result] = self._root[op.operands[0]]
                continue
            first, ranges = len(self._touched), ranges_in_chunks(op)
            own = ranges.own if ranges is not None else (False,) * len(op.operands)
            for value, in_ranges in zip(op.operands, own, strict=True):
                self._read(op, self._root[value], in_ranges=in_ranges)
            if not op.opdef.has(Trait.TERMINATOR):
                self._operation(op)
            touched = self._touched[first:]
            if not is_beside(op) and not is_behind(op):
                together = touched
                continue
            if any(a.disturbs(b) for a in touched for b in together):
                self._say(op, "shares memory with what runs at the same time, and one writes it")
            together += touched

    def _loop(self, op: Operation) -> None:
        """Run two steps: the second one reads what the first one left behind."""
        parts = loop_parts(op)
        history = parts.params.history or (-1,) * len(parts.carry_out)
        outer = [*parts.invariants, *parts.sequences]
        for value, inner in zip(outer, (*parts.shared, *parts.elements), strict=True):
            self._root[inner] = self._root[value]
        for initial, before, final, stack in zip(
            parts.initial, parts.carry_in, parts.final, history, strict=True
        ):
            self._root[before] = self._root[initial] if stack >= 0 else final
        self._loops.append(op)
        for _ in range(2):
            self._block(parts.block)
            for index, stack in enumerate(history):
                if stack >= 0:
                    self._root[parts.carry_in[index]] = parts.stacks[stack]
                else:
                    self._hand_on(op, parts.carry_in[index], parts.carry_out[index], index)
            for index, value in enumerate(parts.stacked):
                if self._place.get(self._root[value]) != Address("stack", index):
                    self._say(op, f"stack {index} is not what the steps keep")
        self._loops.pop()
        for value in op.results:
            self._write(op, value)

    def _hand_on(self, loop: Operation, before: Value, after: Value, index: int) -> None:
        """What a step yields as carried value `index` has to lie where the next one reads it."""
        root = self._root[after]
        if root is self._root[before]:
            self._read(loop, root)
            return
        if self._place.get(root) != self._place[loop.results[index]] or not self._is_intact(root):
            self._say(loop, f"carried value {index} is not what the steps hand on")
        handed_on = Value(before.type, loop, index, before.name)
        self._place[handed_on] = self._place[loop.results[index]]
        self._root[before] = handed_on
        self._write(loop, handed_on)

    def _operation(self, op: Operation) -> None:
        at = op.placement
        if len(at) != len(op.results):
            self._say(op, f"has {len(op.results)} results and {len(at)} places")
            return
        read = {self._root[v] for v in op.operands}
        before = {root: self._place[root] for root in read if root in self._place}
        for value, place in zip(op.results, at, strict=True):
            self._check_place(op, value, place)
            if place.kind == "carried" and self._loops:
                place = self._place[self._loops[-1].results[place.index]]
            self._root[value] = value
            self._place[value] = place
            for root, old in before.items():
                if self._overlap(place, value, old, root) and not _is_in_place(
                    op, value, [v for v in op.operands if self._root[v] is root], place == old
                ):
                    self._say(op, f"writes {place} over its operand {_name(root)}")
        for value in op.results:
            self._write(op, value, in_ranges=ranges_in_chunks(op) is not None)
        for value in op.results:
            if not self._is_intact(value):
                self._say(op, f"writes two results to {self._place[value]}")
        self._works_in(op, before)
        if isinstance(op.opdef.codegen, Collective):
            self._require_side_by_side(op)
        if isinstance(op.opdef.codegen, Loop):
            self._loop(op)

    def _require_side_by_side(self, op: Operation) -> None:
        """Sums over members lie one behind the other, each from the next multiple of 64 on."""
        at = op.placement[0].index
        for value, place in zip(op.results, op.placement, strict=True):
            if place != Address("arena", at):
                self._say(op, f"has {_name(value)} at {place}, not side by side at arena:{at}")
            at += _aligned(value.tensor.bound_bytes)
        if op.opdef.codegen == Collective("finish"):
            begun = [self._place[self._root[value]] for value in op.operands]
            if list(op.placement) != begun:
                self._say(op, "does not lie where the sums were begun")

    def _works_in(self, op: Operation, operands: Mapping[Value, Address]) -> None:
        """The workspace is written all the time, while operands are read and results made."""
        if tuple(w.type for w in op.workspace) != op.needed_workspace():
            self._say(op, "has another workspace than it needs")
            return
        for array in op.workspace:
            if array.place.kind != "arena":
                self._say(op, f"works in {array.place}, which is not in the arena")
                return
            self._check_offset(op, array.place, array.type)
        arrays = [Value(w.type, op, i, f"workspace {i}") for i, w in enumerate(op.workspace)]
        for value, array in zip(arrays, op.workspace, strict=True):
            self._place[value] = array.place
            for root, place in operands.items():
                if self._overlap(array.place, value, place, root):
                    self._say(op, f"works in {array.place}, where its operand {_name(root)} lies")
            self._write(op, value)
        for value in (*op.results, *arrays):
            if not self._is_intact(value):
                self._say(op, f"works in memory of {_name(value)} that it uses otherwise too")

    def _check_offset(self, op: Operation, place: Address, type: TensorType) -> None:
        if place.index % ALIGNMENT:
            self._say(op, f"{place} is not a multiple of {ALIGNMENT}")
        if place.index + type.bound_bytes > self._arena_bytes:
            self._say(op, f"{place} ends past the arena's {self._arena_bytes} bytes")

    def _check_place(self, op: Operation, value: Value, place: Address) -> None:
        if place.kind == "arena":
            self._check_offset(op, place, value.tensor)
            return
        if place.kind in ("carried", "stack"):
            if not self._loops:
                self._say(op, f"writes {place} outside every loop")
            return
        self._writes[place] = self._writes.get(place, 0) + 1
        if place not in self._wanted():
            self._say(op, f"writes {place}, which is no result of the function")

    def _wanted(self) -> dict[Address, int]:
        """Where each function result has to be, with its index."""
        names = [a.name for a in self._function.arguments]
        return {
            Address("result", i)
            if r.updates is None
            else Address("argument", names.index(r.updates)): i
            for i, r in enumerate(self._function.results)
        }

    @staticmethod
    def _overlap(a: Address, x: Value, b: Address, y: Value) -> bool:
        """Elements of a stack overlap with nothing: each step has its own."""
        if a.kind != b.kind or a.kind == "stack":
            return False
        if a.kind != "arena":
            return a.index == b.index
        sizes = x.tensor.bound_bytes, y.tensor.bound_bytes
        return a.index < b.index + sizes[1] and b.index < a.index + sizes[0]

    def _write(self, op: Operation, value: Value, *, in_ranges: bool = False) -> None:
        """`in_ranges`: each chunk its own."""
        place = self._place[value]
        size = value.tensor.bound_bytes
        self._touch(place, value, is_written=True, in_ranges=in_ranges)
        if place.kind != "arena":
            self._outside[place] = value
        elif size > 0:
            self._arena.write(place.index, place.index + size, value)

    def _is_intact(self, root: Value) -> bool:
        place = self._place.get(root)
        if place is None:
            return False
        if root.tensor.bound_bytes == 0 or place.kind == "stack":
            return True
        if place.kind == "arena":
            return self._arena.holds(place.index, root)
        return self._outside.get(place) is root

    def _touch(self, place: Address, value: Value, *, is_written: bool, in_ranges: bool) -> None:
        size, type = value.tensor.bound_bytes, value.tensor
        ranges = Size(type.dtype.itemsize) * Size.of(type.dims) if in_ranges else None
        start, size = (place.index, size) if place.kind == "arena" else (0, 1)
        memory = "arena" if place.kind == "arena" else f"{place.kind} {place.index}"
        if place.kind in ("arena", "argument", "result"):
            self._touched.append(_Touched(memory, start, start + size, is_written, ranges))

    def _read(self, op: Operation, root: Value, *, in_ranges: bool = False) -> None:
        if (place := self._place.get(root)) is not None:
            self._touch(place, root, is_written=False, in_ranges=in_ranges)
        if not self._is_intact(root):
            self._say(op, f"reads {_name(root)}, whose memory holds something else by then")

    def _results(self, op: Operation) -> None:
        for place, index in self._wanted().items():
            info = self._function.results[index]
            if self._writes.get(place, 0) != 1:
                times = self._writes.get(place, 0)
                self._say(op, f"result {info.name} is written {times} times to {place}")
        for (place, index), value in zip(self._wanted().items(), op.operands, strict=True):
            if self._outside.get(place) is not self._root[value]:
                name = self._function.results[index].name
                self._say(op, f"result {name} is not what {place} holds")

    def _say(self, op: Operation, what: str) -> None:
        made = ", ".join(_name(v) for v in op.results)
        who = f"`{op.opdef.name}`" + (f" of {made}" if made else "")
        self.problems.append(f"@{self._function.name}: {who} {what}")


def _name(value: Value) -> str:
    return f"%{value.name}" if value.name else f"a {value.type}"


def _is_in_place(op: Operation, result: Value, operands: list[Value], same_place: bool) -> bool:
    """Whether `op` may write `result` over these operands (all that lie in that memory).

    `update_rows` over the table that the result is the new form of; a sum over members over what
    this one adds. Otherwise only a kernel without
    reductions, or the body of a product, whose space is the result's dims, and which reads each of
    them at exactly those dims: then every element is read before it is written.
    """
    category = op.opdef.codegen
    if isinstance(category, RowUpdate):
        return same_place and operands == [updates(op, result)]
    if isinstance(category, Collective):
        return same_place and operands == [op.operands[result.index]]
    if not isinstance(category, Kernel | FusedProduct) or not same_place:
        return False
    if isinstance(category, FusedProduct) and any(v in op.operands[:2] for v in operands):
        return False  # a factor is read for more than one element
    body = op.regions[0].block
    has_folds = any(isinstance(inner.opdef.codegen, Reduction) for inner in body)
    if isinstance(category, Kernel) and has_folds:
        return False
    dims = result.tensor.dims
    for value in walked_values(body):
        if any(d not in (1, full) for d, full in zip(value.tensor.dims, dims, strict=True)):
            return False
    return all(v.tensor == result.tensor for v in operands)
