"""What a GPU's threads keep of a row: its sweeps, and where values wait from one to the next.

Short rows lie in registers, so many vectors a thread, and each element of memory is read once. Of a
longer row what a later sweep needs is read or computed again; what is costly waits in the row of a
result that is not written yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from graphc.ir.types import DType
from graphc.ops.schedules import NestSpread
from graphc.passes.analysis.gpu_nests import BLOCK, Stage, reductions
from graphc.passes.analysis.loopnest import ArrayAccess, Load, Nest
from graphc.passes.analysis.nestplan import HEAVY

MOST_LANES = 64
"""Elements of a row that a thread goes over without a loop."""

MOST_WORK = 8192
"""What such elements cost together: their text is long, and takes long to compile."""

MOST_WORDS = 64
"""Registers of a thread that keep values and sums of a row."""


@dataclass(frozen=True, slots=True)
class RowSweep:
    """One pass over the lanes: what it computes and what it finds kept, the reductions that it
    folds, the stores with lanes that it writes."""

    compute: tuple[int, ...]
    found: tuple[int, ...]
    fold: tuple[int, ...]
    store: tuple[int, ...]


def plan_sweeps(
    nest: Nest, stores: Sequence[int], kept: Callable[[int], bool]
) -> tuple[RowSweep, ...]:
    """The sweeps for these stores with lanes and all reductions.

    kept  says whether a value is there for later sweeps, which else compute it again
    """
    statements, folds = nest.statements, reductions(nest)
    level = {n: statements[nest.stores[n].value].level for n in stores}
    last = max([*level.values(), *(statements[n].level - 1 for n in folds)], default=-1)
    sweeps: list[RowSweep] = []
    computed = set[int]()
    for number in range(last + 1):
        folded = [n for n in folds if statements[n].level - 1 == number]
        written = [n for n in stores if level[n] == number]
        pending = [statements[n].args[0] for n in folded]
        pending += [nest.stores[n].value for n in written]
        found, compute = set[int](), set[int]()
        while pending:
            value = pending.pop()
            if not nest.has_lanes(value) or value in found or value in compute:
                continue
            if value in computed and kept(value):
                found.add(value)
            else:
                compute.add(value)
                pending.extend(statements[value].args)
        computed |= compute
        order = tuple(sorted(compute)), tuple(sorted(found))
        sweeps.append(RowSweep(order[0], order[1], tuple(folded), tuple(written)))
    return tuple(sweeps)


@dataclass(frozen=True, slots=True)
class RowPlan:
    """The sweeps over a row.

    turns   vectors of the row that a thread has, each with a place in registers; 0: a loop goes
            over them
    places  without registers: the results whose rows keep values
    """

    sweeps: tuple[RowSweep, ...]
    turns: int
    places: Mapping[int, ArrayAccess] = field(default_factory=dict)


def plan_row(stage: Stage, threads: int, lanes: int) -> RowPlan:
    """The plan for a row that so many threads share, in vectors of so many lanes."""
    nest, stores = stage.nest, with_lanes(stage)

    def is_worth(number: int) -> bool:
        statement = nest.statements[number]
        return statement.weight >= HEAVY or isinstance(statement.work, Load)

    sweeps = plan_sweeps(nest, stores, is_worth)
    if not stage.folds_lanes:
        return RowPlan(sweeps, 1)
    turns = max(-(-nest.bound // (threads * lanes)), 1)
    sums = [s.access.dtype for s in (nest.stores[n] for n in stores) if s.combine is not None]
    words = turns * lanes * (_most_kept(nest, sweeps) + sum(map(_words, sums)))
    work = turns * lanes * sum(nest.statements[n].weight for s in sweeps for n in s.compute)
    is_short = turns * lanes <= MOST_LANES and words <= MOST_WORDS and work <= MOST_WORK
    if is_short and not stage.parts:
        return RowPlan(sweeps, turns)
    whole = {s.access for s in nest.stores if s.combine is None}
    kept_in = ((keep.value, keep.access) for keep in nest.keeps)
    places = {n: access for n, access in kept_in if access is not None and access in whole}
    return RowPlan(plan_sweeps(nest, stores, places.__contains__), 0, places)


def _most_kept(nest: Nest, sweeps: Sequence[RowSweep]) -> int:
    """Registers that are needed at once to keep an element's values from sweep to sweep."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, sweep in enumerate(sweeps):
        for n in sweep.compute:
            first.setdefault(n, number)
        last.update((n, number) for n in sweep.found)
    behind = (
        sum(_words(nest.statements[n].dtype) for n in last if first[n] <= number < last[n])
        for number in range(len(sweeps))
    )
    return max(behind, default=0)


def _words(dtype: DType) -> int:
    """Registers of 32 bits that a value takes."""
    return max(dtype.itemsize // 4, 1)


def with_lanes(stage: Stage) -> list[int]:
    """The numbers of the stores that have lanes; in parts of rows none has."""
    nest = stage.nest
    if stage.parts:
        return []
    return [n for n, s in enumerate(nest.stores) if nest.lane in s.access.dims]


def fitting(stage: Stage, spread: NestSpread, lanes: int) -> NestSpread:
    """The spread with whole blocks for parts of rows, and for rows whose lanes are summed over rows
    in memory: what several rows of a block add to would be one place."""
    has_sums = any(stage.nest.stores[n].combine is not None for n in with_lanes(stage))
    if stage.parts or (has_sums and not plan_row(stage, spread.threads, lanes).turns):
        return replace(spread, threads=BLOCK)
    return spread
