"""The matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.codegen import Contraction
from graphc.ir.core import Array, IRBuilder, OpDef, Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import Type, TypeRuleError
from graphc.ops.rules import FLOATS, require_dtype, tensor


@dataclass(frozen=True)
class MatmulParams(Params):
    """Whether an operand is read transposed."""

    transpose_a: bool = False
    transpose_b: bool = False


def matmul(
    b: IRBuilder, x: Value, y: Value, *, transpose_a: bool = False, transpose_b: bool = False
) -> Value:
    """op(x) · op(y), where op transposes if asked."""
    return b.emit_one(MATMUL, x, y, params=MatmulParams(transpose_a, transpose_b))


def infer_matmul(types: Sequence[Type], params: MatmulParams) -> Sequence[Type]:
    a, b = tensor(types[0], 0), tensor(types[1], 1)
    require_dtype(a, FLOATS)
    if a.rank != 2 or b.rank != 2 or a.dtype != b.dtype:
        raise TypeRuleError(f"requires two matrices of one element type, got {a} and {b}")
    m, k = reversed(a.dims) if params.transpose_a else a.dims
    k2, n = reversed(b.dims) if params.transpose_b else b.dims
    if k != k2:
        raise TypeRuleError(
            f"requires the inner dimensions to agree, got {k} and {k2} ({a} and {b})",
            operand=1,
            slug="shape-mismatch",
        )
    return [a.with_dims((m, n))]


def matmul_reference(params: MatmulParams, a: Array, b: Array) -> Array:
    return np.matmul(a.T if params.transpose_a else a, b.T if params.transpose_b else b)


def _matmul_vjp(b: IRBuilder, op: Operation, dz: Value) -> Sequence[Value | None]:
    x, y = op.operands
    assert isinstance(op.params, MatmulParams)
    ta, tb = op.params.transpose_a, op.params.transpose_b
    # z = op(x) op(y):  d op(x) = dz op(y)^T,  d op(y) = op(x)^T dz; transposing swaps the factors.
    if ta:
        dx = matmul(b, y, dz, transpose_a=tb, transpose_b=True)
    else:
        dx = matmul(b, dz, y, transpose_b=not tb)
    if tb:
        dy = matmul(b, dz, x, transpose_a=True, transpose_b=ta)
    else:
        dy = matmul(b, x, dz, transpose_a=not ta)
    return [dx, dy]


MATMUL = OpDef(
    name="matmul",
    summary="matrix product, either operand transposed on request",
    operands=("a", "b"),
    params=MatmulParams,
    infer=infer_matmul,
    reference=matmul_reference,
    codegen=Contraction(),
    vjp=_matmul_vjp,
    equation="C = A B",
)

OPS = (MATMUL,)
