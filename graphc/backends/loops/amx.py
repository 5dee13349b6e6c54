"""Products of pairs of bf16 (`pairs.py`) in the matrix registers of AMX.

Such a register has 16 rows of 64 bytes: 16 x 16 sums of f32, or 16 rows of 16 pairs of A, or 16
pairs of steps of 16 columns of B. One instruction adds the product of the latter two, 32 steps of
k, to the sums. A tile is two by two registers of sums at most, with two of A and two of B: all that
there are. Both factors are the copies that dot products read too, but for an A stored by columns,
which is turned as it is copied.

A sum is one chain through k, 32 steps at a time, and goes on from what C holds: its bits depend on
k alone. They are not those of dot products: within 32 steps the instruction adds even and odd steps
up apart. Denormals are 0. What is missing of the last 32 steps are zeros, in A by its copy, in B by
a copy of these rows on the stack.

The shape of all registers is set once a call of a product, and given back at its end: 64 bytes
against thousands of products, and no other code of the thread is met by ours, or meets it.
"""

from __future__ import annotations

from graphc.backends.loops import memory
from graphc.backends.loops.control import add, loop_if_any, mul, offset, round_down, sub, when
from graphc.backends.loops.pairs import pair
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.shuffles import transposed
from graphc.backends.loops.tiles import PARAMETERS, Tile
from graphc.backends.loops.values import I1, I64, PTR, Val, index
from graphc.backends.loops.writer import ModuleWriter, Writer
from graphc.ir.machine import Machine
from graphc.ir.types import DType

SIDE = 16
"""Rows of a register, and its columns of f32 or of pairs."""
BYTES = 4
"""Of a number or a pair."""
MOST_ROWS, MOST_COLUMNS = 2 * SIDE, 2 * SIDE
"""Of a tile."""
REGISTERS = 8
SLACK = SIDE * SIDE
"""Elements behind a panel of B, which a register may take besides those of a narrow one."""
SHAPE = bytes(
    [1, *bytes(15), *[SIDE * BYTES, 0] * REGISTERS, *bytes(16), *[SIDE] * REGISTERS, *bytes(8)]
)
"""What configures the registers: all are whole ones. Palette 1, then the bytes of the rows of each
as 16 bits, room for 16 registers, then how many rows each has."""


def begin(code: Writer) -> None:
    """Before the first instruction on registers."""
    code.amx_configure(Val(code.module.data(SHAPE, 64), PTR))


def emit_tile(module: ModuleWriter, machine: Machine, tile: Tile, rows: int, *, whole: bool) -> str:
    """`void (a, lda, b, ldb, c, ldc, k, adds)`: C += A B or C = A B; k counts pairs, lda too.

    rows   16 or 32
    whole  C has as many rows, and 16 columns at least; if not, the function takes `i64 rows`
           besides, how many C has
    """
    return module.once(
        ("amx", machine, tile.width, rows, whole),
        lambda: _TileWriter(module, machine, tile, rows, whole).written(),
    )


