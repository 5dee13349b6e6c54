"""Copies of a product's factors as pairs of bf16 (`pairs.py`), in the order of what tiles read.

A panel of B holds, for each pair of steps, the columns of one tile side by side. A block of A holds
the pairs of each row, one row after another; if A is stored by columns it is panels that hold, for
each pair of steps, the rows of one tile. Copies write whole vectors: up to a vector beyond the end
of what is asked for, so workspace is longer by one.
"""

from __future__ import annotations

from collections.abc import Callable

from graphc.backends.loops import memory
from graphc.backends.loops.control import (
    add,
    loop_if_any,
    mul,
    offset,
    round_down,
    smaller,
    sub,
    when,
)
from graphc.backends.loops.pairs import neighbours, pair
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.shuffles import transposed
from graphc.backends.loops.tiles import Tile, lines_from
from graphc.backends.loops.values import I64, PTR, Val, constant, index, lane_type
from graphc.backends.loops.writer import ModuleWriter
from graphc.ir.machine import Machine
from graphc.ir.types import DType

LEAST_LANES = 4
"""Of a B stored by columns: blocks of fewer are not worth turning in registers."""
LINE_ELEMENTS = 16
"""Numbers of f32 in a line of a cache."""
CHUNK = 16
"""Pairs of steps that are copied together: reads stay in few rows of A, writes in few panels."""


def emit_pack_b(module: ModuleWriter, machine: Machine, tile: Tile, ahead: int) -> str:
    """`void (b, ldb, k, panel)`: k steps of a B stored by rows, in the columns of the tile."""
    code = module.body()
    s = LaneScalars(code, has_fma=machine.has_fma)
    b, panel = Val("%b", PTR), Val("%panel", PTR)
    ldb, k = Val("%ldb", I64), Val("%k", I64)
    starts = [index(start) for start in tile.starts]
    zero = constant(0.0, lane_type(tile.element, tile.lanes))

    def rows_at(step: Val) -> list[Val]:
        row = offset(code, b, tile.element, mul(code, step, ldb))
        return [memory.load(s, row, start, tile.dtype, tile.lanes) for start in starts]

    def put(step: Val, earlier: list[Val], later: list[Val]) -> None:
        place = mul(code, code.binary("lshr", step, index(1)), index(tile.width))
        goal = offset(code, panel, tile.element, place)
        for start, x, y in zip(starts, earlier, later, strict=True):
            memory.store(s, pair(s, x, y), goal, start)

    even = round_down(code, k, 2)
    with loop_if_any(code, index(0), even, 2, []) as state:
        assert state is not None
        following = add(code, state.index, index(1))
        if ahead:
            for step in (state.index, following):
                row = mul(code, add(code, step, index(ahead)), ldb)
                for start in range(0, tile.width, LINE_ELEMENTS):
                    memory.prefetch(s, b, tile.element, add(code, row, index(start)), 1)
        put(state.index, rows_at(state.index), rows_at(following))
    with when(code, s.compare("slt", even, k), []):
        put(even, rows_at(even), [zero] * len(starts))
    code.leave()
    return module.add("pairs", (b, ldb, k, panel), code)


def emit_pack_b_transposed(module: ModuleWriter, machine: Machine, tile: Tile) -> str:
    """`void (b, ldb, k, panel)`: the same of as many rows of a B stored [n, k] as a vector has
    lanes, beside what the panel has of others."""
    code = module.body()
    s = LaneScalars(code, has_fma=machine.has_fma)
    b, panel = Val("%b", PTR), Val("%panel", PTR)
    ldb, k = Val("%ldb", I64), Val("%k", I64)
    lanes, width = tile.lanes, index(tile.width)

    def block(step: Val, mask: tuple[Val | None, Val | None]) -> None:
        rows = lines_from(code, offset(code, b, tile.element, step), tile, ldb)
        made = [_row_pairs(s, row, lanes, mask) for row in rows]
        place = mul(code, code.binary("lshr", step, index(1)), width)
        goal = offset(code, panel, tile.element, place)
        for value in transposed(code, made):
            memory.store(s, value, goal, index(0))
            goal = offset(code, goal, tile.element, width)

    _in_blocks(s, k, lanes, block)
    code.leave()
    return module.add("pairs", (b, ldb, k, panel), code)


def _row_pairs(s: LaneScalars, row: Val, lanes: int, masks: tuple[Val | None, Val | None]) -> Val:
    """Pairs of the numbers that begin at `row`."""
    first, second = (
        memory.load(s, row, index(i * lanes), DType.F32, lanes, mask)
        for i, mask in enumerate(masks)
    )
    return neighbours(s, first, second)


def _in_blocks(
    s: LaneScalars,
    k: Val,
    lanes: int,
    block: Callable[[Val, tuple[Val | None, Val | None]], None],
) -> None:
    """`block(first step, masks)` for steps of two vectors each, the last under masks."""
    code = s.code
    whole = round_down(code, k, 2 * lanes)
    with loop_if_any(code, index(0), whole, 2 * lanes, []) as state:
        assert state is not None
        block(state.index, (None, None))
    with when(code, s.compare("slt", whole, k), []):
        rest = sub(code, k, whole)
        first = memory.first_lanes(s, rest, lanes)
        second = memory.first_lanes(s, sub(code, rest, index(lanes)), lanes)
        block(whole, (first, second))


