"""How kernel-level operations are computed: their schedules, which change no result's meaning.

    kernel … schedule {parallel = 0, chunk = 16}          16 indices of axis 0 a chunk
    gemm … schedule {parallel = "rows", chunk = 64}       64 rows of the product, or "cols"
    gemm … schedule {parallel = "batch", chunk = 2}       2 products of those over a batch
    gemm … schedule {beside = true}                       while the product before it is computed
    loop … schedule {beside = true}                       while the loop before it runs
    kernel … schedule {parallel = 0, chunk = 16, behind = true}   each chunk right behind the one
                                                          of the operation before it
    index.… schedule {parallel = "rows", chunk = 13}      13 rows of the index and of the result
    update_rows … schedule {parallel = "numbers", chunk = 32}  32 numbers of each row
    conv … schedule {parallel = "images", chunk = 4}      4 images; `conv.data_grad`, `pool.*` too
    conv … schedule {parallel = "images", chunk = 1, column_parts = 4, feature_parts = 2}
                                                          an eighth of the result of one image
    conv.depthwise … schedule {parallel = "rows", chunk = 7}      7 rows of result images;
                                                          `conv.depthwise_data_grad` too
    conv.depthwise_weight_grad … schedule {parallel = "channels", chunk = 64}
    conv.weight_grad … schedule {parallel = "rows", chunk = 40}   40 rows of one column of weights
    conv.weight_grad … schedule {parallel = "images", chunk = 4}  4 images, their sums added at last

Chunks are computed by any threads in any order. What a chunk computes depends on the schedule and
the sizes of the call alone, so results have the same bits for any number of threads. `split-work`
decides it; without it an operation is one piece. What memory each chunk works in follows from the
schedule too (`OpDef.workspace`).

How a chunk is computed on a machine are the other fields: tiles, blocks, vectors. `choose-schedule`
decides them; a backend chooses what is left open when it writes code (docs/schedules.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from graphc.ir.codegen import ChannelProduct, Reduction, View
from graphc.ir.core import Operation
from graphc.ir.params import Params
from graphc.ops.contraction import STRETCH, MatmulParams
from graphc.ops.reduction import ReduceParams

MOST_SUMS = 256
"""Vectors of sums in a tile: its code has two instructions for each."""

MOST_LANES = 64
"""Of a vector: a schedule may be made for a wider machine than any there is."""

MOST_VECTORS = 16
"""That a turn of a nest takes."""

MOST_ROWS = 128
"""That a thread adds up one after the other on a GPU."""

MOST_PARTS = 1024
"""Of a row that is cut on a GPU."""


@dataclass(frozen=True)
class Schedule(Params):
    """`parallel`: what is cut into chunks; `chunk`: how long each is, the last may be shorter.

    behind  a chunk is computed by the same thread right behind that of the operation before it,
            which makes what it reads; there are as many (`passes/analysis/chunk_groups.py`, which
            says for what operations)
    """

    parallel: int | str | None = None
    chunk: int = 0
    behind: bool = False

    @property
    def is_parallel(self) -> bool:
        return self.parallel is not None


@dataclass(frozen=True)
class NestSchedule(Params):
    """How a loop nest of a kernel is computed.

    loops     the axes of each loop, from the outermost; the last loop is over vectors
    lanes     of a vector
    vectors   that a turn of the last loop takes
    tail      the lanes that are left over: one masked vector, where the machine masks memory, or
              one by one
    prefetch  what the first sweep reads of the next row is asked for in the second
    keep      operations of the body, counted from 0, whose values wait for a later sweep; others
              are computed again
    """

    loops: tuple[tuple[int, ...], ...] = ()
    lanes: int = 1
    vectors: int = 1
    tail: Literal["masked", "scalar"] = "scalar"
    prefetch: bool = False
    keep: tuple[int, ...] = ()


@dataclass(frozen=True)
class NestSpread(Params):
    """How a loop nest of a kernel is spread over the threads of a GPU.

    lanes    neighbouring elements that a thread reads and writes at once, as far as they lie so
    threads  that share a row whose lanes are folded, or the lanes of a sum over rows: a power of
             two up to 32, or a block; a nest without folds has no use for it
    rows     that each thread of a sum over rows adds up, at most; the sums of such parts are added
             in order. 0: all rows
    parts    pieces that each long row is folded in, by a block each, before its next sweep; 0: rows
             are not cut
    """

    lanes: int = 1
    threads: int = 1
    rows: int = 0
    parts: int = 0


@dataclass(frozen=True)
class KernelSchedule(Schedule):
    """`parallel` is an axis; `nests`, in the order in which they run, are empty if not chosen, and
    so is `spread`, which is theirs on a GPU."""

    parallel: int | None = None
    nests: tuple[NestSchedule, ...] = ()
    spread: tuple[NestSpread, ...] = ()


ReadA = Literal["in place", "packed", "prepacked"]
"""How tiles get A: from where it lies; from a copy of the rows and steps at hand; or from one of
all of it, in the operation's workspace, made before its chunks (`prepacking.py`)."""

