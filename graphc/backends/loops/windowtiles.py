"""Register tiles over windows: a product whose rows lie at fixed distances.

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
from graphc.passes.analysis.window_products import Span

STRAIGHT_SUMS = 48
"""Multiplications that one turn of the inner loop writes out."""


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
    prefetch         turns before its use that a row of B is asked for; 0: the processor does it
    """

    dtype: DType
    a_rows: tuple[int, ...]
    c_rows: tuple[int, ...]
    vectors: tuple[Span, ...]
    b_starts: tuple[int, ...]
    outer: Turns
    inner: Turns
    adds: bool
    prefetch: int = 0


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
    for at in tile.b_starts if tile.prefetch else ():
        memory.prefetch(
            s, b, element_of(tile.dtype), index(row + at + tile.prefetch * tile.inner.b)
        )
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
