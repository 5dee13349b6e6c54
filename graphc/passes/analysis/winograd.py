"""Where Winograd's algorithm (`backends/loops/winograd.py`) computes a convolution or a gradient of
one, and how that is cut into blocks and parts."""

from __future__ import annotations

import math
from dataclasses import replace

from graphc.ir.core import Operation
from graphc.ir.machine import Machine
from graphc.ops.convolution import CONV
from graphc.ops.schedules import ConvSchedule, WeightGradSchedule
from graphc.passes.analysis.window_products import (
    PRODUCTS,
    AnySchedule,
    Convolution,
    by_winograd,
    largest_divisor,
    prefetched_rows,
    whole_panels,
    winograd_misfit,
)

BLOCK_TILES = 48
"""Of a block, about: so many rows of a product read each of the weights once."""

SUMS_BYTES = 4 * 1024 * 1024
"""Of the sums of a gradient to weights, at most: each chunk has its own."""

LEAST_POSITIONS = 144
"""Output positions from which on the algorithm gives back what it takes to transform weights."""

LEAST_CHANNELS = 16
"""Channels and outputs from which on it gives back what it takes to transform windows and
results."""

FROZEN_POSITIONS = 36
"""Output positions from which on it does, where weights are transformed before all calls."""

FROZEN_WEIGHTS = 256 * 256
"""Channels times outputs from which on these may be odd along an axis: results of the last tiles
are then computed twice."""

LEAST_TILES = 24
"""Of a part of columns of tiles: each part reads all transformed weights."""


def suits_winograd(what: Convolution) -> bool:
    """Whether `by_winograd` is chosen, where memory can be planned for it.

    It depends on nothing but the shape of one image, as it decides bits.
    """
    sums = PRODUCTS * what.channels * what.outputs * what.dtype.itemsize
    return (
        _can_pay(what)
        and math.prod(what.output_positions) >= LEAST_POSITIONS
        and (what.role == "result" or sums <= SUMS_BYTES)
    )


def suits_transformed(what: Convolution) -> bool:
    """The same of a convolution whose weights are transformed before all calls."""
    if suits_winograd(what):
        return True
    across, down = what.output_positions
    is_even = across % 2 == down % 2 == 0 or what.channels * what.outputs >= FROZEN_WEIGHTS
    return _can_pay(what) and is_even and across * down >= FROZEN_POSITIONS


def _can_pay(what: Convolution) -> bool:
    return winograd_misfit(what) == "" and min(what.channels, what.outputs) >= LEAST_CHANNELS


def choose_winograd(what: Convolution, machine: Machine) -> AnySchedule:
    """Blocks of whole columns of tiles; of all, where windows are transformed before."""
    across, down = what.tile_grid
    columns = across if what.shares_windows else max(1, min(across, BLOCK_TILES // down))
    lanes = machine.lanes(what.dtype)
    if what.role == "weight_grad":
        return WeightGradSchedule(lanes=lanes, winograd=True, columns=2 * columns)
    return ConvSchedule(
        column_parts=what.column_parts,
        feature_parts=what.feature_parts,
        winograd=True,
        prefetch=prefetched_rows(what, machine),
        lanes=lanes,
        columns=2 * columns,
    )


def transformed_schedule(op: Operation, machine: Machine) -> ConvSchedule | None:
    """The schedule of a convolution whose weights lie transformed; None for another operation, or
    one that does not suit."""
    if op.opdef is not CONV or not suits_transformed(what := by_winograd(op)):
        return None
    schedule = op.schedule_as(ConvSchedule)
    if schedule.winograd:
        return replace(schedule, transformed=True)
    across, features = winograd_parts(what, what.parts)
    what = replace(what, column_parts=across, feature_parts=features)
    chosen = choose_winograd(what, machine)
    assert isinstance(chosen, ConvSchedule)
    return replace(chosen, parallel=schedule.parallel, chunk=schedule.chunk, transformed=True)


def winograd_parts(what: Convolution, most: int) -> tuple[int, int]:
    """At most so many parts of the result of one image: of columns of tiles and of features.

    Parts of features read the transformed windows of all tiles, parts of columns all weights: the
    smaller of the two is read again and again.
    """
    panels, tiles = whole_panels(what), math.prod(what.tile_grid)
    if panels > 1 and what.outputs > tiles:
        return 1, largest_divisor(panels, most)
    return max(1, min(most, tiles // LEAST_TILES, what.tile_grid[0])), 1
