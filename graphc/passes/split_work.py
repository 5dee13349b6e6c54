"""Says how the work of kernels and products is cut into chunks, for threads to share.

    %0 = gemm %x, %w : tensor<256x512xf32>
    %1 = kernel %0, %b : tensor<256x512xf32> {
 =>
    %0 = gemm %x, %w schedule {parallel = "cols", chunk = 64} : tensor<256x512xf32>
    %1 = kernel %0, %b schedule {parallel = 0, chunk = 32} : tensor<256x512xf32> {

Chunks are fixed by the extents' bounds and the cost model (`analysis/work.py`), never by the number
of threads, so that results have the same bits for any number. Only what takes `GRAIN_NS` or more is
cut, into chunks of `CHUNK_NS` or more: handing chunks out costs about a microsecond an operation.

A kernel is cut along its outermost axis that nothing is folded over, or along a longer one where
that is short; so sums over samples are cut along their columns and no chunk adds to another's. A
product is cut by columns; by rows where its first factor is transposed, which is packed row by row,
and where there are too few columns: so no chunk packs what another has packed. Where that factor is
large, chunks are longer, as each fetches it anew. Products over a batch are handed out whole.
Convolutions and poolings are cut by images, the result of a convolution for one image into parts
where there are few images, the gradient of a convolution to its weights by rows of these. With
zeros around the images, which each chunk copies, there are fewer chunks; and the gradient is cut by
images where it stays in a cache from one image to the next. Lookups are cut by the rows of
their result, updates of rows by the numbers of each. Loops' bodies are
cut too, but for those of loops that run at the same time as others (`schedule-loops`).

Short products are shared where a call has enough of them, in a loop say, by threads that are awake:
those with one first factor, such as the gates of a cell, are computed at the same time, each whole,
and others of few rows are cut by columns.

    %i = gemm %h, %Wi : tensor<1x300xf32>
    %f = gemm %h, %Wf : tensor<1x300xf32>
 =>
    %f = gemm %h, %Wf schedule {beside = true} : tensor<1x300xf32>

Kernels below the grain are cut where they read the result of what is cut: its threads are awake.

Leaves alone: rearrangements, functions with a memory plan. O(operations).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from graphc.ir.codegen import Loop, View, WindowProduct
from graphc.ir.context import Context
from graphc.ir.core import Block, Function, Module, Operation, Value
from graphc.ir.traversal import function_of, straight_blocks
from graphc.ir.types import TensorType, bound_elements, bound_of
from graphc.ops.contraction import MatmulParams, groups
from graphc.ops.convolution import (
    CONV,
    column_rows,
    conv_shape,
)
from graphc.ops.depthwise import DepthwiseParams, DepthwiseWeightGradParams, depthwise_shape
from graphc.ops.kernel import GEMM
from graphc.ops.loop import loop_parts
from graphc.ops.schedules import (
    ChannelSchedule,
    ConvSchedule,
    ImagesSchedule,
    KernelSchedule,
    LookupSchedule,
    ProductSchedule,
    RowUpdateSchedule,
    Schedule,
    WeightGradSchedule,
    can_be_beside,
    folded_axes,
    has_one_beside,
    is_beside,
    product_before,
    schedule_of,
)
from graphc.ops.update_rows import block_of, row_update, row_width
from graphc.passes.analysis.iteration import kernel_space, walked_axis
from graphc.passes.analysis.window_products import (
    by_windows,
    by_winograd,
    largest_divisor,
    whole_panels,
)
from graphc.passes.analysis.winograd import suits_winograd, winograd_parts
from graphc.passes.analysis.work import (
    COLUMNS,
    EVEN_ROWS,
    ROWS,
    even_length,
    images_ns,
    kernel_ns,
    lookups_ns,
    product_ns,
    row_update_ns,
)
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome

GRAIN_NS = 20_000.0
"""Less work than this stays in one piece."""

CHUNK_NS = 8_000.0
"""The least work of a chunk."""

SHORT_CALL_NS = 8_000.0
"""Products below the grain are shared where they add up to this in a call: to hand out what threads
that are awake compute takes a fifth of a microsecond, and no others are woken for so little."""

SHORT_NS = 3_000.0
"""Shorter products stay alone there too."""

SHORT_CHUNK_NS = 4_000.0
"""The least work of a chunk of a short product."""

SHORT_KERNEL_NS = 6_000.0
"""Kernels from this on are cut behind what is cut: threads are awake then."""

SHORT_KERNEL_CHUNK_NS = 3_000.0
"""The least work of a chunk of those."""

SHORT_ROWS = 8
"""A short product of more rows is not cut."""

MOST_PARTS = 128
"""Of a kernel or a batch: more would only make each shorter."""

MOST_PRODUCT_PARTS = 8
"""Of a product: each chunk reads, and where it is transposed copies, one factor anew."""

MOST_LOOKUP_PARTS = 8
"""Of lookups: each chunk walks over the table or the index anew."""

MOST_UPDATE_PARTS = 8
"""Of an update of rows: each has sums of its own, and walks over the index anew."""

NEAR_BYTES = 262144
"""A factor up to this size is in a near cache when the next chunk reads it."""

FAR_PART = 80
"""Rows or columns of a chunk that reads a larger factor, where two chunks have as many: fewer would
compute little with what they read."""

BF16_FAR_PART = 160
"""The same where factors are numbers of bf16: a machine may copy both for each chunk, and multiply
twice as fast."""

FEW = 8
"""An axis with fewer chunks than this is not taken if another one has more."""

LINE_BYTES = 64
"""Chunks of the innermost axis are whole cache lines, so that no two threads write to one line."""

MOST_PADDED_PARTS = 16
"""Of a convolution with zeros around its images: each chunk clears memory for one."""

MOST_IMAGE_PARTS = 16
"""Of a convolution's result for one image, where there are few images."""

