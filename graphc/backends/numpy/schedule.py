"""How a linearised kernel is run: blocks over one axis, and where each computed item lives.

Blocks keep temporaries in the cache: a chain of operations runs over some rows before the next rows
are touched. What does not vary along the axis is computed before the loop; a fold along the axis
is accumulated inside it and can be read after it. Temporaries are registers, pieces of scratch
memory that are used again as soon as their value is dead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from graphc.backends.numpy.linear_kernel import (
    Computed,
    Dims,
    Fold,
    Input,
    Item,
    LinearKernel,
    Output,
    ScalarOp,
    operands_of,
)
from graphc.backends.numpy.scalars import is_helper
from graphc.ir.types import DType, bound_of

BLOCK_BYTES = 256 * 1024  # of live temporaries: half of a second-level cache of 512 KB


class Phase(IntEnum):
    BEFORE = 0
    INSIDE = 1
    AFTER = 2


@dataclass(frozen=True)
class Register:
    """Scratch memory with extents; the extent in the loop's axis is that of a block."""

    index: int
    dims: Dims
    dtype: DType


@dataclass(frozen=True)
class ToResult:
    """The item is computed in the memory of result `index`."""

    index: int


Spot = Register | ToResult


@dataclass(frozen=True)
class Schedule:
    """The plan of one kernel. `axis` None: one pass over everything, all steps are INSIDE.

    rows    extent of a block along the axis
    copies  results that are not computed in place and have to be copied
    """

    kernel: LinearKernel
    axis: int | None
    rows: int
    phases: dict[Item, Phase]
    spots: dict[Item, Spot]
    registers: tuple[Register, ...]
    copies: tuple[Output, ...]

    def varies(self, item: Item) -> bool:
        """Whether the item has to be seen block by block."""
        return self.axis is not None and item.dims[self.axis] != 1

    def accumulates(self, item: Item) -> bool:
        return self.axis is not None and folds_along(item, self.axis)

    def steps(self, phase: Phase) -> list[Computed]:
        return [s for s in self.kernel.steps if self.phases[s] is phase]

    def register_bytes(self, register: Register) -> int:
        return _register_bytes(register, self.axis, self.rows)


Overlaps = Callable[[int, int], bool]
"""(result index, input index) -> whether they share memory."""


def schedule(kernel: LinearKernel, result_dims: Sequence[Dims], overlaps: Overlaps) -> Schedule:
    """The plan for `kernel`, whose results have the extents `result_dims`."""
    for axis, extent in enumerate(kernel.space):
        phases = _phases(kernel, axis) if bound_of(extent) > 1 else None
        if phases is None:
            continue
        placement = _place(kernel, axis, phases, result_dims, overlaps)
        rows = _block_rows(kernel, axis, placement.registers)
        if rows < bound_of(extent):
            return placement.schedule(kernel, axis, rows, phases)
        break
    whole: dict[Item, Phase] = dict.fromkeys(kernel.steps, Phase.INSIDE)
    return _place(kernel, None, whole, result_dims, overlaps).schedule(kernel, None, 0, whole)


def folds_along(item: Item, axis: int) -> bool:
    return isinstance(item, Fold) and axis in item.axes and item.over[axis] != 1


def _phases(kernel: LinearKernel, axis: int) -> dict[Item, Phase] | None:
    """When each step runs; None if a fold along the axis is needed before the loop has ended."""
    phases: dict[Item, Phase] = {}
    for step in kernel.steps:
        late = any(folds_along(o, axis) or phases.get(o) is Phase.AFTER for o in operands_of(step))
        inside = step.dims[axis] != 1 or folds_along(step, axis)
        if inside and late:
            return None
        phases[step] = Phase.INSIDE if inside else Phase.AFTER if late else Phase.BEFORE
    return phases


