"""Operations that only move or rename elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.codegen import Permutation, View
from graphc.ir.core import Array, IRBuilder, OpDef, Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import Dim, Symbol, TensorType, Type, TypeRuleError
from graphc.ops.rules import dims_text, tensor


@dataclass(frozen=True)
class ReshapeParams(Params):
    dims: tuple[int | Symbol, ...]


@dataclass(frozen=True)
class TransposeParams(Params):
    """Result dim i is operand dim `permutation[i]`."""

    permutation: tuple[int, ...]


def reshape(b: IRBuilder, x: Value, dims: Sequence[Dim]) -> Value:
    """The elements of `x` in row-major order under `dims`; `x` itself when it has them."""
    assert isinstance(x.type, TensorType)
    if x.type.dims == tuple(dims):
        return x
    return b.emit_one(RESHAPE, x, params=ReshapeParams(tuple(dims)))


def transpose(b: IRBuilder, x: Value, permutation: Sequence[int]) -> Value:
    """`x` with its dims in the given order; `x` itself for the identity."""
    if tuple(permutation) == tuple(range(len(permutation))):
        return x
    return b.emit_one(TRANSPOSE, x, params=TransposeParams(tuple(permutation)))


def _infer_reshape(types: Sequence[Type], params: ReshapeParams) -> Sequence[Type]:
    type = tensor(types[0])
    if _count(type.dims) != _count(params.dims):
        raise TypeRuleError(
            f"requires as many elements as before, got {type} for {dims_text(params.dims)}",
            slug="shape-mismatch",
        )
    return [type.with_dims(params.dims)]


def _count(dims: Sequence[Dim]) -> tuple[int, list[str]]:
    """Number of elements: the product of the integers, and the symbols that multiply it."""
    size = math.prod(d for d in dims if isinstance(d, int))
    return size, sorted(d.name for d in dims if isinstance(d, Symbol)) if size else []


def _reshape_vjp(b: IRBuilder, op: Operation, dy: Value) -> Sequence[Value | None]:
    assert isinstance(op.operands[0].type, TensorType)
    return [reshape(b, dy, op.operands[0].type.dims)]


def _infer_transpose(types: Sequence[Type], params: TransposeParams) -> Sequence[Type]:
    type = tensor(types[0])
    if sorted(params.permutation) != list(range(type.rank)):
        raise TypeRuleError(
            f"requires a permutation of the {type.rank} axes, got {list(params.permutation)}"
        )
    return [type.with_dims(type.dims[i] for i in params.permutation)]


def _transpose_reference(params: TransposeParams, x: Array) -> Array:
    return np.array(np.transpose(x, params.permutation), order="C")


def _transpose_vjp(b: IRBuilder, op: Operation, dy: Value) -> Sequence[Value | None]:
    assert isinstance(op.params, TransposeParams)
    order = op.params.permutation
    return [transpose(b, dy, sorted(range(len(order)), key=order.__getitem__))]


RESHAPE = OpDef(
    name="reshape",
    summary="the same elements in the same order under other dims",
    operands=("x",),
    params=ReshapeParams,
    infer=_infer_reshape,
    reference=lambda p, x: np.ascontiguousarray(x).reshape(p.dims),
    codegen=View(),
    vjp=_reshape_vjp,
)
TRANSPOSE = OpDef(
    name="transpose",
    summary="dims in another order",
    operands=("x",),
    params=TransposeParams,
    infer=_infer_transpose,
    reference=_transpose_reference,
    codegen=Permutation(),
    vjp=_transpose_vjp,
)

OPS = (RESHAPE, TRANSPOSE)