IMAGE_PART_NS = 15_000.0
"""Of one of them, at least: they are handed out in two steps where there are zeros to copy."""

LEAST_COLUMNS = 2
"""Of output positions in a part: a tile has several."""

MOST_COPYING_PARTS = 8
"""Of a gradient to weights with zeros around the images: each chunk copies all images, or has sums
of its own."""

FAR_SUMS_BYTES = 2097152
"""Sums of weights from this size on leave the caches between two images: there chunks are rows of
them, which pays for copying all images for each."""

LEAST_ROWS = 24
"""Rows of a chunk of a convolution's weights: a few tiles, as every chunk reads all of the result's
slopes."""


def split_function(function: Function) -> int:
    """Write the schedules of a fused function; how many operations are cut."""
    count = 0
    in_chunks: set[Value] = set()
    for op in (op for block in _shared_blocks(function) for op in block):
        schedule = chunks(op)
        reads_chunks = any(v in in_chunks for v in op.operands)
        if reads_chunks and isinstance(schedule, KernelSchedule) and not schedule.is_parallel:
            schedule = kernel_chunks(op, SHORT_KERNEL_NS, SHORT_KERNEL_CHUNK_NS)
        is_view = isinstance(op.opdef.codegen, View)
        if (reads_chunks and is_view) or (schedule is not None and schedule.is_parallel):
            in_chunks |= set(op.results)
        if schedule is not None:
            # Who has other chunks is behind nobody, until `fuse-chunks` says so.
            changes = {"parallel": schedule.parallel, "chunk": schedule.chunk, "behind": False}
            if isinstance(schedule, ConvSchedule):
                parts = schedule.column_parts, schedule.feature_parts
                changes |= {"column_parts": parts[0], "feature_parts": parts[1]}
            op.schedule = replace(op.schedule, **changes)
            count += schedule.is_parallel
    return count + _share_short_products(function)


def _share_short_products(function: Function) -> int:
    """Write the schedules of products below the grain, if a call has enough of them; how many."""
    work = 0.0
    shared: dict[Operation, ProductSchedule] = {}
    for block, steps in _blocks(function.block, 1):
        short = {op: ns for op in block if (ns := _short_ns(op))}
        members: set[Operation] = set()
        for op in short:
            before = product_before(op)
            if before in short and can_be_beside(op):
                shared[op] = replace(op.schedule_as(ProductSchedule), beside=True)
                members |= {before, op}
        for op in short.keys() - members:
            if length := _short_chunk(op, short[op]):
                shared[op] = replace(op.schedule_as(ProductSchedule), parallel="cols", chunk=length)
                members.add(op)
        work += steps * sum(short[op] for op in members)
    if work < SHORT_CALL_NS:
        return 0
    for op, schedule in shared.items():
        op.schedule = schedule
    return len(shared)