ReadB = Literal[
    "in place", "packed by tiles", "packed", "transposed by tiles", "panels", "prepacked"
]
"""How tiles get B: from where it lies; through a panel, which the tiles of the first rows fill or
which is filled before; from columns, which the tiles transpose; from panels that whoever binds
the function has made of a parameter; or from panels of all of it, in the operation's workspace."""


@dataclass(frozen=True)
class Tiling(Params):
    """How a range of a product's rows and columns is computed.

    rows, vectors  of a tile, whose sums are in registers
    lanes          of a vector
    depth          steps of k in a panel of B; 0: all
    block          rows of C that one panel serves before the next; 0: all
    a              how tiles get A
    b              how tiles get B
    prefetch       steps of k before its use that a row of B is fetched; of tiles that transpose B:
                   rows of B; of panels: lines of the next one that each step of a tile asks for;
                   0: the processor does so
    prefetch_level of the cache that it is fetched into
    prefetch_c     a tile's part of C is fetched before its sums begin
    """

    rows: int
    vectors: int
    lanes: int
    depth: int = 0
    block: int = 0
    a: ReadA = "in place"
    b: ReadB = "in place"
    prefetch: int = 0
    prefetch_level: int = 2
    prefetch_c: bool = False


@dataclass(frozen=True)
class GpuTiling(Params):
    """How the blocks of a GPU compute a product.

    rows, cols  of a tile, which a block computes
    depth       steps of k that are copied at once
    stages      that there is room for: all but one are copied ahead
    split       each stretch of k (`ops.contraction.STRETCH`) is a tile of its own; they are added
                up afterwards
    """

    rows: int
    cols: int
    depth: int
    stages: int
    split: bool = False


GPU_TILES = (
    *((128, 128), (128, 64), (64, 128), (64, 64), (64, 32), (32, 64), (32, 32)),
    *((4, 128), (4, 64), (4, 32), (128, 4), (64, 4), (32, 4)),
)
"""Rows and columns that tiles of a GPU may have."""

WINDOW_TILES = (
    *((128, 128), (128, 64), (64, 64), (128, 32), (64, 32), (32, 32)),
    *((128, 16), (64, 16), (32, 16)),
)
"""The same of products with windows."""

GPU_DEPTHS = (8, 16, 32, 64)
"""Steps of k that may be copied at once: a stretch is so many of them."""

MOST_STAGES = 8


@dataclass(frozen=True)
class ProductSchedule(Schedule):
    """How a product is computed.

    beside    computed whole at the same time as the product before it, which has the same first
              factor and is whole too; between them are views alone
    tile      the range of a call
    few_rows  one or two rows, which only the call tells
    last      a last chunk of columns that is shorter than the others
    pairs     factors are copied as pairs of bf16, whose dot product is one instruction; where the
              function says `contraction bf16`
    amx       pairs are multiplied in the registers of AMX
    body      the nest of a body, over chunks of the product
    grid      on a GPU, where the others have no meaning

    A product without a `tile`, or a `grid`, gets one when code is written.
    """

    parallel: Literal["rows", "cols", "batch"] | None = None
    beside: bool = False
    tile: Tiling | None = None
    few_rows: Tiling | None = None
    last: Tiling | None = None
    pairs: bool = False
    amx: bool = False
    body: NestSchedule | None = None
    grid: GpuTiling | None = None


@dataclass(frozen=True)
class LoopSchedule(Params):
    """`beside`: the loop runs at the same time as the loop right before it, which it does not wait
    for. Each of such loops is computed by one thread, its steps in one piece."""

    beside: bool = False


@dataclass(frozen=True)
class LaneSchedule(Params):
    """Of what has nothing to choose but the lanes of a vector; 0 lanes: not chosen."""

    lanes: int = 0


@dataclass(frozen=True)
class LookupSchedule(Schedule):
    """Of a sum of looked up products; a chunk is of so many rows of the result. 0 lanes: not
    chosen."""

    parallel: Literal["rows"] | None = None
    lanes: int = 0


