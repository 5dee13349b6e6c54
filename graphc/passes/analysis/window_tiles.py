"""How a convolution, or a gradient of one, is cut for a GPU: the tile of a block, parts of sums.

It is a product whose left factor is read out of images (`backends/cuda/text/windows.cuh`):

    result       rows: windows             columns: features    steps: elements of a window
    data_grad    rows: pixels of images    columns: channels    steps: windows over the pixel
    weight_grad  rows: elements of a window columns: features   steps: windows

Tiles are computed by multiprocessors, one after another; the tile with which the last one ends
first is taken. Few tiles with long sums are cut into parts.
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

DEPTH = 16
"""Steps of a tile that are in shared memory at once."""

MOST_LOADS = 4
"""Packs of the left factor that a thread loads for one tile in shared memory: their places and what
was loaded are in its registers."""

PACK_BYTES = 16
"""That a thread loads at once, at most."""

MOST_PARTS = 128
"""Of a sum: they are read again to be added up."""

TURNS = 2
"""Parts are made until there are so many tiles for each multiprocessor."""

PART_COST = 2048
"""Steps of one multiply-add of a thread that the launch of a sum over parts takes as long as."""


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
    most_sums = 32 * 4 // what.dtype.itemsize
    most_rows = MOST_LOADS * left_pack(what) * BLOCK_THREADS // DEPTH
    tiles = [t for t in TILES if t.down * t.across <= most_sums and t.rows <= most_rows]
    in_parts = [_in_parts(product, tile, machine) for tile in tiles]
    return min((*tiles, *in_parts), key=lambda tile: _time(product, tile, machine))


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


def _in_parts(product: WindowMatrix, tile: WindowTile, machine: GpuMachine) -> WindowTile:
    """The tile with as many parts as there are multiprocessors for; whole if that is one."""
    wanted = -(-TURNS * machine.multiprocessors // max(1, _tile_count(product, tile)))
    parts = min(wanted, MOST_PARTS, product.steps // STRETCH)
    if parts < 2:
        return tile
    return replace(tile, part=-(-product.steps // (parts * STRETCH)) * STRETCH)


def _time(product: WindowMatrix, tile: WindowTile, machine: GpuMachine) -> float:
    """Until all tiles are computed, in multiply-adds of a thread."""
    steps = tile.part or product.steps
    parts = -(-product.steps // steps) if steps else 1
    turns = -(-_tile_count(product, tile) * parts // machine.multiprocessors)
    # A thread loads a number of each of its rows and columns for all their products.
    loaded = tile.down + tile.across
    return turns * steps * (tile.down * tile.across + loaded) + (PART_COST if parts > 1 else 0)
