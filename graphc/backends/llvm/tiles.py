"""The pieces of a matrix product: a register tile, and packing of a transposed operand.

A tile is `rows` x `vectors` accumulators that stay in registers over all of k: one broadcast of A
per row and step, `vectors` loads of B. Each piece is a function of its own, shared by all products
of a module with the same element type and layout.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphc.backends.llvm import memory
from graphc.backends.llvm.loops import add, loop, loop_if_any, mul, offset, round_down, when
from graphc.backends.llvm.scalars import LlvmScalars
from graphc.backends.llvm.target import Target
from graphc.backends.llvm.text import (
    I1,
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

PANEL_BYTES = 16384
"""A packed block of B: half of a first-level cache, and small enough for the stack."""


@dataclass(frozen=True, slots=True)
class Tile:
    """The shape of a tile and how A is read.

    by_columns   A is stored [k, m]: the tile's rows lie side by side
    """

    dtype: DType
    lanes: int
    vectors: int
    by_columns: bool

    @property
    def width(self) -> int:
        return self.lanes * self.vectors

    @property
    def element(self) -> str:
        return element_of(self.dtype)

    @property
    def panel_rows(self) -> int:
        """Steps of k that fit into a packed block, a multiple of any vector length."""
        return PANEL_BYTES // (self.width * self.dtype.itemsize) // 16 * 16


def tile_rows(target: Target) -> int:
    """Rows of the largest tile: with two vectors it fills the registers without spilling."""
    return {128: 4, 256: 6, 512: 12}[target.vector_bits]


def emit_tile(module: Module, target: Target, tile: Tile, rows: int) -> str:
    """`void (a, lda, b, ldb, c, ldc, k, accumulates)`: C += A B or C = A B for one tile."""
    code = Code(module)
    s = LlvmScalars(code, has_fma=target.has_fma)
    vector = lane_type(tile.element, tile.lanes)
    a, b, c = (Val(f"%{name}", PTR) for name in "abc")
    lda, ldb, ldc, k = (Val(f"%{name}", I64) for name in ("lda", "ldb", "ldc", "k"))
    c_rows = [offset(code, c, tile.element, mul(code, index(r), ldc)) for r in range(rows)]
    starts = [index(v * tile.lanes) for v in range(tile.vectors)]

    totals = [constant(0.0, vector)] * (rows * tile.vectors)
    with when(code, Val("%accumulates", I1), totals) as loaded:
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
        a_column = mul(code, state.index, lda) if tile.by_columns else state.index
        for r in range(rows):
            place = add(code, a_column, index(r)) if tile.by_columns else a_column
            scalar = memory.load(s, a_rows[r], place, tile.dtype, 1)
            value = s.splat(scalar, tile.lanes)
            for v, b_value in enumerate(b_values):
                at = r * tile.vectors + v
                state.carried[at] = s.fma(value, b_value, state.carried[at])
    for r, row in enumerate(c_rows):
        for v, start in enumerate(starts):
            memory.store(s, totals[r * tile.vectors + v], row, start)
    code.do("ret void")
    parameters = "ptr %a, i64 %lda, ptr %b, i64 %ldb, ptr %c, i64 %ldc, i64 %k, i1 %accumulates"
    return module.add_internal("tile", parameters, code)


def emit_pack(module: Module, target: Target, tile: Tile) -> str:
    """`void (b, ldb, k, panel)`: panel[p, j] = b[p, j] for the tile's width of columns of B."""
    code = Code(module)
    s = LlvmScalars(code, has_fma=target.has_fma)
    with loop_if_any(code, index(0), Val("%k", I64), 1, []) as state:
        assert state is not None
        source = offset(
            code, Val("%b", PTR), tile.element, mul(code, state.index, Val("%ldb", I64))
        )
        place = mul(code, state.index, index(tile.width))
        goal = offset(code, Val("%panel", PTR), tile.element, place)
        for v in range(tile.vectors):
            value = memory.load(s, source, index(v * tile.lanes), tile.dtype, tile.lanes)
            memory.store(s, value, goal, index(v * tile.lanes))
    code.do("ret void")
    return module.add_internal("pack", "ptr %b, i64 %ldb, i64 %k, ptr %panel", code)


