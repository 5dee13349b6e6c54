"""Pooling at the kernel level: windows are looked at where they lie and never copied.

    pool           x [.., E.., C..]                                      -> y [.., P.., C..]
    pool.max_grad  x [.., E.., C..], y [.., P.., C..], dy [.., P.., C..] -> dx [.., E.., C..]
    pool.sum_grad  y [.., P.., C..]                                      -> x [.., E.., C..]

P windows over each walked extent E, `strides` apart. The second is the gradient of a maximum or
minimum y: dy goes to every element of a window that attains it. The third is that of a sum: y goes
to all elements of a window. What meets at one element is added.

`fuse-patches` makes them; `at` says where a result lives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from graphc.ir.codegen import WindowReduction
from graphc.ir.core import Array, Level, NotDifferentiable, OpDef
from graphc.ir.params import Params
from graphc.ir.types import Dim, TensorType, Type, TypeRuleError
from graphc.ops.patches import (
    OverlapAddParams,
    PatchesParams,
    overlap_add_reference,
    patches_reference,
    positions,
)
from graphc.ops.reduction import in_rows
from graphc.ops.rules import FLOATS, dims_text, require_dtype, tensor
from graphc.ops.schedules import ImagesSchedule, check_schedule

ScalarOp = Literal["add", "maximum", "minimum"]
SCALAR_OPS = ("add", "maximum", "minimum")
Sizes = tuple[int, ...]


@dataclass(frozen=True)
class PoolParams(Params):
    """`scalar_op` is what a window is folded with; `axis` the first of the axes that are walked."""

    scalar_op: str
    axis: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class MaxGradParams(Params):
    """`axis`: the first of the axes that are walked."""

    axis: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class SumGradParams(Params):
    """`extents`: those of the walked axes in the result."""

    axis: int
    extents: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


AnyPoolParams = PoolParams | MaxGradParams | SumGradParams


@dataclass(frozen=True, slots=True)
class PoolShape:
    """The extents of a pooling: dims before the walked axes, along them, and behind them."""

    lead: tuple[Dim, ...]
    extents: Sizes
    sizes: Sizes
    strides: Sizes
    output_positions: Sizes
    channels: Sizes

    @property
    def wide(self) -> tuple[Dim, ...]:
        """Dims of the images."""
        return (*self.lead, *self.extents, *self.channels)

    @property
    def narrow(self) -> tuple[Dim, ...]:
        """Dims of what is made of their windows."""
        return (*self.lead, *self.output_positions, *self.channels)


def pool_shape(params: Params, types: Sequence[Type]) -> PoolShape:
    """What the operands' types and the settings say. Raises TypeRuleError."""
    first = tensor(types[0])
    require_dtype(first, FLOATS)
    assert isinstance(params, AnyPoolParams)
    axis, walked = params.axis, len(params.strides)
    if not 1 <= walked <= 2 or not 0 <= axis <= first.rank - walked or min(params.strides) < 1:
        raise TypeRuleError(
            f"requires strides of at least 1 for one or two axes from {axis} on, within the rank "
            f"{first.rank}, got {list(params.strides)}"
        )
    channels = _known(first.dims[axis + walked :], first)
    middle = _known(first.dims[axis : axis + walked], first)
    extents = params.extents if isinstance(params, SumGradParams) else middle
    sizes = params.sizes
    fits = len(extents) == len(sizes) == walked
    if not fits or any(not 1 <= s <= e for s, e in zip(sizes, extents, strict=True)):
        raise TypeRuleError(
            f"requires windows that fit into {dims_text(extents)}, got {dims_text(sizes)}",
            slug="bad-value",
        )
    output_positions = tuple(map(positions, extents, sizes, params.strides))
    return PoolShape(first.dims[:axis], extents, sizes, params.strides, output_positions, channels)


def _known(dims: Sequence[Dim], type: TensorType) -> Sizes:
    if not all(isinstance(d, int) for d in dims):
        raise TypeRuleError(f"requires known extents, got {dims_text(dims)} in {type}")
    return tuple(d for d in dims if isinstance(d, int))


def _infer_pool(types: Sequence[Type], params: PoolParams) -> Sequence[Type]:
    if params.scalar_op not in SCALAR_OPS:
        raise TypeRuleError(
            f"requires a scalar op of {', '.join(SCALAR_OPS)}, got {params.scalar_op}",
            slug="bad-value",
        )
    return [tensor(types[0]).with_dims(pool_shape(params, types).narrow)]


