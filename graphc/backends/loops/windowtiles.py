"""Register tiles over windows: a product whose rows lie at fixed distances, and how to cut it.

A tile keeps rows x vectors of sums in registers while it walks two nested loops of fixed lengths:
in every turn one element per row, spread over a vector, times the vectors of the other operand. The
distances between its rows are constants of the code, so one pointer serves all of them; this is
what lets a product read an image where it lies, without a copy of its windows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from graphc.backends.loops import memory
from graphc.backends.loops.control import loop_if_any, mul, offset
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import PTR, Val, constant, element_of, index, lane_type
from graphc.backends.loops.writer import ModuleWriter
from graphc.ir.machine import Machine
from graphc.ir.types import DType

MAX_ROWS = 12
"""Rows of a tile: more would only need more loads."""

STRAIGHT_SUMS = 48
"""Multiplications that one turn of the inner loop writes out."""

Span = tuple[int, int]
"""Where a vector begins, and its lanes."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Neighbouring columns that a tile computes together, as vectors; they may overlap.

    count, step   how many such panels there are, and how far one is from the next
    """

    start: int
    vectors: tuple[Span, ...]
    count: int = 1
    step: int = 0


@dataclass(frozen=True, slots=True)
class Turns:
    """A loop of `count` turns: how far each goes in A and in B."""

    count: int
    a: int
    b: int


@dataclass(frozen=True, slots=True)
class WindowTile:
    """C[row] = Σ over outer and inner turns of A[row] · B, or C[row] += it.

    a_rows, c_rows   where each row lies, from the pointers that a call passes
    vectors          of a row of C
    b_starts         where each of them begins in a row of B
    """

    dtype: DType
    a_rows: tuple[int, ...]
    c_rows: tuple[int, ...]
    vectors: tuple[Span, ...]
    b_starts: tuple[int, ...]
    outer: Turns
    inner: Turns
    adds: bool


def emit_window_tile(module: ModuleWriter, machine: Machine, tile: WindowTile) -> str:
    """`@name` of `void (a, b, c)`."""
    code = module.body()
    s = LaneScalars(code, has_fma=machine.has_fma)
    a, b, c = (Val(f"%{name}", PTR) for name in "abc")
    element = element_of(tile.dtype)
    totals = [
        constant(0.0, lane_type(element, lanes)) for _ in tile.a_rows for _, lanes in tile.vectors
    ]
    unroll = _unroll(tile)
    whole = tile.inner.count // unroll * unroll
    with loop_if_any(code, index(0), index(tile.outer.count), 1, totals) as outer:
        assert outer is not None
        a_row = offset(code, a, element, mul(code, outer.index, index(tile.outer.a)))
        b_row = offset(code, b, element, mul(code, outer.index, index(tile.outer.b)))
        with loop_if_any(code, index(0), index(whole), unroll, outer.carried) as inner:
            assert inner is not None
            x = offset(code, a_row, element, mul(code, inner.index, index(tile.inner.a)))
            w = offset(code, b_row, element, mul(code, inner.index, index(tile.inner.b)))
            for turn in range(unroll):
                _multiply(s, tile, x, w, turn, inner.carried)
        for turn in range(whole, tile.inner.count):
            _multiply(s, tile, a_row, b_row, turn, outer.carried)
    _finish(s, tile, c, totals)
    code.leave()
    return module.add("windowtile", (a, b, c), code)


def _unroll(tile: WindowTile) -> int:
    """Turns of the inner loop that are written out.

    No two of them read the same element of A: LLVM would keep it in a register that a sum needs.
    """
    sums = len(tile.a_rows) * len(tile.vectors)
    turns = max(1, min(tile.inner.count, STRAIGHT_SUMS // sums))
    while len({row + t * tile.inner.a for row in tile.a_rows for t in range(turns)}) < turns * len(
        tile.a_rows
    ):
        turns -= 1
    return turns


def _multiply(
    s: LaneScalars, tile: WindowTile, a: Val, b: Val, turn: int, totals: list[Val]
) -> None:
    """Adds the products of one turn of the inner loop to `totals`."""
    row = turn * tile.inner.b
    values = [
        memory.load(s, b, index(row + at), tile.dtype, lanes)
        for at, (_, lanes) in zip(tile.b_starts, tile.vectors, strict=True)
    ]
    for r, distance in enumerate(tile.a_rows):
        factor = memory.load(s, a, index(distance + turn * tile.inner.a), tile.dtype, 1)
        for v, value in enumerate(values):
            place = r * len(values) + v
            totals[place] = s.fma(s.splat(factor, value.type.lanes), value, totals[place])


def _finish(s: LaneScalars, tile: WindowTile, c: Val, totals: Sequence[Val]) -> None:
    """Writes the sums, row by row: where rows or vectors overlap, all of a row is read first."""
    sums = iter(totals)
    for distance in tile.c_rows:
        row = list(itertools.islice(sums, len(tile.vectors)))
        places = [index(distance + at) for at, _ in tile.vectors]
        if tile.adds:
            row = [
                s.add(memory.load(s, c, place, tile.dtype, value.type.lanes), value)
                for place, value in zip(places, row, strict=True)
            ]
        for place, value in zip(places, row, strict=True):
            memory.store(s, value, c, place)


# --- how to cut a product into tiles --------------------------------------------------------------


def panels(columns: int, lanes: int, *, apart: bool) -> list[Panel]:
    """Panels of at most two vectors that cover all columns, a narrow rest by halves.

    Unless they have to lie `apart`, the last vector is moved left to end with the columns.
    """
    width = 2 * lanes
    made: list[Panel] = []
    if columns >= width:
        made.append(Panel(0, ((0, lanes), (lanes, lanes)), columns // width, width))
    rest = columns % width
    if not rest:
        return made
    start = columns - rest
    if apart or columns < lanes:
        return [*made, Panel(start, tuple(spans(rest, lanes)))]
    if rest <= lanes:
        return [*made, Panel(columns - lanes, ((0, lanes),))]
    return [*made, Panel(start, ((0, lanes), (rest - lanes, lanes)))]


def spans(count: int, lanes: int) -> list[Span]:
    """Whole vectors, then ever shorter ones, over `count` elements."""
    made: list[Span] = []
    start = 0
    while start < count:
        while lanes > count - start:
            lanes //= 2
        made.append((start, lanes))
        start += lanes
    return made


def most_rows(machine: Machine, vectors: int) -> int:
    """Rows of a tile with so many vectors that its sums stay in registers."""
    return max(1, min(MAX_ROWS, 2 * machine.tile_rows // vectors))


def best_tile(across: int, down: int, rows: int, vectors: int) -> tuple[int, int]:
    """The sides of a tile of at most `rows` places that covers a grid at the least cost."""
    shapes = [(i, j) for j in range(rows, 0, -1) for i in range(1, rows // j + 1)]
    return min(shapes, key=lambda shape: _cover_cost(across, down, shape, vectors))


def _cover_cost(across: int, down: int, shape: tuple[int, int], vectors: int) -> float:
    total = 0.0
    for width, many in whole_steps(across, shape[0]):
        for height, times in whole_steps(down, shape[1]):
            total += many * times * _tile_cost(width * height, vectors)
    return total


def whole_steps(extent: int, step: int) -> list[tuple[int, int]]:
    """(size, how many) of pieces: whole steps, then what is left."""
    pieces = [(step, extent // step), (extent % step, 1)]
    return [(size, many) for size, many in pieces if size and many]


def _tile_cost(rows: int, vectors: int) -> float:
    """Cycles of one turn: two multiplications or two loads start in each, and a turn takes at least
    the latency of a fused multiply-add."""
    return max(rows * vectors / 2, (rows + vectors) / 2, 4.0) + 0.5


def balanced(extent: int, most: int) -> list[tuple[int, int]]:
    """(size, how many) of pieces of at most `most`, no two sizes more than one apart."""
    pieces = -(-extent // most)
    small, larger = divmod(extent, pieces)
    return [(size, n) for size, n in ((small + 1, larger), (small, pieces - larger)) if n]
