"""Schedules as people might write them: fields of tilings and nests changed at random.

Nothing here knows what fits: whether a schedule is admitted is what the code under test says.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from graphc.ir.core import Function, Operation
from graphc.ir.params import Params
from graphc.ir.traversal import straight_blocks
from graphc.ops.contraction import STRETCH
from graphc.ops.schedules import (
    GPU_DEPTHS,
    GPU_TILES,
    MOST_STAGES,
    WINDOW_TILES,
    ConvSchedule,
    GpuTiling,
    KernelSchedule,
    NestSchedule,
    NestSpread,
    ProductSchedule,
    Tiling,
    WeightGradSchedule,
    WindowTile,
)

LANES = (1, 2, 4, 8, 16)


def random_tiling(choose: random.Random, like: Tiling | None = None) -> Tiling:
    """Of any fields, or `like` with one or two changed."""
    made = Tiling(
        choose.choice((1, 2, 3, 4, 6, 7, 12)),
        choose.choice((1, 1, 2, 3)),
        choose.choice(LANES),
        choose.choice((0, 0, 3, 16, 17, 64, 256, 512)),
        choose.choice((0, 0, 1, 2, 6, 12, 24, 42)),
        choose.choice(("in place", "packed")),
        choose.choice(("in place", "packed by tiles", "packed", "transposed by tiles")),
        choose.choice((0, 0, 1, 7, 100)),
        choose.choice((1, 2)),
        choose.random() < 0.5,
    )
    if like is None:
        return made
    names = choose.sample(sorted(made.__dataclass_fields__), choose.choice((1, 1, 2, 3)))
    return replace(like, **{name: getattr(made, name) for name in names})


def random_nest(choose: random.Random, like: NestSchedule, operations: int) -> NestSchedule:
    """`like` with some fields changed; `operations` of the body may be kept."""
    kept = choose.choice((0, 1, 1, 2))
    changes: dict[str, object] = {
        "loops": _loops(choose, like.loops),
        "lanes": choose.choice(LANES),
        "vectors": choose.choice((1, 2, 3, 4, 5)),
        "tail": choose.choice(("masked", "scalar")),
        "prefetch": choose.random() < 0.5,
        "keep": tuple(sorted(choose.sample(range(operations), min(operations, kept)))),
    }
    names = choose.sample(sorted(changes), choose.choice((1, 2, 3)))
    return replace(like, **{name: changes[name] for name in names})  # type: ignore[arg-type]


def _loops(choose: random.Random, loops: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Loops taken apart; sometimes interchanged or merged."""
    made: list[tuple[int, ...]] = []
    for group in loops:
        cut = choose.randint(1, len(group)) if group else 0
        made += [tuple(part) for part in (group[:cut], group[cut:]) if part]
    if choose.random() < 0.2:
        choose.shuffle(made)
    if choose.random() < 0.2 and len(made) > 1:
        made[-2:] = [made[-2] + made[-1]]
    if choose.random() < 0.1 and made:
        made[0] = tuple(reversed(made[0]))
    return tuple(made)


def scheduled(function: Function) -> list[Operation]:
    """The operations whose schedules say how they are computed."""
    kinds = (KernelSchedule, ProductSchedule)
    ops = [op for block in straight_blocks(function) for op in block]
    return [op for op in ops if isinstance(op.schedule, kinds)]


def edit(choose: random.Random, op: Operation, *, nests: bool = True) -> None:
    """Change the complete schedule of an operation somewhere."""
    schedule = op.schedule
    operations = len(op.regions[0].block) if op.regions else 0
    if isinstance(schedule, KernelSchedule) and schedule.nests and nests:
        given = list(schedule.nests)
        place = choose.randrange(len(given))
        given[place] = random_nest(choose, given[place], operations)
        op.schedule = replace(schedule, nests=tuple(given))
    elif isinstance(schedule, ProductSchedule):
        if schedule.body is not None and nests and choose.random() < 0.5:
            op.schedule = replace(schedule, body=random_nest(choose, schedule.body, operations))
        elif schedule.few_rows is not None and choose.random() < 0.3:
            op.schedule = replace(schedule, few_rows=random_tiling(choose, schedule.few_rows))
        elif schedule.last is not None and choose.random() < 0.3:
            op.schedule = replace(schedule, last=random_tiling(choose, schedule.last))
        elif schedule.tile is not None:
            op.schedule = replace(schedule, tile=random_tiling(choose, schedule.tile))


def random_gpu_schedule(choose: random.Random, like: Params) -> Params:
    """The complete schedule of an operation on a GPU with other spreads or another grid."""
    stages = choose.randint(2, MOST_STAGES)
    depth = choose.choice(GPU_DEPTHS)
    match like:
        case KernelSchedule(spread=spreads):
            return replace(like, spread=tuple(random_spread(choose, s) for s in spreads))
        case ProductSchedule():
            is_split = choose.random() < 0.5
            return replace(like, grid=GpuTiling(*choose.choice(GPU_TILES), depth, stages, is_split))
        case ConvSchedule() | WeightGradSchedule():
            part = choose.choice((0, 0, STRETCH, 2 * STRETCH))
            return replace(like, grid=WindowTile(*choose.choice(WINDOW_TILES), depth, stages, part))
        case _:
            return like


def random_spread(choose: random.Random, like: NestSpread) -> NestSpread:
    """`like` with any number of fields changed."""
    changes = {
        "lanes": choose.choice(LANES),
        "threads": choose.choice((1, 2, 4, 8, 16, 32, 256)),
        "rows": choose.choice((0, 1, 2, 3, 7, 128)),
        "parts": choose.choice((0, 0, 1, 2, 3, 7, 200)),
    }
    names = choose.sample(sorted(changes), choose.randint(0, len(changes)))
    return replace(like, **{name: changes[name] for name in names})
