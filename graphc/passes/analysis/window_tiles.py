"""How a convolution, or a gradient of one, is cut for a GPU: the tile of a block, parts of sums.

It is a product whose left factor is read out of images (`backends/cuda/text/windows.cuh`):

    result       rows: windows             columns: features    steps: elements of a window
    data_grad    rows: pixels of images    columns: channels    steps: windows over the pixel
    weight_grad  rows: elements of a window columns: features   steps: windows

The tile with which the last multiprocessor is expected to end first is taken. Each has a few tiles
at a time, which wait for memory in turn; where there are few, long sums are cut into parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from graphc.ir.core import Operation
from graphc.ir.machine import GpuMachine
from graphc.ops.contraction import STRETCH
from graphc.ops.schedules import (
    WINDOW_TILES,
    ConvSchedule,
    GpuTiling,
    WeightGradSchedule,
    WindowTile,
)
from graphc.passes.analysis.gpu_products import most_elements, shared_bytes
from graphc.passes.analysis.window_products import Convolution, product_of

STAGES = 4
"""So much is copied ahead that what is multiplied next is there."""

PACK_BYTES = 16
"""That a thread loads at once, at most."""

MOST_COPIES = 4
"""Of the left factor, by a thread at once: it keeps the place of each in its registers."""

BLOCK_THREADS = 256

PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Of a sum: they are read again to be added up."""

MULTIPROCESSORS = 132
"""What tiles and parts are chosen for on every GPU: parts decide bits, which are the same on all
GPUs of an architecture."""

WAIT = 900
"""Cycles from the begin of a copy to its end. This and the numbers below are estimates for an H100;
none was measured."""

LOAD_CYCLES = 16
"""Of a load of a number, or of four neighbours, by each thread of a block, from shared memory."""

SUM_CYCLES_OF_BLOCK = 2
"""Of a multiply-add by each thread of a block."""

MOST_RESIDENT = 4
"""Blocks of a multiprocessor at a time: a thread has some 64 registers."""

SUM_CYCLES = 4000
"""Of the launch that adds up parts."""

SUMMED_BYTES = 2500
"""Of results of parts that are written and read in a cycle."""


@dataclass(frozen=True, slots=True)
class WindowMatrix:
    """The extents of the product, with every dim at its bound.

    rests  how often the rows come, with steps of their own: of `data_grad` for each rest of a
           pixel's index by the strides
    """

    rows: int
    columns: int
    steps: int
    rests: int = 1


