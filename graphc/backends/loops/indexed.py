"""A sum of looked up products as one function: loops over n, k and d from the subscripts.

If d is contiguous in every array, it is the innermost loop and runs on vector lanes. If the table
is stored d first, neighbours in d are far apart: the loops then finish a block of rows for all n
and k before the next block, so that the rows stay in the cache. A vector of neighbouring k
whose indices are contiguous in the table (as the words of a class are) is loaded at once, other k
one by one. Sums over k stay in registers. A result with an indexed axis is zeroed and accumulated
into. A chunk of the rows of the result may be a call of its own: of n, d or i. In one of i all of
the index is read, and what points elsewhere left out.
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
    sub,
    when,
)
from graphc.backends.loops.nestlanes import halves
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.segments import Segments
from graphc.backends.loops.values import (
    I64,
    PTR,
    LaneType,
    Val,
    constant,
    element_of,
    index,
    lane_type,
    number_of,
)
from graphc.backends.loops.writer import ModuleWriter, Writer
from graphc.ir.machine import Machine
from graphc.ir.types import DType, TensorType
from graphc.passes.analysis.loopnest import Size

VECTORS = 8
"""Vectors of d in one block."""

ROWS = 8
"""Rows in one block of a table stored d first."""


Body = Callable[[list[Val]], None]
"""Handles one index inside its axis; it may change the carried values in place."""


@dataclass(frozen=True, slots=True)
class LookedUp:
    """An `IndexedSum` on operands of these types.

    texts   the subscripts of the operands without the index, then the result's
    types   likewise
    index   the type of the index, [n, k]
    is_chunk  the function computes a range of the result's rows: it takes `i64 begin, i64 end` too
    """

    texts: tuple[str, ...]
    types: tuple[TensorType, ...]
    index: TensorType
    is_chunk: bool = False

    def extents(self) -> dict[str, Size]:
        """The extent of each letter; that of `i` is the extent of the indexed axis."""
        found = dict(zip("nk", self.index.dims, strict=True))
        for text, type in zip(self.texts, self.types, strict=True):
            found |= dict(zip(text, type.dims, strict=True))
        return {letter: Size.of((dim,)) for letter, dim in found.items()}

    def symbols(self) -> tuple[str, ...]:
        return tuple(sorted({s for size in self.extents().values() for s in size.symbols}))


def emit_indexed(module: ModuleWriter, machine: Machine, sums: LookedUp, lanes: int = 0) -> str:
    """`@name` of `void (operands…, index, result, sizes of sums.symbols()…)`, then `begin, end` of
    a chunk."""
    code = module.body()
    sizes = {name: Val(f"%s{i}", I64) for i, name in enumerate(sums.symbols())}
    _IndexedEmitter(code, machine, sums, sizes, lanes).emit()
    code.leave()
    names = [*(f"%x{i}" for i in range(len(sums.texts) - 1)), "%index", "%y"]
    parameters = [*(Val(n, PTR) for n in names), *sizes.values()]
    if sums.is_chunk:
        parameters += [Val("%begin", I64), Val("%end", I64)]
    return module.add("index", parameters, code)


@dataclass(frozen=True, slots=True)
class _Block:
    """`width` values of d from `start` on; 1 without lanes where there is no d."""

    start: Val
    width: int


class _IndexedEmitter:
    """State while one sum is written.

    rows    addresses of the rows of each array whose first letter has a value: one, or one for each
            d of the block; the index stands after the operands and the result
    at      the values of the letters n, k and i
    """

    def __init__(
        self,
        code: Writer,
        machine: Machine,
        sums: LookedUp,
        sizes: Mapping[str, Val],
        lanes: int,
    ) -> None:
        self.code = code
        self.scalars = LaneScalars(code, has_fma=machine.has_fma)
        self.texts = (*sums.texts, "nk")
        self.result = len(sums.texts) - 1
        self.bases = [Val(f"%x{i}", PTR) for i in range(self.result)]
        self.bases += [Val("%y", PTR), Val("%index", PTR)]
        self.dtype = sums.types[-1].dtype
        self.lanes = lanes or machine.lanes(self.dtype)
        self.extents = {
            letter: size_value(code, size, sizes) for letter, size in sums.extents().items()
        }
        self.has_d = "d" in self.extents
        self.ranges = {letter: (index(0), extent) for letter, extent in self.extents.items()}
        if sums.is_chunk:
            self.ranges[sums.texts[-1][0]] = Val("%begin", I64), Val("%end", I64)
        self.is_dense = self.has_d and not any(t.startswith("d") for t in sums.texts)
        self.rows: dict[int, list[Val]] = {}
        self.at: dict[str, Val] = {}

    def emit(self) -> None:
        result = self.texts[self.result]
        if result == "nd":
            self._sums_over_k()
            return
        self._fill_zeros(result)
        if self.is_dense:
            body = self._dot if result == "nk" else self._add_all_blocks
            self._each_n(lambda: self._each_hit(body))
        else:
            self._blocks(lambda block: self._each_n(lambda: self._add_scalars(block)))

    # --- loops

    def _each_n(self, body: Callable[[], None]) -> None:
        with loop_if_any(self.code, *self.ranges["n"], 1, []) as state:
            if state:
                self._bind("n", [state.index])
                body()

    def _blocks(self, body: Callable[[_Block], None]) -> None:
        """The whole of d in ever smaller blocks; a single one where there is no d."""
        if not self.has_d:
            body(_Block(index(0), 1))
            return
        first, last = self.ranges["d"]
        widest = VECTORS * self.lanes if self.is_dense else ROWS
        for begin, end, width in parts_of(self.code, sub(self.code, last, first), widest):
            begin, end = add(self.code, first, begin), add(self.code, first, end)
            with loop_if_any(self.code, begin, end, width, []) as state:
                if state:
                    block = _Block(state.index, width)
                    if not self.is_dense:
                        rows = [add(self.code, state.index, index(j)) for j in range(width)]
                        self._bind("d", rows)
                    body(block)

    def _each_hit(self, body: Callable[[], None]) -> None:
        self._sum_hits([], lambda _: body())

    def _sum_hits(self, totals: list[Val], body: Body) -> list[Val]:
        """Runs the body for each k whose index is inside; it may change the totals in place."""
        self._hits(index(0), self.extents["k"], totals, body)
        return totals

    def _hits(self, begin: Val, end: Val, totals: list[Val], body: Body) -> None:
        with loop_if_any(self.code, begin, end, 1, totals) as state:
            if state:
                self.at["k"] = state.index
                found = memory.load(self.scalars, self._row("index"), state.index, DType.I32, 1)
                found = self.scalars.convert("sext", found, I64)
                begin, end = self.ranges["i"]
                # Unsigned, a negative number is larger than any extent.
                is_inside = self.scalars.compare(
                    "ult", sub(self.code, found, begin), sub(self.code, end, begin)
                )
                with when(self.code, is_inside, state.carried) as values:
                    self._bind("i", [found])
                    body(values)

    def _runs_and_hits(self, totals: list[Val], wide: Body, body: Body) -> None:
        """As `_sum_hits`; lanes of k whose indices are contiguous go to `wide` as one vector."""

        def together(k: Val, start: Val, carried: list[Val]) -> None:
            self.at["k"], self.at["i"] = k, start
            wide(carried)

        def alone(k: Val, carried: list[Val]) -> None:
            self._hits(k, add(self.code, k, index(1)), carried, body)

        segments = Segments(self.scalars, self._row("index"), self.lanes, self.extents["i"])
        segments.walk(self.extents["k"], index(0), totals, together, alone)

    def _bind(self, letter: str, values: Sequence[Val]) -> None:
        """Sets the value, or values, of a letter; finds the rows that it is the first letter of."""
        self.at[letter] = values[0]
        for array, text in enumerate(self.texts):
            if text[0] == letter:
                element = "i32" if array > self.result else element_of(self.dtype)
                steps = [mul(self.code, value, self.extents[text[1]]) for value in values]
                self.rows[array] = [
                    offset(self.code, self.bases[array], element, step) for step in steps
                ]

    def _row(self, name: str) -> Val:
        (row,) = self.rows[self.result + 1 if name == "index" else self.result]
        return row

    # --- accumulation

    def _sums_over_k(self) -> None:
        """A result [n, d]: a block of it stays in registers over all k."""
        if self.is_dense:
            self._each_n(lambda: self._blocks(self._sum_block))
        else:
            self._blocks(lambda block: self._each_n(lambda: self._sum_block(block)))

    def _sum_block(self, block: _Block) -> None:
        goals = self._places(self.result, block)
        zero = constant(0.0, self._vector(block))
        totals = [zero] * len(goals)

        def add_one(totals: list[Val]) -> None:
            totals[:] = self._added(totals, self._factors(block))

        if self.is_dense:
            self._sum_hits(totals, add_one)
        else:
            totals = self._sum_runs(totals, block, add_one)
        for goal, total in zip(goals, totals, strict=True):
            memory.store(self.scalars, total, *goal)

    def _sum_runs(self, totals: list[Val], block: _Block, body: Body) -> list[Val]:
        """The totals of a block of rows; those of contiguous indices are vectors, summed last."""
        count = len(totals)
        lanes = [constant(0.0, lane_type(element_of(self.dtype), self.lanes))] * count

        def add_lanes(carried: list[Val]) -> None:
            carried[:count] = self._added(carried[:count], self._run_factors(block, {}))

        def add_one(carried: list[Val]) -> None:
            rest = carried[count:]
            body(rest)
            carried[count:] = rest

        carried = [*lanes, *totals]
        self._runs_and_hits(carried, add_lanes, add_one)
        lanes, totals = carried[:count], carried[count:]
        has_runs = self.scalars.compare("sge", self.extents["k"], index(self.lanes))
        with when(self.code, has_runs, totals) as values:
            values[:] = [
                self.scalars.add(total, self._folded([lane]))
                for total, lane in zip(values, lanes, strict=True)
            ]
        return totals

    def _add_all_blocks(self) -> None:
        """To a looked up row of the result, on vector lanes."""
        self._blocks(lambda block: self._add_block(block, self._factors(block)))

    def _add_block(self, block: _Block, factors: Sequence[Sequence[Val]]) -> None:
        goals = self._places(self.result, block)
        lanes = self._vector(block).lanes
        before = [memory.load(self.scalars, *goal, self.dtype, lanes) for goal in goals]
        for goal, total in zip(goals, self._added(before, factors), strict=True):
            memory.store(self.scalars, total, *goal)

    def _add_scalars(self, block: _Block) -> None:
        """All k of one n, without lanes; loads that do not depend on k are hoisted."""
        early = {
            array: self._load(array, block)
            for array, text in enumerate(self.texts[: self.result])
            if text == "nd"
        }

        early_lanes = {
            array: [self.scalars.splat(v, self.lanes) for v in values]
            for array, values in early.items()
        }

        def add_one(_totals: list[Val]) -> None:
            factors = [early[a] if a in early else self._load(a, block) for a in range(self.result)]
            self._add_there(factors, 1)

        def add_lanes(_totals: list[Val]) -> None:
            self._add_there(self._run_factors(block, early_lanes), self.lanes)

        if self.has_d:
            self._runs_and_hits([], add_lanes, add_one)
        else:
            self._sum_hits([], add_one)

    def _add_there(self, factors: Sequence[Sequence[Val]], lanes: int) -> None:
        """Adds products to that many lanes of each row of the block, or to its only element."""
        text = self.texts[self.result]
        goals = [(row, self.at[text[1]]) for row in self.rows[self.result]]
        values = [memory.load(self.scalars, *goal, self.dtype, lanes) for goal in goals]
        if "d" in text or not self.has_d:
            values = self._added(values, factors)
        else:
            for pair in zip(*factors, strict=True):
                values = self._added(values, [[value] for value in pair])
        for goal, value in zip(goals, values, strict=True):
            memory.store(self.scalars, value, *goal)

    def _dot(self) -> None:
        """A sum over d on vector lanes; the lanes are added at the end."""
        total = constant(0.0, lane_type(element_of(self.dtype)))
        for begin, end, width in parts_of(self.code, self.extents["d"], VECTORS * self.lanes):
            vector = self._vector(_Block(begin, width))
            count = width // vector.lanes
            partial = [constant(0.0, vector)] * count
            with loop_if_any(self.code, begin, end, width, partial) as state:
                if state:
                    factors = self._factors(_Block(state.index, width))
                    state.carried[:] = self._added(state.carried, factors)
            if number_of(begin) is None or number_of(begin) != number_of(end):
                total = self.scalars.add(total, self._folded(partial))
        memory.store(self.scalars, total, self._row("result"), self.at["k"])

    def _folded(self, parts: Sequence[Val]) -> Val:
        """The sum of all lanes of all parts."""
        values = list(parts)
        while len(values) > 1:
            half = len(values) // 2
            values = [
                self.scalars.add(a, b) for a, b in zip(values[:half], values[half:], strict=True)
            ]
        (value,) = values
        while value.type.lanes > 1:
            low, high = halves(self.code, value)
            value = self.scalars.add(low, high)
        return value

    # --- elements

    def _vector(self, block: _Block) -> LaneType:
        lanes = min(self.lanes, block.width) if self.is_dense else 1
        return lane_type(element_of(self.dtype), lanes)

    def _factors(self, block: _Block) -> list[list[Val]]:
        return [self._load(array, block) for array in range(self.result)]

    def _load(self, array: int, block: _Block) -> list[Val]:
        """The array's elements at the current place: one for each vector or row of the block."""
        has_d = "d" in self.texts[array]
        lanes = self._vector(block).lanes
        places = self._places(array, block)
        values = [
            memory.load(self.scalars, *place, self.dtype, lanes if has_d else 1) for place in places
        ]
        if has_d:
            return values
        return [self.scalars.splat(values[0], lanes)] * (block.width // lanes)

    def _run_factors(
        self, block: _Block, early: Mapping[int, Sequence[Val]]
    ) -> list[Sequence[Val]]:
        """Each operand's lanes of k or i for every row of the block; some are known already."""
        factors: list[Sequence[Val]] = []
        for array, text in enumerate(self.texts[: self.result]):
            if array in early:
                factors.append(early[array])
                continue
            rows = self.rows[array]
            values = [
                memory.load(self.scalars, row, self.at[text[1]], self.dtype, self.lanes)
                for row in rows
            ]
            factors.append(values * (block.width // len(rows)))
        return factors

    def _places(self, array: int, block: _Block) -> list[tuple[Val, Val]]:
        """(row, position in it) of each vector or row of the block."""
        text, rows = self.texts[array], self.rows[array]
        if text[1] != "d":
            return [(row, self.at[text[1]]) for row in rows]
        (row,) = rows
        start = offset(self.code, row, element_of(self.dtype), block.start)
        return [(start, index(j)) for j in range(0, block.width, self._vector(block).lanes)]

    def _added(self, totals: Sequence[Val], factors: Sequence[Sequence[Val]]) -> list[Val]:
        """Each total and the product of its factors."""
        if len(factors) == 1:
            return [self.scalars.add(t, x) for t, x in zip(totals, factors[0], strict=True)]
        pairs = zip(*factors, strict=True)
        return [self.scalars.fma(a, b, t) for t, (a, b) in zip(totals, pairs, strict=True)]

    def _fill_zeros(self, result: str) -> None:
        """Zeros in the rows that this call computes."""
        row, base = self.extents[result[1]], self.bases[self.result]
        begin, end = self.ranges[result[0]]
        base = offset(self.code, base, element_of(self.dtype), mul(self.code, begin, row))
        count = mul(self.code, sub(self.code, end, begin), row)
        for start, stop, width in parts_of(self.code, count, self.lanes):
            zero = constant(0.0, lane_type(element_of(self.dtype), width))
            with loop_if_any(self.code, start, stop, width, []) as state:
                if state:
                    memory.store(self.scalars, zero, base, state.index)
