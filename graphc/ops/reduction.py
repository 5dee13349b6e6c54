"""Reductions and broadcasts, each other's gradients. Both keep the rank: an extent becomes 1, or
grows from 1.

Sums run in the order that a backend finds best but always the same one; a reduction over an empty
extent gives its identity (0, -inf, inf). The gradient of max and min goes to every element that
attains it, as nodes of images have it, or to the first one, as functions of arrays have it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from graphc.ir.codegen import Broadcast, Reduction
from graphc.ir.core import Array, IRBuilder, JvpRule, OpDef, Operation, Value, VjpRule
from graphc.ir.params import Params
from graphc.ir.types import Dim, DType, Symbol, TensorType, Type, TypeRuleError
from graphc.ops.constant import constant, extent, full_like, iota
from graphc.ops.elementwise import EQUAL, LOGICAL_AND, add, cast, compare, mul, select
from graphc.ops.rules import (
    NUMBERS,
    Tangents,
    dims_text,
    multilinear_jvp,
    require_axes,
    require_dtype,
    tensor,
)

Ties = Literal["all", "first"]


@dataclass(frozen=True)
class ReduceParams(Params):
    """`axes`, ascending, become extent 1."""

    axes: tuple[int, ...]


@dataclass(frozen=True)
class ExtremumParams(ReduceParams):
    """`ties`: which of the elements that attain the extremum get its gradient.

    The first is that in row-major order. With `all` the slopes of tied elements add up to as many
    times the derivative.
    """

    ties: Ties = "all"


@dataclass(frozen=True)
class BroadcastParams(Params):
    """The result's dims; the operand's are equal or 1."""

    dims: tuple[int | Symbol, ...]


def broadcast(b: IRBuilder, x: Value, dims: Sequence[Dim]) -> Value:
    """`x` repeated to `dims`; `x` itself when it has them already."""
    if x.tensor.dims == tuple(dims):
        return x
    return b.emit_one(BROADCAST, x, params=BroadcastParams(tuple(dims)))


def reduce_sum(b: IRBuilder, x: Value, axes: Sequence[int]) -> Value:
    """The sum over `axes`; `x` itself when there are none. Of elements that are only stored too:
    it is rounded once, or cut to the low bits."""
    dtype = x.tensor.dtype
    if not axes:
        return x
    params = ReduceParams(tuple(axes))
    if dtype is dtype.computed:
        return b.emit_one(REDUCE_SUM, x, params=params)
    return cast(b, b.emit_one(REDUCE_SUM, cast(b, x, dtype.computed), params=params), dtype)


def reduce_max(b: IRBuilder, x: Value, axes: Sequence[int], ties: Ties = "all") -> Value:
    return b.emit_one(REDUCE_MAX, x, params=ExtremumParams(tuple(axes), ties))


def reduce_min(b: IRBuilder, x: Value, axes: Sequence[int], ties: Ties = "all") -> Value:
    return b.emit_one(REDUCE_MIN, x, params=ExtremumParams(tuple(axes), ties))


def _infer_reduce(types: Sequence[Type], params: ReduceParams) -> Sequence[Type]:
    type = tensor(types[0])
    require_dtype(type, NUMBERS)
    require_axes(params.axes, type.rank)
    return [type.with_dims(1 if i in params.axes else d for i, d in enumerate(type.dims))]


def _infer_broadcast(types: Sequence[Type], params: BroadcastParams) -> Sequence[Type]:
    type = tensor(types[0])
    fits = len(params.dims) == type.rank and all(
        old in (1, new) for old, new in zip(type.dims, params.dims, strict=True)
    )
    if not fits:
        raise TypeRuleError(
            f"requires dims of the same rank, each equal or grown from 1, got {type} "
            f"for {dims_text(params.dims)}",
            slug="shape-mismatch",
        )
    return [type.with_dims(params.dims)]


def _broadcast_reference(params: BroadcastParams, x: Array) -> Array:
    return np.broadcast_to(x, params.dims).copy()  # type: ignore[arg-type]  # sizes by now


def _broadcast_vjp(b: IRBuilder, op: Operation, dy: Value) -> Sequence[Value | None]:
    x, y = op.operands[0].tensor, op.result.tensor
    grown = [i for i, (old, new) in enumerate(zip(x.dims, y.dims, strict=True)) if old != new]
    return [reduce_sum(b, dy, grown)]


def _reduce_sum_vjp(b: IRBuilder, op: Operation, dy: Value) -> Sequence[Value | None]:
    return [broadcast(b, dy, op.operands[0].tensor.dims)]


def _extremum_vjp(b: IRBuilder, op: Operation, dy: Value) -> Sequence[Value | None]:
    chosen = _chosen(b, op)
    spread = broadcast(b, dy, chosen.tensor.dims)
    return [select(b, chosen, spread, full_like(b, 0.0, spread))]


def _extremum_jvp(b: IRBuilder, op: Operation, tangents: Tangents) -> Sequence[Value]:
    (dx,) = tangents
    if dx is None:
        return []
    moved = select(b, _chosen(b, op), dx, full_like(b, 0.0, dx))
    return [reduce_sum(b, moved, op.params_as(ReduceParams).axes)]


def _chosen(b: IRBuilder, op: Operation) -> Value:
    """Whether an element is one that moves the extremum (i1, as the operand)."""
    (x,), params = op.operands, op.params_as(ExtremumParams)
    dims = x.tensor.dims
    attained = compare(b, EQUAL, x, broadcast(b, op.result, dims))
    if params.ties == "all":
        return attained
    is_small = x.tensor.with_dims(dims[a] for a in params.axes).bound_elements < 2**31
    place = row_major(b, x.tensor.with_dtype(DType.I32 if is_small else DType.I64), params.axes)
    behind = constant(b, int(np.iinfo(place.tensor.dtype.numpy).max), place.tensor)
    first = reduce_min(b, select(b, attained, place, behind), params.axes)
    return b.emit_one(LOGICAL_AND, attained, compare(b, EQUAL, place, broadcast(b, first, dims)))


def row_major(b: IRBuilder, type: TensorType, axes: Sequence[int]) -> Value:
    """Each element of a type of integers is its own place in row-major order along `axes`."""
    total = constant(b, 0, type)
    stride: Value | None = None  # none yet: 1
    for axis in reversed(axes):
        places = iota(b, axis, type)
        total = add(b, total, places if stride is None else mul(b, places, stride))
        size = size_in(b, type.dims[axis], type)
        stride = size if stride is None else mul(b, stride, size)
    return total


def size_in(b: IRBuilder, dim: Dim, type: TensorType) -> Value:
    """The extent of a dimension, in every element of a type of integers."""
    if isinstance(dim, int):
        return constant(b, dim, type)
    one = TensorType((1,) * type.rank, DType.F64)  # exact for any number of samples
    return broadcast(b, cast(b, extent(b, dim, one), type.dtype), type.dims)


BROADCAST = OpDef(
    name="broadcast",
    summary="extents of 1 repeated",
    operands=("x",),
    params=BroadcastParams,
    infer=_infer_broadcast,
    reference=_broadcast_reference,
    codegen=Broadcast(),
    vjp=_broadcast_vjp,
    jvp=multilinear_jvp,
)


def _reduction(
    kind: str,
    summary: str,
    scalar_op: Literal["add", "maximum", "minimum"],
    identity: float,
    vjp: VjpRule,
    jvp: JvpRule,
    params: type[ReduceParams],
) -> OpDef:
    ufunc = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum}[scalar_op]

    def reference(params: ReduceParams, x: Array) -> Array:
        start = _identity_of(identity, x.dtype)
        rows = in_rows(x, params.axes)
        dims = [1 if i in params.axes else n for i, n in enumerate(x.shape)]
        return ufunc.reduce(rows, axis=-1, initial=start, dtype=x.dtype).reshape(dims)

    return OpDef(
        name=f"reduce_{kind}",
        summary=summary,
        operands=("x",),
        params=params,
        infer=_infer_reduce,
        reference=reference,
        codegen=Reduction(scalar_op, identity),
        vjp=vjp,
        jvp=jvp,
    )


def in_rows(x: Array, axes: tuple[int, ...]) -> Array:
    """`x` with all of `axes` as the last one: along that, and no other, numpy adds up pairs."""
    kept = [i for i in range(x.ndim) if i not in axes]
    dims = [x.shape[i] for i in kept]
    count = math.prod(x.shape[i] for i in axes)
    return np.ascontiguousarray(x.transpose(*kept, *axes)).reshape(*dims, count)


def _identity_of(identity: float, dtype: np.dtype) -> float | int:
    if dtype.kind == "f" or identity == 0:
        return dtype.type(identity)
    info = np.iinfo(dtype)
    return info.max if identity > 0 else info.min


REDUCE_SUM = _reduction(
    "sum", "sum over axes", "add", 0.0, _reduce_sum_vjp, multilinear_jvp, ReduceParams
)
REDUCE_MAX = _reduction(
    "max",
    "maximum over axes; nan if any element is nan",
    "maximum",
    -np.inf,
    _extremum_vjp,
    _extremum_jvp,
    ExtremumParams,
)
REDUCE_MIN = _reduction(
    "min",
    "minimum over axes; nan if any element is nan",
    "minimum",
    np.inf,
    _extremum_vjp,
    _extremum_jvp,
    ExtremumParams,
)


def identity_of(reduction: Reduction, dtype: DType) -> float | int:
    """What a reduction over nothing gives: its identity, the extreme integer for integers."""
    return _identity_of(reduction.identity, dtype.numpy)


OPS = (BROADCAST, REDUCE_SUM, REDUCE_MAX, REDUCE_MIN)
