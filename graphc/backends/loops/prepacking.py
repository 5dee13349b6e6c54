"""Copies of whole factors, in panels or as pairs of bf16, from which the chunks of a product then
read.

What they are for and how large they are stands in `ops/prepacking.py`. A copy is made in parts: so
many rows of A, so many panels or steps of B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphc.backends.loops import amx, packing, pair_packing
from graphc.backends.loops.control import add, loop, mul, offset, size_value, smaller, sub
from graphc.backends.loops.pairs import count_of
from graphc.backends.loops.panels import (
    pack_panel_of_pairs,
    pack_transposed_panel,
    pitch_of_a,
    pitch_of_b,
)
from graphc.backends.loops.tiles import Tile
from graphc.backends.loops.values import I64, PTR, Val, index
from graphc.backends.loops.writer import ModuleWriter
from graphc.ir.core import Operation
from graphc.ir.machine import Machine
from graphc.ir.types import bound_elements
from graphc.ops.contraction import MatmulParams, groups
from graphc.ops.prepacking import WHOLE_ROWS
from graphc.ops.schedules import ProductSchedule
from graphc.passes.analysis.loopnest import Chunking, Size

MOST_PARTS = 8
"""Of a copy."""
ROWS_TOGETHER = 16
"""Of B stored by rows, of which each panel's part is copied before those of the next rows."""


@dataclass(frozen=True, slots=True)
class WholeCopy:
    """The copy of one factor.

    operand     which
    extent, k   rows of A or columns of B, and steps
    transposed  it is stored the other way round
    tile        what reads it
    chunking    the parts: rows of A, panels of B or steps of one stored by rows
    """

    operand: Literal[0, 1]
    extent: Size
    k: Size
    transposed: bool
    tile: Tile
    chunking: Chunking

    def symbols(self) -> tuple[str, ...]:
        return tuple(sorted({*self.extent.symbols, *self.k.symbols}))


def whole_copies(op: Operation) -> list[WholeCopy]:
    """Those that a product's schedule asks for, in the order of its workspace."""
    schedule = op.schedule_as(ProductSchedule)
    tiling, pairs = schedule.tile, schedule.pairs
    if tiling is None:
        return []
    params = op.params_as(MatmulParams)
    a, b = (v.tensor for v in op.operands[:2])
    roles = groups(params, a, b)
    rows, cols, k = (Size.of(dims) for dims in (roles.rows, roles.cols, roles.inner))
    starts = tuple(i * tiling.lanes for i in range(tiling.vectors))
    tile = Tile(a.dtype, tiling.lanes, starts, a_transposed=False, pairs=pairs, amx=schedule.amx)
    found: list[WholeCopy] = []
    if tiling.a == "prepacked":
        length = _part(bound_elements(roles.rows), WHOLE_ROWS)
        parts = Chunking(0, Size(), rows, length)
        found.append(WholeCopy(0, rows, k, params.transpose_a, tile, parts))
    if tiling.b == "prepacked":
        extent, multiple = k, ROWS_TOGETHER
        if params.transpose_b:
            extent, multiple = Size(-(-bound_elements(roles.cols) // tile.width)), 1
        bound = extent.factor if params.transpose_b else bound_elements(roles.inner)
        parts = Chunking(0, Size(), extent, _part(bound, multiple))
        found.append(WholeCopy(1, cols, k, params.transpose_b, tile, parts))
    return found


def _part(extent: int, multiple: int) -> int:
    return max(-(-extent // MOST_PARTS // multiple) * multiple, multiple)


def emit_prepacked(module: ModuleWriter, machine: Machine, what: WholeCopy) -> str:
    """`@name` of `void (factor, copy, sizes of what.symbols()…, begin, end)`."""
    emit = _rows_of_a if what.operand == 0 else _panels_of_b
    return module.once((machine, what), lambda: emit(module, machine, what))


SOURCE, COPY = Val("%factor", PTR), Val("%copy", PTR)
BEGIN, END = Val("%begin", I64), Val("%end", I64)


def _rows_of_a(module: ModuleWriter, machine: Machine, what: WholeCopy) -> str:
    code = module.body()
    sizes = {name: Val(f"%d{i}", I64) for i, name in enumerate(what.symbols())}
    m, k = size_value(code, what.extent, sizes), size_value(code, what.k, sizes)
    pitch = pitch_of_a(code, k)
    goal = offset(code, COPY, "float", mul(code, BEGIN, pitch))
    emit = amx.emit_pack_a_turned if what.transposed else pair_packing.emit_pack_a
    lda, first = (m, BEGIN) if what.transposed else (k, mul(code, BEGIN, k))
    source = offset(code, SOURCE, "float", first)
    code.invoke(emit(module, machine), (source, lda, k, sub(code, END, BEGIN), goal, pitch))
    code.leave()
    return module.add("prepack", (SOURCE, COPY, *sizes.values(), BEGIN, END), code)


def _panels_of_b(module: ModuleWriter, machine: Machine, what: WholeCopy) -> str:
    """Of a B stored by columns so many panels; else so many steps of all panels, some rows of B at
    a time: from its beginning to its end, so that the processor fetches it ahead."""
    code, tile = module.body(), what.tile
    sizes = {name: Val(f"%d{i}", I64) for i, name in enumerate(what.symbols())}
    n, k = size_value(code, what.extent, sizes), size_value(code, what.k, sizes)
    width = index(tile.width)
    ldb = k if what.transposed else n
    length = mul(code, width, pitch_of_b(code, k) if tile.pairs else k)

    def panel(number: Val, step: Val, steps: Val) -> None:
        """What is left over at the right is in a panel that begins earlier."""
        column = smaller(code, mul(code, number, width), sub(code, n, width))
        row = count_of(code, step) if tile.pairs else step
        place = add(code, mul(code, number, length), mul(code, width, row))
        first = add(code, mul(code, column, k), step)
        if not what.transposed:
            first = add(code, mul(code, step, n), column)
        source, goal = (
            offset(code, base, tile.element, at) for base, at in ((SOURCE, first), (COPY, place))
        )
        if tile.pairs:
            pack_panel_of_pairs(
                *(code, machine, tile, 0, source, ldb, steps, goal), transposed=what.transposed
            )
        elif what.transposed:
            pack_transposed_panel(code, machine, tile, source, ldb, steps, goal)
        else:
            copy = packing.emit_copy_block(module, machine, tile)
            code.invoke(copy, (source, ldb, goal, width, steps, width))

    if what.transposed:
        with loop(code, BEGIN, END, 1) as state:
            panel(state.index, index(0), k)
    else:
        count = index(-(-what.extent.factor // what.tile.width))
        with loop(code, BEGIN, END, ROWS_TOGETHER) as outer:
            steps = smaller(code, index(ROWS_TOGETHER), sub(code, END, outer.index))
            with loop(code, index(0), count, 1) as state:
                panel(state.index, outer.index, steps)
    code.leave()
    return module.add("prepack", (SOURCE, COPY, *sizes.values(), BEGIN, END), code)