class _TileWriter:
    """State while one tile is written: registers of sums from 0, of A from 4, of B from 6 on."""

    def __init__(
        self, module: ModuleWriter, machine: Machine, tile: Tile, rows: int, whole: bool
    ) -> None:
        self.module, self.tile, self.rows, self.is_whole = module, tile, rows, whole
        self.code = module.body()
        self.scalars = LaneScalars(self.code, has_fma=machine.has_fma)
        self.starts = (0,) if tile.width <= SIDE else (0, tile.width - SIDE)
        self.halves = range(rows // SIDE)
        self.a, self.b, self.c = (Val(f"%{name}", PTR) for name in "abc")
        self.lda, self.ldb, self.ldc = (Val(f"%ld{name}", I64) for name in "abc")
        self.last = memory.stack_array(self.code, "float", SIDE * MOST_COLUMNS, 64)
        self.goal, self.pitch = self.c, self.ldc
        if not whole:
            self.goal = memory.stack_array(self.code, "float", rows * MOST_COLUMNS, 64)
            self.pitch = index(MOST_COLUMNS)

    def written(self) -> str:
        code, k, adds = self.code, Val("%k", I64), Val("%adds", I1)
        with when(code, adds, []):
            if not self.is_whole:
                self._copy(self.c, self.ldc, self.goal, self.pitch)
            for number, place in self._sums():
                code.amx_load(number, place, mul(code, self.pitch, index(BYTES)))
        with when(code, self.scalars.logical_not(adds), []):
            for number, _ in self._sums():
                code.amx_zero(number)
        end = round_down(code, k, SIDE)
        with loop_if_any(code, index(0), end, SIDE, []) as state:
            assert state is not None
            self._multiply(state.index, self._at(self.b, state.index, self.ldb), self.ldb)
        with when(code, code.compare("slt", end, k), []):
            self._copy_last(end, k)
            self._multiply(end, self.last, index(MOST_COLUMNS))
        for number, place in self._sums():
            code.amx_store(number, place, mul(code, self.pitch, index(BYTES)))
        if not self.is_whole:
            self._copy(self.goal, self.pitch, self.c, self.ldc)
        code.leave()
        parameters = PARAMETERS if self.is_whole else (*PARAMETERS, Val("%rows", I64))
        return self.module.add("amx", parameters, code)

    def _at(self, base: Val, row: Val, pitch: Val, column: int = 0) -> Val:
        place = add(self.code, mul(self.code, row, pitch), index(column))
        return offset(self.code, base, "float", place)

    def _sums(self) -> list[tuple[int, Val]]:
        """The registers of sums, and where they are stored."""
        return [
            (2 * half + i, self._at(self.goal, index(half * SIDE), self.pitch, start))
            for half in self.halves
            for i, start in enumerate(self.starts)
        ]

    def _multiply(self, step: Val, b: Val, ldb: Val) -> None:
        """Adds 16 pairs from `step` on, which of B begin at `b`."""
        code = self.code
        for i, start in enumerate(self.starts):
            place = offset(code, b, "float", index(start))
            code.amx_load(6 + i, place, mul(code, ldb, index(BYTES)))
        for half in self.halves:
            place = offset(code, self._at(self.a, index(half * SIDE), self.lda), "float", step)
            code.amx_load(4 + half, place, mul(code, self.lda, index(BYTES)))
            for i, _ in enumerate(self.starts):
                code.amx_dot(2 * half + i, 4 + half, 6 + i)

    def _copy_last(self, begin: Val, end: Val) -> None:
        """The rows of B from `begin` on, then zeros."""
        code, s = self.code, self.scalars
        memory.clear(s, self.last, SIDE * MOST_COLUMNS, SIDE, "float")
        with loop_if_any(code, begin, end, 1, []) as state:
            assert state is not None
            source = self._at(self.b, state.index, self.ldb)
            goal = self._at(self.last, sub(code, state.index, begin), index(MOST_COLUMNS))
            for start, mask in self._columns():
                value = memory.load(s, source, start, DType.I32, SIDE, mask)
                memory.store(s, value, goal, start)

    def _copy(self, source: Val, pitch: Val, goal: Val, goal_pitch: Val) -> None:
        """As many rows as C has. All of a row is read first: its vectors may overlap."""
        code, s = self.code, self.scalars
        with loop_if_any(code, index(0), Val("%rows", I64), 1, []) as state:
            assert state is not None
            line = self._at(source, state.index, pitch)
            to = self._at(goal, state.index, goal_pitch)
            values = [
                memory.load(s, line, start, DType.F32, SIDE, mask)
                for start, mask in self._columns()
            ]
            for (start, mask), value in zip(self._columns(), values, strict=True):
                memory.store(s, value, to, start, mask)

    def _columns(self) -> list[tuple[Val, Val | None]]:
        """The first column of each vector, and the lanes that a narrow tile has."""
        if self.tile.width >= SIDE:
            return [(index(start), None) for start in self.starts]
        return [(index(0), memory.first_lanes(self.scalars, index(self.tile.width), SIDE))]


def emit_pack_a_turned(module: ModuleWriter, machine: Machine) -> str:
    """`void (a, lda, k, rows, block, pitch)`: pairs of the rows of an A stored [k, m], `pitch`
    pairs apart; with zeros up to the next 16 rows and pairs."""
    code = module.body()
    s = LaneScalars(code, has_fma=machine.has_fma)
    a, block = Val("%a", PTR), Val("%block", PTR)
    lda, k, rows, pitch = (Val(f"%{name}", I64) for name in ("lda", "k", "rows", "pitch"))

    def turn(row: Val, step: Val, rest: Val | None) -> None:
        """32 steps, of which there are only `rest`, of 16 rows."""
        mask = memory.rest_mask(s, row, rows, SIDE)
        line = offset(code, a, "float", add(code, mul(code, step, lda), row))
        loaded: list[Val] = []
        for i in range(2 * SIDE):
            if i:
                line = code.offset(line, "float", lda, inside=False)
            there = mask
            if rest is not None:
                is_step = s.splat(s.compare("slt", index(i), rest), SIDE)
                there = s.logical_and(mask, is_step)
            loaded.append(memory.load(s, line, index(0), DType.F32, SIDE, there))
        made = [pair(s, *loaded[i : i + 2]) for i in range(0, 2 * SIDE, 2)]
        goal = add(code, mul(code, row, pitch), code.binary("lshr", step, index(1)))
        for i, value in enumerate(transposed(code, made)):
            place = add(code, goal, mul(code, index(i), pitch))
            memory.store(s, value, block, place)

    whole = round_down(code, k, 2 * SIDE)
    with loop_if_any(code, index(0), whole, 2 * SIDE, []) as outer:
        assert outer is not None
        with loop_if_any(code, index(0), rows, SIDE, []) as state:
            assert state is not None
            turn(state.index, outer.index, None)
    with when(code, s.compare("slt", whole, k), []):
        rest = sub(code, k, whole)
        with loop_if_any(code, index(0), rows, SIDE, []) as state:
            assert state is not None
            turn(state.index, whole, rest)
    code.leave()
    return module.add("pairs", (a, lda, k, rows, block, pitch), code)
