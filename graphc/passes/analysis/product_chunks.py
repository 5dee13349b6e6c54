"""Chunks of products that suit a machine better than those of `split-work`, which suit any.

On machines with wide tiles chunks of columns are a number of such tiles. Each chunk reads all of A,
which many rows take from a third-level cache: so where B stays in a nearer one it is copied once
(`ops/prepacking.py`), and chunks are rows. Chunks of rows of an A that is stored by columns are
cut already, and each reads all of B: one that comes from far away is copied once, too.

For products of pairs of bf16 copies of factors are made whole before the chunks, too: next to the
registers of AMX copies take longest. A product of 1024 x 512 x 512 takes 0.45 ms there, to copy its
factors once 0.1 and 0.06 ms; by dot products it takes 2.5 ms, and 0.2 more where chunks copy both.
Chunks are of rows, which copy their own rows of A while these are near, and B is copied once for
all of them. Chunks stay columns where a body sums over rows, where B's copy would leave the near
cache from chunk to chunk or is larger than A's, and where there are few rows. Then both factors are
copied once, but for dot products with such a far B: it is left to its chunks.
"""

from __future__ import annotations

from dataclasses import replace

from graphc.ir.core import Operation
from graphc.ir.machine import Machine
from graphc.ops.epilogue import has_sums
from graphc.ops.schedules import ProductSchedule
from graphc.passes.analysis.product_tiles import (
    AMX_SIDE,
    PAIR_BYTES,
    WIDE_TILE,
    ProductForm,
    form_of,
    has_wide_tiles,
    in_panels,
    is_wide,
    with_tilings,
)
from graphc.passes.analysis.work import EVEN_ROWS, even_length

LEAST_ROWS, MOST_ROWS = 64, 128
"""Of a chunk."""
LEAST_COPYING_ROWS = 512
"""Of a product of which wide tiles read a copy of B: fewer rows copy it as fast as they read it."""
MOST_CHUNKS = 8
PART_BYTES = 512 * 1024
"""Of the sums of a chunk, which wait for a body."""


def with_machine_chunks(
    op: Operation, schedule: ProductSchedule, machine: Machine
) -> ProductSchedule:
    """The complete schedule of a product with other chunks and copies, where these are better."""
    if schedule.tile is None or schedule.parallel not in ("rows", "cols"):
        return schedule
    form = form_of(op, schedule)
    if form.n is None or form.is_exchanged or form.panel:
        return schedule
    if schedule.pairs:
        return _with_whole_copies(op, schedule, machine)
    if copied := _with_copied_b(op, schedule, machine):
        return copied
    return _with_wide_tiles(op, schedule, machine) if schedule.parallel == "cols" else schedule


def _with_copied_b(
    op: Operation, schedule: ProductSchedule, machine: Machine
) -> ProductSchedule | None:
    """In chunks of rows, for which B is copied once; None where it is better as it is."""
    form = form_of(op, schedule)
    rows = form.most_m if form.m is None else form.m
    if not has_wide_tiles(machine) or rows < LEAST_COPYING_ROWS:
        return None
    chunk = _rows_of_chunk(op, form, WIDE_TILE[0], machine.l2)
    if form.transpose_a:
        chunk = schedule.chunk if schedule.parallel == "rows" else 0
    if not chunk:
        return None
    cut = replace(schedule, parallel="rows", chunk=chunk, tile=None, few_rows=None, last=None)
    form = form_of(op, cut)
    if not is_wide(form.call_range(), machine):
        return None
    made = with_tilings(cut, machine, form)
    return in_panels(op, made, machine, "prepacked")


def _with_wide_tiles(op: Operation, schedule: ProductSchedule, machine: Machine) -> ProductSchedule:
    form = form_of(op, schedule)
    assert form.n is not None
    width = WIDE_TILE[1] * machine.lanes(form.dtype)
    chunk = -(-schedule.chunk // width) * width
    is_even = form.n % width == 0 or form.n >= 4 * width
    if chunk == schedule.chunk or chunk >= form.n or not is_even:
        return schedule
    cut = replace(schedule, chunk=chunk, tile=None, few_rows=None, last=None)
    made = with_tilings(cut, machine, form_of(op, cut))
    assert made.tile is not None
    return made if (made.tile.rows, made.tile.vectors) == WIDE_TILE else schedule


def _with_whole_copies(
    op: Operation, schedule: ProductSchedule, machine: Machine
) -> ProductSchedule:
    """Of pairs: in chunks of rows, for which B is copied once, else in columns, with both copied
    once; as it is where B does not lie in panels, and where few rows that read it in place are
    often all. A copy of all of B that leaves the near cache is not made for dot products in
    columns, whose chunks each copy their own."""
    form, tile = form_of(op, schedule), schedule.tile
    assert tile is not None and form.n is not None
    if tile.b != "packed" or form.n < tile.vectors * tile.lanes:
        return schedule
    if schedule.few_rows is not None and form.most_m < 2 * LEAST_ROWS:
        return schedule
    cut = schedule
    if schedule.parallel == "cols" and (chunk := _rows_of_pairs(op, form, machine)):
        cut = replace(schedule, parallel="rows", chunk=chunk, tile=None, few_rows=None, last=None)
        cut = with_tilings(cut, machine, form_of(op, cut))
    if cut.parallel == "cols":
        if not form.amx and _copied_bytes_of_b(form) > machine.l2:
            return schedule if form.transpose_a else _with_copied_a(schedule)
        cut = _with_copied_a(cut)
    return in_panels(op, cut, machine, "prepacked") or schedule


def _with_copied_a(schedule: ProductSchedule) -> ProductSchedule:
    tile, few, last = (
        t and replace(t, a="prepacked") for t in (schedule.tile, schedule.few_rows, schedule.last)
    )
    return replace(schedule, tile=tile, few_rows=few, last=last)


def _copied_bytes_of_b(form: ProductForm) -> int:
    assert form.n is not None
    steps = form.most_k if form.k is None else form.k
    return form.n * steps * (PAIR_BYTES if form.pairs else form.dtype.itemsize)


def _rows_of_pairs(op: Operation, form: ProductForm, machine: Machine) -> int:
    """Rows of the chunks of a product of pairs; 0 for one that stays in columns."""
    if form.amx:
        return _rows_of_chunk(op, form, 2 * AMX_SIDE, machine.l2 // 2)
    length = _rows_of_chunk(op, form, EVEN_ROWS, machine.l2)
    return even_length(form.most_m if form.m is None else form.m, length, EVEN_ROWS)


def _rows_of_chunk(op: Operation, form: ProductForm, tile_rows: int, near: int) -> int:
    """Rows of the chunks in which a product is computed whose B is copied; 0 for one that stays in
    columns. A copy of more than `near` bytes would leave the near cache from chunk to chunk."""
    assert form.n is not None
    rows = form.most_m if form.m is None else form.m
    is_near = _copied_bytes_of_b(form) <= near and form.n <= rows
    if rows < 2 * LEAST_ROWS or not is_near or (op.regions and has_sums(op.regions[0].block)):
        return 0
    wanted = min(max(rows // MOST_CHUNKS, LEAST_ROWS), MOST_ROWS)
    if op.regions:
        wanted = min(wanted, PART_BYTES // (form.n * form.dtype.itemsize))
    return wanted // tile_rows * tile_rows