def _infer_max_grad(types: Sequence[Type], params: MaxGradParams) -> Sequence[Type]:
    first, shape = tensor(types[0]), pool_shape(params, types)
    for index, type in enumerate(types[1:], start=1):
        if type != first.with_dims(shape.narrow):
            raise TypeRuleError(
                f"requires {first.with_dims(shape.narrow)}, one element for each window, "
                f"got {type}",
                operand=index,
                slug="shape-mismatch",
            )
    return [first]


def _infer_sum_grad(types: Sequence[Type], params: SumGradParams) -> Sequence[Type]:
    first, shape = tensor(types[0]), pool_shape(params, types)
    if first.dims != shape.narrow:
        raise TypeRuleError(
            f"requires {first.with_dims(shape.narrow)}, one element for each window of extents "
            f"{dims_text(params.extents)}, got {first}",
            slug="shape-mismatch",
        )
    return [first.with_dims(shape.wide)]


# --- references: by copied windows ----------------------------------------------------------------


def _inner_axes(params: AnyPoolParams) -> tuple[int, ...]:
    """The axes of the elements of a window, where the windows are copied."""
    first = params.axis + len(params.strides)
    return tuple(range(first, first + len(params.strides)))


def _pool_reference(p: PoolParams, x: Array) -> Array:
    patches = patches_reference(PatchesParams(p.axis, p.sizes, p.strides), x)
    fold = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum}[p.scalar_op]
    return fold.reduce(in_rows(patches, _inner_axes(p)), axis=-1, dtype=x.dtype)


def _max_grad_reference(p: MaxGradParams, x: Array, y: Array, dy: Array) -> Array:
    patches = patches_reference(PatchesParams(p.axis, p.sizes, p.strides), x)
    inner = _inner_axes(p)
    attained = patches == np.expand_dims(y, inner)
    slopes = np.where(attained, np.expand_dims(dy, inner), x.dtype.type(0))
    extents = x.shape[p.axis : p.axis + len(p.strides)]
    return overlap_add_reference(OverlapAddParams(p.axis, extents, p.strides), slopes)


def _sum_grad_reference(p: SumGradParams, y: Array) -> Array:
    inner = _inner_axes(p)
    shape = (*y.shape[: inner[0]], *p.sizes, *y.shape[inner[0] :])
    spread = np.broadcast_to(np.expand_dims(y, inner), shape)
    return overlap_add_reference(OverlapAddParams(p.axis, p.extents, p.strides), spread)


POOL = OpDef(
    name="pool",
    summary="every window folded to one element, into a buffer",
    operands=("x",),
    params=PoolParams,
    schedule=ImagesSchedule,
    infer=_infer_pool,
    reference=_pool_reference,
    check=check_schedule,
    codegen=WindowReduction("fold"),
    vjp=NotDifferentiable.NONE,
    level=Level.KERNEL,
    equation="y[.., p, c] = scalar_op of x[.., stride p + s, c] over s",
)
POOL_MAX_GRAD = OpDef(
    name="pool.max_grad",
    summary="slopes of the extremes of windows, to the elements that attain them, into a buffer",
    operands=("x", "y", "dy"),
    params=MaxGradParams,
    schedule=ImagesSchedule,
    infer=_infer_max_grad,
    reference=_max_grad_reference,
    check=check_schedule,
    codegen=WindowReduction("max_grad"),
    vjp=NotDifferentiable.NONE,
    level=Level.KERNEL,
    equation="dx[.., e, c] = Σ dy[.., p, c] over stride p + s = e where x[.., e, c] = y[.., p, c]",
)
POOL_SUM_GRAD = OpDef(
    name="pool.sum_grad",
    summary="one element for each window, to all elements of the window, into a buffer",
    operands=("y",),
    params=SumGradParams,
    schedule=ImagesSchedule,
    infer=_infer_sum_grad,
    reference=_sum_grad_reference,
    check=check_schedule,
    codegen=WindowReduction("sum_grad"),
    vjp=NotDifferentiable.NONE,
    level=Level.KERNEL,
    equation="x[.., e, c] = Σ y[.., p, c] over stride p + s = e",
)

OPS = (POOL, POOL_MAX_GRAD, POOL_SUM_GRAD)
