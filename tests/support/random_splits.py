"""Cuts a fused function into parts at random: any free axis, any length."""

from __future__ import annotations

import random
from dataclasses import replace

from graphc.ir.core import Function, Operation
from graphc.ir.traversal import straight_blocks
from graphc.ir.types import TensorType
from graphc.ops.epilogue import GEMM_FUSED
from graphc.ops.kernel import GEMM, KERNEL, GemmParams, KernelParams
from graphc.ops.splits import folded_axes

LENGTHS = (1, 2, 3, 5, 8, 33)


def cut_at_random(function: Function, seed: int) -> int:
    """Write splits on kernels and products, before or after memory is planned; how many."""
    chosen = random.Random(seed)
    count = 0
    for op in (op for block in straight_blocks(function) for op in block):
        length = chosen.choice(LENGTHS)
        if isinstance(op.params, KernelParams) and op.opdef is KERNEL:
            axes = _free_axes(op)
            if axes:
                op.params = replace(op.params, split=(chosen.choice(axes), length))
                count += 1
        elif isinstance(op.params, GemmParams) and op.opdef is GEMM_FUSED:
            where, most = op.params.split
            assert isinstance(most, int)
            op.params = replace(op.params, split=(where, chosen.randint(1, most)))
            count += 1
        elif isinstance(op.params, GemmParams) and op.opdef is GEMM and not op.params.batch:
            op.params = replace(op.params, split=(chosen.choice(("rows", "cols")), length))
            count += 1
    return count


def _free_axes(kernel: Operation) -> list[int]:
    folded = folded_axes(kernel)
    types = [v.type for v in kernel.results]
    rank = max((t.rank for t in types if isinstance(t, TensorType)), default=0)
    return [axis for axis in range(rank) if axis not in folded]