@dataclass(frozen=True)
class RowUpdateSchedule(Schedule):
    """Of a learner's update of rows; a chunk is of so many numbers of each. 0 lanes: not chosen."""

    parallel: Literal["numbers"] | None = None
    lanes: int = 0


@dataclass(frozen=True)
class CopySchedule(Params):
    """`nest`: over all elements; None: not chosen."""

    nest: NestSchedule | None = None


@dataclass(frozen=True)
class ImagesSchedule(Schedule):
    """Of what goes over images one by one, in vectors of `lanes`; 0: not chosen."""

    parallel: Literal["images"] | None = None
    lanes: int = 0


@dataclass(frozen=True)
class ChannelSchedule(Schedule):
    """Of what has channels in its lanes, rows of result images or channels in chunks; 0 lanes: not
    chosen."""

    parallel: Literal["rows", "channels"] | None = None
    lanes: int = 0


@dataclass(frozen=True)
class ConvTile(Params):
    """In blocks of `columns` columns of output positions, panels of `vectors` vectors have tiles of
    so many columns and rows of output positions. Of weights: so many columns of a window, and
    elements of each."""

    columns: int
    vectors: int
    tile: tuple[int, ...]


@dataclass(frozen=True)
class WindowTile(Params):
    """How a GPU computes a product with windows: a block has `rows` x `columns` of its sums.

    depth   steps that are copied at once
    stages  that there is room for: all but one are copied ahead
    part    steps of a sum that one tile takes, results of parts are added up afterwards; 0: all
    """

    rows: int
    columns: int
    depth: int
    stages: int
    part: int = 0


@dataclass(frozen=True)
class ConvSchedule(ImagesSchedule):
    """Of a convolution, or the gradient to its images; `columns` of output positions in a block, at
    most. `grid` is all there is for a GPU.

    column_parts, feature_parts  of the result of one image, whose product is the number of chunks
                                 that it is cut into: neighbouring columns, neighbouring features
    winograd     by tiles of 2 x 2 results in place of `tiles` (`backends/loops/winograd.py`)
    transformed  the weights are a parameter that lies as this algorithm transforms it
    prefetch     rows of the weights before its use that a row is asked for; of a convolution
    """

    column_parts: int = 1
    feature_parts: int = 1
    winograd: bool = False
    transformed: bool = False
    prefetch: int = 0
    columns: int = 0
    tiles: tuple[ConvTile, ...] = ()
    grid: WindowTile | None = None

    @property
    def parts(self) -> int:
        """Of the result of one image."""
        return self.column_parts * self.feature_parts


@dataclass(frozen=True)
class WeightGradSchedule(Schedule):
    """Of a convolution's gradient to its weights; a chunk of rows is of one column of a window.

    lanes, winograd, columns, tiles, grid  as of a convolution
    pack                   panels of the output positions are copied: their own rows are far apart
    """

    parallel: Literal["rows", "images"] | None = None
    lanes: int = 0
    winograd: bool = False
    columns: int = 0
    tiles: tuple[ConvTile, ...] = ()
    pack: bool = False
    grid: WindowTile | None = None


def schedule_of(op: Operation) -> Schedule | None:
    """The schedule of an operation that is cut into chunks; None for one piece."""
    found = op.schedule
    return found if isinstance(found, Schedule) and found.is_parallel else None


def can_be_beside(op: Operation) -> bool:
    """Whether a product may be computed at the same time as the one before it.

    What both read lives as long as either of them, so that no result lies where the other reads.
    """
    before = product_before(op)
    return before is not None and (
        all(schedule_of(p) is None and p.operands[1].op is None for p in (before, op))
        and before.operands[0] is op.operands[0]
    )


def product_before(op: Operation) -> Operation | None:
    """The product right before an operation, but for views; None where something else is."""
    before = operation_before(op)
    is_product = before is not None and isinstance(before.schedule, ProductSchedule)
    return before if is_product and before is not None and not before.regions else None


def operation_before(op: Operation) -> Operation | None:
    """The operation right before another one, but for views."""
    before = op.previous
    while before is not None and isinstance(before.opdef.codegen, View):
        before = before.previous
    return before


def operation_after(op: Operation) -> Operation | None:
    """The operation right after another one, but for views."""
    after = op.next
    while after is not None and isinstance(after.opdef.codegen, View):
        after = after.next
    return after


def has_one_beside(op: Operation) -> bool:
    """Whether the product or loop after this one is computed at the same time."""
    after = operation_after(op)
    return after is not None and is_beside(after)


def is_beside(op: Operation) -> bool:
    """Whether a product or loop is computed at the same time as the one before it."""
    return isinstance(op.schedule, ProductSchedule | LoopSchedule) and op.schedule.beside


