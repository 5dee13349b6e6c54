"""Cuts a fused function into parts at random: any free axis, any length."""

from __future__ import annotations

import random
from dataclasses import replace

from graphc.ir.core import Function, Operation
from graphc.ir.traversal import straight_blocks
from graphc.ir.types import TensorType
from graphc.ops.contraction import MatmulParams
from graphc.ops.epilogue import GEMM_FUSED
from graphc.ops.kernel import GEMM
from graphc.ops.schedules import KernelSchedule, ProductSchedule, folded_axes

LENGTHS = (1, 2, 3, 5, 8, 33)


def cut_at_random(function: Function, seed: int) -> int:
    """Write schedules on kernels and products, before or after memory is planned; how many."""
    chosen = random.Random(seed)
    count = 0
    for op in (op for block in straight_blocks(function) for op in block):
        length = chosen.choice(LENGTHS)
        if isinstance(op.schedule, KernelSchedule):
            axes = _free_axes(op)
            if axes:
                op.schedule = KernelSchedule(chosen.choice(axes), length)
                count += 1
        elif op.opdef is GEMM_FUSED:
            assert isinstance(op.schedule, ProductSchedule)
            op.schedule = replace(op.schedule, chunk=chosen.randint(1, op.schedule.chunk))
            count += 1
        elif op.opdef is GEMM and isinstance(op.params, MatmulParams) and not op.params.batch:
            op.schedule = ProductSchedule(chosen.choice(("rows", "cols")), length)
            count += 1
    return count


def _free_axes(kernel: Operation) -> list[int]:
    folded = folded_axes(kernel)
    types = [v.type for v in kernel.results]
    rank = max((t.rank for t in types if isinstance(t, TensorType)), default=0)
    return [axis for axis in range(rank) if axis not in folded]
