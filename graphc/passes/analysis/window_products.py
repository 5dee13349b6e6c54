"""How a convolution, or a gradient of one, is cut for a machine: blocks, panels and tiles.

Positions of the result are worked on in blocks of columns that stay near; in a block, panels of
columns of the product go by tiles of some output positions, whose sums are in registers. Of the
gradient to the weights a tile holds elements of a window instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from graphc.ir.codegen import Role, WindowProduct
from graphc.ir.core import Operation
from graphc.ir.machine import Machine
from graphc.ir.types import DType, bound_elements
from graphc.ops.convolution import CONV_DATA_GRAD, ConvShape, conv_shape
from graphc.ops.schedules import ConvSchedule, ConvTile, WeightGradSchedule
from graphc.passes.analysis.loopnest import Size
from graphc.passes.analysis.product_tiles import has_wide_tiles
from graphc.support.diagnostics import fail

Span = tuple[int, int]
"""Where a vector begins, and its lanes."""

NEAR_BYTES = 20480
"""Of what one tile after the other reads again: most of a first-level cache."""

FAR_BYTES = 131072
"""Of an image and its output positions that are worked on together: a part of a second-level
cache."""

FAR_ROW = 256
"""Bytes between rows from which on a panel of them is copied."""

LINE_BYTES = 64

MOST_COPIED = 128 * 1024
"""Bytes of one column of output positions that are copied: the copy is on the stack."""

PRODUCTS = 16
"""Of Winograd's algorithm, for each tile: four by four."""

PREFETCHED_ROWS = 200
"""Of weights that a tile asks for before it reads them: 128 to 512 are as good, 16 and 64 less."""

