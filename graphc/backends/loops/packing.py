"""Copies of parts of a product's operands into the order in which a tile reads them.

A panel of B holds, for each step of k, the columns of one tile side by side. A block of A that is
stored by columns becomes panels that hold, for each step of k, the rows of one tile.
"""

from __future__ import annotations

from graphc.backends.loops import memory
from graphc.backends.loops.control import (
    add,
    loop,
    loop_if_any,
    mul,
    offset,
    round_down,
    smaller,
    sub,
    when,
)
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.shuffles import load_transposed
from graphc.backends.loops.tiles import Tile, lines_from
from graphc.backends.loops.values import I64, PTR, Val, index
from graphc.backends.loops.writer import ModuleWriter
from graphc.ir.machine import Machine

APART = 8
"""Steps of k between two packed panels of A, so that they do not lie in the same lines of a cache.
A copy may also write up to so many steps beyond the end of a panel."""
CHUNK = 16
"""Steps of k that are copied together: reads stay in few rows of A, writes in few panels."""


def emit_pack_transposed(module: ModuleWriter, machine: Machine, tile: Tile) -> str:
    """`void (b, ldb, k, panel, pitch)`: panel[p, j] = b[j, p] for as many rows as a vector has."""
    code = module.body()
    s = LaneScalars(code, has_fma=machine.has_fma)
    b, panel = Val("%b", PTR), Val("%panel", PTR)
    ldb, k, pitch = (Val(f"%{name}", I64) for name in ("ldb", "k", "pitch"))
    whole = round_down(code, k, tile.lanes)
    with loop_if_any(code, index(0), whole, tile.lanes, []) as state:
        assert state is not None
        rows = lines_from(code, offset(code, b, tile.element, state.index), tile, ldb)
        goal = offset(code, panel, tile.element, mul(code, state.index, pitch))
        for value in load_transposed(s, rows, index(0), tile.dtype, tile.lanes):
            memory.store(s, value, goal, index(0))
            goal = offset(code, goal, tile.element, pitch)
    with loop_if_any(code, whole, k, 1, []) as state:
        assert state is not None
        rows = lines_from(code, offset(code, b, tile.element, state.index), tile, ldb)
        goal = offset(code, panel, tile.element, mul(code, state.index, pitch))
        for j, row in enumerate(rows):
            value = memory.load(s, row, index(0), tile.dtype, 1)
            memory.store(s, value, goal, index(j))
    code.leave()
    return module.add("pack", (b, ldb, k, panel, pitch), code)


def emit_pack_rows(module: ModuleWriter, machine: Machine, tile: Tile, height: int) -> str:
    """`void (a, lda, k, rows, block)`: A stored [k, m] into panels of `height` rows.

    Row r of step p of panel i is a[p, i * height + r]; the panel has k + APART steps. A last panel
    that would be lower begins earlier, to end with the rows, or leaves its first rows empty.
    """
    code = module.body()
    s = LaneScalars(code, has_fma=machine.has_fma)
    lda, k, rows = (Val(f"%{name}", I64) for name in ("lda", "k", "rows"))
    a, block = Val("%a", PTR), Val("%block", PTR)
    last = sub(code, rows, index(height))
    with when(code, s.compare("sge", last, index(0)), []):
        _copy_panels(s, machine, tile, (a, lda), (block, height), k, rows)
    with when(code, s.compare("slt", last, index(0)), []):
        _copy_few_rows(s, tile, (a, lda), (block, height), k, rows)
    code.leave()
    return module.add("pack", (a, lda, k, rows, block), code)


