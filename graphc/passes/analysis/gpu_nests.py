"""How the loop nests of a kernel are computed on a GPU: in which launches, by how many threads.

A nest becomes stages, each of which is one launch: sums over rows stand in a stage for each set of
dims that they fold, and a row that is too long for a block is folded by several blocks, in stages
before the one that reads what was folded. Everything follows from the bounds of the extents and the
schedule, never from what a device is doing, and so do the bits of the results.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from graphc.ir.core import Operation
from graphc.ir.machine import GpuMachine
from graphc.ir.types import DType
from graphc.ops.parts import has_parts
from graphc.ops.schedules import MOST_PARTS, MOST_ROWS, KernelSchedule, NestSpread
from graphc.passes.analysis.loopnest import (
    ArrayAccess,
    Load,
    Nest,
    Reduce,
    Size,
    Statement,
    Store,
)
from graphc.passes.analysis.nestplan import misfit, nests_of
from graphc.support.diagnostics import fail

BLOCK = 256
WARP = 32

VECTOR_BYTES = 16
"""That a thread reads or writes at once."""

WARP_VECTORS = 256
"""The longest row of a warp, in what a thread reads at once; with sums for each lane half of it."""

CUT_LANES = 16384
"""From this length on rows are cut, where there are not enough rows for all multiprocessors."""

PART_LANES = 4096


@dataclass(frozen=True)
class Stage:
    """What one launch computes: all stores of the nest, which fold over the same dims if any.

    parts  the stage only folds each row that is cut in so many parts: its stores take, for each
           row and part, the value of a reduction over that part
    """

    nest: Nest
    parts: int = 0

    @property
    def folds_lanes(self) -> bool:
        return bool(reductions(self.nest))

    @property
    def folds(self) -> bool:
        return self.folds_lanes or any(s.combine is not None for s in self.nest.stores)

    @property
    def summed(self) -> tuple[int, ...]:
        """The outer dims that stores fold; the others are not in the way of any order."""
        for store in self.nest.stores:
            if store.combine is not None:
                return tuple(d for d in range(self.nest.lane) if d not in store.access.dims)
        return ()


@dataclass(frozen=True)
class Stages:
    """The stages of a nest in order; `scratch`: the elements of each array between them, which are
    accesses of the kind "chain"."""

    stages: tuple[Stage, ...]
    scratch: tuple[tuple[int, DType], ...] = ()


def complete_kernel(op: Operation, machine: GpuMachine) -> KernelSchedule:
    """The schedule of a kernel with the spread of each nest."""
    schedule = op.schedule_as(KernelSchedule)
    found = spreads_of(op, nests_of(op), machine)
    return schedule if schedule.spread == found else replace(schedule, spread=found)


def spreads_of(op: Operation, nests: Sequence[Nest], machine: GpuMachine) -> tuple[NestSpread, ...]:
    """As the schedule says, or chosen for the machine.

    Raises GraphcError (bad-schedule) for a schedule that does not fit, and (not-supported) for
    kernels that were made for a processor.
    """
    if has_parts(op.regions[0].block):
        what = "a kernel that reads and writes whole arrays: `fuse-kernels{parts = false}` makes it"
        raise fail("not-supported", f"a GPU requires {what}", op.location)
    given = op.schedule_as(KernelSchedule).spread
    if given and len(given) != len(nests):
        raise misfit(op, f"a spread for each of {len(nests)} nests, got {len(given)}")
    for nest, spread in zip(nests, given, strict=False):
        if spread.parts and not _can_cut(nest):
            raise misfit(op, f"parts = 0 for rows that are not folded, got {spread.parts}")
    return given or tuple(choose_spread(nest, machine) for nest in nests)


def reductions(nest: Nest) -> list[int]:
    """The statements that fold the lanes, as far as stores need them."""
    needed = needed_by(nest, (store.value for store in nest.stores))
    return [n for n in needed if isinstance(nest.statements[n].work, Reduce)]


def needed_by(nest: Nest, values: Iterable[int]) -> list[int]:
    """The statements that these are made of, in order."""
    pending, found = list(values), set[int]()
    while pending:
        number = pending.pop()
        if number not in found:
            found.add(number)
            pending.extend(nest.statements[number].args)
    return sorted(found)


def loaded(nest: Nest) -> list[ArrayAccess]:
    """What the stores need of arrays, each access once."""
    needed = needed_by(nest, (store.value for store in nest.stores))
    works = (nest.statements[n].work for n in needed)
    return list(dict.fromkeys(work.access for work in works if isinstance(work, Load)))


# --- the choice


def choose_spread(nest: Nest, machine: GpuMachine) -> NestSpread:
    """By the bounds of rows and lanes."""
    if nest.lane < 0:
        return NestSpread()
    stage = Stage(nest)
    lanes = _widest(nest)
    vectors = -(-nest.bound // lanes)
    rows = math.prod(nest.bounds[:-1])
    if _can_cut(nest) and nest.bound >= CUT_LANES and rows < machine.multiprocessors // 4:
        return NestSpread(lanes, BLOCK, parts=min(-(-nest.bound // PART_LANES), MOST_PARTS))
    threads = min(_power(vectors), WARP)
    if stage.folds_lanes:
        has_sums = any(s.combine and nest.lane in s.access.dims for s in nest.stores)
        longest = WARP_VECTORS // 2 if has_sums else WARP_VECTORS
        is_scarce = rows <= 4 * machine.multiprocessors and vectors >= BLOCK // 2
        threads = BLOCK if vectors > longest or is_scarce else threads
    summed = stage.summed
    if not any(s.combine for s in nest.stores):
        return NestSpread(lanes, threads)
    chunks = 1 if stage.folds_lanes else -(-vectors // threads)
    tiles = chunks * math.prod(b for d, b in enumerate(nest.bounds[:-1]) if d not in summed)
    count = math.prod(nest.bounds[d] for d in summed)
    return NestSpread(lanes, threads, _rows(count, tiles, BLOCK // threads, machine))


def _rows(count: int, tiles: int, groups: int, machine: GpuMachine) -> int:
    """How many of `count` rows a thread adds up: few sums have one part; many fill the GPU."""
    if count <= 32 * groups:
        return max(-(-count // groups), 1)
    wanted = count * tiles // (groups * 4 * machine.multiprocessors)
    return min(max(_power(wanted), 8), MOST_ROWS)


def _widest(nest: Nest) -> int:
    """Elements that fit in one access of memory; of what is alike for all lanes there is one."""
    accesses = (*loaded(nest), *(store.access for store in nest.stores))
    sizes = [a.dtype.itemsize for a in accesses if nest.lane in a.dims]
    lanes = VECTOR_BYTES // max(sizes, default=VECTOR_BYTES)
    while lanes > 1 and Stage(nest).folds and not can_move(nest, lanes):
        lanes //= 2
    return min(lanes, 4)


def can_move(nest: Nest, lanes: int) -> bool:
    """Whether each row has whole vectors, or is all there is."""
    return nest.lane <= 0 or nest.dims[-1].factor % lanes == 0


def _power(count: int) -> int:
    """The next power of two."""
    return 1 << max(count - 1, 0).bit_length()


# --- stages


def stages_of(nest: Nest, spread: NestSpread) -> Stages:
    """The launches of a nest."""
    stages: list[Stage] = []
    scratch: list[tuple[int, DType]] = []
    while spread.parts and _can_cut(nest):
        partial, folded, nest = _cut(nest, spread.parts, scratch)
        stages += [Stage(partial, spread.parts), *_by_summed_dims(folded)]
    if nest.stores:
        stages += _by_summed_dims(nest)
    return Stages(tuple(stages), tuple(scratch))


def _by_summed_dims(nest: Nest) -> list[Stage]:
    """A stage for each set of dims that sums fold; what is not a sum is in the first."""
    plain = [s for s in nest.stores if s.combine is None]
    by_dims: dict[frozenset[int], list[Store]] = {}
    for store in nest.stores:
        if store.combine is not None:
            by_dims.setdefault(store.access.dims - {nest.lane}, []).append(store)
    groups = list(by_dims.values()) or [[]]
    groups[0] = [*plain, *groups[0]]
    return [Stage(replace(nest, stores=tuple(stores))) for stores in groups]


def _can_cut(nest: Nest) -> bool:
    return bool(nest.lane >= 0 and reductions(nest))


def _cut(nest: Nest, parts: int, scratch: list[tuple[int, DType]]) -> tuple[Nest, Nest, Nest]:
    """The first reductions of a nest apart: over parts of each row; over the parts, with what
    happens once a row if nothing is folded later; and the nest that reads what they give."""
    folds = reductions(nest)
    first = [n for n in folds if nest.statements[n].level == 1]
    outer, is_last = nest.dims[:-1], len(first) == len(folds)
    with_lanes = tuple(s for s in nest.stores if nest.lane in s.access.dims)
    goals = [s for s in nest.stores if s not in with_lanes] if is_last else []
    partial: list[Store] = []
    between = list(nest.statements)
    rest = [replace(s, level=max(s.level - 1, 0)) for s in nest.statements]
    most, every = math.prod(nest.bounds[:-1]), frozenset(range(nest.lane + 1))
    for number in first:
        statement = nest.statements[number]
        dtype = statement.dtype
        pieces = _dense(len(scratch), dtype, (*outer, Size(parts)))
        total = _dense(len(scratch) + 1, dtype, (*outer, None))
        scratch += [(most * parts, dtype), (most, dtype)]
        partial.append(Store(number, pieces))
        between[number] = replace(statement, args=(len(between),))
        between.append(Statement(Load(pieces), (), dtype, every, 0, 1))
        if with_lanes or not is_last:
            goals.append(Store(number, total))
        rest[number] = Statement(Load(total), (), dtype, every - {nest.lane}, 0, 1)
    plain = replace(nest, keeps=())
    folded = replace(
        plain,
        dims=(*outer, Size(parts)),
        bounds=(*nest.bounds[:-1], parts),
        statements=tuple(between),
        stores=tuple(goals),
    )
    after = replace(plain, statements=tuple(rest), stores=with_lanes if is_last else nest.stores)
    return replace(plain, stores=tuple(partial)), folded, after


def _dense(index: int, dtype: DType, sizes: Sequence[Size | None]) -> ArrayAccess:
    """A dense array of these extents; None: it has no such dim."""
    strides: list[Size | None] = []
    stride = Size()
    for size in reversed(sizes):
        strides.append(None if size is None else stride)
        stride = stride if size is None else stride * size
    return ArrayAccess("chain", index, dtype, tuple(reversed(strides)))
