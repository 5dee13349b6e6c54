"""Products with windows and reductions of them become operations that read them where they lie.

    %0 = patches %x {axis = 1, sizes = [5, 5], strides = [1, 1]} : tensor<Nx8x8x5x5x16xf32>
    %y = matmul %0, %w {transpose_b = true, contract = 3} : tensor<Nx8x8x32xf32>
 =>
    %0 = transpose %w {permutation = [1, 2, 3, 0]} : tensor<5x5x16x32xf32>
    %y = conv %x, %0 {axis = 1, strides = [1, 1]} : tensor<Nx8x8x32xf32>

and likewise the product of windows with what they made (`conv.weight_grad`), and `overlap_add` of a
product (`conv.data_grad`): the gradients. Only the weights are brought into another order, which is
one transposition together with the one that they may have been through. A reduction of windows
becomes `pool`, the gradient of their extremes `pool.max_grad`, that of their sum `pool.sum_grad`.
Zeros around the images of a product (`pad`, and `slice` in its gradient) are put around one image
at a time.

Weights of many features, or channels for `conv.data_grad`, are laid out in blocks of them, each one
stretch of memory that is read from end to end. With `line_bytes = 0` they stay in whole rows.

Leaves alone: windows of more than two axes, extents before or among windows that are only known at
the call, products that sum over less than whole windows. O(operations).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from graphc.ir.codegen import Reduction
from graphc.ir.context import Context
from graphc.ir.core import Block, IRBuilder, Module, Operation, Value
from graphc.ir.rewriter import Pattern, apply_patterns
from graphc.ir.traversal import straight_blocks
from graphc.ir.types import fixed_size
from graphc.ops.contraction import MATMUL, MatmulParams
from graphc.ops.convolution import (
    CONV,
    CONV_DATA_GRAD,
    CONV_WEIGHT_GRAD,
    ConvDataGradParams,
    ConvParams,
    ConvWeightGradParams,
)
from graphc.ops.elementwise import EQUAL, SELECT
from graphc.ops.movement import (
    PAD,
    SLICE,
    TRANSPOSE,
    PadParams,
    SliceParams,
    TransposeParams,
    reshape,
    transpose,
)
from graphc.ops.patches import OVERLAP_ADD, PATCHES, OverlapAddParams, PatchesParams
from graphc.ops.pooling import (
    POOL,
    POOL_MAX_GRAD,
    POOL_SUM_GRAD,
    MaxGradParams,
    PoolParams,
    SumGradParams,
)
from graphc.ops.reduction import BROADCAST, REDUCE_MAX, REDUCE_MIN, REDUCE_SUM, ReduceParams
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.passes.matching import Result, is_number, made_by, operand_of

LINE_BYTES = 64
"""Of a cache: weights lie in blocks of one line where they have rows of several."""

MAX_AXES = 2
"""Walked axes of a convolution or pooling."""


def fuse_patches(block: Block, line_bytes: int = LINE_BYTES) -> int:
    """Rewrite what is made of windows in a block; how many rewrites there were."""
    return apply_patterns(block, patterns(line_bytes))


def _conv(b: IRBuilder, op: Operation, line_bytes: int) -> Result:
    """Windows times weights."""
    p, (patches, weights) = op.params_as(MatmulParams), op.operands
    found = _patches(patches)
    if found is None or p.batch or p.transpose_a:
        return None
    x, walk = found
    inside, rank = x.tensor.rank - walk.axis, weights.tensor.rank
    if p.contract != inside or not _all_known(weights.tensor.dims):
        return None
    order = _rolled(rank, rank - inside) if p.transpose_b else list(range(rank))
    block = _block(weights, order[inside:], line_bytes, needed=2)
    if block:
        order = [order[inside], *order]
    x, low, high = _unpadded(x, walk)
    params = ConvParams(walk.axis, walk.strides, low, high, block)
    return [b.emit_one(CONV, x, _laid_out(b, weights, order, block), params=params)]


def _conv_weight_grad(b: IRBuilder, op: Operation) -> Result:
    """The sum over all places of windows times what they made, in either order."""
    p, (first, second) = op.params_as(MatmulParams), op.operands
    if p.batch or not p.transpose_a or p.transpose_b:
        return None
    for patches, places in ((first, second), (second, first)):
        found = _patches(patches)
        if found is None:
            continue
        x, walk = found
        features = places.tensor.dims[p.contract :]
        if p.contract != walk.axis + len(walk.sizes) or not _all_known(features):
            continue
        inner, low, high = _unpadded(x, walk)
        params = ConvWeightGradParams(walk.axis, walk.sizes, walk.strides, low, high)
        weights = b.emit_one(CONV_WEIGHT_GRAD, inner, places, params=params)
        if patches is first:
            return [weights]
        return [transpose(b, weights, _rolled(weights.tensor.rank, x.tensor.rank - walk.axis))]
    return None


def _conv_data_grad(b: IRBuilder, op: Operation, line_bytes: int) -> Result:
    """A product, put back where its windows came from."""
    walk, product = op.params_as(OverlapAddParams), made_by(op.operands[0], MATMUL)
    if product is None or len(walk.strides) > MAX_AXES:
        return None
    p, (places, weights) = product.params_as(MatmulParams), product.operands
    before = walk.axis + len(walk.strides)
    if p.batch or p.transpose_a or places.tensor.rank - p.contract != before:
        return None
    rank = weights.tensor.rank
    features, order = p.contract, list(range(rank))
    if p.transpose_b:
        order = _rolled(rank, rank - features)
    count = len(walk.strides)
    inside = order[features:]
    extents = tuple(e for e in walk.extents if isinstance(e, int))
    kept = (*weights.tensor.dims, *places.tensor.dims[walk.axis :])
    if not _all_known((*op.result.tensor.dims[walk.axis :], *kept)):
        return None
    last = weights.tensor.dims[inside[count - 1]]
    block = _block(weights, inside[count:], line_bytes, needed=2 if last == 1 else 1)
    if block:
        order = [*inside, *order[:features], inside[-1]]
    else:
        order = [*inside[: count - 1], *order[:features], *inside[count - 1 :]]
    params = ConvDataGradParams(walk.axis, extents, walk.strides, block=block)
    return [b.emit_one(CONV_DATA_GRAD, places, _laid_out(b, weights, order, block), params=params)]


def _block(weights: Value, axes: Sequence[int], line_bytes: int, needed: int) -> int:
    """How many elements along the last axis fill a cache line, if the axis is made of such blocks.

    At least `needed` of them; 0 where there is not one axis, or it is not, or no line.
    """
    block = line_bytes // weights.tensor.dtype.itemsize
    if len(axes) != 1 or not block:
        return 0
    extent = weights.tensor.dims[axes[0]]
    fits = isinstance(extent, int) and extent % block == 0 and extent >= needed * block
    return block if fits else 0


def _inside(b: IRBuilder, op: Operation) -> Result:
    """What zeros were around, out of a sum of windows: they are left out at once."""
    made = made_by(op.operands[0], CONV_DATA_GRAD)
    if made is None:
        return None
    params, part = made.params_as(ConvDataGradParams), op.params_as(SliceParams)
    dims, first = made.result.tensor.dims, params.axis
    last = first + len(params.extents)
    if params.low or any(step != 1 for step in part.steps):
        return None
    ends = list(zip(part.starts, part.stops, dims, strict=True))
    if any((start, stop) != (0, d) for start, stop, d in (*ends[:first], *ends[last:])):
        return None
    walked = [
        (a, z, d) for a, z, d in ends[first:last] if isinstance(a, int) and isinstance(z, int)
    ]
    inner = tuple(z - a for a, z, _ in walked)
    if len(walked) < last - first or min(inner) < 1:
        return None
    low = tuple(a for a, _, _ in walked)
    high = tuple(d - z for _, z, d in walked if isinstance(d, int))
    params = replace(params, extents=inner, low=low, high=high)
    return [b.emit_one(CONV_DATA_GRAD, *made.operands, params=params)]


def _transposition(b: IRBuilder, op: Operation) -> Result:
    """Of weights that a convolution has made: one with that which the convolution needs."""
    inner = made_by(op.operands[0], TRANSPOSE)
    if inner is None or made_by(inner.operands[0], CONV_WEIGHT_GRAD) is None:
        return None
    return [_laid_out(b, inner.result, op.params_as(TransposeParams).permutation, 0)]


def _pool(b: IRBuilder, op: Operation) -> Result:
    """Windows, each folded to one element."""
    assert isinstance(op.opdef.codegen, Reduction)
    found = _patches(op.operands[0])
    if found is None or not op.result.tensor.dtype.is_float:
        return None
    x, walk = found
    if op.params_as(ReduceParams).axes != _inner_axes(walk):
        return None
    params = PoolParams(op.opdef.codegen.scalar_op, walk.axis, walk.sizes, walk.strides)
    return [reshape(b, b.emit_one(POOL, x, params=params), op.result.tensor.dims)]


def _pool_gradient(b: IRBuilder, op: Operation) -> Result:
    """`overlap_add` of what the reduction of windows hands to their elements."""
    back, type = op.params_as(OverlapAddParams), op.operands[0].tensor
    count = len(back.strides)
    first = back.axis + count
    extents = tuple(e for e in back.extents if isinstance(e, int))
    known = _all_known((*type.dims[back.axis :], *back.extents)) and type.dtype.is_float
    if count > MAX_AXES or not known:
        return None
    sizes = tuple(d for d in type.dims[first : first + count] if isinstance(d, int))
    walk = PatchesParams(back.axis, sizes, back.strides)
    narrow = (*type.dims[:first], *type.dims[first + count :])
    spread = _sum_grad(op.operands[0], walk)
    if spread is not None:
        params = SumGradParams(walk.axis, extents, walk.sizes, walk.strides)
        return [b.emit_one(POOL_SUM_GRAD, reshape(b, spread, narrow), params=params)]
    found = _attained(op.operands[0], walk)
    if found is None or found[0].tensor != op.result.tensor:
        return None
    x, y, dy = found[0], *(reshape(b, v, narrow) for v in found[1:])
    params = MaxGradParams(walk.axis, walk.sizes, walk.strides)
    return [b.emit_one(POOL_MAX_GRAD, x, y, dy, params=params)]


def _attained(value: Value, walk: PatchesParams) -> tuple[Value, Value, Value] | None:
    """(x, y, dy) of `windows x = broadcast y ? broadcast dy : 0`."""
    choice = made_by(value, SELECT)
    if choice is None or not is_number(choice.operands[2], 0.0):
        return None
    compared, dy = made_by(choice.operands[0], EQUAL), _sum_grad(choice.operands[1], walk)
    if compared is None or dy is None:
        return None
    for patches, extreme in (compared.operands, compared.operands[::-1]):
        found, y = _patches(patches), _sum_grad(extreme, walk)
        if found is not None and found[1] == walk and y is not None:
            return found[0], y, dy
    return None


def _sum_grad(value: Value, walk: PatchesParams) -> Value | None:
    """What stands, once for each window, for all of its elements."""
    small = operand_of(value, BROADCAST)
    if small is None:
        return None
    inner = _inner_axes(walk)
    wanted = (1 if i in inner else d for i, d in enumerate(value.tensor.dims))
    return small if small.tensor.dims == tuple(wanted) else None


def _inner_axes(walk: PatchesParams) -> tuple[int, ...]:
    """The axes of a window's elements."""
    first = walk.axis + len(walk.sizes)
    return tuple(range(first, first + len(walk.sizes)))


