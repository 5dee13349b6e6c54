"""How a function is run: as a graph of launches, as one grid, or as one block.

graph  a kernel a phase; the device begins each when the one before has ended
grid   one kernel whose blocks wait for each other behind each phase, loops over time inside
block  one kernel of one block, for functions so small that waiting is most of their time

The choice is by a model of times: what begins or ends a phase in each way, and what the work takes.
`launch` of the function forces one (`CompileOptions.launch`). The times are estimates for an H200;
none was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from graphc.backends.cuda.beside import steps_of
from graphc.backends.cuda.kernel import size_in
from graphc.backends.cuda.module import CudaModule
from graphc.backends.cuda.phases import Phase, Phased, phases_of
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.steps import Either, Launch, Part, Place, Step, Where, launches, run_order
from graphc.backends.cuda.whole import can_be_whole, whole_launch
from graphc.ir.core import Function
from graphc.support.diagnostics import fail

Way = Literal["graph", "grid", "block"]
WAYS: tuple[Way, ...] = ("graph", "grid", "block")
"""Of two that take the same time, the one that comes first."""

LAUNCH = 2.5
"""Microseconds from a call to the first work on the device."""

PHASE: Mapping[Way, float] = {"graph": 2.2, "grid": 1.3, "block": 0.5}
"""Microseconds from the end of a phase to the begin of the next."""

PERSISTENT = 1.25
"""How much longer work takes in a kernel that has the registers of the hungriest of its parts."""

NEAR_MEMORY = 3
"""A multiprocessor alone moves so many times its share of what all move."""

PRODUCT_SHARE = 0.5
"""Of the peak, what products reach."""


@dataclass(frozen=True)
class Choice:
    """How a program would be run.

    kernels, phases  of a call
    times            of each way, in microseconds by estimate
    """

    kernels: int
    phases: int
    times: Mapping[Way, float]

    @property
    def way(self) -> Way:
        """The one that takes least time."""
        return min(WAYS, key=lambda way: self.times[way])

    def __str__(self) -> str:
        told = ", ".join(f"{way} {time:.0f}" for way, time in self.times.items())
        return (
            f"{self.kernels} kernels a call in {self.phases} phases, "
            f"microseconds by estimate: {told}"
        )


def choose(module: CudaModule, program: Program, sizes: Mapping[str, int]) -> Choice:
    """For calls of these sizes."""
    phases = phases_of(program.steps)
    work = {way: list(_phase_times(module, phases, way, sizes, ())) for way in WAYS}
    times: dict[Way, float] = {way: estimate(work[way], way) for way in WAYS}
    kernels = sum(1 for _ in run_order(program.steps, sizes))
    return Choice(kernels, len(work["graph"]), times)


def run_by_its_way(
    module: CudaModule, program: Program, function: Function, bounds: Mapping[str, int]
) -> Program:
    """The program of launches in order, as it is to be run.

    bounds  the largest sizes of dims, which times are estimated for
    """
    choice = choose(module, program, bounds)
    wanted = choice.way if function.launch == "auto" else function.launch
    phases, epoch = phases_of(program.steps), phases_of(program.epoch)
    fits = wanted == "graph" or all(can_be_whole(module, p) for p in (phases, epoch))
    way = wanted if fits else "graph"
    if function.launch not in ("auto", way):
        message = f"@{function.name} has too many arguments and results for launch = {wanted}"
        raise fail("not-supported", f"{message}: use graph")
    minibatches = _steps(module, epoch, way, bounds, f"@{function.name}, minibatches")
    is_for_both = way != "graph" and minibatches  # `STEP_ALONE`
    steps = minibatches if is_for_both else _steps(module, phases, way, bounds, f"@{function.name}")
    summary = f"@{function.name}: {way}; {choice}"
    all_steps = (*steps, *minibatches)
    kernels = {launch.kernel: module.kernels[launch.kernel] for launch in launches(all_steps)}
    return Program(kernels, steps, program.scratch, summary, minibatches)


def estimate(times: Sequence[float], way: Way) -> float:
    """Microseconds of a call whose phases take so long."""
    return LAUNCH + sum(times) + PHASE[way] * max(len(times) - 1, 0)


def _phase_times(
    module: CudaModule,
    phases: Sequence[Phased],
    way: Way,
    bounds: Mapping[str, int],
    turns: tuple[int, ...],
) -> Iterator[float]:
    """Microseconds of the work in each phase of a call, those of loops once a turn."""
    for phased in phases:
        if isinstance(phased, Phase):
            yield _work_time(module, phased, way, bounds)
        else:
            inner = list(_phase_times(module, phased.phases, way, bounds, (*turns, 0)))
            for _ in range(phased.count.at(bounds, turns)):
                yield from inner


def _work_time(module: CudaModule, phase: Phase, way: Way, bounds: Mapping[str, int]) -> float:
    machine = module.machine
    counts = [module.kernels[launch.kernel].tiles.count(bounds) for launch in phase.launches]
    busy = [launch for launch, tiles in zip(phase.launches, counts, strict=True) if tiles]
    blocks = 1 if way == "block" else max(sum(counts), 1)
    share = blocks / machine.multiprocessors
    moved = sum(_moved(launch, bounds) for launch in busy)
    flops = sum(launch.flops for launch in busy)
    by_memory = moved / (machine.bandwidth * 1e3 * min(share * NEAR_MEMORY, 1))
    by_arithmetic = flops / (machine.gflops * 1e3 * PRODUCT_SHARE * min(share, 1))
    return max(by_memory, by_arithmetic) * (PERSISTENT if way == "grid" and share > 1 else 1)


def _moved(launch: Launch, bounds: Mapping[str, int]) -> int:
    """Bytes: of all arrays that it is given, but no more than its operation needs."""
    arrays = sum(_bytes(where, bounds) for where in launch.pointers)
    return min(arrays, launch.moved) if launch.moved else arrays


def _bytes(where: Where, bounds: Mapping[str, int]) -> int:
    match where:
        case Place(size=size):
            return size
        case Part(_, _, size, itemsize):
            return size_in(size, bounds) * itemsize
        case Either(_, some, _):
            return _bytes(some, bounds)


def _steps(
    module: CudaModule, phases: Sequence[Phased], way: Way, bounds: Mapping[str, int], remark: str
) -> tuple[Step, ...]:
    if way == "graph" or not phases:
        return steps_of(module, phases, bounds)
    return (whole_launch(module, phases, way, bounds, remark),)
