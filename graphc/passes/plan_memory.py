"""Gives every buffer of a kernel-level function its place.

    func @f(…) -> (y: …) {                          func @f(…) -> (y: …) arena 40960 {
      %0 = gemm %x, %w : tensor<Nx10xf32>     =>      %0 = gemm %x, %w at arena:0 : …
      %y = kernel %0, %b : tensor<Nx10xf32> {         %y = kernel %0, %b at result:0 : … {

Results of the function are written where the caller wants them: "result:I", or "argument:I" for one
that updates an argument. Where that cannot be (a returned argument, a value returned twice, an
argument still read after its update, an update before a sum over members, which may fail) a `copy`
is added. Everything else lies in the arena at constant offsets, planned with every dimension at its
bound. Leaves alone: what operations compute, and, but for `side_by_side`, their order.

What members add up (`all_reduce`) is one buffer: its results lie there side by side, and an operand
that is read by nothing else is made there. Of a sum that is begun it is in use until what finishes
it has been read.

Algorithm: one walk in program order finds when each buffer is in use, until its last reader
(`analysis/liveness.py`; views count as readers); `analysis/arena.py` gives them offsets. Loops that
run at the same time share no memory: what the steps of each need is one buffer. Operations that are
computed chunk by chunk, one behind the other, are one moment too. A kernel
without reductions may write its result over an operand that dies there, if it reads that operand
element by element at the result's dims. What an operation works in is in use during that operation
alone. With `side_by_side` operations come into the order of their levels (`analysis/levels.py`),
and a level is one moment: what could run at the same time shares no memory. Buffers are aligned to
64 bytes. A plan of more than `MAX_BYTES`, which no machine could address, is an error. O(n log n)
for n operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar

from graphc.ir.codegen import Collective, FusedProduct, Kernel, Loop, Reduction, RowUpdate
from graphc.ir.context import Context
from graphc.ir.core import Block, Function, IRBuilder, Module, Operation, Value
from graphc.ir.placement import Address, Workspace
from graphc.ir.traversal import straight_blocks, walk
from graphc.ir.types import TensorType
from graphc.ops.kernel import COPY
from graphc.ops.loop import loop_parts
from graphc.ops.movement import reshape
from graphc.ops.parts import walked_values
from graphc.ops.schedules import has_one_behind, has_one_beside, is_behind, is_beside
from graphc.ops.update_rows import updates
from graphc.passes.analysis.arena import Buffer, lay_out
from graphc.passes.analysis.chunk_groups import reads_its_range
from graphc.passes.analysis.levels import levels_of, order_by_levels
from graphc.passes.analysis.liveness import Liveness, is_view, live_ranges
from graphc.passes.analysis.memory import ALIGNMENT, has_buffers, memory_report, peak_formula
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.support.adjacent import adjacent
from graphc.support.diagnostics import DiagnosticSink
from graphc.support.source import Location

__all__ = ["MAX_BYTES", "PlanMemory", "peak_formula", "plan"]

MAX_BYTES = 2**46
"""Of the arena, and of each argument and result: half of what a process can address."""


def can_write_over(op: Operation, result: Value, root: Value, liveness: Liveness) -> bool:
    """Whether `op` may write `result` over `root`, one of its operands, seen from `op` alone."""
    category = op.opdef.codegen
    if isinstance(category, RowUpdate):
        return [v for v in op.operands if liveness.roots[v] is root] == [updates(op, result)]
    if not isinstance(category, Kernel | FusedProduct):
        return False
    # A product's factors are read again for every part of it.
    factors = 2 if isinstance(category, FusedProduct) else 0
    if any(liveness.roots[v] is root for v in op.operands[:factors]):
        return False
    body = op.regions[0].block
    # What is folded along a row is read twice; sums over the rows of a product are not.
    has_folds = any(isinstance(inner.opdef.codegen, Reduction) for inner in body)
    if isinstance(category, Kernel) and has_folds:
        return False
    full = result.tensor.dims
    # A kernel that runs over more than the result would write it before the last read.
    dims = (zip(v.tensor.dims, full, strict=True) for v in walked_values(body))
    if any(d not in (1, f) for pairs in dims for d, f in pairs):
        return False
    return all(v.type == result.type for v in op.operands if liveness.roots[v] is root)


def plan(function: Function, *, side_by_side: bool = False) -> None:
    """Place every result of a fused function; adds copies where results need them."""
    _save_updated_arguments(function)
    outside = _place_results(function)
    for op in walk(function):
        if isinstance(op.opdef.codegen, Loop):
            outside |= _place_yields(op)
    lives = _Lives(outside, side_by_side)
    lives.walk(function.block, function.arguments)
    places = lives.places()
    function.arena = places.end
    for op in (op for block in straight_blocks(function) for op in block):
        if has_buffers(op):
            offsets = places.of_values
            op.placement = tuple(outside.get(v) or Address("arena", offsets[v]) for v in op.results)
            op.workspace = tuple(
                Workspace(type, Address("arena", at))
                for type, at in places.of_workspace.get(op, ())
            )


# --- results ------------------------------------------------------------------------------------


def _save_updated_arguments(function: Function) -> None:
    """Let `return` hand out copies of arguments that are updated, made before anything runs."""
    updated = {r.updates for r in function.results}
    roots = live_ranges(function.block).roots
    saved: dict[Value, Value] = {}
    terminator = function.block.end
    for index, value in enumerate(terminator.operands):
        root = roots[value]
        if root.op is not None or root.name not in updated:
            continue
        if root not in saved:
            saved[root] = _copy(root, function.block.first)
        at_end = IRBuilder.before(terminator)
        terminator.set_operand(index, reshape(at_end, saved[root], value.tensor.dims))


def _place_results(function: Function) -> dict[Value, Address]:
    """The places of results of the function; inserts copies for those that cannot be direct."""
    liveness = live_ranges(function.block)
    names = [a.name for a in function.arguments]
    terminator = function.block.end
    position = _begin(liveness.operations)
    last_sum = max((i for i, op in enumerate(liveness.operations) if _is_summed(op)), default=-1)
    outside: dict[Value, Address] = {}
    for index, (info, value) in enumerate(zip(function.results, terminator.operands, strict=True)):
        place = Address("result", index)
        overwritten: Value | None = None
        if info.updates is not None:
            place = Address("argument", names.index(info.updates))
            overwritten = function.arguments[place.index]
        root = liveness.roots[value]
        direct = root.op is not None and root not in outside and not _is_summed(root.op)
        if direct and overwritten is not None:
            direct = _is_read_before(overwritten, root, position, liveness)
            # Where a sum over members is not made, nothing is updated.
            direct = direct and root.op is not None and position[root.op] > last_sum
        if not direct:
            root = _copy(value, terminator)
            terminator.set_operand(index, root)
        outside[root] = place
    return outside


def _is_summed(op: Operation) -> bool:
    """Whether the results of `op` lie side by side."""
    return isinstance(op.opdef.codegen, Collective)


def _begin(operations: Sequence[Operation]) -> dict[Operation, int]:
    """The position at which each operation begins: that of another one, where both run at the same
    time."""
    found: dict[Operation, int] = {}
    now = 0
    for position, op in enumerate(operations):
        if not is_view(op) and not is_beside(op) and not is_behind(op):
            now = position
        found[op] = position if is_view(op) else now
    return found


def _place_yields(loop: Operation) -> dict[Value, Address]:
    """The places of what the body of a loop hands on, with copies where it cannot be direct.

    What is carried and kept is written once, and the next step finds it in the stack. Otherwise a
    carried value is written where the next step reads it, unless this step still has to.
    """
    parts = loop_parts(loop)
    liveness = live_ranges(parts.block)
    position = _begin(liveness.operations)
    terminator = parts.block.end
    outside: dict[Value, Address] = {}
    carried = len(parts.carry_out)
    for index, value in enumerate(parts.stacked):
        root = liveness.roots[value]
        if root.op is None or root in outside:
            root = _copy(value, terminator)
            terminator.set_operand(carried + index, root)
        outside[root] = Address("stack", index)
    kept = loop_parts(loop).stacked
    history = tuple(kept.index(v) if v in kept else -1 for v in parts.carry_out)
    loop.params = replace(parts.params, history=history)
    # What another carried value was before is saved first: its place may be written by then.
    saved = {v for v, stack in zip(parts.carry_in, history, strict=True) if stack < 0}
    after = [
        _copy(value, terminator)
        if (root := liveness.roots[value]) in saved and root is not parts.carry_in[index]
        else value
        for index, value in enumerate(parts.carry_out)
    ]
    for index, (value, stack) in enumerate(zip(after, history, strict=True)):
        before = parts.carry_in[index]
        root = liveness.roots.get(value, value)
        if stack >= 0 or root is before:
            continue
        direct = root.op in position and root not in outside
        if not direct or not _is_read_before(before, root, position, liveness):
            root = _copy(value, terminator)
            terminator.set_operand(index, root)
        outside[root] = Address("carried", index)
    return outside


def _is_read_before(
    argument: Value, root: Value, position: Mapping[Operation, int], liveness: Liveness
) -> bool:
    """Whether the last read of `argument` comes before `root` is written over it."""
    assert root.op is not None
    written, last_read = position[root.op], liveness.ranges[argument].end
    if liveness.operations[last_read] is root.op:
        others = (op for op in _readers(argument) if op is not root.op)
        at_once = (op for op in others if position.get(op, -1) >= written)
        if not all(reads_its_range(op, argument) for op in at_once):
            return False
        return can_write_over(root.op, root, argument, liveness)
    return last_read < written


def _copy(value: Value, anchor: Operation | None) -> Value:
    assert anchor is not None and anchor.block is not None
    location = value.op.location if value.op is not None else anchor.location
    copy = Operation(COPY, [value], [value.type], location=location)
    copy.result.label = f"{value.called}.copy"
    return anchor.block.insert_before(anchor, copy).result


# --- the arena ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Places:
    """Offsets in a stretch of memory, and where it ends."""

    end: int
    of_values: Mapping[Value, int]
    of_workspace: Mapping[Operation, Sequence[tuple[TensorType, int]]]


class _Lives:
    """The buffers of values and of workspace that need memory of their own, and when they are in
    use. A value that is written over another one shares its buffer. What the steps of a loop that
    runs beside another need lies in one buffer.

    outside  the places of values that have one outside of the arena
    inside   where in its buffer a value begins, if not at the beginning
    """

    def __init__(self, outside: Mapping[Value, Address], side_by_side: bool) -> None:
        self._outside = outside
        self._side_by_side = side_by_side
        self.buffers: list[Buffer] = []
        self.number: dict[Value, int] = {}
        self.inside: dict[Value, int] = {}
        self._summed: dict[Value, tuple[Operation, int]] = {}
        self._sums: dict[Operation, int] = {}
        self.workspace: dict[Operation, list[tuple[TensorType, int]]] = {}
        self._steps: list[tuple[int, _Places]] = []
        self._now = 0

    def places(self) -> _Places:
        """Where everything lies."""
        layout = lay_out(self.buffers)
        values = {
            value: layout.offsets[number] + self.inside.get(value, 0)
            for value, number in self.number.items()
        }
        workspace = {
            op: [(type, layout.offsets[number]) for type, number in arrays]
            for op, arrays in self.workspace.items()
        }
        for number, inside in self._steps:
            start = layout.offsets[number]
            values |= {value: start + at for value, at in inside.of_values.items()}
            for op, arrays in inside.of_workspace.items():
                workspace[op] = [(type, start + at) for type, at in arrays]
        return _Places(layout.end, values, workspace)

    def walk(self, block: Block, before: Sequence[Value]) -> None:
        """Note the results of `block` without a place outside, in loops' bodies too.

        What the body of a loop needs is in use while the loop runs, and so is what the loop reads.
        before  what is in memory that the block writes over: the arguments of a function, what a
                step of a loop finds carried
        """
        moments = self._moments(block, before)
        liveness = live_ranges(block)
        for op in filter(_is_summed, block):
            if op.opdef.codegen == Collective("finish"):
                self._summed.update(
                    (made, self._summed[begun])
                    for made, begun in zip(op.results, op.operands, strict=True)
                )
            else:
                self._sum(op, liveness)
        dying: dict[int, list[Value]] = {}
        for root, live in liveness.ranges.items():
            if root.op is not None and root not in self._outside:
                dying.setdefault(live.end, []).append(root)
        position = 0
        for operations in moments:
            self._now += 1
            in_use: list[int] = []
            for op in operations:
                in_use += self._operation(op, dying.get(position, []), set(operations), liveness)
                position += 1
            for number in in_use:
                self.buffers[number].end = self._now

    def _moments(self, block: Block, before: Sequence[Value]) -> list[list[Operation]]:
        """The operations of a block that are at work at the same time, in order."""
        if not self._side_by_side:
            moments: list[list[Operation]] = []
            for op in block:
                goes_on = has_one_behind(op) if is_view(op) else is_behind(op)
                runs_beside = isinstance(op.opdef.codegen, Loop) and is_beside(op)
                if moments and (goes_on or runs_beside):
                    moments[-1].append(op)
                else:
                    moments.append([op])
            return moments
        overwritten: dict[Operation, list[Value]] = {}
        for op in block:
            places = (self._outside.get(value) for value in op.results)
            kept = [p for p in places if p is not None and p.kind in ("argument", "carried")]
            overwritten[op] = [before[place.index] for place in kept]
        levels = levels_of(block, overwritten)
        order_by_levels(block, levels)
        return [list(ops) for _, ops in groupby(block, lambda op: max(levels[op], 0))]

    def _operation(
        self, op: Operation, ends_here: Sequence[Value], beside: set[Operation], liveness: Liveness
    ) -> list[int]:
        """Buffers for an operation; the numbers of those that are in use now for the last time."""
        taken_over: set[Value] = set()
        # What an operation beside it reads is not written over.
        free = [r for r in ends_here if not beside - {op} & set(_readers(r))]
        for value in op.results:
            if liveness.roots[value] is not value or value in self._outside:
                continue
            if value in self._summed:
                self._place_summand(value)
                continue
            over = _operand_to_overwrite(op, value, free, taken_over, liveness)
            if over is not None:
                taken_over.add(over)
                self.number[value] = self.number[over]
                self.inside[value] = self.inside.get(over, 0)
            else:
                self.number[value] = self._buffer(value.tensor)
        self.workspace[op] = [(type, self._buffer(type)) for type in op.needed_workspace()]
        ended = [self.number[root] for root in ends_here if root not in taken_over]
        ended += [number for _, number in self.workspace[op]]
        if isinstance(op.opdef.codegen, Loop):
            block, carry_in = op.regions[0].block, loop_parts(op).carry_in
            if is_beside(op) or has_one_beside(op):
                steps = _Lives(self._outside, self._side_by_side)
                steps.walk(block, carry_in)
                places = steps.places()
                self._steps.append((self._stretch(places.end), places))
                ended.append(self._steps[-1][0])
            else:
                self.walk(block, carry_in)
            self._now += 1
        return ended

    def _sum(self, op: Operation, liveness: Liveness) -> None:
        """Note what lies in the buffer of a sum over members: its results, and operands that it is
        the last to read, once."""
        now = liveness.operations.index(op)
        roots = [liveness.roots[value] for value in op.operands]
        places = adjacent(value.tensor.bound_bytes for value in op.results)
        for root, result, place in zip(roots, op.results, places, strict=False):
            self._summed[result] = op, place
            is_made_here = root.op is not None and root not in self._outside
            if is_made_here and liveness.ranges[root].end == now and roots.count(root) == 1:
                self._summed.setdefault(root, (op, place))

    def _place_summand(self, value: Value) -> None:
        """Put a value into the buffer of a sum, which begins with the first."""
        op, place = self._summed[value]
        if op not in self._sums:
            self._sums[op] = self._stretch(adjacent(v.tensor.bound_bytes for v in op.results)[-1])
        self.number[value], self.inside[value] = self._sums[op], place

    def _buffer(self, type: TensorType) -> int:
        return self._stretch(-(-type.bound_bytes // ALIGNMENT) * ALIGNMENT)

    def _stretch(self, size: int) -> int:
        """The number of a new buffer, in use now."""
        self.buffers.append(Buffer(size, self._now, self._now))
        return len(self.buffers) - 1


def _readers(root: Value) -> Iterator[Operation]:
    """All that read the memory of a value."""
    for op in root.users():
        if is_view(op):
            yield from _readers(op.result)
        else:
            yield op


def _operand_to_overwrite(
    op: Operation,
    result: Value,
    ends_here: Sequence[Value],
    taken_over: set[Value],
    liveness: Liveness,
) -> Value | None:
    for root in ends_here if isinstance(op.opdef.codegen, Kernel | FusedProduct) else ():
        if root.op is op or root in taken_over or root.tensor.bound_bytes == 0:
            continue
        if root.tensor.bound_bytes == result.tensor.bound_bytes and can_write_over(
            op, result, root, liveness
        ):
            return root
    return None


@dataclass(frozen=True)
class PlanMemory(Pass):
    """`side_by_side`: what does not wait for each other may be computed at the same time."""

    name: ClassVar[str] = "plan-memory"
    summary: ClassVar[str] = "give every buffer its place"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.FUSED})
    establishes: ClassVar[frozenset[Invariant]] = frozenset({Invariant.PLANNED})
    side_by_side: bool = False

    def run(self, module: Module, context: Context) -> PassOutcome:
        before = [_plan_of(f) for f in module.functions]
        for function in module.functions:
            plan(function, side_by_side=self.side_by_side)
            _require_addressable(function, context.sink)
        reports = [memory_report(f) for f in module.functions]
        counters = {
            "arena bytes": sum(r.arena_bytes for r in reports),
            "lower bound bytes": sum(r.lower_bound_bytes for r in reports),
        }
        return PassOutcome(before != [_plan_of(f) for f in module.functions], counters)


def _require_addressable(function: Function, sink: DiagnosticSink) -> None:
    values = [*function.arguments, *(v for op in walk(function) for v in op.results)]
    largest = max(values, key=lambda v: v.tensor.bound_bytes, default=None)
    if largest is None:
        return
    required = max(function.arena or 0, largest.tensor.bound_bytes)
    if required > MAX_BYTES:
        bounds = "".join(f", {d.name} up to {d.bound}" for d in largest.tensor.symbols())
        sink.error(
            "limit",
            f"at most {MAX_BYTES} bytes can be planned for, @{function.name} requires {required}",
            _place_of(largest, function),
            label=f"the largest array is {largest.type}{bounds}",
        )


def _place_of(value: Value, function: Function) -> Location:
    """Where the value is made, or where an argument is first read."""
    op = value.op or next(iter(value.users()), None)
    return op.location if op is not None else function.location


def _plan_of(function: Function) -> tuple[object, ...]:
    placed = (op for block in straight_blocks(function) for op in block)
    return (function.arena, *((op.placement, op.workspace) for op in placed))
