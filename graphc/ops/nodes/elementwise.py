"""Nodes that work element by element or column by column and are no single operation.

`pointwise.py` has those that are one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphc.ir.core import Array, IRBuilder, OpDef, Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import DType, MatrixType, Type, TypeRuleError
from graphc.ops import composites, elementwise
from graphc.ops.nodes.layout import (
    equal_sizes,
    matrix,
    merged,
    node_def,
    node_type,
    operand_types,
    refine_equal,
    row_axis,
    spread,
    unary,
)
from graphc.ops.nodes.pointwise import common_size, expand_with, refine, tiled

Emit1 = Callable[[IRBuilder, Value], Value]


# --- one operand ---------------------------------------------------------------------------------


def _unary(
    name: str,
    summary: str,
    emit: Emit1,
    reference: Callable[[Array], Array],
    equation: str,
    source: str,
    ndl: tuple[str, ...],
) -> OpDef:
    def expand(b: IRBuilder, _op: Operation, operands: Sequence[Value], _dtype: DType) -> Value:
        return emit(b, operands[0])

    return node_def(
        name,
        summary,
        ("x",),
        infer=unary,
        reference=lambda _p, x: reference(x),
        expand=expand,
        equation=equation,
        source=source,
        ndl=ndl,
    )


def _columnwise(
    name: str,
    summary: str,
    emit: Callable[[IRBuilder, Value, int], Value],
    reference: Callable[[Array], Array],
    equation: str,
    source: str,
    ndl: tuple[str, ...],
) -> OpDef:
    def expand(b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType) -> Value:
        return emit(b, operands[0], row_axis(node_type(op)))

    return node_def(
        name,
        summary,
        ("x",),
        infer=unary,
        reference=lambda _p, x: reference(x),
        expand=expand,
        equation=equation,
        source=source,
        ndl=ndl,
    )


def _softmax_reference(x: Array) -> Array:
    e = np.exp(x - x.max(axis=0, keepdims=True, initial=-np.inf))
    return e / e.sum(axis=0, keepdims=True)


def _log_softmax_reference(x: Array) -> Array:
    d = x - x.max(axis=0, keepdims=True, initial=-np.inf)
    return d - np.log(np.exp(d).sum(axis=0, keepdims=True))


def _hardmax_reference(x: Array) -> Array:
    first = np.argmax(x, axis=0)
    one_hot = (np.arange(x.shape[0])[:, None] == first) & ~np.isnan(x).any(axis=0)
    return one_hot.astype(x.dtype)


RECTIFIED_LINEAR = _unary(
    "rectified_linear",
    "the positive part of each element; slope 0 at 0",
    composites.relu,
    lambda x: np.maximum(x, 0),
    "V = max(0, X)",
    "book 2.4.2",
    ndl=("RectifiedLinear", "ReLU"),
)
LOG = _unary(
    "log",
    "natural logarithm of each element; arguments below 1e-37 are taken as 1e-37",
    composites.clamped_log,
    lambda x: np.log(np.maximum(x, composites.LOG_FLOOR)),
    "V = ln max(X, 1e-37)",
    "book 2.4.2; the floor is the toolkit's",
    ndl=("Log",),
)
SOFTMAX = _columnwise(
    "softmax",
    "softmax of each column",
    composites.softmax,
    _softmax_reference,
    "V = e^(X-m) / Σ e^(X-m), m the column's maximum",
    "book 2.4.2",
    ndl=("Softmax",),
)
LOG_SOFTMAX = _columnwise(
    "log_softmax",
    "logarithm of the softmax of each column",
    composites.log_softmax,
    _log_softmax_reference,
    "V = X - m - ln Σ e^(X-m), m the column's maximum",
    "book 2.4.2",
    ndl=("LogSoftmax",),
)
HARDMAX = _columnwise(
    "hardmax",
    "1 at the first maximum of each column, 0 elsewhere; no gradient flows",
    composites.one_hot_maximum,
    _hardmax_reference,
    "V_ij = [i = argmax_k X_kj], first maximum on ties",
    "toolkit of January 2016, beyond the book",
    ndl=("Hardmax",),
)


# --- two operands --------------------------------------------------------------------------------


def _infer_plus(types: Sequence[Type], _params: Params) -> Sequence[Type]:
    return [common_size([matrix(t) for t in types], repeat_columns=True)]


def _infer_minus(types: Sequence[Type], _params: Params) -> Sequence[Type]:
    return [common_size([matrix(t) for t in types])]


def _plus_reference(_p: Params, a: Array, b: Array) -> Array:
    x, y = tiled(a, b)
    return x + y


def _minus_reference(_p: Params, a: Array, b: Array) -> Array:
    x, y = tiled(a, b)
    return x - y


def _expand_element_times(
    b: IRBuilder, _op: Operation, operands: Sequence[Value], _dtype: DType
) -> Value:
    return elementwise.mul(b, operands[0], operands[1])


def _infer_scale(types: Sequence[Type], _params: Params) -> Sequence[Type]:
    factor, x = matrix(types[0]), matrix(types[1])
    if factor.is_known and factor.size != (1, 1):
        raise TypeRuleError(
            f"requires a 1x1 first operand, got {factor}", operand=0, slug="shape-mismatch"
        )
    return [x]


def _refine_scale(types: Sequence[MatrixType], _params: Params) -> Sequence[MatrixType]:
    return [merged(types[0], MatrixType(1, 1)), types[1]]


def _expand_scale(b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType) -> Value:
    factor, x = operands
    source, target = operand_types(op)
    return elementwise.mul(b, spread(b, factor, source, target, x.tensor.dims), x)


PLUS = node_def(
    "plus",
    "sum, with broadcasting of row and column vectors",
    ("a", "b"),
    infer=_infer_plus,
    refine=refine,
    reference=_plus_reference,
    expand=expand_with(elementwise.add),
    equation="V = A + B",
    source="book 2.4.3",
    ndl=("Plus",),
)
MINUS = node_def(
    "minus",
    "difference, with broadcasting of row and column vectors",
    ("a", "b"),
    infer=_infer_minus,
    refine=refine,
    reference=_minus_reference,
    expand=expand_with(elementwise.sub),
    equation="V = A - B",
    source="book 2.4.3",
    ndl=("Minus",),
)
ELEMENT_TIMES = node_def(
    "element_times",
    "element-wise product of two nodes of one size",
    ("a", "b"),
    infer=equal_sizes("operands"),
    refine=refine_equal,
    reference=lambda _p, a, b: a * b,
    expand=_expand_element_times,
    equation="V = A ∘ B",
    source="book 2.4.3",
    ndl=("ElementTimes",),
)
SCALE = node_def(
    "scale",
    "a matrix times a 1x1 node",
    ("factor", "x"),
    infer=_infer_scale,
    refine=_refine_scale,
    reference=lambda _p, s, x: s * x,
    expand=_expand_scale,
    equation="V = s X",
    source="book 2.4.3",
    ndl=("Scale",),
)

OPS = (
    RECTIFIED_LINEAR,
    LOG,
    SOFTMAX,
    LOG_SOFTMAX,
    HARDMAX,
    PLUS,
    MINUS,
    ELEMENT_TIMES,
    SCALE,
)