MAX_ROWS = 12
"""Rows of a tile: more would only need more loads."""


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
class Convolution:
    """What is computed, from which extents.

    extents, sizes, strides   of images, windows and steps: columns, then rows of pixels
    channels, outputs         of images and of the result
    low, high                 zeros around an image; they count in `extents`
    block                     columns of the weights in one block, 0 for rows of all columns
    parallel                  what a chunk is made of, if the function computes one, from `begin` to
                              `end`; rows are those of the weights
    chunk                     how many in one; rows are all of one column of windows
    column_parts, feature_parts  of the result of one image, where a chunk is one of each
    winograd                  by tiles of 2 x 2 results (`backends/loops/winograd.py`)
    is_turned                 the weights lie as a gradient to images has them
    is_transformed            the weights lie as Winograd's algorithm transforms them
    """

    role: Role
    images: Size
    extents: tuple[int, int]
    channels: int
    sizes: tuple[int, int]
    strides: tuple[int, int]
    output_positions: tuple[int, int]
    outputs: int
    dtype: DType
    low: tuple[int, int] = (0, 0)
    high: tuple[int, int] = (0, 0)
    block: int = 0
    parallel: Literal["images", "rows"] | None = None
    chunk: int = 0
    most_images: int = 1
    column_parts: int = 1
    feature_parts: int = 1
    winograd: bool = False
    is_turned: bool = False
    is_transformed: bool = False

    @staticmethod
    def of(role: Role, shape: ConvShape, dtype: DType) -> Convolution:
        """What an operation computes. One walked axis is a column of an image one pixel wide."""
        missing = (1,) * (2 - len(shape.sizes))
        first, second = (*missing, *shape.extents)
        width, height = (*missing, *shape.sizes)
        across, down = (*missing, *shape.strides)
        columns, rows = (*missing, *shape.output_positions)
        left, above = (*(0 for _ in missing), *shape.low)
        right, below = (*(0 for _ in missing), *shape.high)
        return Convolution(
            role,
            Size.of(shape.lead),
            (first, second),
            math.prod(shape.channels),
            (width, height),
            (across, down),
            (columns, rows),
            math.prod(shape.features),
            dtype,
            (left, above),
            (right, below),
            shape.block,
            most_images=bound_elements(shape.lead),
        )

    def symbols(self) -> tuple[str, ...]:
        """The dimensions of the call that the function asks for."""
        return self.images.symbols

    @property
    def weight_block(self) -> int:
        """Columns of the weights in one block: all, if they lie in rows of all."""
        return self.block or self.outputs

    @property
    def run(self) -> int:
        """Elements of one column of a window."""
        return self.sizes[1] * self.channels

    @property
    def image(self) -> int:
        """Elements of an image, with the zeros around it."""
        return self.extents[0] * self.extents[1] * self.channels

    @property
    def inner(self) -> tuple[int, int]:
        """Extents of an image without zeros."""
        across, down = (
            e - a - z for e, a, z in zip(self.extents, self.low, self.high, strict=True)
        )
        return across, down

    @property
    def is_padded(self) -> bool:
        return self.inner != self.extents

    @property
    def parts(self) -> int:
        """Of the result of one image."""
        return self.column_parts * self.feature_parts

    @property
    def part_outputs(self) -> int:
        """Outputs that a chunk computes."""
        return self.outputs // self.feature_parts

    def column_pieces(self) -> list[tuple[int, int]]:
        """(columns of output positions, how many parts have them), from the first one on; columns
        of tiles in Winograd's algorithm."""
        columns = self.tile_grid[0] if self.winograd else self.output_positions[0]
        return in_pieces(columns, self.column_parts)

    @property
    def tile_grid(self) -> tuple[int, int]:
        """Columns and rows of tiles in Winograd's algorithm."""
        across, down = self.output_positions
        return -(-across // 2), -(-down // 2)

    @property
    def shares_windows(self) -> bool:
        """Whether parts of features read the same transformed windows, which are made before."""
        return self.winograd and self.feature_parts > 1

    @property
    def windows(self) -> int:
        """Elements of all transformed windows of an image."""
        return PRODUCTS * math.prod(self.tile_grid) * self.channels

    def copied_around(self) -> Convolution:
        """The same product of images that have their zeros around them in memory."""
        return replace(self, low=(0, 0), high=(0, 0))

    @property
    def sums_chunks(self) -> bool:
        """Whether each chunk has weights of its own."""
        return self.role == "weight_grad" and self.parallel == "images"

    @property
    def weights(self) -> int:
        """Elements of the weights."""
        return self.sizes[0] * self.run * self.outputs

    @property
    def column(self) -> int:
        return self.extents[1] * self.channels

    @property
    def output_column(self) -> int:
        return self.output_positions[1] * self.outputs

    def window(self, p: int, q: int) -> int:
        """Where the window of an output position begins in its image."""
        return p * self.strides[0] * self.column + q * self.strides[1] * self.channels

    def place(self, p: int, q: int) -> int:
        """Where the outputs of an output position begin in its result."""
        return p * self.output_column + q * self.outputs


# --- choosing -------------------------------------------------------------------------------------


def product_of(op: Operation) -> Convolution:
    """What a `conv`, `conv.data_grad` or `conv.weight_grad` computes in one call."""
    schedule = op.schedule
    assert isinstance(schedule, ConvSchedule | WeightGradSchedule)
    return by_winograd(op) if schedule.winograd else by_windows(op)


def by_winograd(op: Operation) -> Convolution:
    """The same by Winograd's algorithm, which has a gradient to images be a convolution too."""
    return replace(by_windows(op, is_turned=op.opdef is CONV_DATA_GRAD), winograd=True)


def by_windows(op: Operation, *, is_turned: bool = False) -> Convolution:
    """The same by sums over windows; turned, a gradient to images is the convolution that it is."""
    codegen, schedule = op.opdef.codegen, op.schedule
    assert isinstance(codegen, WindowProduct)
    assert isinstance(schedule, ConvSchedule | WeightGradSchedule)
    types = [v.tensor for v in op.operands]
    shape, role = conv_shape(op.params, types), codegen.role
    if is_turned:
        shape, role = shape.turned(), "result"
    what = replace(Convolution.of(role, shape, types[0].dtype), is_turned=is_turned)
    if schedule.is_parallel:
        what = replace(what, parallel=schedule.parallel, chunk=schedule.chunk)
    if isinstance(schedule, WeightGradSchedule):
        return what
    return replace(
        what,
        column_parts=schedule.column_parts,
        feature_parts=schedule.feature_parts,
        is_transformed=schedule.transformed,
    )


AnySchedule = ConvSchedule | WeightGradSchedule


def winograd_misfit(what: Convolution) -> str:
    """What Winograd's algorithm requires of what `by_winograd` gives; "" if that is there."""
    if what.sizes != (3, 3) or what.strides != (1, 1):
        return "`winograd` for windows 3 x 3 and strides of 1"
    if what.parallel == "rows":
        return "`winograd` for all rows of the weights, in chunks of images"
    if min((*what.low, *what.high)) < 0:
        return "`winograd` for at most two zeros at each end of an axis"
    if min(what.output_positions) < 2:
        return f"`winograd` for two results along each axis, got {what.output_positions}"
    return ""


def choose_convolution(what: Convolution, machine: Machine) -> AnySchedule:
    """The schedule of what one call computes."""
    lanes = machine.lanes(what.dtype)
    if what.role == "weight_grad":
        panel = 2 * lanes * what.output_positions[1] * what.dtype.itemsize
        is_far = what.outputs * what.dtype.itemsize >= FAR_ROW
        columns = _near_columns(what, _panel_bytes(what, lanes), NEAR_BYTES)
        tiles = tuple(
            ConvTile(0, vectors, (across, rows))
            for vectors in _panel_vectors(what, lanes)
            for rows in [most_rows(machine, vectors)]
            for across in [1 if what.parallel == "rows" else max(1, rows // what.run)]
        )
        return WeightGradSchedule(
            lanes=lanes, columns=columns, tiles=tiles, pack=is_far and panel <= MOST_COPIED
        )
    columns = _near_columns(what, _column_bytes(what), FAR_BYTES)
    tiles = tuple(
        ConvTile(width, vectors, best_tile(width, what.output_positions[1], rows, vectors))
        for width in _block_widths(what, columns)
        for vectors in _panel_vectors(what, lanes)
        for rows in [most_rows(machine, vectors)]
    )
    across, features = what.column_parts, what.feature_parts
    return ConvSchedule(
        lanes=lanes,
        columns=columns,
        tiles=tiles,
        column_parts=across,
        feature_parts=features,
        prefetch=prefetched_rows(what, machine),
    )


def prefetched_rows(what: Convolution, machine: Machine) -> int:
    """Rows before their use that weights are asked for: where they lie in no near cache, and a
    machine multiplies faster than it fetches them by itself."""
    in_window = PRODUCTS if what.winograd else math.prod(what.sizes)
    size = in_window * what.channels * what.outputs * what.dtype.itemsize
    if what.role != "result" or size < machine.l2 // 4 or not has_wide_tiles(machine):
        return 0
    return PREFETCHED_ROWS


def panels_of(what: Convolution, lanes: int) -> list[Panel]:
    """The panels of the product's columns."""
    columns = what.run if what.role == "data_grad" else what.part_outputs
    return panels(columns, lanes, apart=what.role != "result")


def _panel_vectors(what: Convolution, lanes: int) -> list[int]:
    """How many vectors panels have."""
    return sorted({len(panel.vectors) for panel in panels_of(what, lanes)}, reverse=True)


def _block_widths(what: Convolution, columns: int) -> list[int]:
    """Columns of output positions that a block may have, of at most so many."""
    parts = (size for size, _ in what.column_pieces())
    return sorted({width for part in parts for width, _ in balanced(part, columns)}, reverse=True)


def _near_columns(what: Convolution, column: int, near: int) -> int:
    """Columns of output positions that are worked on together, at most: they lie in `near`
    bytes."""
    return max(1, min(what.output_positions[0], near // column))


def _column_bytes(what: Convolution) -> int:
    """What a column of output positions reads and writes."""
    return (what.strides[0] * what.column + what.output_column) * what.dtype.itemsize


def _panel_bytes(what: Convolution, lanes: int) -> int:
    """What a tile reads of a column of output positions: a panel of them, and a line of each
    window."""
    of_image = min(what.column * what.dtype.itemsize, what.output_positions[1] * LINE_BYTES)
    panel = min(2 * lanes, what.outputs) * what.dtype.itemsize
    return of_image + what.output_positions[1] * panel


def convolution_schedule(op: Operation) -> AnySchedule | None:
    """The schedule of a convolution where it is chosen, which `lanes` says.

    Raises GraphcError (bad-schedule) if it does not fit the operation.
    """
    schedule = op.schedule
    assert isinstance(schedule, ConvSchedule | WeightGradSchedule)
    if schedule.grid is not None:
        # Its workspace is another one.
        message = f"`{op.opdef.name}` has a schedule for a GPU"
        raise fail("bad-schedule", message, op.location)
    if not schedule.lanes:
        return None
    if what := _misfit(product_of(op), schedule):
        message = f"the schedule of `{op.opdef.name}` requires {what}"
        raise fail("bad-schedule", message, op.location)
    return schedule


def _misfit(what: Convolution, schedule: AnySchedule) -> str:
    """What is required and what came; "" if it fits."""
    if isinstance(schedule, ConvSchedule) and schedule.prefetch:
        if schedule.prefetch < 0:
            return f"`prefetch` of 0 rows or more, got {schedule.prefetch}"
        if what.role != "result":
            return "`prefetch` for a convolution, not for its gradient by windows"
    if schedule.winograd:
        return winograd_misfit(what) or _winograd_misfit(what, schedule)
    if not 1 <= schedule.columns <= what.output_positions[0]:
        return f"1 to {what.output_positions[0]} columns in a block, got {schedule.columns}"
    widths = [0]
    if what.role != "weight_grad":
        widths = _block_widths(what, schedule.columns)
    needed = {(w, v) for w in widths for v in _panel_vectors(what, schedule.lanes)}
    found = {(t.columns, t.vectors) for t in schedule.tiles}
    if needed != found or len(found) != len(schedule.tiles):
        wanted = ", ".join(f"columns = {w}, vectors = {v}" for w, v in sorted(needed))
        return f"one tile each for {wanted}"
    if isinstance(schedule, WeightGradSchedule) and schedule.pack:
        panel = (
            2 * schedule.lanes * what.output_positions[1] * schedule.columns * what.dtype.itemsize
        )
        if panel > MOST_COPIED:
            return f"pack = false for panels of {panel} bytes, at most {MOST_COPIED} are copied"
    return ""


def _winograd_misfit(what: Convolution, schedule: AnySchedule) -> str:
    across = what.tile_grid[0]
    if schedule.columns % 2 or not 2 <= schedule.columns <= 2 * across:
        return f"2 to {2 * across} columns in a block of whole tiles, got {schedule.columns}"
    if what.column_parts > across:
        return f"at most {across} parts of columns of tiles, got {what.column_parts}"
    return "no `tiles` beside `winograd`" if schedule.tiles else ""


# --- pieces ---------------------------------------------------------------------------------------


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
    """The sides of a tile of at most `rows` output positions that covers a grid at the least
    cost."""
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


def whole_panels(what: Convolution) -> int:
    """Panels of two cache lines that the outputs are made of; 1 if something is left over."""
    panels, rest = divmod(what.outputs * what.dtype.itemsize, 2 * LINE_BYTES)
    return 1 if rest else panels


def largest_divisor(number: int, most: int) -> int:
    """The largest one of a number that is not above `most`."""
    return next(n for n in range(max(1, most), 0, -1) if number % n == 0)


def balanced(extent: int, most: int) -> list[tuple[int, int]]:
    """(size, how many) of pieces of at most `most`, no two sizes more than one apart."""
    return in_pieces(extent, -(-extent // most))


def in_pieces(extent: int, pieces: int) -> list[tuple[int, int]]:
    """(size, how many) of so many pieces, no two sizes more than one apart, the larger first."""
    small, larger = divmod(extent, pieces)
    return [(size, n) for size, n in ((small + 1, larger), (small, pieces - larger)) if n]
