"""One loop nest as one function: rows as loops, the last dim on vector lanes.

Row values are computed once and splatted before the lanes' loop. Left-over lanes take one masked
vector where the machine masks memory, a scalar loop elsewhere. Reductions over lanes carry a vector
and fold it by halves; reductions over outer dims live in the result, which first gets the
identity, so extents of 0 need no thought. Long sums are cut into chains (`chains.py`).

A nest may have windows: dims of which a call computes a part only, from a begin to an end that it
is given. Calls for parts that cover a dim once give together what one call for all of it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from graphc.backends.loops import memory
from graphc.backends.loops.chains import Block, blocks_of, is_rounded, steps_of
from graphc.backends.loops.control import (
    add,
    loop,
    loop_if_any,
    mul,
    offset,
    round_down,
    size_value,
    smaller,
    sub,
    when,
)
from graphc.backends.loops.nestlanes import halves
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import (
    ELEMENT_BYTES,
    I64,
    PTR,
    Val,
    constant,
    element_of,
    index,
    lane_type,
    memory_element,
    number_of,
)
from graphc.backends.loops.writer import ModuleWriter, Writer
from graphc.ir.machine import Machine
from graphc.ir.types import DType, Symbol
from graphc.ops.schedules import NestSchedule
from graphc.passes.analysis.loopnest import (
    Apply,
    ArrayAccess,
    ExtentOf,
    Index,
    Load,
    Nest,
    Number,
    Reduce,
    Size,
    Store,
    Sweep,
)
from graphc.passes.analysis.nest_schedules import choose_nest, read_first
from graphc.support.diagnostics import InternalError

ArrayKey = tuple[str, int]

STRAIGHT_VECTORS = 4
"""Lanes of known extent, up to so many vectors, have no loop."""

CACHE_LINE = 64


@dataclass(frozen=True, slots=True)
class NestFunction:
    """A function for a nest: what to pass, pointers of `accesses`, then the sizes of `symbols`.

    After these, for each dim of `window`, where to begin and where to end: two i64.
    """

    name: str
    accesses: tuple[ArrayKey, ...]
    symbols: tuple[str, ...]
    window: tuple[int, ...] = ()


def emit_nest(
    module: ModuleWriter,
    machine: Machine,
    nest: Nest,
    constants: Mapping[int, str],
    window: tuple[int, ...] = (),
    schedule: NestSchedule | None = None,
) -> NestFunction:
    """Writes the function of a nest. `constants` names the arrays of constant accesses.

    schedule  how it is computed; None: chosen for the machine
    window  dims of which a call computes a part; `nest.can_cut` must hold for each
    """
    # As text: 0.0 and -0.0 are equal, and so would be the nests that they stand in.
    how = schedule or choose_nest(nest, machine)
    vectors = replace(how, loops=(), keep=())  # the nest itself says these
    key = (machine, repr(nest), tuple(constants.items()), window, vectors)
    return module.once(key, lambda: _written(module, machine, nest, constants, window, how))


def _written(
    module: ModuleWriter,
    machine: Machine,
    nest: Nest,
    constants: Mapping[int, str],
    window: tuple[int, ...],
    how: NestSchedule,
) -> NestFunction:
    for dim in window:
        if not nest.can_chunk(dim):
            raise InternalError(f"a nest cannot be computed in parts of its dim {dim}")
    code = module.body()
    keys = tuple(dict.fromkeys((p.kind, p.index) for p in nest.accesses() if p.kind != "constant"))
    symbols = nest.symbols()
    bases = {key: Val(f"%p{i}", PTR) for i, key in enumerate(keys)}
    bases.update({("constant", i): Val(name, PTR) for i, name in constants.items()})
    sizes = {name: Val(f"%d{i}", I64) for i, name in enumerate(symbols)}
    parts = {d: (Val(f"%begin{d}", I64), Val(f"%end{d}", I64)) for d in window}
    blocks = blocks_of(nest)
    _NestEmitter(code, machine, nest, how, blocks, bases, sizes, parts).emit()
    code.leave()
    parameters = [*(bases[key] for key in keys), *sizes.values()]
    parameters += [v for part in parts.values() for v in part]
    name = module.add("nest", parameters, code, long_stack=bool(nest.keeps or blocks))
    return NestFunction(name, keys, symbols, window)


class _NestEmitter:
    """State while one nest is written: indices of the open loops, row values, row addresses."""

    def __init__(
        self,
        code: Writer,
        machine: Machine,
        nest: Nest,
        how: NestSchedule,
        blocks: Sequence[Block],
        bases: Mapping[ArrayKey, Val],
        sizes: Mapping[str, Val],
        parts: Mapping[int, tuple[Val, Val]],
    ) -> None:
        self.code = code
        self.nest = nest
        self.blocks = blocks
        self.scalars = LaneScalars.of(code, machine)
        self.bases = dict(bases)
        self.sizes = sizes
        extents = [size_value(code, size, sizes) for size in nest.dims]
        self.begins = [parts[d][0] if d in parts else index(0) for d in range(len(extents))]
        self.ends = [parts[d][1] if d in parts else extent for d, extent in enumerate(extents)]
        self.width = sub(code, self.ends[-1], self.begins[-1]) if extents else index(1)
        self.lanes, self.vectors = how.lanes, how.vectors
        self.is_masked = how.tail == "masked" and machine.masks_memory
        self.ahead = read_first(nest) if how.prefetch else ()
        self.stores = list(nest.stores)  # to the innermost chain
        self.indices: list[Val] = []
        self.row: dict[int, Val] = {}
        self.splats: dict[tuple[int, int], Val] = {}
        self.row_bases: dict[ArrayAccess, Val] = {}
        self.buffers: dict[int, Val] = {}

    def emit(self) -> None:
        self._allocate_buffers()
        for store in self.nest.stores:
            if store.combine:
                self._fill_identity(store)
        with ExitStack() as loops:
            for depth, statements in enumerate(self.nest.heads):
                for number in statements:
                    self.row[number] = self._row_value(number)
                if depth < self.nest.lane:
                    begin, end = self.begins[depth], self.ends[depth]
                    if number_of(end) == 0:
                        return
                    for block in self.blocks:
                        if block.dim == depth:
                            begin, end = loops.enter_context(self._chains(block, begin, end))
                    opened = loop(self.code, begin, end, 1)
                    self.indices.append(loops.enter_context(opened).index)
            self._emit_row()

    # --- chains of sums over outer dims

    @contextmanager
    def _chains(self, block: Block, begin: Val, end: Val) -> Generator[tuple[Val, Val]]:
        """A loop over `begin` to `end`; in it (begin, end) of what each turn adds to chains."""
        with loop(self.code, begin, end, block.step) as state:
            outer = [self.stores[n] for n in block.stores]
            inner = [replace(s, access=p) for s, p in zip(outer, block.accesses, strict=True)]
            for number, store in zip(block.stores, inner, strict=True):
                self._fill_identity(store)
                self.stores[number] = store
            stop = add(self.code, state.index, index(block.step))
            yield state.index, smaller(self.code, stop, end)
            del self.indices[block.dim :]
            for source, goal in zip(inner, outer, strict=True):
                self._end_chain(source, goal)

    def _end_chain(self, source: Store, goal: Store) -> None:
        """Adds all elements of a chain to those that it is a part of."""
        depth, lane = len(self.indices), self.nest.lane
        assert source.combine is not None
        with ExitStack() as loops:
            for d in range(depth, lane):
                where = index(0)
                if d in source.access.dims:
                    opened = loop(self.code, self.begins[d], self.ends[d], 1)
                    where = loops.enter_context(opened).index
                self.indices.append(where)
            bases = [self._row_base(store.access) for store in (goal, source)]
            combine, dtype = source.combine, source.access.dtype

            def add_there(position: Val, lanes: int, mask: Val | None) -> None:
                s = self.scalars
                a, b = (memory.load(s, base, position, dtype, lanes, mask) for base in bases)
                memory.store(s, self._fold(combine, a, b), bases[0], position, mask)

            width = self.width if lane in source.access.dims else index(1)
            self._each_vector(width, add_there)
        del self.indices[depth:]

    def _each_vector(self, count: Val, body: Callable[[Val, int, Val | None], None]) -> None:
        """`body(position, lanes, mask)` over so many elements: whole vectors, then what is left."""
        whole = round_down(self.code, count, self.lanes)
        with loop_if_any(self.code, index(0), whole, self.lanes, []) as state:
            if state:
                body(state.index, self.lanes, None)
        step = self.lanes if self.is_masked else 1
        with loop_if_any(self.code, whole, count, step, []) as state:
            if state:
                is_chunk = self.is_masked and self.lanes > 1
                mask = memory.rest_mask(self.scalars, whole, count, step) if is_chunk else None
                body(state.index, step, mask)

    # --- once a row

    def _emit_row(self) -> None:
        self._find_row_bases()
        for number, rows in enumerate(self.nest.rows):
            for statement in rows.compute:
                self.row[statement] = self._row_value(statement)
            for store in rows.store:
                self._store_row_value(self.stores[store])
            if number < len(self.nest.sweeps):
                self._emit_sweep(self.nest.sweeps[number])

    def _row_value(self, number: int) -> Val:
        """A value without lanes: a plain scalar."""
        statement = self.nest.statements[number]
        type_ = lane_type(element_of(statement.dtype))
        match statement.work:
            case Load(access):
                return memory.load(
                    self.scalars,
                    self.bases[access.kind, access.index],
                    self._place(access),
                    access.dtype,
                    1,
                )
            case Apply(rule, params):
                return rule(self.scalars, params, *(self.row[a] for a in statement.args))
            case Number(value):
                return constant(value, type_)
            case Index(dim):
                return self._from_i64(self.indices[dim], statement.dtype)
            case ExtentOf(dim):
                size = Size.of((dim,))
                value = size_value(self.code, size, self.sizes)
                if isinstance(dim, Symbol):
                    return self._from_i64(value, statement.dtype)
                return constant(dim, type_)
            case Reduce():
                raise AssertionError("a reduction is made by its sweep")

    def _from_i64(self, value: Val, dtype: DType) -> Val:
        return self.scalars.cast(value, dtype)

    def _place(self, access: ArrayAccess) -> Val:
        """The element's offset from the indices of the open loops; lanes not counted."""
        place = size_value(self.code, access.offset, self.sizes)
        for dim, stride in enumerate(access.strides[: len(self.indices)]):
            if stride is not None:
                step = mul(self.code, self.indices[dim], size_value(self.code, stride, self.sizes))
                place = add(self.code, place, step)
        return place

    def _store_row_value(self, store: Store) -> None:
        value = self.row[store.value]
        base, place = self.bases[store.access.kind, store.access.index], self._place(store.access)
        if store.combine:
            old = memory.load(self.scalars, base, place, store.access.dtype, 1)
            value = self._fold(store.combine, old, value)
        memory.store(self.scalars, value, base, place)

    def _find_row_bases(self) -> None:
        """Where the lanes of this row start in each array that has lanes."""
        for access in (*self.nest.accesses(), *(store.access for store in self.stores)):
            if self.nest.lane in access.dims and access not in self.row_bases:
                self.row_bases[access] = self._row_base(access)

    def _row_base(self, access: ArrayAccess) -> Val:
        """Where this row starts in an array, which has lanes or one element for all of them."""
        place = self._place(access)
        if self.nest.lane in access.dims:
            place = add(self.code, place, self.begins[-1])
        element = memory_element(element_of(access.dtype))
        return offset(self.code, self.bases[access.kind, access.index], element, place)

    def _fold(self, reduce: Reduce, a: Val, b: Val) -> Val:
        return getattr(self.scalars, reduce.scalar_op)(a, b)

    # --- before the loops

    def _allocate_buffers(self) -> None:
        for keep in self.nest.keeps:
            if keep.access is None:
                element = element_of(self.nest.statements[keep.value].dtype)
                whole = -(-self.nest.bound // self.lanes) * self.lanes
                self.buffers[keep.value] = memory.stack_array(self.code, element, whole, 64)
        for block in self.blocks:
            for access, size in zip(block.accesses, block.sizes, strict=True):
                self.bases[access.kind, access.index] = self._chain_memory(access, size)

    def _chain_memory(self, access: ArrayAccess, size: int) -> Val:
        """Where a chain of so many elements would begin if it were there for all indices."""
        element = element_of(access.dtype)
        base = memory.stack_array(self.code, element, size, 64)
        before = index(0)
        for d, stride in enumerate(access.strides):
            if stride is not None:
                step = size_value(self.code, stride, self.sizes)
                before = add(self.code, before, mul(self.code, self.begins[d], step))
        if number_of(before) == 0:
            return base
        place = sub(self.code, index(0), before)
        return self.code.offset(base, element, place, inside=False)

    def _fill_identity(self, store: Store) -> None:
        """The identity in all that this call combines into: from the last windowed dim on in one
        stretch, for each turn of the dims before it."""
        assert store.combine is not None
        base, dims = self.bases[store.access.kind, store.access.index], sorted(store.access.dims)
        start = max((i for i, d in enumerate(dims) if number_of(self.begins[d]) != 0), default=0)
        with ExitStack() as loops:
            for d in dims[:start]:
                if number_of(self.ends[d]) == 0:
                    return
                opened = loop(self.code, self.begins[d], self.ends[d], 1)
                place = mul(self.code, loops.enter_context(opened).index, self._stride(store, d))
                base = self._moved(store, base, place)
            count = index(1)
            for d in dims[start:]:
                count = mul(self.code, count, sub(self.code, self.ends[d], self.begins[d]))
            if dims[start:]:
                first = dims[start]
                place = mul(self.code, self.begins[first], self._stride(store, first))
                base = self._moved(store, base, place)
            self._fill(base, count, store.combine.identity, store.access.dtype)

    def _stride(self, store: Store, dim: int) -> Val:
        stride = store.access.strides[dim]
        assert stride is not None
        return size_value(self.code, stride, self.sizes)

    def _moved(self, store: Store, base: Val, place: Val) -> Val:
        element = memory_element(element_of(store.access.dtype))
        return offset(self.code, base, element, place)

    def _fill(self, base: Val, count: Val, number: float | int, dtype: DType) -> None:
        """`count` elements of one value."""
        value = constant(number, lane_type(element_of(dtype), 1))
        if number_of(count) == 1:
            memory.store(self.scalars, value, base, index(0))
            return

        def put(position: Val, lanes: int, mask: Val | None) -> None:
            memory.store(self.scalars, self.scalars.splat(value, lanes), base, position, mask)

        self._each_vector(count, put)

    def _prefetch(self, position: Val, lanes: int) -> None:
        """Asks for lanes of the next row. Processors look ahead inside a page of memory, and a row
        that begins on another waits at its first sweep."""
        for access in self.ahead:
            stride = access.strides[self.nest.lane - 1]
            assert stride is not None
            place = add(self.code, position, size_value(self.code, stride, self.sizes))
            element = memory_element(element_of(access.dtype))
            for k in range(0, lanes, CACHE_LINE // ELEMENT_BYTES[element]):
                there = add(self.code, place, index(k))
                memory.prefetch(self.scalars, self.row_bases[access], element, there)

    # --- over the lanes

    def _emit_sweep(self, sweep: Sweep) -> None:
        """Whole vectors, several a turn, then single ones, then what is left."""
        code, stop, lanes = self.code, self.width, self.lanes
        wide = lanes * self.vectors
        self._splat_row_values(sweep, wide)
        totals = [self._identity(n, lanes) for n in sweep.reduce]
        middle, whole = round_down(code, stop, wide), round_down(code, stop, lanes)
        self._emit_turns(sweep, index(0), middle, wide, totals)
        if wide > lanes:
            self._emit_turns(sweep, middle, whole, lanes, totals)
        self._emit_rest(sweep, whole, stop, totals)

    def _emit_turns(
        self, sweep: Sweep, begin: Val, end: Val, lanes: int, totals: list[Val]
    ) -> None:
        """From begin to end by so many lanes; what is no more than a turn has no loop."""
        first, last = number_of(begin), number_of(end)
        if first is not None and last is not None and last - first <= STRAIGHT_VECTORS * self.lanes:
            for position in range(first, last, lanes):
                self._chunk(sweep, index(position), lanes, None, totals)
            return

        def turn(position: Val, carried: list[Val]) -> None:
            if lanes > self.lanes and sweep in self.nest.sweeps[1:2]:
                self._prefetch(position, lanes)
            self._chunk(sweep, position, lanes, None, carried)

        turns = -(-self.nest.bound // lanes) if self._has_sums(sweep) else 1
        self._loops(sweep, begin, end, steps_of(turns, lanes), totals, turn)

    def _has_sums(self, sweep: Sweep) -> bool:
        """Whether a sweep folds what is rounded."""
        folded = [self.nest.statements[n] for n in sweep.reduce]
        return any(
            isinstance(s.work, Reduce) and is_rounded(s.work, s.dtype.is_float) for s in folded
        )

    def _loops(
        self,
        sweep: Sweep,
        begin: Val,
        end: Val,
        steps: Sequence[int],
        totals: list[Val],
        turn: Callable[[Val, list[Val]], None],
    ) -> None:
        """Loops of these steps, one in the other; each turn of an outer one folds a chain."""
        with loop_if_any(self.code, begin, end, steps[0], totals) as state:
            if state is None:
                return
            if len(steps) == 1:
                turn(state.index, state.carried)
                return
            chain = [self._identity(n, self.lanes) for n in sweep.reduce]
            stop = smaller(self.code, add(self.code, state.index, index(steps[0])), end)
            self._loops(sweep, state.index, stop, steps[1:], chain, turn)
            for i, number in enumerate(sweep.reduce):
                work = self.nest.statements[number].work
                assert isinstance(work, Reduce)
                state.carried[i] = self._fold(work, state.carried[i], chain[i])

    def _emit_rest(self, sweep: Sweep, whole: Val, stop: Val, totals: list[Val]) -> None:
        """The lanes from `whole` on, and the end of the reductions."""
        rest = sub(self.code, stop, whole)
        has_rest = self.lanes > 1 and number_of(rest) != 0
        if has_rest and self.is_masked:
            self._masked_rest(sweep, whole, stop, totals)
        totals = [self._total(n, total) for n, total in zip(sweep.reduce, totals, strict=True)]
        if has_rest and not self.is_masked:
            with loop_if_any(self.code, whole, stop, 1, totals) as state:
                assert state is not None
                self._chunk(sweep, state.index, 1, None, state.carried)
        self.row.update(zip(sweep.reduce, totals, strict=True))

    def _masked_rest(self, sweep: Sweep, whole: Val, stop: Val, totals: list[Val]) -> None:
        if number_of(stop) is not None:
            mask = memory.rest_mask(self.scalars, whole, stop, self.lanes)
            self._chunk(sweep, whole, self.lanes, mask, totals)
            return
        is_left = self.scalars.compare("slt", whole, stop)
        with when(self.code, is_left, totals) as values:
            mask = memory.rest_mask(self.scalars, whole, stop, self.lanes)
            self._chunk(sweep, whole, self.lanes, mask, values)

    def _chunk(
        self, sweep: Sweep, position: Val, lanes: int, mask: Val | None, totals: list[Val]
    ) -> None:
        """All of a sweep for `lanes` elements from `position`; `totals` are the accumulators.

        Lanes of several vectors are folded to one first: the sum waits for one addition a turn.
        """
        s = self.scalars
        values: dict[int, Val] = {}
        for number in sweep.reload:
            dtype = self.nest.statements[number].dtype
            values[number] = memory.load(s, self._kept(number), position, dtype, lanes, mask)
        for number in sweep.compute:
            values[number] = self._lane_value(number, values, position, lanes, mask)
            if self.nest.statements[number].is_below_maximum:
                s.note_at_most_zero(values[number])
        for number in sweep.keep:
            memory.store(s, values[number], self._kept(number), position, mask)
        for i, number in enumerate(sweep.reduce):
            statement = self.nest.statements[number]
            assert isinstance(statement.work, Reduce)
            value = self._operand(statement.args[0], values, lanes)
            if mask is not None:
                value = s.select(mask, value, self._identity(number, lanes))
            value = self._folded(statement.work, value, self.lanes)
            totals[i] = self._fold(statement.work, totals[i], value)
        for number in sweep.store:
            store = self.stores[number]
            base = self.row_bases[store.access]
            value = self._operand(store.value, values, lanes)
            if store.combine:
                old = memory.load(s, base, position, store.access.dtype, lanes, mask)
                value = self._fold(store.combine, old, value)
            memory.store(s, value, base, position, mask)

    def _lane_value(
        self, number: int, values: Mapping[int, Val], position: Val, lanes: int, mask: Val | None
    ) -> Val:
        statement = self.nest.statements[number]
        match statement.work:
            case Load(access):
                base = self.row_bases[access]
                return memory.load(self.scalars, base, position, access.dtype, lanes, mask)
            case Apply(rule, params):
                args = (self._operand(a, values, lanes) for a in statement.args)
                return rule(self.scalars, params, *args)
            case Index():
                here = add(self.code, position, self.begins[-1])
                return self._positions(here, lanes, statement.dtype)
            case _:
                raise AssertionError("every other kind of value has no lanes")

    def _positions(self, position: Val, lanes: int, dtype: DType) -> Val:
        """The index of each lane. In 32 bits where that is enough: wide conversions are slow."""
        s = self.scalars
        is_narrow = self.nest.bound < 2**31 and dtype is not DType.I64
        counts = lane_type("i32" if is_narrow else "i64", lanes)
        start = s.cast(position, DType.I32) if is_narrow else position
        return s.cast(s.add(s.splat(start, lanes), memory.steps(counts)), dtype)

    def _operand(self, number: int, values: Mapping[int, Val], lanes: int) -> Val:
        if number in values:
            return values[number]
        return self.row[number] if lanes == 1 else self.splats[number, lanes]

    def _splat_row_values(self, sweep: Sweep, wide: int) -> None:
        """Every row value that this sweep reads, in the lanes of a vector and of a turn."""
        statements = self.nest.statements
        used = [a for n in (*sweep.compute, *sweep.reduce) for a in statements[n].args]
        used += [self.nest.stores[n].value for n in sweep.store]
        self.splats = {
            (n, lanes): self.scalars.splat(self.row[n], lanes)
            for n in dict.fromkeys(used)
            if n in self.row
            for lanes in sorted({self.lanes, wide})
        }

    def _kept(self, number: int) -> Val:
        if number in self.buffers:
            return self.buffers[number]
        (access,) = (
            k.access for k in self.nest.keeps if k.value == number and k.access is not None
        )
        return self.row_bases[access]

    def _identity(self, number: int, lanes: int) -> Val:
        statement = self.nest.statements[number]
        assert isinstance(statement.work, Reduce)
        return constant(statement.work.identity, lane_type(element_of(statement.dtype), lanes))

    def _total(self, number: int, value: Val) -> Val:
        """The accumulator of a reduction folded to one number."""
        work = self.nest.statements[number].work
        assert isinstance(work, Reduce)
        return self._folded(work, value, 1)

    def _folded(self, work: Reduce, value: Val, lanes: int) -> Val:
        """A value of more lanes folded to so many, by halves, in a fixed order."""
        while value.type.lanes > lanes:
            low, high = halves(self.code, value)
            value = self._fold(work, low, high)
        return value