def _copy_panels(
    s: LaneScalars,
    machine: Machine,
    tile: Tile,
    source: tuple[Val, Val],
    goal: tuple[Val, int],
    k: Val,
    rows: Val,
) -> None:
    """At least as many rows as a panel has, in panels that may overlap in the last ones."""
    code, (a, lda), (block, height) = s.code, source, goal
    panel = mul(code, add(code, k, index(APART)), index(height))
    wide = 1 << (height - 1).bit_length()
    exact = _emit_copy_steps(code.module, machine, tile, height, _pieces(height, tile.lanes))
    with loop_if_any(code, index(0), k, CHUNK, []) as step:
        assert step is not None
        steps = smaller(code, sub(code, k, step.index), index(CHUNK))
        line = offset(code, a, tile.element, mul(code, step.index, lda))
        first = mul(code, step.index, index(height))
        with loop(code, index(0), rows, height, [first]) as state:
            start = smaller(code, state.index, sub(code, rows, index(height)))
            from_ = offset(code, line, tile.element, start)
            to = offset(code, block, tile.element, state.carried[0])
            function: str | Val = exact
            if height < wide <= tile.lanes:
                over = _emit_copy_steps(code.module, machine, tile, height, [wide])
                is_inside = s.compare("sle", add(code, state.index, index(wide)), rows)
                function = s.select(is_inside, Val(over, PTR), Val(exact, PTR))
            code.invoke(function, (from_, lda, steps, to))
            state.carried[0] = add(code, state.carried[0], panel)


def _copy_few_rows(
    s: LaneScalars, tile: Tile, source: tuple[Val, Val], goal: tuple[Val, int], k: Val, rows: Val
) -> None:
    """Fewer rows than a panel has, at its end, one element at a time."""
    code, (a, lda), (block, height) = s.code, source, goal
    skipped = sub(code, index(height), rows)
    with loop_if_any(code, index(0), k, 1, []) as step, loop(code, index(0), rows, 1) as state:
        assert step is not None
        place = add(code, mul(code, step.index, lda), state.index)
        value = memory.load(s, a, place, tile.dtype, 1)
        place = add(code, mul(code, step.index, index(height)), skipped)
        memory.store(s, value, block, add(code, place, state.index))


def _emit_copy_steps(
    module: ModuleWriter, machine: Machine, tile: Tile, height: int, pieces: list[int]
) -> str:
    """`void (from, lda, k, to)`: the elements of `pieces` of each step, steps `height` apart.

    Pieces longer than that write into the next step, which then replaces what they wrote.
    """
    code = module.body()
    s = LaneScalars(code, has_fma=machine.has_fma)
    from_, to = Val("%from", PTR), Val("%to", PTR)
    lda, k = Val("%lda", I64), Val("%k", I64)
    with loop_if_any(code, index(0), k, 1, []) as state:
        assert state is not None
        source = offset(code, from_, tile.element, mul(code, state.index, lda))
        goal = offset(code, to, tile.element, mul(code, state.index, index(height)))
        start = 0
        for lanes in pieces:
            value = memory.load(s, source, index(start), tile.dtype, lanes)
            memory.store(s, value, goal, index(start))
            start += lanes
    code.leave()
    return module.add("steps", (from_, lda, k, to), code)


def _pieces(count: int, lanes: int) -> list[int]:
    """Vector lengths, powers of two up to `lanes`, that add up to `count`."""
    pieces: list[int] = []
    while count:
        while lanes > count:
            lanes //= 2
        pieces.append(lanes)
        count -= lanes
    return pieces


def emit_copy_block(module: ModuleWriter, machine: Machine, tile: Tile) -> str:
    """`void (from, ldf, to, ldt, rows, columns)`: copies a block no wider than the tile."""
    code = module.body()
    s = LaneScalars(code, has_fma=machine.has_fma)
    from_, to = Val("%from", PTR), Val("%to", PTR)
    ldf, ldt, rows, columns = (Val(f"%{n}", I64) for n in ("ldf", "ldt", "rows", "columns"))
    masks: list[Val] = []
    starts = [index(start) for start in tile.starts]
    if machine.masks_memory and tile.lanes > 1:
        masks = [memory.rest_mask(s, start, columns, tile.lanes) for start in starts]
    with loop_if_any(code, index(0), rows, 1, []) as state:
        assert state is not None
        source = offset(code, from_, tile.element, mul(code, state.index, ldf))
        goal = offset(code, to, tile.element, mul(code, state.index, ldt))
        for start, mask in zip(starts, masks, strict=False):
            value = memory.load(s, source, start, tile.dtype, tile.lanes, mask)
            memory.store(s, value, goal, start, mask)
        if not masks:
            with loop(code, index(0), columns, 1) as inner:
                value = memory.load(s, source, inner.index, tile.dtype, 1)
                memory.store(s, value, goal, inner.index)
    code.leave()
    return module.add("block", (from_, ldf, to, ldt, rows, columns), code)