def patterns(line_bytes: int) -> tuple[Pattern, ...]:
    """What this pass rewrites; `line_bytes` as in `FusePatches`."""
    return (
        Pattern("conv", MATMUL, partial(_conv, line_bytes=line_bytes)),
        Pattern("conv-weights", MATMUL, _conv_weight_grad),
        Pattern("conv-image", OVERLAP_ADD, partial(_conv_data_grad, line_bytes=line_bytes)),
        *(Pattern("pool", reduction, _pool) for reduction in (REDUCE_SUM, REDUCE_MAX, REDUCE_MIN)),
        Pattern("pool-gradient", OVERLAP_ADD, _pool_gradient),
        Pattern("inside", SLICE, _inside),
        Pattern("transposed-weights", TRANSPOSE, _transposition),
    )


def _patches(value: Value) -> tuple[Value, PatchesParams] | None:
    """What the windows are taken of, and how, where a convolution can do that."""
    op = made_by(value, PATCHES)
    if op is None:
        return None
    (x,), walk = op.operands, op.params_as(PatchesParams)
    known = _all_known(x.tensor.dims[walk.axis :])
    return (x, walk) if known and len(walk.sizes) <= MAX_AXES else None


def _unpadded(x: Value, walk: PatchesParams) -> tuple[Value, tuple[int, ...], tuple[int, ...]]:
    """What zeros are put around, and how many before and after, on the walked axes."""
    made = made_by(x, PAD)
    if made is None:
        return x, (), ()
    padding = made.params_as(PadParams)
    low, high, first = padding.low, padding.high, walk.axis
    last = first + len(walk.sizes)
    others = (*low[:first], *low[last:], *high[:first], *high[last:], *padding.inner)
    if any(others) or padding.value != 0.0:
        return x, (), ()
    before, after = (tuple(n for n in a[first:last] if isinstance(n, int)) for a in (low, high))
    if not len(before) == len(after) == last - first:
        return x, (), ()
    return made.operands[0], before, after


