"""Whether the schedule of a matrix product fits it and a machine: what is required, what came.

How products are cut is chosen in `product_tiles.py`; this is for schedules that people write, and
for those of code that is made for another machine.
"""

from __future__ import annotations

from dataclasses import replace

from graphc.ir.core import Operation
from graphc.ir.machine import Machine
from graphc.ir.traversal import function_of
from graphc.ir.types import DType
from graphc.ops.contraction import STRETCH
from graphc.ops.schedules import ProductSchedule, Tiling
from graphc.passes.analysis.product_tiles import (
    AMX_SIDE,
    LEAST_PAIR_LANES,
    PAIR_BYTES,
    ProductRange,
    form_of,
)
from graphc.support.diagnostics import fail

MOST_STACK = 1 << 20
"""Bytes of a panel or of a packed block: they are on the stack."""
LINE_BYTES = 64
"""Of a line of a cache."""
MOST_PAIR_LANES = 16
"""Of the longest dot product that a processor has."""
MOST_SUM_BYTES = 16384
"""Of the sums of a tile: what a machine has no registers for is moved about by so much code that
its compilation takes minutes."""


def with_pairs(op: Operation, machine: Machine) -> ProductSchedule:
    """The schedule of a product, in pairs of bf16 where nothing is chosen yet, its function says
    that factors are such numbers, and the machine multiplies them so.

    GraphcError (bad-schedule) for one that does not fit it, or the machine.
    """
    schedule = product_schedule(op)
    if schedule.pairs and not machine.dots_bf16:
        message = f"`{op.opdef.name}` in pairs requires a machine with dot products of bf16"
        raise fail("bad-schedule", f"{message} (dots_bf16)", op.location)
    if schedule.amx and not machine.has_amx:
        message = f"`{op.opdef.name}` in registers of AMX requires a machine that has them"
        raise fail("bad-schedule", f"{message} (has_amx)", op.location)
    if schedule.tile is None and machine.dots_bf16 and _has_bf16_factors(op):
        return replace(schedule, pairs=True, amx=machine.has_amx)
    return schedule


def _has_bf16_factors(op: Operation) -> bool:
    function = function_of(op)
    is_rounded = function is not None and function.contraction == "bf16"
    return is_rounded and op.operands[0].tensor.dtype is DType.F32


def product_schedule(op: Operation) -> ProductSchedule:
    """The schedule of a product; GraphcError (bad-schedule) for tilings that do not fit it."""
    schedule = op.schedule_as(ProductSchedule)
    if schedule.amx and not schedule.pairs:
        message = f"`{op.opdef.name}` in registers of AMX requires factors in pairs"
        raise fail("bad-schedule", f"{message} (pairs = true)", op.location)
    if schedule.pairs and not _has_bf16_factors(op):
        message = f"`{op.opdef.name}` in pairs requires factors of f32 in a function with"
        raise fail("bad-schedule", f"{message} `contraction bf16`", op.location)
    if (schedule.tile, schedule.few_rows, schedule.last) == (None, None, None):
        return schedule
    form = form_of(op, schedule)
    ranged, last = form.call_range(), form.last_range()
    pairs = [("tile", schedule.tile, ranged, True)]
    pairs.append(("few_rows", schedule.few_rows, ranged.one_row, ranged.has_few_rows))
    given = schedule.last or (schedule.tile if form.panel and last is not None else None)
    if last is None or given is not None:
        pairs.append(("last", given, last or ranged, last is not None))
    tile = schedule.tile
    is_cut = schedule.parallel in ("rows", "cols")
    if tile is not None and "prepacked" in (tile.a, tile.b) and not is_cut:
        message = f"`{op.opdef.name}` with prepacked factors requires chunks of rows or columns"
        raise fail("bad-schedule", message, op.location)
    given_tiles = [t for t in (tile, schedule.few_rows, schedule.last) if t is not None]
    if len({t.a == "prepacked" for t in given_tiles}) > 1:
        message = f'`{op.opdef.name}` requires a = "prepacked" of all tilings or of none'
        raise fail("bad-schedule", message, op.location)
    if form.panel and form.split == "cols" and form.part % form.panel:
        wanted = f"chunks of whole panels of {form.panel} columns, got {form.part}"
        raise fail("bad-schedule", f"`{op.opdef.name}` requires {wanted}", op.location)
    for name, tiling, part, is_wanted in pairs:
        if (tiling is not None) != is_wanted:
            message = f"a schedule of `{op.opdef.name}` {'requires' if is_wanted else 'has no'}"
            raise fail("bad-schedule", f"{message} `{name}` here", op.location)
        if tiling is not None and (what := misfit(tiling, part)):
            raise fail(
                "bad-schedule", f"`{name}` of `{op.opdef.name}` requires {what}", op.location
            )
    return schedule


