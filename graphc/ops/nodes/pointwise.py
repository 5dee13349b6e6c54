"""Nodes that are an element-wise operation, which follow from its record, and their broadcasting.

A tensor operation with NDL names (`OpDef.ndl`) has a node called after the first of them: each
operand is repeated to the common size as in Plus, and truth values are the numbers 1 and 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphc.ir.core import Array, ExpandRule, IRBuilder, OpDef, Operation, Value
from graphc.ir.params import NoParams, Params
from graphc.ir.types import DType, MatrixDim, MatrixType, TensorType, Type, TypeRuleError
from graphc.ops import elementwise, functions
from graphc.ops.nodes.interface import node_name
from graphc.ops.nodes.layout import (
    matrix,
    merged,
    node_def,
    node_type,
    operand_types,
    require_equal_images,
    spread,
    tensor_type,
)

Emit = Callable[..., Value]
"""(builder, *values of one size) -> value."""


# --- sizes ---------------------------------------------------------------------------------------


def common_size(types: Sequence[MatrixType], *, repeat_columns: bool = False) -> MatrixType:
    """The size that all are repeated to, by the toolkit's broadcasting forms.

    repeat_columns  fewer columns than those of the first are repeated too
    """
    first, *others = types
    if not all(t.is_known for t in types):
        # Without a 1 among what is known, which would be repeated, sizes can only be equal.
        if any(1 in (t.rows, t.cols) for t in types):
            return MatrixType(None, None)
        for other in others:
            first = merged(first, other)
        return first
    for big in types:
        if all(_fits(small, big) for small in types):
            return _with_images(big, types)
    if repeat_columns and all(t.rows == first.rows and _divides(t.cols, first.cols) for t in types):
        return _with_images(first, types)
    raise TypeRuleError(
        "requires equal sizes, or one operand a row vector over the same columns or a column "
        f"vector whose rows divide the other's, got {', '.join(map(str, types[:-1]))} and "
        f"{types[-1]}",
        operand=1,
        slug="shape-mismatch",
    )


def _fits(small: MatrixType, big: MatrixType) -> bool:
    assert small.rows is not None and big.rows is not None
    is_row = small.rows == 1 and small.cols == big.cols
    is_column = small.cols == 1 and big.rows % small.rows == 0
    return small.size == big.size or is_row or is_column


def _divides(part: MatrixDim, whole: MatrixDim) -> bool:
    return isinstance(part, int) and isinstance(whole, int) and whole % part == 0


def _with_images(big: MatrixType, types: Sequence[MatrixType]) -> MatrixType:
    """The size of `big`; its columns are images if those of any are."""
    for small in types:
        require_equal_images(big, small, "operands")
        big = merged(big, MatrixType(None, None, small.image))
    return big


def _infer(types: Sequence[Type], _params: Params) -> Sequence[Type]:
    return [common_size([matrix(t) for t in types])]


def refine(types: Sequence[MatrixType], _params: Params) -> Sequence[MatrixType]:
    """A parameter takes what is unknown of its size from the other operands."""
    rows = next((t.rows for t in types if t.rows is not None), None)
    cols = next((t.cols for t in types if t.cols is not None), None)
    return [
        MatrixType(rows if t.rows is None else t.rows, cols if t.cols is None else t.cols)
        for t in types
    ]


def repeats_operands(op: OpDef) -> bool:
    """Whether the sizes of this node's operands may differ: they are repeated to a common one."""
    return op.refine is refine


# --- what they compute ---------------------------------------------------------------------------


def expand_with(emit: Emit) -> ExpandRule:
    """The expansion that repeats the operands to the node's size."""

    def expand(b: IRBuilder, op: Operation, operands: Sequence[Value], dtype: DType) -> Value:
        target, types = node_type(op), operand_types(op)
        with_samples = [v for v, t in zip(operands, types, strict=True) if t.has_samples]
        samples = with_samples[0].tensor.dims[0] if with_samples else 0
        dims = tensor_type(target, 0, dtype).dims
        if with_samples:
            dims = (samples, *dims[1:])
        return emit(
            b, *(spread(b, v, t, target, dims) for v, t in zip(operands, types, strict=True))
        )

    return expand


def tiled(*operands: Array) -> list[Array]:
    """The matrices repeated to one size, for references."""
    rows, cols = (max(x.shape[axis] for x in operands) for axis in (0, 1))
    if any(x.shape[1] == 0 for x in operands):
        cols = 0
    return [_tile(x, rows, cols) for x in operands]


def _tile(x: Array, rows: int, cols: int) -> Array:
    x = np.tile(x, (rows // x.shape[0], 1)) if x.shape[0] else x
    return np.repeat(x, cols // x.shape[1], axis=1) if x.shape[1] else x


def _node(op: OpDef) -> OpDef:
    truths = [name == "condition" for name in op.operands]
    (result,) = op.infer([TensorType((), DType.I1 if t else DType.F32) for t in truths], NoParams())
    is_truth = result == TensorType((), DType.I1)

    def emit(b: IRBuilder, *values: Value) -> Value:
        given = [
            elementwise.cast(b, v, DType.I1) if truth else v
            for v, truth in zip(values, truths, strict=True)
        ]
        made = b.emit_one(op, *given)
        number = values[0].type
        assert isinstance(number, TensorType)
        return elementwise.cast(b, made, number.dtype) if is_truth else made

    def reference(_params: Params, *operands: Array) -> Array:
        assert op.reference is not None
        shown = [x != 0 if t else x for x, t in zip(tiled(*operands), truths, strict=True)]
        return np.asarray(op.reference(NoParams(), *shown)).astype(operands[-1].dtype)

    return node_def(
        node_name(op.ndl[0]),
        f"{op.summary}; element by element{', 1 or 0' * is_truth}",
        op.operands,
        infer=_infer,
        refine=refine if len(truths) > 1 else None,
        reference=reference,
        expand=expand_with(emit),
        gap_values=op.gap_values,
        equation=op.equation,
        source=op.source,
        ndl=op.ndl,
    )


OF_OPERATIONS = {_node(op): op for op in (*elementwise.OPS, *functions.OPS) if op.ndl}
"""The nodes, and the operation that each one is."""

OPS = tuple(OF_OPERATIONS)