def _all_known(dims: Sequence[object]) -> bool:
    """Whether there is something to compute, of extents that no call decides."""
    return all(isinstance(d, int) and d > 0 for d in dims)


def _rolled(rank: int, count: int) -> list[int]:
    """The permutation that brings the first `count` dims behind the others."""
    return [*range(count, rank), *range(count)]


def _laid_out(b: IRBuilder, x: Value, order: Sequence[int], block: int) -> Value:
    """`x` with its dims in this order, in one step with the transposition that made it.

    With a block the last axis is named twice: where the number of the block stands, and at the end.
    """
    inner = made_by(x, TRANSPOSE)
    if inner is not None:
        permutation = inner.params_as(TransposeParams).permutation
        (x,), order = inner.operands, [permutation[i] for i in order]
    if not block:
        return transpose(b, x, order)
    dims, split = x.tensor.dims, order[-1]
    extent = fixed_size(dims[split])
    x = reshape(b, x, (*dims[:split], extent // block, block, *dims[split + 1 :]))
    moved = [i + 1 if i > split else i for i in order[:-1]]
    return transpose(b, x, [*moved, split + 1])


@dataclass(frozen=True)
class FusePatches(Pass):
    """`line_bytes`: of a cache, which blocks of weights fill; 0: no blocks, as on a GPU."""

    name: ClassVar[str] = "fuse-patches"
    summary: ClassVar[str] = "let products and reductions of windows read them where they lie"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})
    line_bytes: int = LINE_BYTES

    def run(self, module: Module, context: Context) -> PassOutcome:
        blocks = [block for f in module.functions for block in straight_blocks(f)]
        before = [len(block) for block in blocks]
        count = sum(fuse_patches(block, self.line_bytes) for block in blocks)
        # Dead operations are dropped on the way, which counts as a change.
        changed = count > 0 or before != [len(block) for block in blocks]
        return PassOutcome(changed, counters={"rewrites": count})