def misfit(tiling: Tiling, x: ProductRange) -> str:
    """Why a range cannot be computed with a tiling: what is required and what came; "" if it can.

    The verifier has checked each number by itself (`ops/schedules.py`).
    """
    size, width = x.dtype.itemsize, tiling.vectors * tiling.lanes
    if x.n is not None and (tiling.lanes > x.n or (tiling.vectors - 1) * tiling.lanes >= x.n):
        return (
            f"vectors that begin inside the {x.n} columns, got {tiling.vectors} of {tiling.lanes}"
        )
    if tiling.rows * width * size > MOST_SUM_BYTES:
        return (
            f"a tile of at most {MOST_SUM_BYTES} bytes, got {tiling.rows} rows of {width} columns"
        )
    most_k = x.most_k if x.k is None else x.k
    if tiling.depth % STRETCH and tiling.depth < most_k:
        return f"a depth of all {most_k} steps or a multiple of {STRETCH}, got {tiling.depth}"
    if (tiling.b in ("panels", "prepacked")) != bool(x.panel):
        return 'b = "panels" of all tilings or of none, and likewise "prepacked"'
    is_copied = "prepacked" in (tiling.a, tiling.b)
    if is_copied and (x.is_exchanged or x.n is None):
        return 'more than one column, and a known number of them, for "prepacked"'
    if not x.pairs and tiling.a == "prepacked":
        return 'pairs for an A that is "prepacked"'
    if x.pairs and (what := _pair_misfit(tiling, x)):
        return what
    is_rest = x.n == width and not x.pairs  # of a last panel, as wide as its tile
    if x.panel and (x.is_exchanged or x.b_transposed or (width % x.panel and not is_rest)):
        return f"a B stored by rows and tiles of whole panels of {x.panel} columns, got {width}"
    if x.panel and x.n is not None and x.n < x.panel and not is_rest:
        return f"{x.panel} columns or more for panels of as many, got {x.n}"
    if x.panel and x.n is not None and width > x.panel:
        whole = x.n // x.panel * x.panel
        if width > whole:
            return f"a tile in the {whole} columns of whole panels, got {width}"
        # Columns that two tiles compute would have the sums of each depth added twice.
        if whole % width and 0 < tiling.depth < most_k:
            return f"tiles that fill {whole} columns for sums in several depths, got {width}"
    lines = width * size // LINE_BYTES
    if x.panel and tiling.prefetch > lines:
        return f"a prefetch of at most the {lines} lines that a step reads, got {tiling.prefetch}"
    if x.pairs:
        return _stack_misfit(tiling, x, width * PAIR_BYTES, PAIR_BYTES)
    if tiling.b in ("packed", "transposed by tiles") and not x.b_transposed:
        return f'b = "in place" or "packed by tiles" for a B that is stored by rows, got {tiling.b}'
    if tiling.b in ("in place", "packed by tiles") and x.b_transposed:
        return f'b = "packed" or "transposed by tiles" for a transposed B, got {tiling.b}'
    if tiling.a == "packed" and not (x.a_transposed and tiling.depth and tiling.block):
        return 'a depth, a block and an A that is stored by columns for a = "packed"'
    return _stack_misfit(tiling, x, width * size, size)


def _pair_misfit(tiling: Tiling, x: ProductRange) -> str:
    if tiling.a not in ("packed", "prepacked") or not tiling.depth or not tiling.block:
        return f'a = "packed", a depth and a block for pairs, got a = "{tiling.a}"'
    if tiling.b not in ("packed", "panels", "prepacked", "in place"):
        return f'b = "in place", "packed" or "panels" for pairs, got {tiling.b}'
    if tiling.b == "in place" and (x.b_transposed or tiling.lanes < LEAST_PAIR_LANES):
        wanted = f"a B stored by rows and {LEAST_PAIR_LANES} lanes"
        return f'{wanted} for pairs and b = "in place", got {tiling.lanes} lanes'
    if x.amx and (what := _amx_misfit(tiling)):
        return what
    if tiling.lanes > MOST_PAIR_LANES:
        return f"at most {MOST_PAIR_LANES} lanes for pairs, got {tiling.lanes}"
    return ""


def _amx_misfit(tiling: Tiling) -> str:
    if tiling.rows not in (AMX_SIDE, 2 * AMX_SIDE):
        return f"{AMX_SIDE} or {2 * AMX_SIDE} rows for registers of AMX, got {tiling.rows}"
    if tiling.vectors * tiling.lanes > 2 * AMX_SIDE:
        width = tiling.vectors * tiling.lanes
        return f"at most {2 * AMX_SIDE} columns for registers of AMX, got {width}"
    if tiling.b == "in place" or tiling.prefetch_c:
        return 'b = "packed" or "panels" and no prefetch_c for registers of AMX'
    if tiling.b in ("panels", "prepacked") and tiling.prefetch:
        return f"no prefetch of panels for registers of AMX, got {tiling.prefetch}"
    return ""


def _stack_misfit(tiling: Tiling, x: ProductRange, row: int, size: int) -> str:
    """Of panels whose steps have `row` bytes, and of blocks of numbers of `size` bytes."""
    width = tiling.vectors * tiling.lanes
    if tiling.block and tiling.block % tiling.rows:
        return f"a block of whole tiles of {tiling.rows} rows, got {tiling.block}"
    has_panel = (x.n is None and not x.panel) or tiling.b in ("packed", "packed by tiles")
    if has_panel and not 0 < tiling.depth * row <= MOST_STACK:
        return f"a panel of 1 to {MOST_STACK} bytes, got depth {tiling.depth} x {width} columns"
    if tiling.a == "packed" and tiling.block * tiling.depth * size > MOST_STACK // 2:
        return (
            f"a packed block of at most {MOST_STACK // 2} bytes, got {tiling.block} rows x depth "
            f"{tiling.depth}"
        )
    return ""
