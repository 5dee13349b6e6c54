"""The innermost piece of a matrix product: a tile of C that stays in registers over all of k.

A tile is `rows` x vectors accumulators: one broadcast of A per row and step, one load of B per
vector. It is a function of its own, shared by all products of a module with the same element type
and layout.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphc.backends.llvm import memory
from graphc.backends.llvm.loops import add, loop_if_any, mul, offset, when
from graphc.backends.llvm.scalars import LlvmScalars
from graphc.backends.llvm.target import Target
from graphc.backends.llvm.text import (
    I64,
    PTR,
    Code,
    Module,
    Val,
    constant,
    element_of,
    index,
    lane_type,
)
from graphc.ir.types import DType


@dataclass(frozen=True, slots=True)
class Tile:
    """The columns of a tile and how A is read.

    starts       the first column of each vector; neighbours may overlap, and do so with the same
                 bits, where a matrix is not a whole number of vectors wide
    by_columns   A is stored [k, m]: the tile's rows lie side by side
    """

    dtype: DType
    lanes: int
    starts: tuple[int, ...]
    by_columns: bool

    @property
    def width(self) -> int:
        return self.starts[-1] + self.lanes

    @property
    def element(self) -> str:
        return element_of(self.dtype)


def emit_tile(
    module: Module, target: Target, tile: Tile, rows: int, *, packs: bool = False, ahead: int = 0
) -> str:
    """`void (a, lda, b, ldb, c, ldc, k, adds)`: C += A B or C = A B for one tile.

    packs   takes `ptr panel` besides and leaves the used part of B there, row after row
    ahead   how many steps of k before its use a row of B is fetched from memory
    """
    code = Code(module)
    s = LlvmScalars(code, has_fma=target.has_fma)
    vector = lane_type(tile.element, tile.lanes)
    a, b, c = (Val(f"%{name}", PTR) for name in "abc")
    lda, ldb, ldc, k = (Val(f"%{name}", I64) for name in ("lda", "ldb", "ldc", "k"))
    c_rows = [offset(code, c, tile.element, mul(code, index(r), ldc)) for r in range(rows)]
    starts = [index(start) for start in tile.starts]

    totals = [constant(0.0, vector)] * (rows * len(starts))
    with when(code, Val("%adds", lane_type("i1")), totals) as loaded:
        loaded[:] = [
            memory.load(s, row, start, tile.dtype, tile.lanes) for row in c_rows for start in starts
        ]
    a_rows = [a] * rows
    if not tile.by_columns:
        a_rows = [offset(code, a, tile.element, mul(code, index(r), lda)) for r in range(rows)]
    with loop_if_any(code, index(0), k, 1, totals) as state:
        assert state is not None
        b_row = offset(code, b, tile.element, mul(code, state.index, ldb))
        b_values = [memory.load(s, b_row, start, tile.dtype, tile.lanes) for start in starts]
        if packs:
            place = mul(code, state.index, index(tile.width))
            goal = offset(code, Val("%panel", PTR), tile.element, place)
            for value, start in zip(b_values, starts, strict=True):
                memory.store(s, value, goal, start)
            memory.prefetch(s, b_row, tile.element, index(tile.width))
        if ahead:
            later = mul(code, add(code, state.index, index(ahead)), ldb)
            memory.prefetch(s, b, tile.element, later)
        a_column = mul(code, state.index, lda) if tile.by_columns else state.index
        for r in range(rows):
            place = add(code, a_column, index(r)) if tile.by_columns else a_column
            scalar = memory.load(s, a_rows[r], place, tile.dtype, 1)
            value = s.splat(scalar, tile.lanes)
            for v, b_value in enumerate(b_values):
                at = r * len(starts) + v
                state.carried[at] = s.fma(value, b_value, state.carried[at])
    for r, row in enumerate(c_rows):
        for v, start in enumerate(starts):
            memory.store(s, totals[r * len(starts) + v], row, start)
    code.do("ret void")
    parameters = "ptr %a, i64 %lda, ptr %b, i64 %ldb, ptr %c, i64 %ldc, i64 %k, i1 %adds"
    return module.add_internal("tile", parameters + (", ptr %panel" if packs else ""), code)
