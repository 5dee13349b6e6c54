"""The patterns of `simplify` for operations that repeat, rename and move elements.

    %1 = slice %x {starts = [2], stops = [9], steps = [1]} : tensor<7xf32>
    %2 = slice %1 {starts = [1], stops = [4], steps = [1]} : tensor<3xf32>
 =>
    %2 = slice %x {starts = [3], stops = [6], steps = [1]} : tensor<3xf32>

They move no element twice where once is enough, and none that is thrown away again.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.codegen import Elementwise
from graphc.ir.core import IRBuilder, Operation, Value
from graphc.ir.params import print_value
from graphc.ir.rewriter import Pattern
from graphc.ir.types import Dim, fixed_size
from graphc.ops.constant import CONSTANT, ConstantParams
from graphc.ops.contraction import MATMUL, MatmulParams, matmul
from graphc.ops.movement import (
    CONCAT,
    PAD,
    RESHAPE,
    REVERSE,
    SLICE,
    TRANSPOSE,
    ConcatParams,
    PadParams,
    ReverseParams,
    SliceParams,
    TransposeParams,
    cuts_open_axis,
    pad,
    reshape,
    reverse,
    slice_box,
    transpose,
)
from graphc.ops.patches import OVERLAP_ADD, PATCHES, OverlapAddParams, PatchesParams
from graphc.ops.reduction import BROADCAST, broadcast
from graphc.passes.matching import Result, made_by, operand_of, splat

# --- reshapes, broadcasts, transpositions --------------------------------------------------------


def _reshape_same(_b: IRBuilder, op: Operation) -> Result:
    (x,) = op.operands
    return [x] if x.type == op.result.type else None


def _reshape_of_reshape(b: IRBuilder, op: Operation) -> Result:
    inner = operand_of(op.operands[0], RESHAPE)
    return [reshape(b, inner, op.result.tensor.dims)] if inner is not None else None


def _reshape_of_broadcast(b: IRBuilder, op: Operation) -> Result:
    """Only where extents of 1 come and go, so that the broadcast can follow the reshape."""
    inner = operand_of(op.operands[0], BROADCAST)
    if inner is None:
        return None
    spread, dims = op.operands[0].tensor.dims, op.result.tensor.dims
    kept = [(full, own) for full, own in zip(spread, inner.tensor.dims, strict=True) if full != 1]
    if [full for full, _ in kept] != [d for d in dims if d != 1]:
        return None
    own = iter([small for _, small in kept])
    return [broadcast(b, reshape(b, inner, [1 if d == 1 else next(own) for d in dims]), dims)]


def _broadcast_same(_b: IRBuilder, op: Operation) -> Result:
    (x,) = op.operands
    return [x] if x.type == op.result.type else None


def _broadcast_of_broadcast(b: IRBuilder, op: Operation) -> Result:
    inner = operand_of(op.operands[0], BROADCAST)
    return [broadcast(b, inner, op.result.tensor.dims)] if inner is not None else None


def _move_constant(b: IRBuilder, op: Operation) -> Result:
    """A broadcast, reshape or transposition of one number repeated."""
    constant = made_by(op.operands[0], CONSTANT)
    if constant is None or splat(constant.result) is None:
        return None
    params = ConstantParams(op.result.tensor, constant.params_as(ConstantParams).value[:1])
    return [b.emit_one(CONSTANT, params=params)]


def _elementwise_of_broadcast(b: IRBuilder, op: Operation) -> Result:
    """Compute on the small operands, then broadcast; constants of one number adapt."""
    if not isinstance(op.opdef.codegen, Elementwise):
        return None
    dims: tuple[Dim, ...] | None = None
    for value in op.operands:
        inner = operand_of(value, BROADCAST)
        if inner is None and splat(value) is None:
            return None
        if inner is not None:
            if dims is not None and inner.tensor.dims != dims:
                return None
            dims = inner.tensor.dims
    if dims is None or dims == op.result.tensor.dims:
        return None
    small = [_without_broadcast(b, v, dims) for v in op.operands]
    return [broadcast(b, b.emit_one(op.opdef, *small, params=op.params), op.result.tensor.dims)]


def _without_broadcast(b: IRBuilder, value: Value, dims: tuple[Dim, ...]) -> Value:
    inner = operand_of(value, BROADCAST)
    if inner is not None:
        return inner
    constant = value.definition
    one = constant.params_as(ConstantParams).value[:1]
    return b.emit_one(CONSTANT, params=ConstantParams(value.tensor.with_dims(dims), one))


def _elementwise_of_reshape(b: IRBuilder, op: Operation) -> Result:
    """Compute in the shape before a reshape, where that lets operations be one kernel; the reshape
    goes to the result.

    Either an operand is a broadcast in another shape, which would fill memory, and no other one has
    to leave the shape that it is computed in; or all operands were computed in one other shape.
    """
    if not isinstance(op.opdef.codegen, Elementwise):
        return None
    before = [operand_of(value, RESHAPE) for value in op.operands]
    spread = next((v for v in before if v is not None and made_by(v, BROADCAST)), None)
    first = spread or next((v for v in before if v is not None and _is_in_kernels(v)), None)
    if first is None:
        return None
    dims, is_free = first.tensor.dims, spread is not None
    if not all(_fits(v, dims, is_free=is_free) for v in op.operands):
        return None
    operands = [_in_shape(b, v, dims) for v in op.operands]
    return [reshape(b, b.emit_one(op.opdef, *operands, params=op.params), op.result.tensor.dims)]


def _fits(value: Value, dims: tuple[Dim, ...], *, is_free: bool) -> bool:
    """Whether `value` was computed in the shape `dims`, or has no shape; `is_free`: or was not
    computed in a kernel, so that it may be reshaped."""
    before = operand_of(value, RESHAPE) or value
    if splat(value) is not None or before.tensor.dims == dims:
        return True
    return is_free and not _is_in_kernels(before)


def _is_in_kernels(value: Value) -> bool:
    made = value.op
    return made is not None and (
        made.opdef is BROADCAST or isinstance(made.opdef.codegen, Elementwise)
    )


def _in_shape(b: IRBuilder, value: Value, dims: tuple[Dim, ...]) -> Value:
    if splat(value) is None:
        return reshape(b, operand_of(value, RESHAPE) or value, dims)
    one = value.definition.params_as(ConstantParams).value[:1]
    return b.emit_one(CONSTANT, params=ConstantParams(value.tensor.with_dims(dims), one))


def _transpose_of_transpose(b: IRBuilder, op: Operation) -> Result:
    inner = made_by(op.operands[0], TRANSPOSE)
    if inner is None:
        return None
    first = inner.params_as(TransposeParams).permutation
    second = op.params_as(TransposeParams).permutation
    return [transpose(b, inner.operands[0], [first[i] for i in second])]


def _transpose_of_units(b: IRBuilder, op: Operation) -> Result:
    """A transposition that keeps the order of the extents above 1 is a view."""
    (x,) = op.operands
    dims = x.tensor.dims
    moved = [i for i in op.params_as(TransposeParams).permutation if dims[i] != 1]
    return [reshape(b, x, op.result.tensor.dims)] if moved == sorted(moved) else None


def _matmul_of_transpose(b: IRBuilder, op: Operation) -> Result:
    params = op.params_as(MatmulParams)
    if (params.contract, params.batch) != (1, 0):
        return None
    x, y = op.operands
    a, c = _exchanged(x), _exchanged(y)
    if a is None and c is None:
        return None
    ta = params.transpose_a != (a is not None)
    tb = params.transpose_b != (c is not None)
    return [matmul(b, a or x, c or y, transpose_a=ta, transpose_b=tb)]


def _exchanged(value: Value) -> Value | None:
    """The matrix that `value` is the transposed of; None for other transpositions."""
    op = made_by(value, TRANSPOSE)
    if op is None or op.params != TransposeParams((1, 0)):
        return None
    return op.operands[0]


# --- slices, paddings, joined parts --------------------------------------------------------------


def _slice_same(_b: IRBuilder, op: Operation) -> Result:
    """Nothing is cut off; all that keeps the type takes every element."""
    (x,) = op.operands
    return [x] if x.type == op.result.type else None


def _slice_of_slice(b: IRBuilder, op: Operation) -> Result:
    inner = made_by(op.operands[0], SLICE)
    if inner is None or cuts_open_axis(inner) or cuts_open_axis(op):
        return None
    p, q = inner.params_as(SliceParams), op.params_as(SliceParams)
    first, then = map(fixed_size, p.starts), map(fixed_size, q.starts)
    starts = [a + s * c for a, s, c in zip(first, p.steps, then, strict=True)]
    steps = [s * t for s, t in zip(p.steps, q.steps, strict=True)]
    return [_taken(b, inner.operands[0], starts, steps, op.result.tensor.dims)]


def _slice_of_pad(b: IRBuilder, op: Operation) -> Result:
    """A slice that takes elements and no padding."""
    inner = made_by(op.operands[0], PAD)
    dims = op.result.tensor.dims
    if inner is None or 0 in dims or cuts_open_axis(op) or _pads_open_axis(inner):
        return None
    params = op.params_as(SliceParams)
    padding = inner.params_as(PadParams)
    (x,) = inner.operands
    starts: list[int] = []
    steps: list[int] = []
    for axis, (dim, taken) in enumerate(zip(x.tensor.dims, dims, strict=True)):
        gap = padding.inner[axis] + 1
        first, low = fixed_size(params.starts[axis]), fixed_size(padding.low[axis])
        start, off = divmod(first - low, gap)
        step, off_step = divmod(params.steps[axis], gap)
        if isinstance(dim, int) and isinstance(taken, int):
            if taken == 1:
                step, off_step = 1, 0
            if start < 0 or off or off_step or start + (taken - 1) * step >= dim:
                return None
        starts.append(start)
        steps.append(step)
    return [_taken(b, x, starts, steps, dims)]


def _pads_open_axis(op: Operation) -> bool:
    """Whether anything is added to an axis whose size a call decides, or as much as one decides."""
    params = op.params_as(PadParams)
    axes = zip(op.operands[0].tensor.dims, params.low, params.high, strict=True)
    return any(
        (low, high) != (0, 0) and not all(isinstance(n, int) for n in (dim, low, high))
        for dim, low, high in axes
    )


def _taken(
    b: IRBuilder, x: Value, starts: Sequence[int], steps: Sequence[int], dims: Sequence[Dim]
) -> Value:
    """`dims` elements of `x` from `starts` on, as a slice whose stops are just behind the last."""
    cuts: list[tuple[int, Dim, int]] = []
    for start, step, dim in zip(starts, steps, dims, strict=True):
        if not isinstance(dim, int) or dim == 0:
            cuts.append((0, dim, 1))
        elif dim == 1:
            cuts.append((start, start + 1, 1))
        else:
            cuts.append((start, start + (dim - 1) * step + 1, step))
    return slice_box(b, x, [c[0] for c in cuts], [c[1] for c in cuts], [c[2] for c in cuts])


def _slice_of_concat(b: IRBuilder, op: Operation) -> Result:
    """A slice that takes elements of one part."""
    inner = made_by(op.operands[0], CONCAT)
    dims = op.result.tensor.dims
    if inner is None or cuts_open_axis(op):
        return None
    params = op.params_as(SliceParams)
    axis = inner.params_as(ConcatParams).axis
    if not all(isinstance(v.tensor.dims[axis], int) for v in inner.operands):
        return None
    count, first = fixed_size(dims[axis]), fixed_size(params.starts[axis])
    if count == 0:
        return None
    last = first + (count - 1) * params.steps[axis]
    begin = 0
    for part in inner.operands:
        size = fixed_size(part.tensor.dims[axis])
        if begin <= first and last < begin + size:
            starts = list(map(fixed_size, params.starts))
            starts[axis] = first - begin
            return [_taken(b, part, starts, params.steps, dims)]
        begin += size
    return None


def _pad_same(_b: IRBuilder, op: Operation) -> Result:
    """Nothing is added."""
    (x,) = op.operands
    return [x] if x.type == op.result.type else None


def _pad_of_pad(b: IRBuilder, op: Operation) -> Result:
    """Around and between the same number as before."""
    inner = made_by(op.operands[0], PAD)
    if inner is None or 0 in inner.operands[0].tensor.dims:
        return None
    p, q = inner.params_as(PadParams), op.params_as(PadParams)
    if print_value(p.value) != print_value(q.value):
        return None
    gaps = [i + 1 for i in q.inner]
    low = [a + g * c for a, c, g in zip(q.low, p.low, gaps, strict=True)]
    high = [a + g * c for a, c, g in zip(q.high, p.high, gaps, strict=True)]
    between = [(i + 1) * g - 1 for i, g in zip(p.inner, gaps, strict=True)]
    return [pad(b, inner.operands[0], low, high, between, q.value)]


def _concat_of_one(_b: IRBuilder, op: Operation) -> Result:
    return [op.operands[0]] if len(op.operands) == 1 else None


def _reverse_of_units(b: IRBuilder, op: Operation) -> Result:
    """An axis of at most one element has no order."""
    (x,) = op.operands
    params = op.params_as(ReverseParams)
    axes = tuple(a for a in params.axes if x.tensor.dims[a] not in (0, 1))
    return [reverse(b, x, axes)] if axes != params.axes or not axes else None


def _reverse_of_reverse(b: IRBuilder, op: Operation) -> Result:
    inner = made_by(op.operands[0], REVERSE)
    if inner is None:
        return None
    axes = sorted(set(op.params_as(ReverseParams).axes) ^ set(inner.params_as(ReverseParams).axes))
    return [reverse(b, inner.operands[0], axes)]


def _windows_of_one(b: IRBuilder, op: Operation) -> Result:
    """Windows of one element, one for each: a convolution with them is a plain product."""
    params = op.params_as(PatchesParams)
    is_one = {*params.sizes, *params.strides} == {1}
    return [reshape(b, op.operands[0], op.result.tensor.dims)] if is_one else None


def _overlap_of_one(b: IRBuilder, op: Operation) -> Result:
    """Windows of one element put back: none meet."""
    params = op.params_as(OverlapAddParams)
    first, count = params.axis + len(params.extents), len(params.extents)
    sizes = op.operands[0].tensor.dims[first : first + count]
    is_one = {*sizes, *params.strides} == {1}
    return [reshape(b, op.operands[0], op.result.tensor.dims)] if is_one else None


MOVEMENT_PATTERNS: tuple[Pattern, ...] = (
    Pattern("reshape-same", RESHAPE, _reshape_same),
    Pattern("reshape-of-reshape", RESHAPE, _reshape_of_reshape),
    Pattern("reshape-of-constant", RESHAPE, _move_constant),
    Pattern("reshape-of-broadcast", RESHAPE, _reshape_of_broadcast),
    Pattern("broadcast-same", BROADCAST, _broadcast_same),
    Pattern("broadcast-of-broadcast", BROADCAST, _broadcast_of_broadcast),
    Pattern("broadcast-of-constant", BROADCAST, _move_constant),
    Pattern("transpose-of-constant", TRANSPOSE, _move_constant),
    Pattern("transpose-of-transpose", TRANSPOSE, _transpose_of_transpose),
    Pattern("transpose-of-units", TRANSPOSE, _transpose_of_units),
    Pattern("matmul-of-transpose", MATMUL, _matmul_of_transpose),
    Pattern("slice-same", SLICE, _slice_same),
    Pattern("slice-of-slice", SLICE, _slice_of_slice),
    Pattern("slice-of-pad", SLICE, _slice_of_pad),
    Pattern("slice-of-concat", SLICE, _slice_of_concat),
    Pattern("pad-same", PAD, _pad_same),
    Pattern("pad-of-pad", PAD, _pad_of_pad),
    Pattern("concat-of-one", CONCAT, _concat_of_one),
    Pattern("reverse-of-units", REVERSE, _reverse_of_units),
    Pattern("reverse-of-reverse", REVERSE, _reverse_of_reverse),
    Pattern("windows-of-one", PATCHES, _windows_of_one),
    Pattern("overlap-of-one", OVERLAP_ADD, _overlap_of_one),
    Pattern("elementwise-of-broadcast", None, _elementwise_of_broadcast),
    Pattern("elementwise-of-reshape", None, _elementwise_of_reshape),
)
