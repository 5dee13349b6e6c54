"""A matrix product narrower than a tile, by how much only the call knows: padded to a tile's width.

B goes into a panel with zeros beside it, and each tile's result through a block next to C.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphc.backends.loops import amx, memory, packing, pair_packing, pairs, tiles
from graphc.backends.loops.control import loop, loop_if_any, mul, remainder, smaller, sub, when
from graphc.backends.loops.operands import Operands, call
from graphc.backends.loops.panels import (
    ProductWriter,
    cut_depth,
    each_lower,
    in_registers,
    pack_pairs_of_a,
    row_of_pairs,
)
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import Val, constant, index, lane_type


@dataclass(frozen=True, slots=True)
class _Part:
    """`depth` steps of k from `start` on, through the workspace `padded`, copied by `copy`."""

    start: Val
    depth: Val
    adds: Val
    padded: Val
    copy: str


def emit_narrow(w: ProductWriter, x: Operands, padded: Val) -> None:
    """The whole range."""
    code = w.code
    s = LaneScalars(code, has_fma=w.machine.has_fma)
    copy = packing.emit_copy_block(code.module, w.machine, w.blocking.tile)
    _clear(w, x, s)

    def part(start: Val, depth: Val) -> None:
        adds = s.compare("sgt", start, index(0))
        _pack(w, x, s, copy, start, depth)
        _rows(w, x, _Part(start, depth, adds, padded, copy))

    cut_depth(w, x, part)


def _rows(w: ProductWriter, x: Operands, part: _Part) -> None:
    """All rows of C from one padded panel."""
    code, tile, height = w.code, w.blocking.tile, w.blocking.height
    width = index(tile.width)

    def rows_at(row: Val, height: int, known: Val | None = None) -> None:
        rows = index(height) if known is None else known
        if tile.amx:
            name = amx.emit_tile(code.module, w.machine, tile, height, whole=known is None)
        else:
            name = tiles.emit_tile(code.module, w.machine, tile, height, is_long=w.blocking.is_long)
        goal = x.at(code, x.c, x.c_offset(code, row, index(0)))
        a, lda = x.at(code, x.a, x.a_offset(code, row, part.start)), x.lda
        if tile.pairs:
            pack_pairs_of_a(w, x, a, part.depth, rows)
            a, lda = row_of_pairs(w, x, part.depth, index(0))
        steps = pairs.count_of(code, part.depth) if tile.pairs else part.depth
        with when(code, part.adds, []):
            call(code, part.copy, goal, x.ldc, part.padded, width, rows, x.n)
        given = (a, lda, w.panel, width, part.padded, width, steps, part.adds)
        call(code, name, *given, *(() if known is None else (rows,)))
        call(code, part.copy, part.padded, width, goal, x.ldc, rows, x.n)

    if tile.amx:
        in_registers(w, x.m, rows_at)
        return
    whole = sub(code, x.m, remainder(code, x.m, height))
    with loop_if_any(code, index(0), whole, height, []) as state:
        if state:
            rows_at(state.index, height)
    each_lower(code, whole, x.m, height, rows_at)


def _clear(w: ProductWriter, x: Operands, s: LaneScalars) -> None:
    """Zeros in the used part of the panel: the columns beside the matrix stay so."""
    tile = w.blocking.tile
    zero = constant(0.0, lane_type(tile.element, tile.lanes))
    used = smaller(w.code, index(w.blocking.depth), x.k)
    used = pairs.count_of(w.code, used) if tile.pairs else used
    end = mul(w.code, used, index(tile.width))
    with loop_if_any(w.code, index(0), end, tile.lanes, []) as state:
        if state:
            memory.store(s, zero, w.panel, state.index)


def _pack(w: ProductWriter, x: Operands, s: LaneScalars, copy: str, start: Val, depth: Val) -> None:
    code, width = w.code, index(w.blocking.tile.width)
    source = x.at(code, x.b, x.b_offset(code, start, index(0)))
    if w.blocking.tile.pairs:
        pack = pair_packing.emit_pack_narrow(code.module, w.machine, w.blocking.tile)
        step, column = (index(1), x.ldb) if x.b_transposed else (x.ldb, index(1))
        call(code, pack, source, step, column, depth, x.n, w.panel)
        return
    if not x.b_transposed:
        call(code, copy, source, x.ldb, w.panel, width, depth, x.n)
        return
    with loop(code, index(0), x.n, 1) as column:
        line = x.at(code, source, mul(code, column.index, x.ldb))
        goal = x.at(code, w.panel, column.index)
        with loop_if_any(code, index(0), depth, 1, []) as state:
            if state:
                value = memory.load(s, line, state.index, x.dtype, 1)
                memory.store(s, value, goal, mul(code, state.index, width))
