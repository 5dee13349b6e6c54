"""Moves max and min pooling before monotone element-wise operations: a bias, a rectifier.

    %0 = add %c, %b : tensor<Nx8x8x4xf32>                      // %b: the same all over an image
    %1 = maximum %0, %zero : tensor<Nx8x8x4xf32>
    %2 = patches %1 {…} : tensor<Nx4x4x2x2x4xf32>
    %y = reduce_max %2 {axes = [3, 4]} : tensor<Nx4x4x1x1x4xf32>
 =>
    %0 = patches %c {…} : tensor<Nx4x4x2x2x4xf32>
    %1 = reduce_max %0 {axes = [3, 4]} : tensor<Nx4x4x1x1x4xf32>
    %2 = add %1, %b' : tensor<Nx4x4x1x1x4xf32>
    %y = maximum %2, %zero : tensor<Nx4x4x1x1x4xf32>

The bias and the rectifier of a convolution then process a quarter of the elements. The result has
the same bits, because rounded addition is monotone. There is one exception: if an infinite element
is added to a bias of the opposite infinity, its nan no longer becomes that of its window.

The gradient changes, so this never runs before differentiation. Where elements of a window tie, as
they do on the background of an image, each of them gets the gradient, and their bias gets the sum
of it; a bias that is added after pooling gets it once. Elements that tie only after the rounded
addition of a bias no longer tie. Operations whose results gradients read stay where they are.

Leaves alone: values with other readers; operands that differ within a window. O(operations).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.context import Context
from graphc.ir.core import Block, IRBuilder, Module, OpDef, Operation, Value
from graphc.ir.rewriter import Pattern, apply_patterns
from graphc.ir.traversal import straight_blocks
from graphc.ir.types import Dim
from graphc.ops.constant import full_like
from graphc.ops.elementwise import ADD, MAXIMUM, MINIMUM
from graphc.ops.movement import RESHAPE, reshape
from graphc.ops.patches import PATCHES, PatchesParams, patches
from graphc.ops.reduction import BROADCAST, REDUCE_MAX, REDUCE_MIN, ReduceParams, broadcast
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.passes.matching import Result, operand_of, splat

IN_ORDER = (ADD, MAXIMUM, MINIMUM)
"""Monotone: a larger operand never gives a smaller result."""


def hoist_pooling(block: Block) -> int:
    """Rewrite the reductions of windows in a block; the number of rewrites."""
    return apply_patterns(block, PATTERNS)


def _early(b: IRBuilder, op: Operation) -> Result:
    source = _only_read(op.operands[0])
    if source is None or source.opdef is not PATCHES or not op.result.tensor.dtype.is_float:
        return None
    walk = source.params_as(PatchesParams)
    params = op.params_as(ReduceParams)
    first = walk.axis + len(walk.sizes)
    if params.axes != tuple(range(first, first + len(walk.sizes))):
        return None
    (x,) = source.operands
    channels = x.tensor.dims[first:]
    late: list[tuple[OpDef, Value]] = []
    start = x
    while (found := _in_order(start, channels)) is not None:
        opdef, start, same = found
        late.append((opdef, same))
    if not late:
        return None
    moved = patches(b, reshape(b, start, x.tensor.dims), walk.axis, walk.sizes, walk.strides)
    value = b.emit_one(op.opdef, moved, params=params)
    for opdef, same in reversed(late):
        value = b.emit_one(opdef, value, _for_windows(b, same, channels, value))
    return [value]


def _in_order(value: Value, channels: tuple[Dim, ...]) -> tuple[OpDef, Value, Value] | None:
    """(operation, operand, what it is combined with) behind reshapes, where nothing else reads it.

    The last one is a constant number or has one element for each channel.
    """
    made = _only_read(value)
    while made is not None and made.opdef is RESHAPE:
        made = _only_read(made.operands[0])
    if made is None or made.opdef not in IN_ORDER:
        return None
    for large, small in (made.operands, made.operands[::-1]):
        same = _per_channel(small, channels)
        if same is not None:
            return made.opdef, large, same
    return None


def _only_read(value: Value) -> Operation | None:
    """The operation that makes `value`, if that has only one reader."""
    return value.op if len(value.uses) == 1 else None


def _per_channel(value: Value, channels: tuple[Dim, ...]) -> Value | None:
    """`value` if it is a number, or what it repeats, one element for each channel."""
    if splat(value) is not None:
        return value
    while (inner := operand_of(value, RESHAPE)) is not None:
        value = inner
    source = operand_of(value, BROADCAST)
    if source is None or not all(isinstance(d, int) for d in channels):
        return None
    # The last dims of the broadcast operand are whole, it is broadcast along the others.
    size = math.prod(d for d in channels if isinstance(d, int))
    wide, narrow = value.tensor.dims, source.tensor.dims
    behind, elements = len(wide), 1
    while elements < size and behind:
        behind -= 1
        extent = wide[behind]
        elements *= extent if isinstance(extent, int) else size + 1
    fits = elements == size and narrow[behind:] == wide[behind:]
    return source if fits and all(d == 1 for d in narrow[:behind]) else None


def _for_windows(b: IRBuilder, same: Value, channels: tuple[Dim, ...], like: Value) -> Value:
    """`same` at the dims of `like`, whose last ones are the channels."""
    number = splat(same)
    if number is not None:
        return full_like(b, float(number), like)
    dims = like.tensor.dims
    ones = (1,) * (len(dims) - len(channels))
    return broadcast(b, reshape(b, same, (*ones, *channels)), dims)


PATTERNS = tuple(
    Pattern("hoist-pooling", reduction, _early) for reduction in (REDUCE_MAX, REDUCE_MIN)
)


@dataclass(frozen=True)
class HoistPooling(Pass):
    name: ClassVar[str] = "hoist-pooling"
    summary: ClassVar[str] = "take extremes of windows before adding biases and rectifying"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})
    changes_gradients: ClassVar[bool] = True

    def run(self, module: Module, context: Context) -> PassOutcome:
        blocks = [block for f in module.functions for block in straight_blocks(f)]
        before = [len(block) for block in blocks]
        moved = sum(hoist_pooling(block) for block in blocks)
        # Dead operations are dropped on the way, which counts as a change.
        changed = moved > 0 or before != [len(block) for block in blocks]
        return PassOutcome(changed, counters={"moved": moved})
