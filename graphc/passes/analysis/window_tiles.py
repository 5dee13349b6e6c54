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
from graphc.ops.schedules import BLOCK_THREADS, ConvSchedule, WeightGradSchedule, WindowTile
from graphc.passes.analysis.window_products import Convolution, product_of

TILES = (
    WindowTile(128, 64, 8, 4),
    WindowTile(64, 64, 4, 4),
    WindowTile(128, 32, 4, 4),
    WindowTile(64, 32, 4, 2),
    WindowTile(32, 32, 2, 2),
    WindowTile(256, 16, 4, 4),
    WindowTile(128, 16, 4, 2),
    WindowTile(64, 16, 2, 2),
    WindowTile(32, 16, 2, 1),
)

DEPTHS = (16, 32)
"""Steps of a tile that are in shared memory at once: more where tiles wait for memory."""

MOST_LOADS = 4
"""Packs of the left factor that a thread loads at a time: their places and what was loaded are in
its registers."""

PACK_BYTES = 16
"""That a thread loads at once, at most."""

PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Of a sum: they are read again to be added up."""

WAIT = 900
"""Cycles from the begin of a load to its use by a product: what the steps that are in shared memory
at once take at least. This and the numbers below are estimates for an H100."""

SCHEDULERS = 4
"""Of a multiprocessor; each has 32 threads begin an instruction in a cycle."""

RESIDENT = 4
"""Blocks of a multiprocessor at a time, if a thread has at most 64 registers."""

MOST_SUMS = 32
"""Of a thread, of f32."""

FEW_SUMS = 16
"""Of f32: a thread with more has more registers than that."""

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
    product = matrix_of(what)
    most_sums = MOST_SUMS * 4 // what.dtype.itemsize
    most_loads = MOST_LOADS * left_pack(what) * BLOCK_THREADS
    tiles = [
        replace(tile, depth=depth)
        for tile in TILES
        for depth in DEPTHS
        if tile.down * tile.across <= most_sums and tile.rows * depth <= most_loads
    ]
    candidates = [cut for tile in tiles for cut in _in_parts(product, tile)]
    return min(candidates, key=lambda t: _cost(product, t, machine, what.dtype.itemsize))


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
    if schedule.gpu is not None:
        return schedule
    return replace(schedule, gpu=choose_window_tile(product_of(op), machine))


def _tile_count(product: WindowMatrix, tile: WindowTile) -> int:
    down, across = -(-product.rows // tile.rows), -(-product.columns // tile.columns)
    return product.rests * down * across


def _in_parts(product: WindowMatrix, tile: WindowTile) -> list[WindowTile]:
    """The tile with sums in one or more parts, each of some chains."""
    chains = -(-product.steps // STRETCH)
    lengths = {-(-chains // min(count, chains)) for count in PARTS if chains > 1}
    return [tile, *(replace(tile, part=n * STRETCH) for n in sorted(lengths) if n < chains)]


def _cost(
    product: WindowMatrix, tile: WindowTile, machine: GpuMachine, itemsize: int
) -> tuple[float, int]:
    """Cycles until all tiles are computed, then what is computed, needed or not."""
    steps = min(tile.part or product.steps, product.steps)
    parts = -(-product.steps // steps) if steps else 1
    tiles = _tile_count(product, tile) * parts
    sums = tile.down * tile.across * itemsize // 4
    resident = RESIDENT if sums <= FEW_SUMS else RESIDENT // 2
    # A thread loads a number of each of its rows and columns for all their products.
    instructions = tile.depth * (sums + tile.down + tile.across)
    busy = instructions * BLOCK_THREADS // (32 * SCHEDULERS)
    turns, rest = divmod(-(-tiles // machine.multiprocessors), resident)
    cycles = turns * max(WAIT, resident * busy) + (max(WAIT, rest * busy) if rest else 0)
    cycles *= -(-steps // tile.depth)
    if parts > 1:
        summed = parts * product.rows * product.rests * product.columns * itemsize
        cycles += SUM_CYCLES + 2 * summed // SUMMED_BYTES
    return cycles, tiles * tile.rows * tile.columns * steps