def _shared_blocks(function: Function) -> Iterator[Block]:
    """The function's block and those of loops that all threads compute."""
    return (block for block, _ in _blocks(function.block, 1))


def _has_own_thread(loop: Operation) -> bool:
    return is_beside(loop) or has_one_beside(loop)


def _blocks(block: Block, steps: int) -> Iterator[tuple[Block, int]]:
    """The block and those of its loops, each with how often a call comes to it."""
    yield block, steps
    for op in block:
        if isinstance(op.opdef.codegen, Loop) and not _has_own_thread(op):
            yield from _blocks(op.regions[0].block, steps * bound_of(loop_parts(op).params.count))


def _short_ns(op: Operation) -> float:
    """Of a product in one piece that may be worth sharing; 0 of other operations."""
    if op.opdef is not GEMM or schedule_of(op) is not None:
        return 0.0
    params, (a, b) = op.params_as(MatmulParams), (v.tensor for v in op.operands[:2])
    work = product_ns(groups(params, a, b), a.dtype.itemsize)
    return 0.0 if params.batch or work < SHORT_NS else work


def _short_chunk(op: Operation, work: float) -> int:
    """Columns of the equal chunks of a product of few rows; 0 where it stays whole."""
    a, b = (v.tensor for v in op.operands[:2])
    roles = groups(op.params_as(MatmulParams), a, b)
    rows, cols = (bound_elements(dims) for dims in (roles.rows, roles.cols))
    line = LINE_BYTES // a.dtype.itemsize
    parts = min(int(work / SHORT_CHUNK_NS), cols // line)
    if rows > SHORT_ROWS or parts < 2:
        return 0
    length = even_length(cols, cols // parts, line)
    return length if cols % length == 0 else 0


def chunks(op: Operation) -> Schedule | None:
    """How to cut an operation; None for one that this pass does not schedule."""
    match op.schedule:
        case KernelSchedule():
            return kernel_chunks(op)
        case ProductSchedule() if op.opdef is GEMM:
            return product_chunks(op)
        case ImagesSchedule():
            return image_chunks(op)
        case ChannelSchedule():
            return channel_chunks(op)
        case WeightGradSchedule():
            return weight_chunks(op)
        case LookupSchedule():
            return lookup_chunks(op)
        case RowUpdateSchedule():
            return row_update_chunks(op)
        case _:
            return None


def kernel_chunks(
    kernel: Operation, grain: float = GRAIN_NS, least: float = CHUNK_NS
) -> KernelSchedule:
    """How to cut a kernel."""
    work = kernel_ns(kernel)
    if work < grain or not kernel.results:
        return KernelSchedule()
    space = kernel_space(kernel)
    folded = folded_axes(kernel)
    free = [axis for axis, dim in enumerate(space) if axis not in folded and bound_of(dim) > 1]
    if not free:
        return KernelSchedule()
    axis = next((a for a in free if bound_of(space[a]) >= FEW), None)
    if axis is None:
        axis = max(free, key=lambda a: bound_of(space[a]))
    extent = bound_of(space[axis])
    multiple = _line(kernel) if all(dim == 1 for dim in space[axis + 1 :]) else 1
    length = _length(extent, work, MOST_PARTS, multiple, least)
    return KernelSchedule(axis, length) if length < extent else KernelSchedule()


def product_chunks(product: Operation) -> ProductSchedule:
    """How to cut a matrix product."""
    params = product.params_as(MatmulParams)
    a, b = (v.tensor for v in product.operands[:2])
    roles = groups(params, a, b)
    work = product_ns(roles, a.dtype.itemsize)
    if work < GRAIN_NS:
        return ProductSchedule()
    if params.batch:
        batch = bound_elements(roles.batch)
        length = _length(batch, work, MOST_PARTS, 1)
        return ProductSchedule("batch", length) if length < batch else ProductSchedule()
    rows, cols = (bound_elements(dims) for dims in (roles.rows, roles.cols))
    function = function_of(product)
    is_rounded = function is not None and function.contraction == "bf16"
    far_part = BF16_FAR_PART if is_rounded else FAR_PART
    most_cols, most_rows = _most_chunks(cols, a, far_part), _most_chunks(rows, b, far_part)
    by_cols = even_length(cols, _length(cols, work, most_cols, COLUMNS), COLUMNS)
    by_rows = even_length(rows, _length(rows, work, most_rows, ROWS), EVEN_ROWS)
    chunks_of_cols, chunks_of_rows = -(-cols // by_cols), -(-rows // by_rows)
    first = chunks_of_rows if params.transpose_a else chunks_of_cols
    if max(chunks_of_rows, chunks_of_cols) < 2:
        return ProductSchedule()
    others = chunks_of_cols if params.transpose_a else chunks_of_rows
    by_first = first >= FEW or first >= others
    if by_first == params.transpose_a:
        return ProductSchedule("rows", by_rows)
    return ProductSchedule("cols", by_cols)


def _most_chunks(extent: int, read: TensorType, far_part: int) -> int:
    """Of a product's rows or columns, where each chunk reads all of the other factor."""
    size = bound_elements(read.dims) * read.dtype.itemsize
    if size <= NEAR_BYTES:
        return MOST_PRODUCT_PARTS
    return min(MOST_PRODUCT_PARTS, max(extent // far_part, 2))


def lookup_chunks(op: Operation) -> LookupSchedule:
    """How to cut a sum of looked up products."""
    work = lookups_ns(op)
    rows = bound_of(op.result.tensor.dims[0])
    if work < GRAIN_NS:
        return LookupSchedule()
    length = _length(rows, work, MOST_LOOKUP_PARTS, 1)
    return LookupSchedule("rows", length) if length < rows else LookupSchedule()


def row_update_chunks(op: Operation) -> RowUpdateSchedule:
    """How to cut a learner's update of rows."""
    work, update = row_update_ns(op), row_update(op)
    width = bound_of(row_width(update))
    if work < GRAIN_NS:
        return RowUpdateSchedule()
    length = _length(width, work, MOST_UPDATE_PARTS, block_of(update.params))
    return RowUpdateSchedule("numbers", length) if length < width else RowUpdateSchedule()


def image_chunks(op: Operation) -> ImagesSchedule:
    """How to cut what goes over images one by one."""
    work = images_ns(op)
    if work < GRAIN_NS:
        return ImagesSchedule()
    dims = op.operands[0].tensor.dims[: walked_axis(op)]
    images = bound_elements(dims)
    across, features = image_parts(op, work / images) if 0 < images < FEW else (1, 1)
    if across * features > 1:
        return ConvSchedule("images", 1, column_parts=across, feature_parts=features)
    length = _length(images, work, MOST_PADDED_PARTS if _is_padded(op) else MOST_PARTS, 1)
    return ImagesSchedule("images", length) if length < images else ImagesSchedule()


def channel_chunks(op: Operation) -> ChannelSchedule:
    """How to cut a depthwise convolution: by rows of its result, its gradient to the weights by
    channels in whole cache lines."""
    work = images_ns(op)
    if work < GRAIN_NS:
        return ChannelSchedule()
    shape = depthwise_shape(op.params, [v.type for v in op.operands])
    if isinstance(op.params, DepthwiseWeightGradParams):
        line, channels = LINE_BYTES // op.result.tensor.dtype.itemsize, shape.channels
        if channels % line:
            return ChannelSchedule()
        least = _length(channels, work, MOST_PARTS, line)
        length = next(n for n in range(least, channels + 1, line) if channels % n == 0)
        return ChannelSchedule("channels", length) if length < channels else ChannelSchedule()
    walked = shape.places if isinstance(op.params, DepthwiseParams) else shape.extents
    rows = bound_elements(shape.lead) * (walked[0] if len(walked) > 1 else 1)
    length = _length(rows, work, MOST_PARTS, 1)
    return ChannelSchedule("rows", length) if length < rows else ChannelSchedule()


def image_parts(op: Operation, work: float) -> tuple[int, int]:
    """How to cut the result of a convolution for one image, which takes so many ns: into how many
    parts of columns and of features.

    Parts of columns read all weights each, parts of features all of the image: the smaller of the
    two is read again and again.
    """
    wanted = min(MOST_IMAGE_PARTS, int(work / IMAGE_PART_NS))
    if op.opdef is not CONV or wanted < 2:
        return 1, 1
    shape = conv_shape(op.params, [v.type for v in op.operands])
    what = by_winograd(op)
    if suits_winograd(what):
        return winograd_parts(what, wanted)
    panels = whole_panels(what)
    columns = shape.output_positions[0] // LEAST_COLUMNS if len(shape.sizes) > 1 else 1
    image = math.prod((*shape.extents, *shape.channels))
    weights = math.prod((*shape.sizes, *shape.channels, *shape.features))
    if weights > image:
        features = largest_divisor(panels, wanted)
        return max(1, min(columns, wanted // features)), features
    across = max(1, min(columns, wanted))
    return across, largest_divisor(panels, wanted // across)


def _is_padded(op: Operation) -> bool:
    if not isinstance(op.opdef.codegen, WindowProduct):
        return False
    what = by_winograd(op)
    return (what if suits_winograd(what) else by_windows(op)).is_padded


def weight_chunks(op: Operation) -> WeightGradSchedule:
    """How to cut a convolution's gradient to its weights: by rows of these, or by images, as
    Winograd's algorithm needs it."""
    work = images_ns(op)
    if work < GRAIN_NS:
        return WeightGradSchedule()
    shape = conv_shape(op.params, [v.type for v in op.operands])
    images = bound_elements(shape.lead)
    chunk = _length(images, work, MOST_COPYING_PARTS, 1)
    if suits_winograd(by_winograd(op)):
        return WeightGradSchedule("images", chunk) if chunk < images else WeightGradSchedule()
    column = column_rows(shape)
    rows = column * math.prod(shape.sizes[:-1])
    most = min(work / CHUNK_NS, MOST_COPYING_PARTS if shape.is_padded else rows)
    lengths = [n for n in range(min(column, LEAST_ROWS), column + 1) if column % n == 0]
    length = next((n for n in lengths if rows / n <= most), rows)
    by_rows = WeightGradSchedule("rows", length) if length < rows else WeightGradSchedule()
    weights = rows * math.prod(shape.features) * op.operands[0].tensor.dtype.itemsize
    is_far = weights > FAR_SUMS_BYTES
    if not shape.is_padded or chunk >= images or (is_far and by_rows.is_parallel):
        return by_rows
    return WeightGradSchedule("images", chunk)


def _length(extent: int, work: float, most: int, multiple: int, least: float = CHUNK_NS) -> int:
    """Of chunks that each do enough, all of about the same length."""
    parts = max(min(int(work / least), most, -(-extent // multiple)), 1)
    return -(-extent // parts // multiple) * multiple


def _line(kernel: Operation) -> int:
    """Elements of a cache line, of the smallest result."""
    return LINE_BYTES // min(v.tensor.dtype.itemsize for v in kernel.results)


@dataclass(frozen=True)
class SplitWork(Pass):
    name: ClassVar[str] = "split-work"
    summary: ClassVar[str] = "say how kernels and products are cut into chunks for threads"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.FUSED})
    establishes: ClassVar[frozenset[Invariant]] = frozenset({Invariant.FUSED})

    def run(self, module: Module, context: Context) -> PassOutcome:
        before = [op.schedule for f in module.functions for op in _operations(f)]
        todo = [f for f in module.functions if f.arena is None]
        count = sum(split_function(f) for f in todo)
        after = [op.schedule for f in module.functions for op in _operations(f)]
        return PassOutcome(changed=before != after, counters={"split": count})


def _operations(function: Function) -> list[Operation]:
    return [op for block in straight_blocks(function) for op in block]