def _block_rows(kernel: LinearKernel, axis: int, registers: Sequence[Register]) -> int:
    """A power of two such that a block's temporaries fit the budget; at least 1."""
    row = sum(_register_bytes(r, axis, 1) for r in registers if r.dims[axis] != 1)
    if row == 0:  # no temporaries: count the widest value that streams through
        inner = math.prod(bound_of(d) for i, d in enumerate(kernel.space) if i != axis)
        row = inner * max((s.dtype.itemsize for s in kernel.steps), default=1)
    rows = max(BLOCK_BYTES // max(row, 1), 1)
    return 1 << (rows.bit_length() - 1)


def _register_bytes(register: Register, axis: int | None, rows: int) -> int:
    extents = [bound_of(d) for d in register.dims]
    if axis is not None and register.dims[axis] != 1:
        extents[axis] = rows
    return math.prod(extents) * register.dtype.itemsize


@dataclass(frozen=True)
class _Placement:
    spots: dict[Item, Spot]
    registers: tuple[Register, ...]
    copies: tuple[Output, ...]

    def schedule(
        self, kernel: LinearKernel, axis: int | None, rows: int, phases: dict[Item, Phase]
    ) -> Schedule:
        return Schedule(kernel, axis, rows, phases, self.spots, self.registers, self.copies)


def _place(
    kernel: LinearKernel,
    axis: int | None,
    phases: dict[Item, Phase],
    result_dims: Sequence[Dims],
    overlaps: Overlaps,
) -> _Placement:
    order = sorted(kernel.steps, key=lambda s: phases[s])
    spots: dict[Item, Spot] = {}
    copies: list[Output] = []
    for output in kernel.results:
        index, item = output.index, output.item
        free = isinstance(item, Computed) and item not in spots and item.dims == result_dims[index]
        if free and not _is_read_later(kernel, order, index, item, axis, overlaps):
            spots[item] = ToResult(index)
        else:
            copies.append(output)
    # Inputs first: a copy from a register may overwrite an input, never the other way round.
    copies.sort(key=lambda c: not isinstance(c.item, Input))
    last = _last_uses(order, axis, phases, copies)
    registers = _allocate([s for s in order if s not in spots], order, last, axis, spots)
    return _Placement(spots, registers, tuple(copies))


def _is_read_later(
    kernel: LinearKernel,
    order: Sequence[Computed],
    result: int,
    item: Item,
    axis: int | None,
    overlaps: Overlaps,
) -> bool:
    """Whether writing `item` into the result's memory would destroy an input still to be read."""
    read = (o.item for o in kernel.results)
    if any(isinstance(i, Input) and overlaps(result, i.index) for i in read):
        return True
    start = order.index(item)  # type: ignore[arg-type]  # results that are placed are computed
    if axis is not None and folds_along(item, axis):
        start = -1  # its memory is written before the loop
    for position, step in enumerate(order):
        touched = [
            o for o in operands_of(step) if isinstance(o, Input) and overlaps(result, o.index)
        ]
        if not touched or position < start:
            continue
        if position > start or not _may_overwrite(step, touched):
            return True
    return False


def _may_overwrite(step: Computed, operands: Sequence[Item]) -> bool:
    """Whether a step may write over these operands: a ufunc over the very same elements may."""
    return (
        isinstance(step, ScalarOp)
        and not is_helper(step)
        and all(o.dims == step.dims for o in operands)
    )


def _last_uses(
    order: Sequence[Computed],
    axis: int | None,
    phases: dict[Item, Phase],
    copies: Sequence[Output],
) -> dict[Item, int]:
    """Item -> the last position at which it is read."""
    end_of_loop = sum(phases[s] is not Phase.AFTER for s in order)
    last: dict[Item, int] = {}
    for position, step in enumerate(order):
        for operand in operands_of(step):
            # Every turn of the loop reads again what was computed before it.
            again = phases[step] is Phase.INSIDE and phases.get(operand) is Phase.BEFORE
            last[operand] = max(last.get(operand, 0), end_of_loop if again else position)
    for item in (output.item for output in copies):
        inside = axis is None or item.dims[axis] != 1
        last[item] = max(last.get(item, 0), end_of_loop if inside else len(order))
    return last


def _allocate(
    wanting: Sequence[Computed],
    order: Sequence[Computed],
    last: dict[Item, int],
    axis: int | None,
    spots: dict[Item, Spot],
) -> tuple[Register, ...]:
    """Give each item of `wanting` a register: linear scan, registers shared by equal extents."""
    registers: list[Register] = []
    free: list[Register] = []
    live: list[tuple[int, Register]] = []
    wanted = set(wanting)
    for position, item in enumerate(order):
        reads_then_writes = isinstance(item, ScalarOp) and not is_helper(item)
        dead = position if reads_then_writes else position - 1
        free.extend(r for end, r in live if end <= dead)
        live = [(end, r) for end, r in live if end > dead]
        if item not in wanted:
            continue
        accumulates = axis is not None and folds_along(item, axis)
        register = None if accumulates else _take(free, item)
        if register is None:
            register = Register(len(registers), item.dims, item.dtype)
            registers.append(register)
        spots[item] = register
        # An accumulator is alive over the whole loop, so nothing else gets its memory.
        live.append((len(order) + 1 if accumulates else last[item], register))
    return tuple(registers)


def _take(free: list[Register], item: Item) -> Register | None:
    for index, register in enumerate(free):
        if (register.dims, register.dtype) == (item.dims, item.dtype):
            return free.pop(index)
    return None
