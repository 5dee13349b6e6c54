"""Turns tensor-level functions into kernels, products, transpositions and views.

    %0 = matmul %x, %w : tensor<Nx32xf32>                %0 = gemm %x, %w : tensor<Nx32xf32>
    %1 = broadcast %b {dims = [N, 32]} : …               %2 = kernel %0, %b : tensor<Nx32xf32> {
    %2 = add %0, %1 : tensor<Nx32xf32>             =>    ^(%3: tensor<Nx32xf32>, %4: tensor<1x32xf32>):
    return %2                                              %5 = broadcast %4 {dims = [N, 32]} : …
                                                           %6 = add %3, %5 : tensor<Nx32xf32>
                                                           yield %6
                                                         }
                                                         return %2

Every element-wise operation, reduction, broadcast and constant ends up in a `kernel`; `matmul`
becomes `gemm`, `transpose` becomes `move`. Leaves alone: `reshape` (a view), operations that are at
kernel level already, functions with a memory plan.

Which operations share a kernel is decided in `analysis/fusion_groups.py`, by bytes not written and
read again; nothing but constants, positions, extents and broadcasts is computed twice. Before
that, a reshape behind element-wise operations moves in front of them where it becomes a view of
arguments or products (a bias gradient's update, say), so that it does not cut a kernel in two.
O(operations + operands).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.codegen import FUSABLE, Broadcast, Contraction, Permutation
from graphc.ir.context import Context
from graphc.ir.core import Block, Function, Level, Module, Operation, Region, Value
from graphc.ops.contraction import MatmulParams
from graphc.ops.control import YIELD
from graphc.ops.kernel import GEMM, KERNEL, MOVE, GemmParams, KernelParams, MoveParams
from graphc.ops.movement import TransposeParams
from graphc.passes.analysis.fusion_groups import FusionGroups, fusion_groups
from graphc.passes.eliminate_dead_code import remove_dead_in_block
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.support.source import merge_locations


def is_fused(function: Function) -> bool:
    """Whether nothing is left to do: no operation of the tensor level but views."""
    movable = (*FUSABLE, Contraction, Permutation)
    return not any(
        op.opdef.level is Level.TENSOR and isinstance(op.opdef.codegen, movable)
        for op in function.block
    )


def fuse(function: Function, limit: int = 256) -> dict[str, int]:
    """Rewrite `function` to kernel level; counts of what it now holds."""
    block = function.block
    removed = remove_dead_in_block(block)
    groups = fusion_groups(block, limit)
    old = list(block)
    terminator = block.terminator
    assert terminator is not None
    new: dict[Value, Value] = {a: a for a in block.arguments}
    for members, is_kernel in zip(groups.steps, groups.kernels, strict=True):
        if is_kernel:
            _append_kernel(block, terminator, members, groups, new)
        else:
            _append_single(block, terminator, members[0], new)
    for op in reversed(old):
        if op.block is block and op is not terminator and not _is_kept(op):
            op.erase()
    return {"kernels": sum(groups.kernels), "removed": removed}


def _is_kept(op: Operation) -> bool:
    return not isinstance(op.opdef.codegen, FUSABLE) and _kernel_form(op) is None


def _kernel_form(op: Operation) -> Operation | None:
    """The kernel-level operation for a product or transposition, with the operands as they are."""
    if op.opdef.level is Level.KERNEL:
        return None
    types = [v.type for v in op.results]
    names = [v.name for v in op.results]
    if isinstance(op.opdef.codegen, Contraction):
        assert isinstance(op.params, MatmulParams)
        params = GemmParams(op.params.transpose_a, op.params.transpose_b)
        return Operation(GEMM, op.operands, types, params, location=op.location, names=names)
    if isinstance(op.opdef.codegen, Permutation):
        assert isinstance(op.params, TransposeParams)
        moved = MoveParams(op.params.permutation)
        return Operation(MOVE, op.operands, types, moved, location=op.location, names=names)
    return None