def emit_pack_transposed(module: Module, target: Target, tile: Tile) -> str:
    """`void (b, ldb, k, panel)`: panel[p, j] = b[j, p] for the tile's width of rows of B."""
    code = Code(module)
    s = LlvmScalars(code, has_fma=target.has_fma)
    b, panel = Val("%b", PTR), Val("%panel", PTR)
    ldb, k = Val("%ldb", I64), Val("%k", I64)
    whole = round_down(code, k, tile.lanes)
    b_rows = [offset(code, b, tile.element, mul(code, index(j), ldb)) for j in range(tile.width)]
    with loop_if_any(code, index(0), whole, tile.lanes, []) as state:
        assert state is not None
        target_row = offset(code, panel, tile.element, mul(code, state.index, index(tile.width)))
        for first in range(0, tile.width, tile.lanes):
            block = [
                memory.load(s, row, state.index, tile.dtype, tile.lanes)
                for row in b_rows[first : first + tile.lanes]
            ]
            for p, value in enumerate(transposed(code, block)):
                memory.store(s, value, target_row, index(p * tile.width + first))
    with loop_if_any(code, whole, k, 1, []) as state:
        assert state is not None
        target_row = offset(code, panel, tile.element, mul(code, state.index, index(tile.width)))
        for j, row in enumerate(b_rows):
            value = memory.load(s, row, state.index, tile.dtype, 1)
            memory.store(s, value, target_row, index(j))
    code.do("ret void")
    return module.add_internal("pack", "ptr %b, i64 %ldb, i64 %k, ptr %panel", code)


def transposed(code: Code, rows: list[Val]) -> list[Val]:
    """A square block with rows and columns exchanged: halves swap, then quarters, and so on."""
    count = len(rows)
    if count == 1:
        return rows
    values = list(rows)
    block = count // 2
    while block:
        low = [p if not p & block else count + p - block for p in range(count)]
        high = [p + block if not p & block else count + p for p in range(count)]
        for i in range(count):
            if not i & block:
                a, b = values[i], values[i + block]
                values[i], values[i + block] = (
                    _shuffled(code, a, b, low),
                    _shuffled(code, a, b, high),
                )
        block //= 2
    return values


def _shuffled(code: Code, a: Val, b: Val, order: list[int]) -> Val:
    listed = ", ".join(f"i32 {i}" for i in order)
    return code.value(a.type, f"shufflevector {a}, {b}, <{len(order)} x i32> <{listed}>")


def emit_copy_block(module: Module, target: Target, tile: Tile) -> str:
    """`void (from, ldf, to, ldt, rows, columns)`: copies a block no wider than the tile."""
    code = Code(module)
    s = LlvmScalars(code, has_fma=target.has_fma)
    ldf, ldt, rows, columns = (Val(f"%{n}", I64) for n in ("ldf", "ldt", "rows", "columns"))
    masks: list[Val] = []
    starts = [index(v * tile.lanes) for v in range(tile.vectors)]
    if target.masks_memory and tile.lanes > 1:
        masks = [memory.rest_mask(s, start, columns, tile.lanes) for start in starts]
    with loop_if_any(code, index(0), rows, 1, []) as state:
        assert state is not None
        source = offset(code, Val("%from", PTR), tile.element, mul(code, state.index, ldf))
        goal = offset(code, Val("%to", PTR), tile.element, mul(code, state.index, ldt))
        for start, mask in zip(starts, masks, strict=False):
            value = memory.load(s, source, start, tile.dtype, tile.lanes, mask)
            memory.store(s, value, goal, start, mask)
        if not masks:
            with loop(code, index(0), columns, 1) as inner:
                value = memory.load(s, source, inner.index, tile.dtype, 1)
                memory.store(s, value, goal, inner.index)
    code.do("ret void")
    parameters = "ptr %from, i64 %ldf, ptr %to, i64 %ldt, i64 %rows, i64 %columns"
    return module.add_internal("block", parameters, code)


def panel_on_stack(code: Code, tile: Tile) -> Val:
    """Room for one packed block of B."""
    return memory.stack_array(code, tile.element, tile.panel_rows * tile.width, 64)