def is_behind(op: Operation) -> bool:
    """Whether each chunk is computed right behind that of the operation before it."""
    return isinstance(op.schedule, Schedule) and op.schedule.behind


def has_one_behind(op: Operation) -> bool:
    """Whether chunks of the next operation are computed right behind those of this one."""
    after = operation_after(op)
    return after is not None and is_behind(after)


def check_loop_schedule(op: Operation) -> Iterable[str]:
    """What is wrong with the schedule of a loop."""
    if not op.schedule_as(LoopSchedule).beside:
        return
    before = op.previous
    if before is None or before.opdef is not op.opdef:
        yield "`beside` requires a loop right before it"
        return
    together = [before]
    while is_beside(before) and before.previous is not None:
        before = before.previous
        together.append(before)
    if any(v.op in together for v in op.operands):
        yield "`beside` requires a loop that waits for none of those that run at the same time"


def check_schedule(op: Operation) -> Iterable[str]:
    """What is wrong with the schedule of `op`, as far as it does not depend on how it is used."""
    if isinstance(op.schedule, ProductSchedule):
        for name in ("tile", "few_rows", "last"):
            tiling: Tiling | None = getattr(op.schedule, name)
            if tiling is not None:
                yield from (f"`{name}` requires {what}" for what in _check_tiling(tiling))
        if op.schedule.grid is not None:
            yield from (f"`grid` requires {what}" for what in _check_gpu_tiling(op.schedule.grid))
        if op.schedule.beside and not can_be_beside(op):
            yield (
                "`beside` requires a product of the same first factor before it, both in one piece "
                "and with arguments as their second factors"
            )
    if isinstance(op.schedule, ConvSchedule | WeightGradSchedule):
        grid = op.schedule.grid
        for tile in op.schedule.tiles:
            yield from _check_conv_tile(tile)
        if grid is not None:
            yield from (f"`grid` requires {what}" for what in _check_window_tile(grid))
    if isinstance(op.schedule, _WITH_LANES) and op.schedule.lanes:
        yield from (f"a schedule requires {what}" for what in _check_lanes(op.schedule.lanes))
    if isinstance(op.schedule, KernelSchedule):
        for spread in op.schedule.spread:
            yield from (f"a spread requires {what}" for what in _check_spread(spread))
    for nest in nest_schedules(op.schedule):
        yield from (f"a nest requires {what}" for what in _check_nest(nest))
    schedule = schedule_of(op)
    if schedule is None:
        if isinstance(op.schedule, Schedule) and (op.schedule.chunk or op.schedule.behind):
            yield "a schedule with a chunk says what is cut into them: `parallel`"
        return
    if schedule.chunk < 1:
        yield f"a chunk is at least 1 long, got {schedule.chunk}"
    elif isinstance(schedule, ProductSchedule):
        has_batch = isinstance(op.params, MatmulParams) and op.params.batch > 0
        if has_batch != (schedule.parallel == "batch"):
            yield 'products over a batch, and only those, are cut by it: parallel = "batch"'
    elif isinstance(schedule, KernelSchedule):
        yield from _check_axis(op, schedule)
    elif isinstance(op.opdef.codegen, ChannelProduct):
        yield from _check_channels(op, op.opdef.codegen, schedule)


_WITH_LANES = (
    LaneSchedule
    | LookupSchedule
    | RowUpdateSchedule
    | ImagesSchedule
    | ChannelSchedule
    | WeightGradSchedule
)


def _check_channels(op: Operation, codegen: ChannelProduct, schedule: Schedule) -> Iterable[str]:
    by_channels = codegen.role == "weight_grad"
    channels = op.operands[0].tensor.dims[-1]
    if by_channels != (schedule.parallel == "channels"):
        yield 'sums of weights, and only those, are cut by channels: parallel = "channels"'
    elif by_channels and isinstance(channels, int) and channels % schedule.chunk:
        yield f"a chunk has to divide the {channels} channels, got {schedule.chunk}"


def _check_tiling(tiling: Tiling) -> Iterable[str]:
    rows, vectors, lanes = tiling.rows, tiling.vectors, tiling.lanes
    if min(rows, vectors) < 1 or rows * vectors > MOST_SUMS:
        yield f"1 to {MOST_SUMS} vectors of sums, got {rows} rows of {vectors}"
    yield from _check_lanes(lanes)
    if min(tiling.depth, tiling.block, tiling.prefetch) < 0:
        yield "a depth, a block and a prefetch of 0 or more"
    if tiling.prefetch_level not in (1, 2):
        yield f"a prefetch_level of 1 or 2, got {tiling.prefetch_level}"


