"""The innermost piece of a matrix product: a tile of C that stays in registers over a stretch of k.

A tile is `rows` x vectors accumulators: one broadcast of A per row and step, one load of B per
vector. After every `STRETCH` steps they go to C and begin anew at 0, so that rounding errors grow
with the length of a stretch and the number of stretches, and not with k. A tile is a function of
its own, shared by all products of a module with the same element type and layout.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from graphc.backends.loops import memory
from graphc.backends.loops.control import (
    add,
    loop,
    loop_if_any,
    mul,
    offset,
    round_down,
    smaller,
    when,
)
from graphc.backends.loops.pairs import pair
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.shuffles import load_transposed
from graphc.backends.loops.values import I1, I64, PTR, Val, constant, element_of, index, lane_type
from graphc.backends.loops.writer import ModuleWriter, Turn, Writer
from graphc.ir.machine import Machine
from graphc.ir.types import DType
from graphc.ops.contraction import STRETCH

LINE_BYTES = 64
"""A line of a cache."""


@dataclass(frozen=True, slots=True)
class Tile:
    """The columns of a tile and how A is read.

    starts         the first column of each vector; neighbours may overlap, and do so with the same
                   bits, where a matrix is not a whole number of vectors wide
    a_transposed   A is stored [k, m]: the tile's rows lie side by side
    pairs          elements of A and B are pairs of bf16 (`pairs.py`), and so k counts pairs
    amx            sums are in AMX's registers (`amx.py`)
    """

    dtype: DType
    lanes: int
    starts: tuple[int, ...]
    a_transposed: bool
    pairs: bool = False
    amx: bool = False

    @property
    def width(self) -> int:
        return self.starts[-1] + self.lanes

    @property
    def element(self) -> str:
        return element_of(self.dtype)

    @property
    def factor(self) -> DType:
        """What lies in A and B."""
        return DType.I32 if self.pairs else self.dtype


@dataclass(frozen=True, slots=True)
class Fetches:
    """What of B a tile asks memory for before it is needed.

    ahead  rows of B, so many steps of k before their use; of a tile that transposes B, rows of it
    level  of the cache that they go to
    """

    ahead: int = 0
    level: int = 2


NO_FETCHES = Fetches()


def emit_tile(
    module: ModuleWriter,
    machine: Machine,
    tile: Tile,
    rows: int,
    *,
    is_long: bool,
    packs: bool = False,
    fetches: Fetches = NO_FETCHES,
    panel: int = 0,
    asks: int = 0,
) -> str:
    """`void (a, lda, b, ldb, c, ldc, k, adds)`: C += A B or C = A B for one tile.

    is_long k may be more than one stretch
    packs   takes `ptr panel` besides and leaves the used part of B there, row after row
    panel   B lies in panels of so many columns, ldb is from one to the next; 0: by rows
    asks    takes `ptr panel` besides and asks for so many lines from there on in each step
    """
    code = module.body()
    s = LaneScalars(code, has_fma=machine.has_fma)
    goal = _Goal(s, tile, rows)
    b = Val("%b", PTR)
    lda, ldb = Val("%lda", I64), Val("%ldb", I64)
    a_rows = _rows_of_a(code, tile, rows)
    wide = panel or tile.width
    panels = [
        offset(code, b, tile.element, mul(code, index(i), ldb)) if i else b
        for i in range(-(-tile.width // wide))
    ]
    pitch = index(panel) if panel else ldb
    length = STRETCH // 2 if tile.pairs else STRETCH
    with (
        goal.stretches(is_long=is_long, length=length) as (begin, end, sums),
        loop_if_any(code, begin, end, 1, sums) as state,
    ):
        assert state is not None
        row = mul(code, state.index, pitch)
        b_rows = [offset(code, at, tile.element, row) for at in panels]
        b_row = b_rows[0]
        b_values = [
            memory.load(s, b_rows[start // wide], index(start % wide), tile.factor, tile.lanes)
            for start in tile.starts
        ]
        if packs:
            place = mul(code, state.index, index(tile.width))
            goal = offset(code, Val("%panel", PTR), tile.element, place)
            for value, start in zip(b_values, tile.starts, strict=True):
                memory.store(s, value, goal, index(start))
            memory.prefetch(s, b_row, tile.element, index(tile.width))
        if fetches.ahead:
            later = mul(code, add(code, state.index, index(fetches.ahead)), pitch)
            for start in range(0, tile.width, LINE_BYTES // tile.dtype.itemsize):
                place = add(code, later, index(start % wide))
                memory.prefetch(s, panels[start // wide], tile.element, place, fetches.level)
        _ask(s, tile, state.index, asks)
        column = mul(code, state.index, lda) if tile.a_transposed else state.index
        for r in range(rows):
            place = add(code, column, index(r)) if tile.a_transposed else column
            scalar = memory.load(s, a_rows[r], place, tile.factor, 1)
            value = s.splat(scalar, tile.lanes)
            for v, b_value in enumerate(b_values):
                at = r * len(b_values) + v
                if tile.pairs:
                    state.carried[at] = code.dot_bf16(state.carried[at], b_value, value)
                else:
                    state.carried[at] = s.fma(value, b_value, state.carried[at])
    code.leave()
    parameters = (*PARAMETERS, Val("%panel", PTR)) if packs or asks else PARAMETERS
    return module.add("tile", parameters, code)


def _ask(s: LaneScalars, tile: Tile, step: Val, lines: int) -> None:
    """Asks for the next so many lines of a panel that is read later."""
    code = s.code
    for i in range(lines):
        line = add(code, mul(code, step, index(lines)), index(i))
        place = mul(code, line, index(LINE_BYTES // tile.dtype.itemsize))
        memory.prefetch(s, Val("%panel", PTR), tile.element, place)


def emit_pairing_tile(
    module: ModuleWriter,
    machine: Machine,
    tile: Tile,
    rows: int,
    *,
    is_long: bool,
    fetches: Fetches = NO_FETCHES,
) -> str:
    """The same for an A of pairs and a B of numbers in f32, by rows; k counts steps.

    For few rows, where a packed panel would be read hardly more often than it is written.
    """
    code = module.body()
    s = LaneScalars(code, has_fma=machine.has_fma)
    goal = _Goal(s, tile, rows)
    b, lda, ldb = Val("%b", PTR), Val("%lda", I64), Val("%ldb", I64)
    a_rows = _rows_of_a(code, tile, rows)
    with (
        goal.stretches(is_long=is_long) as (begin, end, sums),
        loop_if_any(code, begin, end, 2, sums) as state,
    ):
        assert state is not None
        step, following = state.index, add(code, state.index, index(1))
        is_inside = s.splat(s.compare("slt", following, end), tile.lanes)
        row = offset(code, b, tile.element, mul(code, step, ldb))
        later = offset(code, row, tile.element, ldb)
        b_values = [
            pair(
                s,
                memory.load(s, row, start, tile.dtype, tile.lanes),
                memory.load(s, later, start, tile.dtype, tile.lanes, is_inside),
            )
            for start in map(index, tile.starts)
        ]
        for distance in (fetches.ahead, fetches.ahead + 1) if fetches.ahead else ():
            place = mul(code, add(code, step, index(distance)), ldb)
            for start in range(0, tile.width, LINE_BYTES // tile.dtype.itemsize):
                at = add(code, place, index(start))
                memory.prefetch(s, b, tile.element, at, fetches.level)
        at_pair = code.binary("lshr", step, index(1))
        column = mul(code, at_pair, lda) if tile.a_transposed else at_pair
        for r in range(rows):
            place = add(code, column, index(r)) if tile.a_transposed else column
            value = s.splat(memory.load(s, a_rows[r], place, tile.factor, 1), tile.lanes)
            for v, b_value in enumerate(b_values):
                at = r * len(b_values) + v
                state.carried[at] = code.dot_bf16(state.carried[at], b_value, value)
    code.leave()
    return module.add("tile", PARAMETERS, code)


def emit_transposing_tile(
    module: ModuleWriter,
    machine: Machine,
    tile: Tile,
    rows: int,
    *,
    is_long: bool,
    fetches: Fetches = NO_FETCHES,
) -> str:
    """The same for a B stored [n, k]: blocks of it are transposed in registers.

    For few rows, where a packed panel would be read hardly more often than it is written.
    """
    code = module.body()
    s = LaneScalars(code, has_fma=machine.has_fma)
    goal = _Goal(s, tile, rows)
    lda = Val("%lda", I64)
    a_rows = _rows_of_a(code, tile, rows)

    def take(state: Turn, b_value: Val, step: Val, v: int) -> None:
        """Adds the products with vector `v` of B at this step of k to each row's sum."""
        for r, a_row in enumerate(a_rows):
            place = add(code, mul(code, step, lda), index(r)) if tile.a_transposed else step
            scalar = memory.load(s, a_row, place, tile.dtype, 1)
            at = r * len(tile.starts) + v
            value = s.splat(scalar, tile.lanes)
            state.carried[at] = s.fma(value, b_value, state.carried[at])

    with goal.stretches(is_long=is_long) as (begin, end, sums):
        whole = round_down(code, end, tile.lanes)
        with loop_if_any(code, begin, whole, tile.lanes, sums) as state:
            assert state is not None
            if fetches.ahead:
                _fetch_transposed(s, tile, state.index, fetches)
            for v, lines in enumerate(_lines_of_b(code, tile, state.index)):
                block = load_transposed(s, lines, index(0), tile.dtype, tile.lanes)
                for p, value in enumerate(block):
                    take(state, value, add(code, state.index, index(p)), v)
        with loop_if_any(code, whole, end, 1, sums) as state:
            assert state is not None
            for v, lines in enumerate(_lines_of_b(code, tile, state.index)):
                scalars = [memory.load(s, row, index(0), tile.dtype, 1) for row in lines]
                take(state, s.gathered(scalars), state.index, v)
    code.leave()
    return module.add("tile", PARAMETERS, code)


