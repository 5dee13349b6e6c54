"""Operations that only move or rename elements.

All that move are affine copies (`codegen.StridedCopy`). An axis whose size a call decides may be
cut, padded and joined where every size that comes of it is one of the module's dims: so calls are
known to have it (`ir/dims.py`). Such an axis is cut or stepped over, not both, and gets nothing
between its elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.codegen import AffineCopy, AffineIndex, StridedCopy, View
from graphc.ir.core import Array, IRBuilder, OpDef, Operation, Value
from graphc.ir.dims import (
    Dim,
    Symbol,
    is_never_negative,
    size_ceiling,
    size_difference,
    size_product,
    size_sum,
    size_text,
)
from graphc.ir.params import Params
from graphc.ir.types import TensorType, Type, TypeRuleError, fixed_size
from graphc.ops.constant import full_like
from graphc.ops.rules import Tangents, dims_text, multilinear_jvp, require_axes, tensor
from graphc.support.element_types import as_type


@dataclass(frozen=True)
class ReshapeParams(Params):
    dims: tuple[int | Symbol, ...]


@dataclass(frozen=True)
class TransposeParams(Params):
    """Result dim i is operand dim `permutation[i]`."""

    permutation: tuple[int, ...]


@dataclass(frozen=True)
class SliceParams(Params):
    """Along each axis the elements start, start + step, … before stop.

    behind  how many elements there are behind stop, of an axis where a call might have too few for
            that; 0 for others, () for 0 everywhere
    """

    starts: tuple[int | Symbol, ...]
    stops: tuple[int | Symbol, ...]
    steps: tuple[int, ...]
    behind: tuple[int | Symbol, ...] = ()


@dataclass(frozen=True)
class PadParams(Params):
    """`low` and `high` elements of `value` at the ends of each axis, `inner` between neighbours."""

    low: tuple[int | Symbol, ...]
    high: tuple[int | Symbol, ...]
    inner: tuple[int, ...]
    value: float = 0.0


@dataclass(frozen=True)
class ConcatParams(Params):
    axis: int


@dataclass(frozen=True)
class ReverseParams(Params):
    axes: tuple[int, ...]


# --- emitters ----------------------------------------------------------------------------------


def reshape(b: IRBuilder, x: Value, dims: Sequence[Dim]) -> Value:
    """The elements of `x` in row-major order under `dims`; `x` itself when it has them."""
    if x.tensor.dims == tuple(dims):
        return x
    return b.emit_one(RESHAPE, x, params=ReshapeParams(tuple(dims)))


def transpose(b: IRBuilder, x: Value, permutation: Sequence[int]) -> Value:
    """`x` with its dims in the given order; `x` itself for the identity."""
    if tuple(permutation) == tuple(range(len(permutation))):
        return x
    return b.emit_one(TRANSPOSE, x, params=TransposeParams(tuple(permutation)))


def slice_axis(b: IRBuilder, x: Value, axis: int, start: Dim, stop: Dim, step: int = 1) -> Value:
    """The elements start, start + step, … before stop along one axis; `x` itself for all."""
    dims = x.tensor.dims
    starts, stops, steps = list[Dim]([0] * len(dims)), list(dims), [1] * len(dims)
    starts[axis], stops[axis], steps[axis] = start, stop, step
    return slice_box(b, x, starts, stops, steps)


def slice_box(
    b: IRBuilder, x: Value, starts: Sequence[Dim], stops: Sequence[Dim], steps: Sequence[int]
) -> Value:
    """The elements starts, starts + steps, … before stops along every axis; `x` itself for all."""
    if not any(starts) and tuple(stops) == x.tensor.dims and all(s == 1 for s in steps):
        return x
    rest = map(size_difference, x.tensor.dims, stops)
    behind = tuple(0 if is_never_negative(size) else size for size in rest)
    params = SliceParams(tuple(starts), tuple(stops), tuple(steps), behind if any(behind) else ())
    return b.emit_one(SLICE, x, params=params)


def pad(
    b: IRBuilder,
    x: Value,
    low: Sequence[Dim],
    high: Sequence[Dim],
    inner: Sequence[int] | None = None,
    value: float = 0.0,
) -> Value:
    """`x` with elements of `value` around and between its own; `x` itself when there are none."""
    inner = tuple(inner) if inner is not None else (0,) * len(low)
    if not any((*low, *high, *inner)):
        return x
    return b.emit_one(PAD, x, params=PadParams(tuple(low), tuple(high), inner, value))


def concat(b: IRBuilder, values: Sequence[Value], axis: int) -> Value:
    """The operands one after the other along `axis`; the operand itself when there is one."""
    first, *rest = values
    if not rest:
        return first
    params = ConcatParams(axis)
    if all(isinstance(v.tensor.dims[axis], int) for v in values[:-1]):
        return b.emit_one(CONCAT, *values, params=params)
    for value in rest:
        first = b.emit_one(CONCAT, first, value, params=params)
    return first


def reverse(b: IRBuilder, x: Value, axes: Sequence[int]) -> Value:
    """`x` backwards along `axes`; `x` itself when there are none."""
    return b.emit_one(REVERSE, x, params=ReverseParams(tuple(axes))) if axes else x


# --- reshape, transpose --------------------------------------------------------------------------


def _infer_reshape(types: Sequence[Type], params: ReshapeParams) -> Sequence[Type]:
    type = tensor(types[0])
    if size_product(type.dims) != size_product(params.dims):
        raise TypeRuleError(
            f"requires as many elements as before, got {type} for {dims_text(params.dims)}",
            slug="shape-mismatch",
        )
    return [type.with_dims(params.dims)]


def _reshape_vjp(b: IRBuilder, op: Operation, dy: Value) -> Sequence[Value | None]:
    return [reshape(b, dy, op.operands[0].tensor.dims)]


def _infer_transpose(types: Sequence[Type], params: TransposeParams) -> Sequence[Type]:
    type = tensor(types[0])
    if sorted(params.permutation) != list(range(type.rank)):
        raise TypeRuleError(
            f"requires a permutation of the {type.rank} axes, got {list(params.permutation)}"
        )
    return [type.with_dims(type.dims[i] for i in params.permutation)]


def _transpose_reference(params: TransposeParams, x: Array) -> Array:
    return np.array(np.transpose(x, params.permutation), order="C")


def _transpose_copies(
    params: TransposeParams, _types: Sequence[TensorType], result: TensorType
) -> Sequence[AffineCopy]:
    place = {axis: i for i, axis in enumerate(params.permutation)}
    source = tuple(_walked(place[axis]) for axis in range(result.rank))
    return [AffineCopy(0, result.dims, source, _identity(result.rank))]


def _transpose_vjp(b: IRBuilder, op: Operation, dy: Value) -> Sequence[Value | None]:
    order = op.params_as(TransposeParams).permutation
    return [transpose(b, dy, sorted(range(len(order)), key=order.__getitem__))]


def _walked(dim: int, start: Dim = 0, step: int = 1) -> AffineIndex:
    return AffineIndex(start, ((dim, step),))


def _identity(rank: int) -> tuple[AffineIndex, ...]:
    return tuple(_walked(i) for i in range(rank))


# --- slice, pad ----------------------------------------------------------------------------------


def _infer_slice(types: Sequence[Type], params: SliceParams) -> Sequence[Type]:
    type = tensor(types[0])
    if not len(params.starts) == len(params.stops) == len(params.steps) == type.rank:
        raise TypeRuleError(f"requires start, stop and step of {type.rank} axes, for {type}")
    if len(params.behind) not in (0, type.rank):
        raise TypeRuleError(f"requires `behind` of no axis or all {type.rank}, for {type}")
    dims: list[Dim] = []
    for dim, start, stop, step, behind in zip(
        type.dims,
        params.starts,
        params.stops,
        params.steps,
        params.behind or (0,) * type.rank,
        strict=True,
    ):
        if isinstance(dim, Symbol) or isinstance(start, Symbol) or isinstance(stop, Symbol):
            dims.append(_taken(dim, start, stop, step, behind))
            continue
        if not 0 <= start <= stop <= dim or step < 1:
            raise TypeRuleError(
                f"requires 0 <= start <= stop <= {dim} and a step of at least 1, "
                f"got {start}:{stop}:{step} of {type}",
                slug="bad-value",
            )
        dims.append(-(-(stop - start) // step))
    return [type.with_dims(dims)]


def _taken(dim: Dim, start: Dim, stop: Dim, step: int, behind: Dim) -> Dim:
    """The elements that are taken of an axis whose size, or a place along it, a call decides."""
    if step != 1:
        if (start, stop) != (0, dim) or step < 1:
            raise TypeRuleError(
                f"requires a step of 1 where a part is taken of the dimension {dim}, or all of it "
                f"in steps of at least 1, got {start}:{stop}:{step}",
                slug="bad-value",
            )
        return size_ceiling(dim, step)
    taken, rest = size_difference(stop, start), size_difference(dim, stop)
    if any(isinstance(size, int) and size < 0 for size in (start, taken, rest)):
        raise TypeRuleError(
            f"requires 0 <= start <= stop <= {size_text(dim)}, got {size_text(start)} and "
            f"{size_text(stop)}",
            slug="bad-value",
        )
    if not is_never_negative(rest) and rest != behind:
        raise TypeRuleError(
            f"requires {size_text(stop)} elements of {size_text(dim)} in every call, which is not "
            f"shown: give `behind` a dim that is {size_text(rest)}, got {size_text(behind)}"
        )
    return taken


def _slice_reference(params: SliceParams, x: Array) -> Array:
    index = tuple(map(slice, params.starts, params.stops, params.steps))
    return np.array(x[index], order="C")


def _slice_copies(
    params: SliceParams, _types: Sequence[TensorType], result: TensorType
) -> Sequence[AffineCopy]:
    cuts = enumerate(zip(params.starts, params.steps, strict=True))
    source = tuple(_walked(i, start, step) for i, (start, step) in cuts)
    return [AffineCopy(0, result.dims, source, _identity(result.rank))]


def _slice_vjp(b: IRBuilder, op: Operation, dy: Value) -> Sequence[Value | None]:
    params = op.params_as(SliceParams)
    if any(d == 0 for d in dy.tensor.dims):
        # Nothing was taken, so there is nothing to put back between paddings.
        return [full_like(b, 0.0, op.operands[0])]
    low, high, inner = list(params.starts), list[Dim](), list[int]()
    dims = op.operands[0].tensor.dims
    for axis, (dim, stop, step) in enumerate(zip(dims, params.stops, params.steps, strict=True)):
        taken, start = dy.tensor.dims[axis], low[axis]
        if isinstance(dim, int) and isinstance(taken, int) and isinstance(start, int):
            high.append(dim - start - ((taken - 1) * step + 1))
            inner.append(step - 1)
        else:
            dy = _apart(b, dy, axis, dim, step)
            high.append(size_difference(dim, stop))
            inner.append(0)
    return [pad(b, dy, low, high, inner)]


def _apart(b: IRBuilder, y: Value, axis: int, extent: Dim, step: int) -> Value:
    """The elements `step` apart along an axis of that extent, the first one in front."""
    if step == 1:
        return y
    before, (taken, *after) = y.tensor.dims[:axis], y.tensor.dims[axis:]
    cells = reshape(b, y, (*before, taken, 1, *after))
    none = [0] * cells.tensor.rank
    cells = pad(b, cells, none, [step - 1 if i == axis + 1 else 0 for i in range(len(none))])
    spread = reshape(b, cells, (*before, size_product([taken, step]), *after))
    return slice_axis(b, spread, axis, 0, extent)


def cuts_open_axis(op: Operation) -> bool:
    """Whether a slice takes a part of an axis whose size a call decides, or a part of which a call
    decides where it is."""
    params = op.params_as(SliceParams)
    dims = op.operands[0].tensor.dims
    return any(
        (start, stop, step) != (0, dim, 1)
        and any(isinstance(size, Symbol) for size in (dim, start, stop))
        for dim, start, stop, step in zip(
            dims, params.starts, params.stops, params.steps, strict=True
        )
    )


def _infer_pad(types: Sequence[Type], params: PadParams) -> Sequence[Type]:
    type = tensor(types[0])
    if not len(params.low) == len(params.high) == len(params.inner) == type.rank:
        raise TypeRuleError(f"requires low, high and inner of {type.rank} axes, for {type}")
    dims: list[Dim] = []
    for dim, low, high, inner in zip(type.dims, params.low, params.high, params.inner, strict=True):
        amounts = [low, high, inner]
        if any(isinstance(a, int) and a < 0 for a in amounts):
            raise TypeRuleError(f"requires amounts of at least 0, got {amounts}", slug="bad-value")
        if isinstance(dim, Symbol) and inner:
            raise TypeRuleError(f"requires nothing between elements of {dim}, got {inner}")
        between = max(dim - 1, 0) * inner if isinstance(dim, int) else 0
        dims.append(size_sum([low, dim, between, high]))
    return [type.with_dims(dims)]


def _pad_reference(params: PadParams, x: Array) -> Array:
    ends = (map(fixed_size, params.low), map(fixed_size, params.high))
    amounts = list(zip(x.shape, *ends, params.inner, strict=True))
    shape = [low + d + max(d - 1, 0) * inner + high for d, low, high, inner in amounts]
    fill = as_type(np.full((), params.value), x.dtype)
    result = np.full(shape, fill, x.dtype)
    places = [slice(low, low + d + max(d - 1, 0) * s, s + 1) for d, low, _, s in amounts]
    result[tuple(places)] = x
    return result


def _pad_copies(
    params: PadParams, types: Sequence[TensorType], _result: TensorType
) -> Sequence[AffineCopy]:
    (type,) = types
    amounts = enumerate(zip(params.low, params.inner, strict=True))
    target = tuple(_walked(i, low, inner + 1) for i, (low, inner) in amounts)
    return [AffineCopy(0, type.dims, _identity(type.rank), target)]


def _pad_vjp(b: IRBuilder, op: Operation, dy: Value) -> Sequence[Value | None]:
    params = op.params_as(PadParams)
    dims = op.operands[0].tensor.dims
    if 0 in dims:
        return [full_like(b, 0.0, op.operands[0])]
    steps = [inner + 1 for inner in params.inner]
    stops = [
        size_sum([low, (dim - 1) * step + 1 if isinstance(dim, int) else dim])
        for low, dim, step in zip(params.low, dims, steps, strict=True)
    ]
    return [slice_box(b, dy, params.low, stops, steps)]


def _pad_jvp(b: IRBuilder, op: Operation, tangents: Tangents) -> Sequence[Value]:
    (tangent,) = tangents
    p = op.params_as(PadParams)
    return [] if tangent is None else [pad(b, tangent, p.low, p.high, p.inner)]


# --- concat, reverse -----------------------------------------------------------------------------


def _infer_concat(types: Sequence[Type], params: ConcatParams) -> Sequence[Type]:
    if not types:
        raise TypeRuleError("requires at least one operand")
    first = tensor(types[0])
    if not 0 <= params.axis < first.rank:
        raise TypeRuleError(f"requires an axis below the rank {first.rank}, got {params.axis}")
    sizes: list[Dim] = []
    for index, type in enumerate(tensor(t, i) for i, t in enumerate(types)):
        rest = [d for i, d in enumerate(type.dims) if i != params.axis]
        wanted = [d for i, d in enumerate(first.dims) if i != params.axis]
        if type.dtype != first.dtype or rest != wanted or type.rank != first.rank:
            raise TypeRuleError(
                f"requires operands that agree but for axis {params.axis}, got {first} and {type}",
                operand=index,
                slug="shape-mismatch",
            )
        sizes.append(type.dims[params.axis])
    if len(sizes) > 2 and any(isinstance(size, Symbol) for size in sizes[:-1]):
        raise TypeRuleError(
            f"requires two operands, or fixed sizes along axis {params.axis} before the last one, "
            f"got {dims_text(sizes)}"
        )
    total = size_sum(sizes)
    return [first.with_dims(total if i == params.axis else d for i, d in enumerate(first.dims))]


def _concat_copies(
    params: ConcatParams, types: Sequence[TensorType], result: TensorType
) -> Sequence[AffineCopy]:
    copies: list[AffineCopy] = []
    start: Dim = 0
    for index, type in enumerate(types):
        target = [_walked(i, start if i == params.axis else 0) for i in range(result.rank)]
        copies.append(AffineCopy(index, type.dims, _identity(type.rank), tuple(target)))
        start = size_sum([start, type.dims[params.axis]])
    return copies


def _concat_vjp(b: IRBuilder, op: Operation, dy: Value) -> Sequence[Value | None]:
    params = op.params_as(ConcatParams)
    parts: list[Value | None] = []
    start: Dim = 0
    for value in op.operands:
        stop = size_sum([start, value.tensor.dims[params.axis]])
        parts.append(slice_axis(b, dy, params.axis, start, stop))
        start = stop
    return parts


def _concat_jvp(b: IRBuilder, op: Operation, tangents: Tangents) -> Sequence[Value]:
    if all(t is None for t in tangents):
        return []
    parts = [
        full_like(b, 0.0, v) if t is None else t for v, t in zip(op.operands, tangents, strict=True)
    ]
    return [concat(b, parts, op.params_as(ConcatParams).axis)]


def _infer_reverse(types: Sequence[Type], params: ReverseParams) -> Sequence[Type]:
    type = tensor(types[0])
    require_axes(params.axes, type.rank)
    return [type]


def _reverse_copies(
    params: ReverseParams, _types: Sequence[TensorType], result: TensorType
) -> Sequence[AffineCopy]:
    source = tuple(AffineIndex(0, ((i, 1),), i in params.axes) for i in range(result.rank))
    return [AffineCopy(0, result.dims, source, _identity(result.rank))]


def _reverse_vjp(b: IRBuilder, op: Operation, dy: Value) -> Sequence[Value | None]:
    return [reverse(b, dy, op.params_as(ReverseParams).axes)]


RESHAPE = OpDef(
    name="reshape",
    summary="the same elements in the same order under other dims",
    operands=("x",),
    params=ReshapeParams,
    infer=_infer_reshape,
    reference=lambda p, x: np.ascontiguousarray(x).reshape(p.dims),
    codegen=View(),
    vjp=_reshape_vjp,
    jvp=multilinear_jvp,
)
TRANSPOSE = OpDef(
    name="transpose",
    summary="dims in another order",
    operands=("x",),
    params=TransposeParams,
    infer=_infer_transpose,
    reference=_transpose_reference,
    codegen=StridedCopy(_transpose_copies),
    vjp=_transpose_vjp,
    jvp=multilinear_jvp,
)
SLICE = OpDef(
    name="slice",
    summary="every step-th element of a range along each axis",
    operands=("x",),
    params=SliceParams,
    infer=_infer_slice,
    reference=_slice_reference,
    codegen=StridedCopy(_slice_copies),
    vjp=_slice_vjp,
    jvp=multilinear_jvp,
    equation="y[i] = x[start + step i]",
)
PAD = OpDef(
    name="pad",
    summary="a value around and between the elements",
    operands=("x",),
    params=PadParams,
    infer=_infer_pad,
    reference=_pad_reference,
    codegen=StridedCopy(_pad_copies, fill=lambda p: p.value),
    vjp=_pad_vjp,
    jvp=_pad_jvp,
    equation="y[low + (inner + 1) i] = x[i], value elsewhere",
)
CONCAT = OpDef(
    name="concat",
    summary="operands one after the other along an axis",
    operands=("x*",),
    params=ConcatParams,
    infer=_infer_concat,
    reference=lambda p, *xs: np.concatenate(xs, axis=p.axis),
    codegen=StridedCopy(_concat_copies),
    vjp=_concat_vjp,
    jvp=_concat_jvp,
)
REVERSE = OpDef(
    name="reverse",
    summary="backwards along axes",
    operands=("x",),
    params=ReverseParams,
    infer=_infer_reverse,
    reference=lambda p, x: np.array(np.flip(x, p.axes), order="C"),
    codegen=StridedCopy(_reverse_copies),
    vjp=_reverse_vjp,
    jvp=multilinear_jvp,
    equation="y[i] = x[size - 1 - i]",
)

OPS = (RESHAPE, TRANSPOSE, SLICE, PAD, CONCAT, REVERSE)
