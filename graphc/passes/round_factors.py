"""Rounds the factors of products to bf16, behind differentiation: what `precision="bf16"` means.

    %y = matmul %x, %W : tensor<Nx10xf32>
 =>
    %0 = round_bf16 %x : tensor<Nx64xf32>
    %1 = round_bf16 %W : tensor<64x10xf32>
    %y = matmul %0, %1 : tensor<Nx10xf32>

Products, their sums and all else stay in f32. The product of two such numbers is exact in f32,
within its range, so that sums of them have the same bits with fused multiply-adds as without. The
function says `contraction bf16` from then on: a machine may copy factors as such numbers. A value
is rounded once, where it is made, for all products that read it: forward and backward. What only
moves elements (windows of an image, a transposition, zeros around it) moves rounded ones.

Leaves alone: products of f64; lookups, and products with sparse inputs, which are sums of rows.
O(operations).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.codegen import Broadcast, Contraction, StridedCopy, View, WindowProduct
from graphc.ir.context import Context
from graphc.ir.core import Block, Function, IRBuilder, Module, Operation, RegionKind, Value
from graphc.ir.traversal import straight_blocks
from graphc.ir.types import DType
from graphc.ops.elementwise import ROUND_BF16, round_bf16
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome


def round_factors(function: Function) -> int:
    """Change the products of `function`, which says so then; how many values are rounded."""
    if function.kind is not RegionKind.SSA or function.arena is not None:
        return 0
    function.contraction = "bf16"
    return sum(_round_in_block(block) for block in straight_blocks(function))


def _round_in_block(block: Block) -> int:
    rounded: dict[Value, Value] = {}
    for op in list(block):
        is_product = isinstance(op.opdef.codegen, Contraction | WindowProduct)
        if is_product and op.result.tensor.dtype is DType.F32:
            op.set_operands([_rounded(block, v, rounded) for v in op.operands])
    return sum(value.op is not None and value.op.opdef is ROUND_BF16 for value in rounded.values())


def _rounded(block: Block, value: Value, rounded: dict[Value, Value]) -> Value:
    """`value` in bf16, made where it is made itself."""
    if value in rounded or (value.op is not None and value.op.opdef is ROUND_BF16):
        return rounded.get(value, value)
    op = value.op
    if op is not None and _only_moves(op):
        source = _rounded(block, op.operands[0], rounded)
        made = _behind(block, value).emit_one(op.opdef, source, params=op.params)
    else:
        made = round_bf16(_behind(block, value), value)
    made.label = f"{value.called}.bf16"
    rounded[value] = made
    return made


def _only_moves(op: Operation) -> bool:
    """Whether the result has the operand's elements, all of them at least once, and zeros."""
    category = op.opdef.codegen
    if isinstance(category, StridedCopy):
        has_others = category.fill is not None and category.fill(op.params) != 0
        if category.adds or has_others:
            return False
    elif not isinstance(category, Broadcast | View):
        return False
    if len(op.operands) != 1:
        return False
    return op.operands[0].tensor.bound_elements <= op.result.tensor.bound_elements


def _behind(block: Block, value: Value) -> IRBuilder:
    """What emits directly behind the definition of `value`."""
    if value.op is None:
        return IRBuilder(block, block.first)
    b = IRBuilder(block, value.op.next)
    b.location = value.op.location
    return b


@dataclass(frozen=True)
class RoundFactors(Pass):
    name: ClassVar[str] = "round-factors"
    summary: ClassVar[str] = "round the factors of products to bf16"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})
    changes_gradients: ClassVar[bool] = True

    def run(self, module: Module, context: Context) -> PassOutcome:
        modes = [f.contraction for f in module.functions]
        count = sum(round_factors(f) for f in module.functions)
        changed = count > 0 or modes != [f.contraction for f in module.functions]
        return PassOutcome(changed=changed, counters={"rounded": count})