def emit_fetch(module: ModuleWriter, dtype: DType, width: int) -> str:
    """`void (c, ldc, rows)`: asks for the lines of `rows` x `width` elements of C, to write them.

    A function of its own and not a part of tiles: so these are the same for every product.
    """
    code = module.body()
    c, element = Val("%c", PTR), element_of(dtype)
    with loop(code, index(0), Val("%rows", I64), 1) as state:
        line = offset(code, c, element, mul(code, state.index, Val("%ldc", I64)))
        steps = range(0, width, LINE_BYTES // dtype.itemsize)
        for start in (*steps, width - 1):  # a row may begin inside a cache line
            code.prefetch(offset(code, line, element, index(start)), writes=True)
    code.leave()
    return module.add("fetch", (c, Val("%ldc", I64), Val("%rows", I64)), code)


PARAMETERS = (
    *(Val("%a", PTR), Val("%lda", I64), Val("%b", PTR), Val("%ldb", I64)),
    *(Val("%c", PTR), Val("%ldc", I64), Val("%k", I64), Val("%adds", I1)),
)


class _Goal:
    """The tile of C: what is added up goes there after every stretch of k."""

    def __init__(self, s: LaneScalars, tile: Tile, rows: int) -> None:
        code, self.scalars, self.tile = s.code, s, tile
        c, ldc = Val("%c", PTR), Val("%ldc", I64)
        lines = [offset(code, c, tile.element, mul(code, index(r), ldc)) for r in range(rows)]
        for r in range(rows, 2 * rows):  # of the tile that most often follows
            memory.prefetch(s, c, tile.element, mul(code, index(r), ldc))
        self.places = [(line, index(start)) for line in lines for start in tile.starts]

    @contextmanager
    def stretches(
        self, *, is_long: bool, length: int = STRETCH
    ) -> Generator[tuple[Val, Val, list[Val]]]:
        """(first step, end, sums) of a stretch of k; the sums are zeros, the block adds to them."""
        code, k, adds = self.scalars.code, Val("%k", I64), Val("%adds", I1)
        zero = constant(0.0, lane_type(self.tile.element, self.tile.lanes))
        sums = [zero] * len(self.places)
        if not is_long:
            yield index(0), k, sums
            self._put(sums, adds)
            return
        is_empty = self.scalars.compare("slt", k, index(1))  # C becomes 0 then
        stop = code.select(is_empty, index(1), k)
        with loop(code, index(0), stop, length) as state:
            end = smaller(code, add(code, state.index, index(length)), k)
            yield state.index, end, sums
            is_later = self.scalars.compare("sgt", state.index, index(0))
            self._put(sums, self.scalars.logical_or(is_later, adds))

    def _put(self, sums: list[Val], adds: Val) -> None:
        """To C, or in place of what is there. All is read first: vectors may overlap."""
        s, tile = self.scalars, self.tile
        with when(s.code, adds, sums) as values:
            values[:] = [
                s.add(memory.load(s, line, start, tile.dtype, tile.lanes), value)
                for value, (line, start) in zip(values, self.places, strict=True)
            ]
        for value, (line, start) in zip(sums, self.places, strict=True):
            memory.store(s, value, line, start)


def _fetch_transposed(s: LaneScalars, tile: Tile, step: Val, fetches: Fetches) -> None:
    """Asks for a block of rows of a B stored [n, k], so many rows behind those of this step."""
    following = mul(s.code, index(fetches.ahead), Val("%ldb", I64))
    place = add(s.code, following, mul(s.code, step, index(tile.width)))
    for start in range(0, tile.lanes * tile.width, LINE_BYTES // tile.dtype.itemsize):
        memory.prefetch(
            s, Val("%b", PTR), tile.element, add(s.code, place, index(start)), fetches.level
        )


def _lines_of_b(code: Writer, tile: Tile, step: Val) -> Iterator[list[Val]]:
    """For each vector the rows of a B stored [n, k] that it holds, from this step of k on."""
    ldb, line = Val("%ldb", I64), offset(code, Val("%b", PTR), tile.element, step)
    following = 0
    for start in tile.starts:
        back = mul(code, index(start - following), ldb)
        lines = lines_from(code, offset(code, line, tile.element, back), tile, ldb)
        yield lines
        line, following = offset(code, lines[-1], tile.element, ldb), start + tile.lanes


def lines_from(code: Writer, first: Val, tile: Tile, pitch: Val) -> list[Val]:
    """Where one row for each lane begins: each from the one before, which takes few registers."""
    lines = [first]
    while len(lines) < tile.lanes:
        lines.append(offset(code, lines[-1], tile.element, pitch))
    return lines


def _rows_of_a(code: Writer, tile: Tile, rows: int) -> list[Val]:
    """Where each row of A begins; stored by columns they all begin where A does."""
    a, lda = Val("%a", PTR), Val("%lda", I64)
    if tile.a_transposed:
        return [a] * rows
    return [
        code.in_register(offset(code, a, tile.element, mul(code, index(r), lda)))
        for r in range(rows)
    ]
