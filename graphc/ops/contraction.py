"""Products of matrices, and of tensors read as matrices.

Without settings it is the matrix product. In general each operand's dims are three groups,

    a  [batch.., free.., contracted..]      b  [batch.., contracted.., free..]

the last two, neither of them empty, exchanged by `transpose_a`, `transpose_b`; the result is
[batch.., a's free.., b's free..]. The groups are neighbours in memory, so every such product is a
plain product of matrices, repeated over the batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.codegen import Contraction
from graphc.ir.core import Array, IRBuilder, OpDef, Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import Dim, TensorType, Type, TypeRuleError
from graphc.ops.rules import FLOATS, multilinear_jvp, require_dtype, tensor

STRETCH = 256
"""Steps of a sum in one chain of additions, in native code: a sum is one of stretches of so many.
Every machine has the same, so that no schedule and no cache decides bits. Multiple of the lanes of
any vector; a panel of so many steps fits in the smallest first-level cache."""


@dataclass(frozen=True)
class MatmulParams(Params):
    """`contract`: how many dims are summed over; `batch`: how many leading dims are common."""

    transpose_a: bool = False
    transpose_b: bool = False
    contract: int = 1
    batch: int = 0


@dataclass(frozen=True)
class Groups:
    """The dims of a product by their role."""

    batch: tuple[Dim, ...]
    rows: tuple[Dim, ...]
    inner: tuple[Dim, ...]
    cols: tuple[Dim, ...]


def matmul(
    b: IRBuilder,
    x: Value,
    y: Value,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    contract: int = 1,
    batch: int = 0,
) -> Value:
    """op(x) · op(y), where op exchanges free and contracted dims if asked."""
    return b.emit_one(MATMUL, x, y, params=MatmulParams(transpose_a, transpose_b, contract, batch))


def groups(params: MatmulParams, a: TensorType, b: TensorType) -> Groups:
    """Which dims of two operands that fit are repeated over, kept and summed over."""
    batch = a.dims[: params.batch]
    rows, inner = _split(a.dims[params.batch :], params.contract, params.transpose_a)
    cols, _ = _split(b.dims[params.batch :], params.contract, not params.transpose_b)
    return Groups(batch, rows, inner, cols)


def _split(
    dims: tuple[Dim, ...], contract: int, contracted_first: bool
) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
    """(free, contracted)."""
    if contracted_first:
        return dims[contract:], dims[:contract]
    return dims[: len(dims) - contract], dims[len(dims) - contract :]


def infer_matmul(types: Sequence[Type], params: MatmulParams) -> Sequence[Type]:
    a, b = tensor(types[0], 0), tensor(types[1], 1)
    require_dtype(a, FLOATS)
    if params.contract < 1 or params.batch < 0:
        raise TypeRuleError(
            f"requires contract of at least 1 and batch of at least 0, got {params.contract} "
            f"and {params.batch}"
        )
    least = params.batch + params.contract + 1
    if min(a.rank, b.rank) < least or a.dtype != b.dtype:
        what = "matrices" if least == 2 and a.rank == b.rank else f"tensors of rank {least} or more"
        raise TypeRuleError(f"requires two {what} of one element type, got {a} and {b}")
    if a.dims[: params.batch] != b.dims[: params.batch]:
        raise TypeRuleError(
            f"requires equal batch dimensions, got {a} and {b}", operand=1, slug="shape-mismatch"
        )
    rows, inner = _split(a.dims[params.batch :], params.contract, params.transpose_a)
    cols, inner_b = _split(b.dims[params.batch :], params.contract, not params.transpose_b)
    if inner != inner_b:
        raise TypeRuleError(
            f"requires the inner dimensions to agree, got {_text(inner)} and {_text(inner_b)} "
            f"({a} and {b})",
            operand=1,
            slug="shape-mismatch",
        )
    return [a.with_dims((*a.dims[: params.batch], *rows, *cols))]


def _text(dims: Sequence[Dim]) -> str:
    return "x".join(map(str, dims))


def matmul_reference(params: MatmulParams, a: Array, b: Array) -> Array:
    batch = a.shape[: params.batch]
    rows, inner = _split(a.shape[params.batch :], params.contract, params.transpose_a)
    cols, _ = _split(b.shape[params.batch :], params.contract, not params.transpose_b)
    left = _matrices(a, len(batch), len(inner if params.transpose_a else rows))
    right = _matrices(b, len(batch), len(cols if params.transpose_b else inner))
    left = left.swapaxes(-1, -2) if params.transpose_a else left
    right = right.swapaxes(-1, -2) if params.transpose_b else right
    if np.may_share_memory(left, right):
        # numpy would take another function for a product with itself, which has other bits.
        right = right.copy(order="K")
    return np.matmul(left, right).reshape((*batch, *rows, *cols))


def _matrices(x: Array, batch: int, first: int) -> Array:
    """`x` with the `first` dims after the batch as one, and the rest as another."""
    lead, rest = x.shape[batch : batch + first], x.shape[batch + first :]
    return x.reshape((*x.shape[:batch], math.prod(lead), math.prod(rest)))


def _matmul_vjp(b: IRBuilder, op: Operation, dz: Value) -> Sequence[Value | None]:
    x, y = op.operands
    params = op.params_as(MatmulParams)
    ta, tb, batch = params.transpose_a, params.transpose_b, params.batch
    rows = x.tensor.rank - batch - params.contract
    cols = y.tensor.rank - batch - params.contract
    # z = op(x) op(y):  d op(x) = dz op(y)^T,  d op(y) = op(x)^T dz; transposing swaps the factors.
    # The first sums over y's free dims, the second over x's.
    if ta:
        dx = matmul(b, y, dz, transpose_a=tb, transpose_b=True, contract=cols, batch=batch)
    else:
        dx = matmul(b, dz, y, transpose_b=not tb, contract=cols, batch=batch)
    if tb:
        dy = matmul(b, dz, x, transpose_a=True, transpose_b=ta, contract=rows, batch=batch)
    else:
        dy = matmul(b, x, dz, transpose_a=not ta, contract=rows, batch=batch)
    return [dx, dy]


MATMUL = OpDef(
    name="matmul",
    summary="matrix product, either operand transposed on request; of tensors by groups of dims",
    operands=("a", "b"),
    params=MatmulParams,
    infer=infer_matmul,
    reference=matmul_reference,
    codegen=Contraction(),
    vjp=_matmul_vjp,
    jvp=multilinear_jvp,
    equation="C = A B",
)

OPS = (MATMUL,)