def spots_of(what: Convolution) -> tuple[int, int]:
    """How many rows of one image a tile walks: windows, or pixels a stride apart."""
    if what.role != "data_grad":
        return what.output_positions
    across, down = (-(-e // s) for e, s in zip(what.inner, what.strides, strict=True))
    return across, down


def matrix_of(what: Convolution) -> WindowMatrix:
    """What is multiplied."""
    spots = what.most_images * math.prod(spots_of(what))
    window = math.prod(what.sizes)
    match what.role:
        case "result":
            return WindowMatrix(spots, what.outputs, window * what.channels)
        case "data_grad":
            taps = math.prod(-(-n // s) for n, s in zip(what.sizes, what.strides, strict=True))
            rests = math.prod(what.strides)
            return WindowMatrix(spots, what.channels, taps * what.outputs, rests)
        case "weight_grad":
            return WindowMatrix(window * what.channels, what.outputs, spots)


def choose_window_tile(what: Convolution, machine: GpuMachine) -> WindowTile:
    """The tile with which the last multiprocessor is expected to end first."""
    candidates = [
        cut
        for rows, columns in WINDOW_TILES
        if rows * columns <= most_elements(what.dtype.itemsize)
        for cut in _in_parts(matrix_of(what), _whole(what, rows, columns))
        if shared_of(what, cut) <= machine.shared
    ]
    return min(candidates, key=lambda tile: _cost(what, tile, machine))


def _whole(what: Convolution, rows: int, columns: int) -> WindowTile:
    """With a depth whose copies keep all threads busy, and registers free."""
    depth = 32 if rows == 32 else 16
    if rows * depth > MOST_COPIES * left_pack(what) * BLOCK_THREADS:
        depth = 8
    return WindowTile(rows, columns, depth, STAGES)


def as_tiling(tile: WindowTile) -> GpuTiling:
    """What computes it when the windows are copied."""
    return GpuTiling(tile.rows, tile.columns, tile.depth, tile.stages)


def shared_of(what: Convolution, tile: WindowTile) -> int:
    """Bytes of shared memory."""
    transposes = (what.role == "weight_grad", False)
    return shared_bytes(
        as_tiling(tile), what.dtype.itemsize, transposes, is_long=is_long(what, tile)
    )


def has_parts(what: Convolution, tile: WindowTile) -> bool:
    """Whether sums are cut, with every dim at its bound."""
    return 0 < tile.part < matrix_of(what).steps


def is_long(what: Convolution, tile: WindowTile) -> bool:
    """Whether a sum is more than one stretch."""
    return (tile.part if has_parts(what, tile) else matrix_of(what).steps) > STRETCH


def left_pack(what: Convolution) -> int:
    """Neighbouring elements of the left factor that are loaded together."""
    channels = what.outputs if what.role == "data_grad" else what.channels
    return math.gcd(PACK_BYTES // what.dtype.itemsize, channels)


def complete_window_schedule(
    op: Operation, machine: GpuMachine
) -> ConvSchedule | WeightGradSchedule:
    """The schedule of a `conv`, `conv.data_grad` or `conv.weight_grad` with a tile."""
    schedule = op.schedule
    assert isinstance(schedule, ConvSchedule | WeightGradSchedule)
    if schedule.grid is not None:
        return schedule
    return replace(schedule, grid=choose_window_tile(product_of(op), machine))


def _tile_count(product: WindowMatrix, tile: WindowTile) -> int:
    down, across = -(-product.rows // tile.rows), -(-product.columns // tile.columns)
    return product.rests * down * across


def _in_parts(product: WindowMatrix, tile: WindowTile) -> list[WindowTile]:
    """The tile with sums in one or more parts, each of some chains."""
    chains = -(-product.steps // STRETCH)
    lengths = {-(-chains // min(count, chains)) for count in PARTS if chains > 1}
    return [tile, *(replace(tile, part=n * STRETCH) for n in sorted(lengths) if n < chains)]


def _cost(what: Convolution, tile: WindowTile, machine: GpuMachine) -> tuple[int, int]:
    """Cycles until all tiles are computed, then what is computed, needed or not."""
    product, width = matrix_of(what), what.dtype.itemsize // 4
    steps = min(tile.part or product.steps, product.steps)
    parts = -(-product.steps // steps) if steps else 1
    tiles = _tile_count(product, tile) * parts
    # Threads are in 16 rows of 16.
    down, across = max(1, tile.rows // 16), max(1, tile.columns // 16)
    loading = LOAD_CYCLES * (-(-down // 4) + -(-across // 4))
    busy = tile.depth * width * max(SUM_CYCLES_OF_BLOCK * down * across, loading)
    resident = max(1, min(MOST_RESIDENT, machine.shared // max(shared_of(what, tile), 1)))
    wait = WAIT // (tile.stages - 1)
    turns, rest = divmod(-(-tiles // MULTIPROCESSORS), resident)
    cycles = turns * max(wait, resident * busy) + (max(wait, rest * busy) if rest else 0)
    cycles = cycles * -(-steps // tile.depth) + (turns + bool(rest)) * 2 * WAIT
    if parts > 1:
        summed = parts * product.rows * product.rests * product.columns * what.dtype.itemsize
        cycles += SUM_CYCLES + 2 * summed // SUMMED_BYTES
    return cycles, tiles * tile.rows * tile.columns * steps
