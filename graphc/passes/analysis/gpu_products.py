"""How a GPU computes a matrix product: the tiles of its blocks, and whether they share k.

The choice is by a model of times, with every dim at its bound. Its constants are estimates for an
H200; none was measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphc.ir.core import Operation
from graphc.ir.machine import GpuMachine
from graphc.ir.types import bound_elements
from graphc.ops.contraction import STRETCH, MatmulParams
from graphc.ops.epilogue import product_groups
from graphc.ops.schedules import GPU_TILES, GpuTiling, ProductSchedule
from graphc.support.diagnostics import fail

MOST_SUM_BYTES = 65536
"""Of the sums of a tile: 64 registers a thread."""

SPLIT_BYTES = 64 * 1024 * 1024
"""Of the sums of all stretches: they are written and read again, which pays in a cache only."""

TILE = 1500.0
"""Nanoseconds from the begin of a tile to its first product, and from its last to the end."""

STEP = 3.0
"""Nanoseconds of a step of k at least, however few sums there are: each waits for the last."""

NEAR_BANDWIDTH = 40.0
"""Bytes a nanosecond that a multiprocessor gets from the cache that all share."""

LAUNCH = 2200.0
"""Nanoseconds from the end of a kernel to the begin of the next."""


def shared_bytes(
    tiling: GpuTiling, itemsize: int, transposes: tuple[bool, bool], *, is_long: bool
) -> int:
    """Of the shared memory of a block: the stages that copies go to, and the tile of sums, which
    lies over them if it is written at last only. As `Product::SHARED` of `text/product.cuh`."""
    pad = 16 // itemsize
    stage = 0
    for lines, by_steps in ((tiling.rows, not transposes[0]), (tiling.cols, transposes[1])):
        by_lines = tiling.depth * (lines + 8)
        stage += lines * (tiling.depth + pad) if by_steps else by_lines
    stages, tile = tiling.stages * stage, tiling.rows * (tiling.cols + 8)
    return itemsize * (stages + tile if is_long else max(stages, tile))


def tiling_of(op: Operation, machine: GpuMachine) -> GpuTiling:
    """The tiling that the schedule of a product says, or one that is chosen."""
    schedule = product_grid(op, machine)
    assert schedule.grid is not None
    return schedule.grid


def product_grid(op: Operation, machine: GpuMachine) -> ProductSchedule:
    """The schedule of a product with its tiling; itself if that is chosen already.

    Raises GraphcError (bad-schedule) for a tiling that does not fit.
    """
    schedule, form = op.schedule_as(ProductSchedule), _form_of(op)
    if schedule.grid is None:
        return replace(schedule, grid=choose_tiling(form, machine))
    if what := misfit(schedule.grid, form, machine):
        message = f"`grid` of `{op.opdef.name}` requires {what}"
        raise fail("bad-schedule", message, op.location)
    return schedule


@dataclass(frozen=True, slots=True)
class GpuProduct:
    """A product with every dim at its bound."""

    itemsize: int
    batch: int
    m: int
    n: int
    k: int
    transposes: tuple[bool, bool]

    @property
    def stretches(self) -> int:
        return max(-(-self.k // STRETCH), 1)

    @property
    def split_bytes(self) -> int:
        """Of the sums of all stretches."""
        return self.batch * self.m * self.n * self.stretches * self.itemsize

    def tiles(self, rows: int, cols: int) -> int:
        return self.batch * -(-self.m // rows) * -(-self.n // cols)


def transposes(op: Operation) -> tuple[bool, bool]:
    """Whether a product's factors are stored [k, m] and [n, k]. A single row or column lies in
    memory both ways: steps of k are neighbours then, so that many are copied at once."""
    roles, params = product_groups(op), op.params_as(MatmulParams)
    is_row, is_column = (all(dim == 1 for dim in dims) for dims in (roles.rows, roles.cols))
    return params.transpose_a and not is_row, params.transpose_b or is_column


def _form_of(op: Operation) -> GpuProduct:
    roles = product_groups(op)
    groups = (roles.batch, roles.rows, roles.cols, roles.inner)
    batch, m, n, k = (bound_elements(dims) for dims in groups)
    itemsize = op.operands[0].tensor.dtype.itemsize
    return GpuProduct(itemsize, batch, m, n, k, transposes(op))


def misfit(tiling: GpuTiling, product: GpuProduct, machine: GpuMachine) -> str:
    """What a tiling has to have that it has not, and what came; "" if it fits."""
    most = most_elements(product.itemsize)
    if tiling.rows * tiling.cols > most:
        return f"a tile of at most {most} sums, got {tiling.rows} x {tiling.cols}"
    if tiling.split and product.stretches == 1:
        return f"more than {STRETCH} steps of k where they are split, got at most {product.k}"
    if tiling.split and product.split_bytes > SPLIT_BYTES:
        return f"split sums of at most {SPLIT_BYTES} bytes, got {product.split_bytes}"
    needed = _shared(tiling, product)
    if needed > machine.shared:
        return f"at most {machine.shared} bytes of shared memory, got {needed}"
    return ""


def most_elements(itemsize: int) -> int:
    """Of a tile: its sums are in registers."""
    return MOST_SUM_BYTES // itemsize


def _shared(tiling: GpuTiling, product: GpuProduct) -> int:
    is_long = product.stretches > 1 and not tiling.split
    return shared_bytes(tiling, product.itemsize, product.transposes, is_long=is_long)


def choose_tiling(product: GpuProduct, machine: GpuMachine) -> GpuTiling:
    """What takes least time by estimate; of equals, the larger tile."""
    candidates = [
        tiling
        for shape in GPU_TILES
        for split in (False, True)
        if not misfit(tiling := _tiling(shape, split=split), product, machine)
    ]
    return min(candidates, key=lambda tiling: estimate(tiling, product, machine))


def _tiling(shape: tuple[int, int], *, split: bool) -> GpuTiling:
    """With so much under way that what is copied is there in time."""
    rows, cols = shape
    if min(rows, cols) < 32:
        return GpuTiling(rows, cols, depth=64, stages=3, split=split)
    depth = {1024: 32, 16384: 8}.get(rows * cols, 16)
    return GpuTiling(rows, cols, depth, stages=4, split=split)


def estimate(tiling: GpuTiling, product: GpuProduct, machine: GpuMachine) -> float:
    """Nanoseconds that a GPU takes for the product.

    The multiprocessor with most tiles multiplies, or is fed from the cache that all share, or waits
    for one step after another, whichever takes longest.
    """
    steps = min(product.k, STRETCH) if tiling.split else product.k
    tiles = product.tiles(tiling.rows, tiling.cols) * (product.stretches if tiling.split else 1)
    share = -(-tiles // machine.multiprocessors)
    rate = machine.gflops / machine.multiprocessors * 4 / product.itemsize
    high, wide = max(tiling.rows, 16), max(tiling.cols, 16)
    # A thread of 16 x 16 reads high / 16 + wide / 16 elements for its products.
    multiplied = 2 * (high * wide + 16 * (high + wide)) / rate
    fed = (tiling.rows + tiling.cols) * product.itemsize / NEAR_BANDWIDTH
    step = max(multiplied, fed)
    time = TILE + max(share * steps * step, steps * STEP)
    time += tiles * steps * step / machine.multiprocessors  # that others beside it would have
    if tiling.split:
        bytes_each = product.split_bytes / machine.multiprocessors
        time += LAUNCH + 2 * bytes_each / NEAR_BANDWIDTH
    return time
