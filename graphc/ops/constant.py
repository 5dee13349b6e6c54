"""Operations without operands: constants, positions, extents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.codegen import Extent, Fill, Position
from graphc.ir.core import Array, IRBuilder, NotDifferentiable, OpDef, Value
from graphc.ir.elements import as_numbers, stored
from graphc.ir.params import Params
from graphc.ir.types import DType, Symbol, TensorType, Type, TypeRuleError, fixed_size
from graphc.ops.rules import FLOATS, NUMBERS, require_dtype


@dataclass(frozen=True)
class ConstantParams(Params):
    """`value` holds one number for every element, or all elements in row-major order.

    It is never empty: where the type has no elements it holds one number, which nobody reads.
    """

    type: TensorType
    value: tuple[bool | int | float, ...]


@dataclass(frozen=True)
class IotaParams(Params):
    type: TensorType
    axis: int


@dataclass(frozen=True)
class ExtentParams(Params):
    """`dim`: a symbol of the module; `type`: one element of rank `rank`."""

    dim: Symbol | int
    type: TensorType


def _infer_constant(_types: Sequence[Type], params: ConstantParams) -> Sequence[Type]:
    count = len(params.value)
    per_element = count == params.type.bound_elements and not params.type.symbols()
    if count == 0 or (count != 1 and not per_element):
        raise TypeRuleError(f"requires one value or one per element of {params.type}, got {count}")
    dtype = params.type.dtype
    wanted = (bool,) if dtype is DType.I1 else (int, float) if dtype.is_float else (int,)
    if any(type(v) not in wanted or not _fits(v, dtype) for v in params.value):
        raise TypeRuleError(f"requires values that fit {dtype}, got {params.value[:4]}")
    return [params.type]


def _fits(value: float, dtype: DType) -> bool:
    """Whether an integer is in the range of an integer type; any number fits a float type."""
    if dtype.is_float or dtype is DType.I1:
        return True
    least, most = dtype.limits
    return least <= value <= most


def _constant_reference(params: ConstantParams) -> Array:
    shape = tuple(int(d) for d in params.type.dims if isinstance(d, int))
    values = stored(params.value, params.type.dtype)
    return np.full(shape, values[0]) if len(values) == 1 else values.reshape(shape)


def _infer_iota(_types: Sequence[Type], params: IotaParams) -> Sequence[Type]:
    require_dtype(params.type, NUMBERS)
    if not 0 <= params.axis < params.type.rank:
        raise TypeRuleError(f"requires an axis below {params.type.rank}, got {params.axis}")
    return [params.type]


def _iota_reference(params: IotaParams) -> Array:
    shape = tuple(int(d) for d in params.type.dims if isinstance(d, int))
    along = [1] * len(shape)
    along[params.axis] = shape[params.axis]
    steps = np.arange(shape[params.axis]).astype(params.type.dtype.numpy).reshape(along)
    return np.broadcast_to(steps, shape).copy()


def _infer_extent(_types: Sequence[Type], params: ExtentParams) -> Sequence[Type]:
    require_dtype(params.type, FLOATS)
    if any(d != 1 for d in params.type.dims):
        raise TypeRuleError(f"requires a type of one element, got {params.type}")
    return [params.type]


def _extent_reference(params: ExtentParams) -> Array:
    size = fixed_size(params.dim)  # the evaluator has put it in
    return np.full((1,) * params.type.rank, size, params.type.dtype.numpy)


CONSTANT = OpDef(
    name="constant",
    summary="fixed elements",
    operands=(),
    params=ConstantParams,
    infer=_infer_constant,
    reference=_constant_reference,
    codegen=Fill(),
    vjp=NotDifferentiable.ZERO,
)
IOTA = OpDef(
    name="iota",
    summary="each element is its index along one axis",
    operands=(),
    params=IotaParams,
    infer=_infer_iota,
    reference=_iota_reference,
    codegen=Position(),
    vjp=NotDifferentiable.ZERO,
)
EXTENT = OpDef(
    name="extent",
    summary="the size of a dimension in this call, as a floating-point number",
    operands=(),
    params=ExtentParams,
    infer=_infer_extent,
    reference=_extent_reference,
    codegen=Extent(),
    vjp=NotDifferentiable.ZERO,
)


def constant(b: IRBuilder, value: bool | int | float, type: TensorType) -> Value:
    """`value` in every element of `type`."""
    if type.dtype.is_float:
        value = float(as_numbers(stored([value], type.dtype))[0])  # infinite if it is too large
    return b.emit_one(CONSTANT, params=ConstantParams(type, (value,)))


def full_like(b: IRBuilder, value: float, like: Value) -> Value:
    """`value` in every element of `like`'s type."""
    return constant(b, value, like.tensor)


def iota(b: IRBuilder, axis: int, type: TensorType) -> Value:
    return b.emit_one(IOTA, params=IotaParams(type, axis))


def extent(b: IRBuilder, dim: Symbol | int, type: TensorType) -> Value:
    return b.emit_one(EXTENT, params=ExtentParams(dim, type))


OPS = (CONSTANT, IOTA, EXTENT)
