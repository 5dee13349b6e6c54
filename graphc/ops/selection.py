"""The places of the largest elements of each row, in order; the elements are then taken by place.

The order is total: nan counts as larger than infinity, zeros of both signs as equal, and of equal
elements the first comes first. Places are constant in pieces, so the gradient of the values is that
of `gather`: it goes to the places that were chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.codegen import Selection
from graphc.ir.core import Array, IRBuilder, NotDifferentiable, OpDef, Value
from graphc.ir.params import Params
from graphc.ir.types import DType, TensorType, Type, TypeRuleError
from graphc.ops.rules import FLOATS, require_dtype, tensor


@dataclass(frozen=True)
class TopParams(Params):
    """`count`: how many of each row."""

    count: int


def top_indices(b: IRBuilder, x: Value, count: int) -> Value:
    """[N, count] i32: the columns of the largest elements of x[n, :]."""
    return b.emit_one(TOP_INDICES, x, params=TopParams(count))


def _infer(types: Sequence[Type], params: TopParams) -> Sequence[Type]:
    x = tensor(types[0])
    require_dtype(x, FLOATS)
    if x.rank != 2 or not isinstance(x.dims[1], int):
        raise TypeRuleError(f"requires an operand of rank 2 with fixed columns, got {x}")
    if not 1 <= params.count <= x.dims[1]:
        raise TypeRuleError(
            f"requires a count from 1 to the {x.dims[1]} columns, got {params.count}",
            slug="bad-value",
        )
    return [TensorType((x.dims[0], params.count), DType.I32)]


def _reference(params: TopParams, x: Array) -> Array:
    found = np.empty((x.shape[0], params.count), np.int32)
    for row, numbers in zip(found, x, strict=True):
        keys = [(not np.isnan(v), 0.0 if np.isnan(v) else -v) for v in numbers]
        row[:] = sorted(range(len(keys)), key=keys.__getitem__)[: params.count]
    return found


TOP_INDICES = OpDef(
    name="top_indices",
    summary="the columns of each row's largest elements, in order; nan counts as the largest",
    operands=("x",),
    params=TopParams,
    infer=_infer,
    reference=_reference,
    codegen=Selection(),
    vjp=NotDifferentiable.ZERO,
    equation="y[n, k] = the column of the k-th largest of x[n, :], the first of equal ones first",
)

OPS = (TOP_INDICES,)