def _check_gpu_tiling(tiling: GpuTiling) -> Iterable[str]:
    if (tiling.rows, tiling.cols) not in GPU_TILES:
        known = ", ".join(f"{rows} x {cols}" for rows, cols in GPU_TILES)
        yield f"rows x cols out of {known}, got {tiling.rows} x {tiling.cols}"
    if tiling.depth not in GPU_DEPTHS:
        yield f"a depth out of {', '.join(map(str, GPU_DEPTHS))}, got {tiling.depth}"
    if not 2 <= tiling.stages <= MOST_STAGES:
        yield f"2 to {MOST_STAGES} stages, got {tiling.stages}"


def nest_schedules(schedule: Params) -> tuple[NestSchedule, ...]:
    """Those of a kernel, of the body of a product, or of a copy."""
    match schedule:
        case KernelSchedule(nests=nests):
            return nests
        case (
            ProductSchedule(body=NestSchedule() as nest) | CopySchedule(nest=NestSchedule() as nest)
        ):
            return (nest,)
        case _:
            return ()


def _check_conv_tile(tile: ConvTile) -> Iterable[str]:
    if len(tile.tile) != 2 or min(tile.tile) < 1 or tile.vectors < 1:
        yield f"a tile requires two lengths of 1 or more, got {list(tile.tile)}"
    elif tile.tile[0] * tile.tile[1] * tile.vectors > MOST_SUMS:
        yield f"a tile requires at most {MOST_SUMS} vectors of sums, got {list(tile.tile)}"


def _check_window_tile(tile: WindowTile) -> Iterable[str]:
    if (tile.rows, tile.columns) not in WINDOW_TILES:
        known = ", ".join(f"{rows} x {columns}" for rows, columns in WINDOW_TILES)
        yield f"rows x columns out of {known}, got {tile.rows} x {tile.columns}"
    if tile.depth not in GPU_DEPTHS:
        yield f"a depth out of {', '.join(map(str, GPU_DEPTHS))}, got {tile.depth}"
    if not 2 <= tile.stages <= MOST_STAGES:
        yield f"2 to {MOST_STAGES} stages, got {tile.stages}"
    if tile.part < 0 or tile.part % STRETCH:
        yield f"parts of a multiple of {STRETCH} steps, got {tile.part}"


def _check_nest(nest: NestSchedule) -> Iterable[str]:
    yield from _check_lanes(nest.lanes)
    if not 1 <= nest.vectors <= MOST_VECTORS:
        yield f"1 to {MOST_VECTORS} vectors a turn, got {nest.vectors}"
    if sorted(set(nest.keep)) != list(nest.keep):
        yield f"kept operations in order, got {list(nest.keep)}"


def _check_spread(spread: NestSpread) -> Iterable[str]:
    if spread.lanes not in (1, 2, 4, 8, 16):
        yield f"1, 2, 4, 8 or 16 lanes, got {spread.lanes}"
    if spread.threads not in (1, 2, 4, 8, 16, 32, 256):
        yield f"1, 2, 4, 8, 16, 32 or 256 threads, got {spread.threads}"
    if not 0 <= spread.rows <= MOST_ROWS:
        yield f"0 to {MOST_ROWS} rows, got {spread.rows}"
    if not 0 <= spread.parts <= MOST_PARTS:
        yield f"0 to {MOST_PARTS} parts, got {spread.parts}"


def _check_lanes(lanes: int) -> Iterable[str]:
    if not 1 <= lanes <= MOST_LANES or lanes & (lanes - 1):
        yield f"lanes that are a power of two, at most {MOST_LANES}, got {lanes}"


def _check_axis(op: Operation, schedule: KernelSchedule) -> Iterable[str]:
    axis, rank = schedule.parallel, len(op.results[0].tensor.dims) if op.results else 0
    if axis is None or not 0 <= axis < rank:
        yield f"a schedule of a kernel cuts one of {rank} axes, got {axis}"
    elif axis in folded_axes(op):
        yield f"axis {axis} cannot be cut: something is folded over it"


def folded_axes(kernel: Operation) -> frozenset[int]:
    """The axes that some reduction in the body folds."""
    found: set[int] = set()
    for region in kernel.regions:
        for op in region.block:
            if isinstance(op.opdef.codegen, Reduction) and isinstance(op.params, ReduceParams):
                dims = op.operands[0].tensor.dims
                found.update(a for a in op.params.axes if dims[a] != 1)
    return frozenset(found)
