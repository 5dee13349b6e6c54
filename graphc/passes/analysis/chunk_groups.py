"""Which operations can be computed chunk by chunk, one right behind the other.

    %c = conv %x, %w schedule {parallel = "images", chunk = 1} : tensor<Nx24x24x16xf32>
    %p = pool %c schedule {parallel = "images", chunk = 1, behind = true} : tensor<Nx12x12x16xf32>

Chunks of both are ranges of places along the first axes of their results, and each is the same
fraction of its operation: what a chunk of the second reads of the first is what the same chunk of
the first has made, whatever views lie between. So no chunk waits for another one, and what a thread
has made is in its near cache when it reads it. Halide's `compute_at` and the fusion of parallel
loops are the same.

A group is what is computed so: an operation and those behind it, one after the other but for views.
An array that one of them makes or reads in such ranges, none of them reads all of in each chunk.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphc.ir.codegen import Contraction, FusedProduct, Kernel, View, WindowProduct
from graphc.ir.codegen import WindowReduction as Windows
from graphc.ir.core import Operation, Value
from graphc.ir.types import Dim
from graphc.ops.contraction import MatmulParams
from graphc.ops.epilogue import has_sums, product_groups
from graphc.ops.schedules import (
    ConvSchedule,
    ProductSchedule,
    Schedule,
    folded_axes,
    is_behind,
    operation_before,
    schedule_of,
)
from graphc.passes.analysis.iteration import kernel_space, walked_axis
from graphc.passes.analysis.loopnest import Size
from graphc.support.diagnostics import fail


@dataclass(frozen=True, slots=True)
class Ranges:
    """What chunks of an operation are, or could be: ranges of the first places of its results.

    parallel  what its schedule calls that
    axes      the extents of these axes
    own       for each operand whether a chunk reads its own range of it alone; else it reads all
    """

    parallel: int | str
    axes: tuple[Dim, ...]
    own: tuple[bool, ...]

    @property
    def extent(self) -> Size:
        """How many places there are."""
        return Size.of(self.axes)


def ranges_of(op: Operation) -> Ranges | None:
    """None for an operation whose chunks, if it has any, are something else."""
    match op.opdef.codegen:
        case Kernel():
            return _of_kernel(op)
        case Contraction() | FusedProduct():
            return _of_product(op)
        case WindowProduct("result" | "data_grad") | Windows():
            return _of_images(op)
        case _:
            return None


def _of_kernel(kernel: Operation) -> Ranges | None:
    space = kernel_space(kernel)
    axis = next((a for a, dim in enumerate(space) if dim != 1), None)
    if axis is None or axis in folded_axes(kernel):
        return None
    dims = [v.tensor.dims[axis] for v in kernel.operands]
    made = {v.tensor.dims[axis] for v in kernel.results}
    if made != {space[axis]} or any(dim not in (1, space[axis]) for dim in dims):
        return None
    return Ranges(axis, (space[axis],), tuple(dim != 1 for dim in dims))


def _of_product(product: Operation) -> Ranges | None:
    params, roles = product.params_as(MatmulParams), product_groups(product)
    if params.batch:
        return Ranges("batch", roles.batch, (True,) * len(product.operands))
    if product.regions and has_sums(product.regions[0].block):
        return None
    others = product.operands[2:]
    own = (v.tensor.dims[: len(roles.rows)] == roles.rows for v in others)
    return Ranges("rows", roles.rows, (not params.transpose_a, False, *own))


def _of_images(op: Operation) -> Ranges | None:
    if isinstance(op.schedule, ConvSchedule) and op.schedule.parts > 1:
        return None
    lead = op.operands[0].tensor.dims[: walked_axis(op)]
    is_product = isinstance(op.opdef.codegen, WindowProduct)
    own = (True, False) if is_product else (True,) * len(op.operands)
    return Ranges("images", lead, own)


def ranges_in_chunks(op: Operation) -> Ranges | None:
    """Those that the chunks of an operation are; None for one piece and for other chunks."""
    schedule, ranges = schedule_of(op), ranges_of(op)
    return ranges if ranges and schedule and schedule.parallel == ranges.parallel else None


def chunk_behind(ranges: Ranges, leader: Ranges, chunk: int) -> int:
    """How long chunks are that have the share of others; 0 if there are none."""
    if ranges.extent.symbols != leader.extent.symbols or 0 in (chunk, leader.extent.factor):
        return 0
    length, rest = divmod(ranges.extent.factor * chunk, leader.extent.factor)
    return 0 if rest else length


# --- groups ---------------------------------------------------------------------------------------


def root_of(value: Value) -> Value:
    """The value whose memory this one is, behind all views."""
    while value.op is not None and isinstance(value.op.opdef.codegen, View):
        value = value.op.operands[0]
    return value


class Group:
    """Operations that are computed chunk by chunk, one behind the other; first one alone."""

    def __init__(self, first: Operation, ranges: Ranges) -> None:
        self.members: list[tuple[Operation, Ranges]] = []
        self._own: set[Value] = set()
        self._whole: set[Value] = set()
        self._made: set[Value] = set()
        self.add(first, ranges)

    def add(self, op: Operation, ranges: Ranges) -> None:
        """`misfit` has found nothing."""
        own, whole = _touched(op, ranges)
        self.members.append((op, ranges))
        self._own |= own
        self._whole |= whole
        self._made |= set(op.results)

    def misfit(self, op: Operation, ranges: Ranges | None) -> str:
        """What keeps an operation from being computed behind these; "" if nothing does."""
        if ranges is None:
            return "results that are made in ranges of their first places"
        own, whole = _touched(op, ranges)
        if own.isdisjoint(self._made):
            return "an operand that those before it make"
        if whole & (self._made | self._own) or own & self._whole:
            return "chunks that read what the same chunks before them have made, and no more"
        if _reads_a_copy(op):
            return "a first factor that is not copied before all chunks"
        return ""


def _touched(op: Operation, ranges: Ranges) -> tuple[set[Value], set[Value]]:
    """What chunks read in their own ranges, and what they read all of."""
    pairs = list(zip(map(root_of, op.operands), ranges.own, strict=True))
    return {v for v, own in pairs if own}, {v for v, own in pairs if not own}


def reads_its_range(op: Operation, root: Value) -> bool:
    """Whether each chunk of an operation reads its own range alone of what lies in this memory."""
    ranges = ranges_in_chunks(op)
    return ranges is not None and root not in _touched(op, ranges)[1]


def require_behind(op: Operation) -> None:
    """Raises GraphcError (bad-schedule) where `behind` does not fit the operation."""
    if what := _misfit(op):
        message = f"`behind` in the schedule of `{op.opdef.name}` requires {what}"
        raise fail("bad-schedule", message, op.location)


def _misfit(op: Operation) -> str:
    members = [op]
    while is_behind(members[0]):
        before = operation_before(members[0])
        if before is None:
            return "an operation before it"
        members.insert(0, before)
    first, *others = members
    leader = ranges_in_chunks(first)
    if leader is None:
        return "chunks of the first operation that are ranges of its first places"
    group = Group(first, leader)
    chunk = _chunk(first)
    for member in others:
        ranges = ranges_in_chunks(member)
        if what := group.misfit(member, ranges):
            return what
        assert ranges is not None
        wanted = chunk_behind(ranges, leader, chunk)
        if not wanted:
            return "as many chunks as those before it"
        if _chunk(member) != wanted:
            return f"chunks of {wanted}, got {_chunk(member)}"
        group.add(member, ranges)
    return ""


def _reads_a_copy(op: Operation) -> bool:
    """Whether a copy of the first factor is made before all chunks of a product."""
    schedule = op.schedule
    return (
        isinstance(schedule, ProductSchedule)
        and schedule.tile is not None
        and schedule.tile.a == "prepacked"
    )


def _chunk(op: Operation) -> int:
    return op.schedule.chunk if isinstance(op.schedule, Schedule) else 0
