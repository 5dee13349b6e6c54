"""Loop nests as kernels: maps, reductions of rows and of columns.

A nest is one launch or more (`passes/analysis/gpu_nests.py`). Each launch goes over elements, if
nothing is folded (`maps.py`), or over rows, whose lanes are spread over threads (`rows.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from graphc.backends.cuda.body import ArrayKey
from graphc.backends.cuda.kernel import Kernel
from graphc.backends.cuda.launcher import Launcher
from graphc.backends.cuda.maps import write_map
from graphc.backends.cuda.rows import write_rows
from graphc.backends.cuda.stages import Port, StageWriter, ports_of
from graphc.backends.cuda.steps import Either, Part, Place, Where
from graphc.backends.cuda.sums import PartialSum, partial_sums, sum_of_parts
from graphc.ir.core import Operation
from graphc.ops.schedules import NestSpread
from graphc.passes.analysis.gpu_nests import Stage, can_move, spreads_of, stages_of
from graphc.passes.analysis.gpu_rows import fitting
from graphc.passes.analysis.loopnest import Nest
from graphc.passes.analysis.nestplan import nests_of

ALIGNMENT = 256
"""Of the addresses of arenas, scratch memory and buffers."""


def launch_kernel(program: Launcher, op: Operation) -> None:
    nests = nests_of(op)
    where: dict[ArrayKey, Where] = {
        ("operand", i): program.where[v] for i, v in enumerate(op.operands)
    }
    where.update((("result", i), program.where[v]) for i, v in enumerate(op.results))
    constants = program.constants(op)
    for nest, spread in zip(nests, spreads_of(op, nests, program.machine), strict=True):
        launch_nest(program, nest, spread, where, constants)


def launch_nest(
    program: Launcher,
    nest: Nest,
    spread: NestSpread,
    where: Mapping[ArrayKey, Where],
    constants: Mapping[int, str],
) -> None:
    """The launches of one nest, whose arrays are `where`."""
    program.module.use("words", "fold")
    plan = stages_of(nest, spread)
    found = dict(where)
    for i, (elements, dtype) in enumerate(plan.scratch):
        found["chain", i] = program.scratch(elements * dtype.itemsize)
    for stage in plan.stages:
        aligned = {p.key: alignment_of(found[p.key]) for p in ports_of(stage)}
        lanes = _lanes(stage, spread, aligned)
        fitted = fitting(stage, spread, lanes)
        sums = partial_sums(stage, fitted)
        for number, partial in sums.items():
            found["partial", number] = program.scratch(partial.size)
        ports = ports_of(stage, sums)
        kernel = _kernel(program, stage, fitted, ports, sums, lanes, constants)
        _launch(program, kernel, ports, found)
        for number, partial in sums.items():
            _launch_sum(program, number, partial, found)


def _kernel(
    program: Launcher,
    stage: Stage,
    spread: NestSpread,
    ports: Sequence[Port],
    sums: Mapping[int, PartialSum],
    lanes: int,
    constants: Mapping[int, str],
) -> Kernel:
    """The kernel of a stage; equal ones are written once."""
    # As text: 0.0 and -0.0 are equal, and so would be the nests that they stand in.
    key = (repr(stage), spread, lanes, program.contraction, tuple(constants.items()))

    def make(name: str) -> Kernel:
        writer = StageWriter(program.module, stage, ports, constants, lanes, program.contraction)
        return write_rows(writer, spread, sums, name) if stage.folds else write_map(writer, name)

    return program.module.kernel(key, "rows" if stage.folds else "map", make)


def _launch(
    program: Launcher, kernel: Kernel, ports: Sequence[Port], where: Mapping[ArrayKey, Where]
) -> None:
    writes = [i for i, port in enumerate(ports) if port.is_written]
    program.launch(kernel, [where[port.key] for port in ports], writes)


def _launch_sum(
    program: Launcher, number: int, partial: PartialSum, where: Mapping[ArrayKey, Where]
) -> None:
    module, result = program.module, where[partial.result]
    kernel = module.kernel(("parts", partial), "parts", lambda name: sum_of_parts(name, partial))
    program.launch(kernel, [where["partial", number], result], [1])


def _lanes(stage: Stage, spread: NestSpread, aligned: Mapping[ArrayKey, int]) -> int:
    """How many neighbours are moved at once: as the schedule says, where all arrays lie so."""
    lanes = spread.lanes if stage.nest.dims else 1
    sizes = [(p.dtype.itemsize, aligned[p.key]) for p in ports_of(stage) if p.has_lanes]
    while lanes > 1 and not (
        all(bytes_ % (lanes * size) == 0 for size, bytes_ in sizes)
        and (not stage.folds or can_move(stage.nest, lanes))
    ):
        lanes //= 2
    return lanes


def alignment_of(where: Where) -> int:
    """A power of two that divides the address."""
    match where:
        case Place(base, index):
            return ALIGNMENT if base == "buffer" else math.gcd(index, ALIGNMENT)
        case Part(whole, _, size, itemsize):
            return math.gcd(alignment_of(whole), size.factor * itemsize)
        case Either(_, some, otherwise):
            return math.gcd(alignment_of(some), alignment_of(otherwise))