def emit_pack_a(module: ModuleWriter, machine: Machine) -> str:
    """`void (a, lda, k, rows, block, pitch)`: rows of an A stored by rows, `pitch` pairs apart."""
    code = module.body()
    s = LaneScalars(code, has_fma=machine.has_fma)
    a, block = Val("%a", PTR), Val("%block", PTR)
    lda, k, rows, pitch = (Val(f"%{name}", I64) for name in ("lda", "k", "rows", "pitch"))
    lanes = machine.lanes(DType.F32)
    with loop_if_any(code, index(0), rows, 1, []) as state:
        assert state is not None
        source = offset(code, a, "float", mul(code, state.index, lda))
        goal = offset(code, block, "float", mul(code, state.index, pitch))

        def put(step: Val, masks: tuple[Val | None, Val | None]) -> None:
            made = _row_pairs(s, offset(code, source, "float", step), lanes, masks)
            memory.store(s, made, goal, code.binary("lshr", step, index(1)))

        _in_blocks(s, k, lanes, put)
    code.leave()
    return module.add("pairs", (a, lda, k, rows, block, pitch), code)


def emit_pack_a_transposed(module: ModuleWriter, machine: Machine, height: int) -> str:
    """`void (a, lda, k, rows, block, pitch)`: of an A stored [k, m] panels of `height` rows, of
    which a last one may have fewer; `pitch` pairs are from one to the next."""
    code = module.body()
    a, block = Val("%a", PTR), Val("%block", PTR)
    lda, k, rows, pitch = (Val(f"%{name}", I64) for name in ("lda", "k", "rows", "pitch"))
    steps = _emit_pack_steps(module, machine, height)
    panel = mul(code, pitch, index(height))
    with loop_if_any(code, index(0), k, 2 * CHUNK, []) as step:
        assert step is not None
        count = smaller(code, sub(code, k, step.index), index(2 * CHUNK))
        line = offset(code, a, "float", mul(code, step.index, lda))
        first = mul(code, code.binary("lshr", step.index, index(1)), index(height))
        with loop_if_any(code, index(0), rows, height, [first]) as state:
            assert state is not None
            high = smaller(code, sub(code, rows, state.index), index(height))
            from_ = offset(code, line, "float", state.index)
            to = offset(code, block, "float", state.carried[0])
            code.invoke(steps, (from_, lda, count, high, to))
            state.carried[0] = add(code, state.carried[0], panel)
    code.leave()
    return module.add("pairs", (a, lda, k, rows, block, pitch), code)


def _emit_pack_steps(module: ModuleWriter, machine: Machine, height: int) -> str:
    """`void (from, lda, k, rows, to)`: each pair's `rows` numbers, pairs `height` apart.

    Whole vectors are written into the next pair, which then replaces what is too much.
    """
    code = module.body()
    s = LaneScalars(code, has_fma=machine.has_fma)
    from_, to = Val("%from", PTR), Val("%to", PTR)
    lda, k, rows = (Val(f"%{name}", I64) for name in ("lda", "k", "rows"))
    lanes = machine.lanes(DType.F32)
    starts = [index(start) for start in range(0, height, lanes)]
    masks = [memory.rest_mask(s, start, rows, lanes) for start in starts]
    zero = constant(0.0, lane_type("float", lanes))

    def put(step: Val, later: Val | None) -> None:
        goal = mul(code, code.binary("lshr", step, index(1)), index(height))
        goal = offset(code, to, "float", goal)
        for start, mask in zip(starts, masks, strict=True):
            x, y = (
                zero
                if at is None
                else memory.load(
                    s, from_, add(code, mul(code, at, lda), start), DType.F32, lanes, mask
                )
                for at in (step, later)
            )
            memory.store(s, pair(s, x, y), goal, start)

    even = round_down(code, k, 2)
    with loop_if_any(code, index(0), even, 2, []) as state:
        assert state is not None
        put(state.index, add(code, state.index, index(1)))
    with when(code, s.compare("slt", even, k), []):
        put(even, None)
    code.leave()
    return module.add("steps", (from_, lda, k, rows, to), code)


def emit_pack_narrow(module: ModuleWriter, machine: Machine, tile: Tile) -> str:
    """`void (b, step, column, k, columns, panel)`: of a B with these strides fewer columns than a
    tile has, one at a time."""
    code = module.body()
    s = LaneScalars(code, has_fma=machine.has_fma)
    b, panel = Val("%b", PTR), Val("%panel", PTR)
    names = ("step", "column", "k", "columns")
    step, column, k, columns = (Val(f"%{name}", I64) for name in names)
    zero = constant(0.0, lane_type("float"))

    def number(line: Val, at: Val) -> Val:
        return memory.load(s, line, mul(code, at, step), DType.F32, 1)

    with loop_if_any(code, index(0), columns, 1, []) as each:
        assert each is not None
        line = offset(code, b, "float", mul(code, each.index, column))
        goal = offset(code, panel, "float", each.index)

        def put(at: Val, earlier: Val, later: Val) -> None:
            place = mul(code, code.binary("lshr", at, index(1)), index(tile.width))
            memory.store(s, pair(s, earlier, later), goal, place)

        even = round_down(code, k, 2)
        with loop_if_any(code, index(0), even, 2, []) as state:
            assert state is not None
            following = add(code, state.index, index(1))
            put(state.index, number(line, state.index), number(line, following))
        with when(code, s.compare("slt", even, k), []):
            put(even, number(line, even), zero)
    code.leave()
    return module.add("pairs", (b, step, column, k, columns, panel), code)
