"""How kernel-level operations are computed: their schedules, which change no result's meaning.

    kernel … schedule {parallel = 0, chunk = 16}          16 indices of axis 0 a chunk
    gemm … schedule {parallel = "rows", chunk = 64}       64 rows of the product, or "cols"
    conv … schedule {parallel = "images", chunk = 4}      4 images; also of `conv.image`, `pool.*`
    conv.weights … schedule {parallel = "rows", chunk = 40}   40 rows of the weights, of one column
    conv.weights … schedule {parallel = "images", chunk = 4}  4 images, whose sums are added at last

Chunks are computed by any threads in any order. What a chunk computes depends on the schedule and
the sizes of the call alone, so results have the same bits for any number of threads. `split-work`
decides it; without it an operation is one piece. What memory each chunk works in follows from the
schedule too (`OpDef.workspace`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from graphc.ir.codegen import Reduction
from graphc.ir.core import Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import TensorType
from graphc.ops.contraction import MatmulParams
from graphc.ops.reduction import ReduceParams


@dataclass(frozen=True)
class Schedule(Params):
    """`parallel`: what is cut into chunks; `chunk`: how long each is, the last may be shorter."""

    parallel: int | str | None = None
    chunk: int = 0

    @property
    def is_parallel(self) -> bool:
        return self.parallel is not None


@dataclass(frozen=True)
class KernelSchedule(Schedule):
    """`parallel` is an axis."""

    parallel: int | None = None


@dataclass(frozen=True)
class ProductSchedule(Schedule):
    parallel: Literal["rows", "cols"] | None = None


@dataclass(frozen=True)
class ImagesSchedule(Schedule):
    """Of what goes over images one by one."""

    parallel: Literal["images"] | None = None


@dataclass(frozen=True)
class WeightsSchedule(Schedule):
    """Of a convolution's gradient to its weights; a chunk of rows is of one column of a window."""

    parallel: Literal["rows", "images"] | None = None


def schedule_of(op: Operation) -> Schedule | None:
    """The schedule of an operation that is cut into chunks; None for one piece."""
    found = op.schedule
    return found if isinstance(found, Schedule) and found.is_parallel else None


def check_schedule(op: Operation) -> Iterable[str]:
    """What is wrong with the schedule of `op`."""
    schedule = schedule_of(op)
    if schedule is None:
        if isinstance(op.schedule, Schedule) and op.schedule.chunk:
            yield "a schedule with a chunk says what is cut into them: `parallel`"
        return
    if schedule.chunk < 1:
        yield f"a chunk is at least 1 long, got {schedule.chunk}"
    elif isinstance(schedule, ProductSchedule):
        if isinstance(op.params, MatmulParams) and op.params.batch:
            yield "a product over a batch cannot be cut"
    elif isinstance(schedule, KernelSchedule):
        yield from _check_axis(op, schedule)


def _check_axis(op: Operation, schedule: KernelSchedule) -> Iterable[str]:
    axis, rank = schedule.parallel, len(_dims(op.results[0])) if op.results else 0
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
                dims = _dims(op.operands[0])
                found.update(a for a in op.params.axes if dims[a] != 1)
    return frozenset(found)


def _dims(value: Value) -> tuple[object, ...]:
    assert isinstance(value.type, TensorType)
    return value.type.dims
