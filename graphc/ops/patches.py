"""Sliding windows over neighbouring axes, and their adjoint.

    patches      [.., E.., ..] -> [.., O.., S.., ..]    O = (E - S) // stride + 1 of size S
    overlap_add  [.., O.., S.., ..] -> [.., E.., ..]    elements that meet are added

A convolution is the product of windows with weights, a pooling their maximum or mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.codegen import AffineCopy, AffineIndex, StridedCopy
from graphc.ir.core import Array, IRBuilder, OpDef, Operation, Value
from graphc.ir.dims import (
    Dim,
    Symbol,
    is_never_negative,
    size_difference,
    size_floor,
    size_sum,
    size_text,
)
from graphc.ir.params import Params
from graphc.ir.types import DType, TensorType, Type, TypeRuleError, fixed_size
from graphc.ops.elementwise import cast
from graphc.ops.rules import NUMBERS, multilinear_jvp, require_dtype, tensor


@dataclass(frozen=True)
class PatchesParams(Params):
    """`axis`: the first of the axes that are walked; one size and one stride for each.

    behind  how many elements there are behind the first window, of an axis where a call might have
            too few for one; 0 for others, () for 0 everywhere
    """

    axis: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    behind: tuple[int | Symbol, ...] = ()


@dataclass(frozen=True)
class OverlapAddParams(Params):
    """`extents`: those of the walked axes in the result, from axis `axis` on.

    behind  as in `PatchesParams`, where calls without any window are to be refused
    """

    axis: int
    extents: tuple[int | Symbol, ...]
    strides: tuple[int, ...]
    behind: tuple[int | Symbol, ...] = ()


def patches(
    b: IRBuilder, x: Value, axis: int, sizes: Sequence[int], strides: Sequence[int]
) -> Value:
    """Every window of `sizes`, `strides` apart, over the axes from `axis` on."""
    behind = _behind(x.tensor.dims[axis : axis + len(sizes)], sizes)
    params = PatchesParams(axis, tuple(sizes), tuple(strides), behind)
    return b.emit_one(PATCHES, x, params=params)


def _behind(extents: Sequence[Dim], sizes: Sequence[int]) -> tuple[Dim, ...]:
    """What is behind the first window, where a call might have less than that."""
    rest = map(size_difference, extents, sizes)
    behind = tuple(0 if isinstance(n, int) or is_never_negative(n) else n for n in rest)
    return behind if any(behind) else ()


def overlap_add(
    b: IRBuilder,
    y: Value,
    axis: int,
    extents: Sequence[Dim],
    strides: Sequence[int],
    *,
    refuses_none: bool = False,
) -> Value:
    """Windows put back where they came from, and added; `refuses_none`: a call without any window
    is an error."""
    sizes = (fixed_size(d) for d in y.tensor.dims[axis + len(extents) :][: len(extents)])
    behind = _behind(extents, tuple(sizes)) if refuses_none else ()
    params = OverlapAddParams(axis, tuple(extents), tuple(strides), behind)
    dtype = y.tensor.dtype
    if dtype is dtype.computed:
        return b.emit_one(OVERLAP_ADD, y, params=params)
    return cast(b, b.emit_one(OVERLAP_ADD, cast(b, y, dtype.computed), params=params), dtype)


def positions(extent: int, size: int, stride: int) -> int:
    """How many windows of `size` fit into `extent`, `stride` apart."""
    return (extent - size) // stride + 1 if extent >= size else 0


def open_positions(extent: Dim, size: int, stride: int) -> Dim:
    """The same of an extent that a call may decide."""
    if isinstance(extent, int):
        return positions(extent, size, stride)
    return size_sum([size_floor(size_difference(extent, size), stride), 1])


def _infer_patches(types: Sequence[Type], params: PatchesParams) -> Sequence[Type]:
    type = tensor(types[0])
    count = len(params.sizes)
    _require_walk(params.axis, count, len(params.strides), type.rank, params.strides)
    extents = type.dims[params.axis : params.axis + count]
    places: list[Dim] = []
    behind = _all_behind(params.behind, count)
    for extent, size, stride, left in zip(
        extents, params.sizes, params.strides, behind, strict=True
    ):
        if size < 1 or (isinstance(extent, int) and size > extent):
            raise TypeRuleError(
                f"requires a window of 1 to {extent}, got {size} (over {type})", slug="bad-value"
            )
        rest = size_difference(extent, size)
        if not is_never_negative(rest) and rest != left:
            raise TypeRuleError(
                f"requires {size} elements of {size_text(extent)} in every call, which is not "
                f"shown: give `behind` a dim that is {size_text(rest)}, got {size_text(left)}"
            )
        places.append(open_positions(extent, size, stride))
    before, after = type.dims[: params.axis], type.dims[params.axis + count :]
    return [type.with_dims((*before, *places, *params.sizes, *after))]


def _all_behind(behind: Sequence[Dim], count: int) -> Sequence[Dim]:
    if len(behind or (0,) * count) != count:
        raise TypeRuleError(f"requires `behind` of none or all of {count} axes, got {len(behind)}")
    return behind or (0,) * count


def _require_walk(axis: int, count: int, strides: int, rank: int, steps: Sequence[int]) -> None:
    if count < 1 or strides != count or not 0 <= axis <= rank - count:
        raise TypeRuleError(
            f"requires one size and one stride for each of the axes from {axis} on, within the "
            f"rank {rank}, got {count} and {strides}"
        )
    if min(steps) < 1:
        raise TypeRuleError(f"requires strides of at least 1, got {list(steps)}", slug="bad-value")


def _infer_overlap_add(types: Sequence[Type], params: OverlapAddParams) -> Sequence[Type]:
    type = tensor(types[0])
    require_dtype(type, (*NUMBERS, DType.I1))
    count = len(params.extents)
    _require_walk(params.axis, count, len(params.strides), type.rank - count, params.strides)
    first = params.axis
    places = type.dims[first : first + count]
    sizes = type.dims[first + count : first + 2 * count]
    behind = _all_behind(params.behind, count)
    for place, size, extent, stride, left in zip(
        places, sizes, params.extents, params.strides, behind, strict=True
    ):
        if not isinstance(size, int) or size < 1 or place != open_positions(extent, size, stride):
            raise TypeRuleError(
                f"requires the windows of extents {list(params.extents)}, got {type}",
                slug="shape-mismatch",
            )
        if left != 0 and left != size_difference(extent, size):
            raise TypeRuleError(
                f"requires `behind` of 0 or of what is left of {size_text(extent)} without "
                f"{size}, got {size_text(left)}"
            )
    before, after = type.dims[:first], type.dims[first + 2 * count :]
    return [type.with_dims((*before, *params.extents, *after))]


def _window_view(x: Array, params: PatchesParams) -> Array:
    axes = tuple(range(params.axis, params.axis + len(params.sizes)))
    view = np.lib.stride_tricks.sliding_window_view(x, params.sizes, axes)  # sizes come last
    steps = [slice(None)] * x.ndim
    for axis, stride in zip(axes, params.strides, strict=True):
        steps[axis] = slice(None, None, stride)
    last = range(x.ndim, x.ndim + len(axes))
    return np.moveaxis(view[tuple(steps)], tuple(last), tuple(a + len(axes) for a in axes))


def patches_reference(params: PatchesParams, x: Array) -> Array:
    return np.array(_window_view(x, params), order="C")


def overlap_add_reference(params: OverlapAddParams, y: Array) -> Array:
    count = len(params.extents)
    after = params.axis + count
    sizes = y.shape[after : after + count]
    extents = map(fixed_size, params.extents)
    shape = (*y.shape[: params.axis], *extents, *y.shape[after + count :])
    result = np.zeros(shape, y.dtype)
    for offset in reversed(list(np.ndindex(*sizes))):  # earlier windows are added first
        place = tuple(
            slice(o, o + n * s, s)
            for o, n, s in zip(offset, y.shape[params.axis : after], params.strides, strict=True)
        )
        lead = (slice(None),) * params.axis
        result[(*lead, *place)] += y[(*lead, *(slice(None),) * count, *offset)]
    return result


def _copy(narrow: TensorType, wide: TensorType, axis: int, strides: Sequence[int]) -> AffineCopy:
    """Every element of the windows `wide`, and where it lies in `narrow`."""
    count = len(strides)
    at = [AffineIndex(0, ((i, 1),)) for i in range(axis)]
    at += [AffineIndex(0, ((axis + j, s), (axis + count + j, 1))) for j, s in enumerate(strides)]
    at += [AffineIndex(0, ((i + count, 1),)) for i in range(axis + count, narrow.rank)]
    all_of_it = tuple(AffineIndex(0, ((i, 1),)) for i in range(wide.rank))
    return AffineCopy(0, wide.dims, tuple(at), all_of_it)


def _patches_copies(
    params: PatchesParams, types: Sequence[TensorType], result: TensorType
) -> Sequence[AffineCopy]:
    return [_copy(types[0], result, params.axis, params.strides)]


def _overlap_add_copies(
    params: OverlapAddParams, types: Sequence[TensorType], result: TensorType
) -> Sequence[AffineCopy]:
    there = _copy(result, types[0], params.axis, params.strides)
    return [AffineCopy(0, there.box, there.target, there.source)]


def _patches_vjp(b: IRBuilder, op: Operation, dy: Value) -> Sequence[Value | None]:
    (x,) = op.operands
    p = op.params_as(PatchesParams)
    extents = x.tensor.dims[p.axis : p.axis + len(p.sizes)]
    return [overlap_add(b, dy, p.axis, extents, p.strides)]


def _overlap_add_vjp(b: IRBuilder, op: Operation, dx: Value) -> Sequence[Value | None]:
    (y,) = op.operands
    p = op.params_as(OverlapAddParams)
    first = p.axis + len(p.extents)
    sizes = [d for d in y.tensor.dims[first : first + len(p.extents)] if isinstance(d, int)]
    return [patches(b, dx, p.axis, sizes, p.strides)]


PATCHES = OpDef(
    name="patches",
    summary="every window of a size, strides apart, over neighbouring axes",
    operands=("x",),
    params=PatchesParams,
    infer=_infer_patches,
    reference=patches_reference,
    codegen=StridedCopy(_patches_copies),
    vjp=_patches_vjp,
    jvp=multilinear_jvp,
    equation="y[.., o, s, ..] = x[.., stride o + s, ..]",
)
OVERLAP_ADD = OpDef(
    name="overlap_add",
    summary="windows put back where they came from; elements that meet are added",
    operands=("y",),
    params=OverlapAddParams,
    infer=_infer_overlap_add,
    reference=overlap_add_reference,
    codegen=StridedCopy(_overlap_add_copies, fill=lambda _p: 0.0, adds=True),
    vjp=_overlap_add_vjp,
    jvp=multilinear_jvp,
    equation="x[.., e, ..] = Σ y[.., o, s, ..] over stride o + s = e",
)

OPS = (PATCHES, OVERLAP_ADD)
