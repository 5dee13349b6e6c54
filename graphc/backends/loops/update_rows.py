"""`update_rows` as two functions: a learner's rule on the rows that a call looks up.

In the first every entry of an index gets a slot: rows are numbered as they turn up, by an array of
places that holds something only where an index points, so that nothing as long as the table is
cleared or walked over. In the second, for one block of a row's numbers after another, the gradients
are added up in their slots, entry by entry, and last the rule runs over the rows of the slots. That
one may be called for chunks of the numbers, each with sums of its own.

Where a row's numbers are neighbours, they are on vector lanes. Where a table is stored the other
way round, lanes are neighbouring rows: as many entries whose slots count up, or slots whose rows
do, such as the words of a class, are worked on together, and what is left one by one. Every number
is added in the same order either way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from graphc.backends.loops import memory
from graphc.backends.loops.control import (
    add,
    loop_if_any,
    mul,
    offset,
    parts_of,
    size_value,
    smaller,
    sub,
    when,
)
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.segments import (
    Segments,
    Work,
    all_of,
    either,
    segment_start,
    whole_or_each,
)
from graphc.backends.loops.values import (
    I1,
    I64,
    PTR,
    Val,
    constant,
    element_of,
    index,
    lane_type,
    number_of,
)
from graphc.backends.loops.writer import ModuleWriter, Writer
from graphc.ir.codegen import Broadcast, Elementwise, Fill
from graphc.ir.core import Operation, Value
from graphc.ir.machine import Machine
from graphc.ir.types import DType
from graphc.ops.constant import ConstantParams
from graphc.ops.control import YIELD
from graphc.ops.schedules import RowUpdateSchedule
from graphc.ops.update_rows import BLOCK, COLUMN_BLOCK, RowUpdateParts, RowWorkspace, row_width
from graphc.passes.analysis.loopnest import Chunking, Size
from graphc.support.diagnostics import InternalError

AHEAD = 32
"""Prefetch distance, in rows."""
_I32 = lane_type("i32")


@dataclass(frozen=True, slots=True)
class UpdateFunctions:
    """Two functions of the module, and what both take: pointers of these values and of the
    workspace, then the sizes.

    number    gives each entry its slot
    apply     updates the tables; with a chunking it takes the first number of a chunk and the end
    chunking  of the numbers of each row
    """

    number: str
    apply: str
    pointers: tuple[Value, ...]
    symbols: tuple[str, ...]
    chunking: Chunking | None


def emit_update_rows(
    module: ModuleWriter, machine: Machine, update: RowUpdateParts
) -> UpdateFunctions:
    """`void (tables in place…, numbers…, lookups…, workspace…, sizes…)`, twice."""
    schedule = update.op.schedule_as(RowUpdateSchedule)
    looked_up = [v for one in update.lookups for v in (one.x, one.y, one.index)]
    pointers = (*update.updated, *update.numbers, *looked_up)
    extents = [Size.of(v.tensor.dims) for v in looked_up]
    symbols = tuple(sorted({s for size in extents for s in size.symbols}))
    parameters = [Val(f"%p{i}", PTR) for i in range(len(pointers))]
    arrays = [Val(f"%a{i}", PTR) for i in range(len(RowWorkspace.of(update).arrays()))]
    sizes = {name: Val(f"%s{i}", I64) for i, name in enumerate(symbols)}
    where = dict(zip(pointers, parameters, strict=True))

    def written(name: str, chunk: tuple[Val, ...], write: Callable[[_UpdateEmitter], None]) -> str:
        code = module.body()
        write(_UpdateEmitter(code, machine, update, where, arrays, sizes, schedule.lanes))
        code.leave()
        return module.add(name, (*parameters, *arrays, *sizes.values(), *chunk), code)

    number = written("number", (), _UpdateEmitter.number)
    if not schedule.is_parallel:
        apply = written("update", (), _UpdateEmitter.apply)
        return UpdateFunctions(number, apply, pointers, symbols, None)
    begin, end = chunk = (Val("%begin", I64), Val("%end", I64))
    apply = written("update", chunk, lambda e: e.apply_chunk(begin, end, schedule.chunk))
    chunking = Chunking(0, Size(), Size.of((row_width(update),)), schedule.chunk)
    return UpdateFunctions(number, apply, pointers, symbols, chunking)


@dataclass(frozen=True, slots=True)
class _Entries:
    """One lookup: its addresses, and the extents of its index."""

    x: Val
    y: Val
    index: Val
    slots: Val
    n: Val
    k: Val


class _UpdateEmitter:
    """State while one update is written.

    size, width  rows of the table, and numbers of a row
    stride       from one row of the sums to the next
    chunk_sums   from the sums of one chunk to those of the next
    """

    def __init__(
        self,
        code: Writer,
        machine: Machine,
        update: RowUpdateParts,
        where: Mapping[Value, Val],
        arrays: Sequence[Val],
        sizes: Mapping[str, Val],
        lanes: int,
    ) -> None:
        self.code = code
        self.scalars = LaneScalars.of(code, machine)
        self.columns = update.params.columns
        table = update.tables[0].tensor
        self.dtype = table.dtype
        self.lanes = lanes or machine.lanes(self.dtype)
        axis = 1 if self.columns else 0
        self.size, self.width = (
            size_value(code, Size.of((table.dims[a],)), sizes) for a in (axis, 1 - axis)
        )
        self.tables = [where[v] for v in update.updated]
        *slots, self.rows, self.places, self.count, self.sums = arrays
        _chunks, most, stride = RowWorkspace.of(update).sums.shape({})
        self.stride = index(stride)
        self.chunk_sums = index(most * stride)
        self.widest = COLUMN_BLOCK if self.columns else min(BLOCK, 4 * self.lanes)
        self.lookups = [
            _Entries(
                where[one.x],
                where[one.y],
                where[one.index],
                numbers,
                *(size_value(code, Size.of((d,)), sizes) for d in one.index.tensor.dims),
            )
            for one, numbers in zip(update.lookups, slots, strict=True)
        ]
        self.update, self.numbers = update, [where[v] for v in update.numbers]

    def number(self) -> None:
        for one in self.lookups:
            self._forget(one)
        count = index(0)
        for one in self.lookups:
            count = self._number(one, count)
        self._put(count, self.count, index(0))

    def apply(self) -> None:
        """The update of all numbers of each row."""
        self._apply_parts(parts_of(self.code, self.width, self.widest))

    def apply_chunk(self, first: Val, last: Val, chunk: int) -> None:
        """The same of those from `first` up to `last`, a chunk of so many."""
        number = self.code.binary("udiv", first, index(chunk))
        sums = mul(self.code, number, self.chunk_sums)
        self.sums = offset(self.code, self.sums, element_of(self.dtype), sums)
        whole, *rest = parts_of(self.code, self.width, self.widest)
        parts = [(first, smaller(self.code, whole[1], last), whole[2])]
        # A chunk begins at whole blocks: none but the last one reaches what is left behind these.
        for begin, end, width in rest:
            if number_of(begin) is None or number_of(begin) != number_of(end):
                parts.append((begin, smaller(self.code, end, last), width))
        self._apply_parts(parts)

    def _apply_parts(self, parts: Sequence[tuple[Val, Val, int]]) -> None:
        self.rule = _Rule(self.scalars, self.update, self.numbers, self.lanes)
        count = self._get(self.count, index(0))
        for begin, end, width in parts:
            with loop_if_any(self.code, begin, end, width, []) as state:
                if state:
                    self._clear(width, count)
                    for one in self.lookups:
                        self._add_up(one, state.index, width)
                    self._apply(state.index, width, count)

    # --- which rows

    def _forget(self, one: _Entries) -> None:
        """None of the rows has a place yet."""

        def each(at: Val, _carried: list[Val]) -> None:
            row = self._get(one.index, at)
            with when(self.code, self._is_row(row), []):
                self._put(index(-1), self.places, row)

        def whole(at: Val, carried: list[Val]) -> None:
            start, is_segment = self._run_of_rows(one.index, at)
            none = constant(-1, lane_type("i32", self.lanes))
            either(
                self.scalars,
                is_segment,
                carried,
                lambda _: memory.store(self.scalars, none, self.places, start),
                lambda values: self._one_by_one(at, values, each),
            )

        total = mul(self.code, one.n, one.k)
        whole_or_each(self.code, index(0), total, self.lanes, [], whole, each)

    def _number(self, one: _Entries, count: Val) -> Val:
        """Places for rows without one, from `count` on, and slots; how many rows there are now."""

        def each(at: Val, carried: list[Val]) -> None:
            row = self._get(one.index, at)
            counted = [*carried, index(-1)]
            with when(self.code, self._is_row(row), counted) as inside:
                place = self._get(self.places, row)
                found = [inside[0], place]
                with when(self.code, self._is_negative(place), found) as new:
                    self._put(row, self.rows, new[0])
                    self._put(new[0], self.places, row)
                    new[:] = [add(self.code, new[0], index(1)), new[0]]
                inside[:] = found
            self._put(counted[1], one.slots, at)
            carried[:] = counted[:1]

        def whole(at: Val, carried: list[Val]) -> None:
            start, is_segment = self._run_of_rows(one.index, at)
            counted = [*carried, constant(0, I1)]
            with when(self.code, is_segment, counted) as inside:
                self._number_run(one, at, start, inside)
            is_left = self.scalars.logical_not(counted[1])
            carried[:] = counted[:1]
            with when(self.code, is_left, carried) as values:
                self._one_by_one(at, values, each)

        total, carried = mul(self.code, one.n, one.k), [count]
        whole_or_each(self.code, index(0), total, self.lanes, carried, whole, each)
        return carried[0]

    def _number_run(self, one: _Entries, at: Val, start: Val, counted: list[Val]) -> None:
        """Rows from `start` on: all have a place, or none has; `counted` says whether it was so."""
        s, lanes = self.scalars, self.lanes
        seen = memory.load(s, self.places, start, DType.I32, lanes)
        is_new = s.compare("slt", seen, constant(0, seen.type))
        with when(self.code, all_of(s, s.logical_not(is_new)), counted) as known:
            memory.store(s, seen, one.slots, at)
            known[1] = constant(1, I1)
        with when(self.code, all_of(s, is_new), counted) as new:
            memory.store(s, self._counted_from(start), self.rows, new[0])
            slots = self._counted_from(new[0])
            memory.store(s, slots, self.places, start)
            memory.store(s, slots, one.slots, at)
            new[:] = [add(self.code, new[0], index(lanes)), constant(1, I1)]

    def _counted_from(self, start: Val) -> Val:
        """start, start + 1, … as i32."""
        first = self.scalars.convert("trunc", start, _I32)
        lanes = self.scalars.splat(first, self.lanes)
        return self.scalars.add(lanes, memory.steps(lanes.type))

    def _run_of_rows(self, base: Val, at: Val) -> tuple[Val, Val]:
        """The row that the entry at `at` points at, and whether the next lanes go on from there."""
        start, is_segment = self._run(base, at)
        last = sub(self.code, self.size, index(self.lanes))
        fits = self.scalars.compare("sle", start, last)
        return start, self.scalars.logical_and(is_segment, fits)

    def _run(self, base: Val, at: Val) -> tuple[Val, Val]:
        """The number at `at`, and whether it is at least 0 and the next lanes count up from it."""
        values = memory.load(self.scalars, base, at, DType.I32, self.lanes)
        start, is_segment = segment_start(self.scalars, [values])
        is_some = self.scalars.logical_not(self._is_negative(start))
        return start, self.scalars.logical_and(is_segment, is_some)

    # --- gradients

    def _clear(self, width: int, count: Val) -> None:
        """Zeros in the sums, for blocks of this width; behind the last slot there is room."""
        if self.columns:
            with loop_if_any(self.code, index(0), count, self.lanes, []) as state:
                if state:
                    self._clear_at([self._sum(j, state.index) for j in range(width)], self.lanes)
            return
        lanes = min(self.lanes, width)
        with loop_if_any(self.code, index(0), count, 1, []) as state:
            if state:
                self._clear_at([self._sum(j, state.index) for j in range(0, width, lanes)], lanes)

    def _clear_at(self, positions: Sequence[Val], lanes: int) -> None:
        zero = constant(0.0, lane_type(element_of(self.dtype), lanes))
        for position in positions:
            memory.store(self.scalars, zero, self.sums, position)

    def _sum(self, number: int, slot: Val) -> Val:
        """Where the sum of a number of the block is."""
        if self.columns:
            return add(self.code, mul(self.code, index(number), self.stride), slot)
        return add(self.code, mul(self.code, slot, self.stride), index(number))

    def _add_up(self, one: _Entries, start: Val, width: int) -> None:
        """The gradients of one lookup for the numbers from `start` on."""
        lanes = 1 if self.columns else min(self.lanes, width)
        numbers = range(0, width, lanes)
        with loop_if_any(self.code, index(0), one.n, 1, []) as state:
            if not state:
                return
            first = add(self.code, mul(self.code, state.index, self.width), start)
            y = [self._load(one.y, add(self.code, first, index(j)), lanes) for j in numbers]
            entries = mul(self.code, state.index, one.k)

            def each(k: Val, _carried: list[Val]) -> None:
                at = add(self.code, entries, k)
                slot = self._get(one.slots, at)
                with when(self.code, self.scalars.logical_not(self._is_negative(slot)), []):
                    self._add_entries(one, at, slot, y, numbers, lanes)

            def some(k: Val, slot: Val, _carried: list[Val]) -> None:
                at = add(self.code, entries, k)
                self._add_entries(one, at, slot, y, numbers, self.lanes)

            if self.columns:
                Segments(self.scalars, one.slots, self.lanes).walk(one.k, entries, [], some, each)
            else:
                with loop_if_any(self.code, index(0), one.k, 1, []) as inner:
                    if inner:
                        each(inner.index, [])

    def _add_entries(
        self, one: _Entries, at: Val, slot: Val, y: Sequence[Val], numbers: range, lanes: int
    ) -> None:
        """x[at] y to the sums of `slot`; with columns, of so many entries and slots from there."""
        s = self.scalars
        x = s.splat(self._load(one.x, at, lanes if self.columns else 1), lanes)
        for j, factor in zip(numbers, y, strict=True):
            position = self._sum(j, slot)
            total = s.fma(x, s.splat(factor, lanes), self._load(self.sums, position, lanes))
            memory.store(s, total, self.sums, position)

    # --- the rule

    def _apply(self, start: Val, width: int, count: Val) -> None:
        """The rule on the numbers from `start` on, of every row with a slot."""
        if not self.columns:
            lanes = min(self.lanes, width)
            with loop_if_any(self.code, index(0), count, 1, []) as state:
                if state:
                    row = mul(self.code, self._get(self.rows, state.index), self.width)
                    first = add(self.code, row, start)
                    for j in range(0, width, lanes):
                        position = add(self.code, first, index(j))
                        self._apply_at(position, self._sum(j, state.index), lanes)
            return

        def each(slot: Val, _carried: list[Val]) -> None:
            row = self._get(self.rows, slot)
            with loop_if_any(self.code, index(0), index(width), 1, []) as state:
                if state:
                    position = self._place(add(self.code, start, state.index), row)
                    gradient = add(self.code, mul(self.code, state.index, self.stride), slot)
                    self._apply_at(position, gradient, 1)

        last = sub(self.code, count, index(1))

        def some(slot: Val, row: Val, _carried: list[Val]) -> None:
            ahead = self.scalars.minimum(add(self.code, slot, index(AHEAD)), last)
            self._fetch(start, width, self._get(self.rows, ahead))
            for j in range(width):
                position = self._place(add(self.code, start, index(j)), row)
                self._apply_at(position, self._sum(j, slot), self.lanes)

        Segments(self.scalars, self.rows, self.lanes).walk(count, index(0), [], some, each)

    def _place(self, number: Val, row: Val) -> Val:
        """Where a number of a row is in a table, with columns."""
        return add(self.code, mul(self.code, number, self.size), row)

    def _fetch(self, start: Val, width: int, row: Val) -> None:
        """Brings a block of a row that is worked on soon near, with columns."""
        element = element_of(self.dtype)
        for j in range(width):
            position = self._place(add(self.code, start, index(j)), row)
            for table in self.tables:
                place = offset(self.code, table, element, position)
                self.code.prefetch(place, writes=True)

    def _apply_at(self, position: Val, gradient: Val, lanes: int) -> None:
        before = [self._load(table, position, lanes) for table in self.tables]
        after = self.rule.apply(before, self._load(self.sums, gradient, lanes))
        for table, value in zip(self.tables, after, strict=True):
            memory.store(self.scalars, value, table, position)

    # --- elements

    def _one_by_one(self, start: Val, carried: list[Val], each: Work) -> None:
        end = add(self.code, start, index(self.lanes))
        with loop_if_any(self.code, start, end, 1, carried) as state:
            if state:
                each(state.index, state.carried)

    def _load(self, base: Val, position: Val, lanes: int) -> Val:
        return memory.load(self.scalars, base, position, self.dtype, lanes)

    def _get(self, base: Val, position: Val) -> Val:
        """An i32 of an array, as i64."""
        value = memory.load(self.scalars, base, position, DType.I32, 1)
        return self.scalars.convert("sext", value, I64)

    def _put(self, value: Val, base: Val, position: Val) -> None:
        memory.store(self.scalars, self.scalars.convert("trunc", value, _I32), base, position)

    def _is_row(self, number: Val) -> Val:
        """Unsigned, a negative number is larger than any size."""
        return self.scalars.compare("ult", number, self.size)

    def _is_negative(self, number: Val) -> Val:
        return self.scalars.compare("slt", number, index(0))


class _Rule:
    """The rule on lanes of rows; what follows from numbers alone is computed once, in front."""

    def __init__(
        self, scalars: LaneScalars, update: RowUpdateParts, numbers: Sequence[Val], lanes: int
    ) -> None:
        self._scalars = scalars
        self._rows = update.block.arguments[: len(update.tables) + 1]
        self._steps: list[Operation] = []
        self._yielded: tuple[Value, ...] = ()
        self._fixed: dict[Value, Val] = {}
        arguments = update.block.arguments[len(self._rows) :]
        for value, argument, place in zip(update.numbers, arguments, numbers, strict=True):
            number = memory.load(scalars, place, index(0), value.tensor.dtype, 1)
            self._fixed[argument] = number
        for op in update.block:
            if op.opdef is YIELD:
                self._yielded = op.operands
            elif all(v in self._fixed for v in op.operands):
                self._fixed[op.result] = self._result(op, [self._fixed[v] for v in op.operands])
            else:
                self._steps.append(op)
        self._splats = {v: scalars.splat(number, lanes) for v, number in self._fixed.items()}

    def apply(self, rows: Sequence[Val], gradient: Val) -> list[Val]:
        """The new values of lanes of a row of each table, from those and the gradient's."""
        lanes = gradient.type.lanes
        values = dict(zip(self._rows, (*rows, gradient), strict=True))
        for op in self._steps:
            operands = [self._lanes_of(v, values, lanes) for v in op.operands]
            values[op.result] = self._result(op, operands)
        return [self._lanes_of(v, values, lanes) for v in self._yielded]

    def _lanes_of(self, value: Value, values: Mapping[Value, Val], lanes: int) -> Val:
        if value in values:
            return values[value]
        wide = self._splats[value]
        return wide if wide.type.lanes == lanes else self._scalars.splat(self._fixed[value], lanes)

    def _result(self, op: Operation, operands: Sequence[Val]) -> Val:
        match op.opdef.codegen:
            case Elementwise(rule):
                return rule(self._scalars, op.params, *operands)
            case Broadcast():
                return operands[0]
            case Fill():
                element = element_of(op.result.tensor.dtype)
                return constant(op.params_as(ConstantParams).value[0], lane_type(element))
            case _:
                raise InternalError(f"`{op.opdef.name}` cannot stand in the rule of `update_rows`")
