"""Nodes that work element by element, with NDL's forms of broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphc.ir.core import Array, InferRule, IRBuilder, OpDef, Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import DType, MatrixDim, MatrixType, Type, TypeRuleError
from graphc.ops import composites, elementwise, functions
from graphc.ops.nodes.layout import (
    equal_sizes,
    matrix,
    merged,
    node_def,
    node_type,
    operand_types,
    refine_equal,
    require_equal_images,
    row_axis,
    spread,
    tensor_type,
    unary,
)

Emit1 = Callable[[IRBuilder, Value], Value]
Emit2 = Callable[[IRBuilder, Value, Value], Value]


# --- one operand ---------------------------------------------------------------------------------


def _unary(
    name: str,
    summary: str,
    emit: Emit1,
    reference: Callable[[Array], Array],
    equation: str,
    source: str,
    zero_in_gaps: tuple[int, ...] = (),
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
        zero_in_gaps=zero_in_gaps,
        equation=equation,
        source=source,
    )


def _columnwise(
    name: str,
    summary: str,
    emit: Callable[[IRBuilder, Value, int], Value],
    reference: Callable[[Array], Array],
    equation: str,
    source: str,
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


NEGATE = _unary("negate", "the negative", elementwise.neg, np.negative, "V = -X", "book 2.4.2")
SIGMOID = _unary(
    "sigmoid",
    "logistic sigmoid of each element",
    functions.sigmoid,
    lambda x: 0.5 * (1 + np.tanh(0.5 * x)),
    "V = 1 / (1 + e^-X)",
    "book 2.4.2",
)
TANH = _unary(
    "tanh",
    "hyperbolic tangent of each element",
    functions.tanh,
    np.tanh,
    "V = tanh X",
    "book 2.4.2",
)
RECTIFIED_LINEAR = _unary(
    "rectified_linear",
    "the positive part of each element; slope 0 at 0",
    composites.relu,
    lambda x: np.maximum(x, 0),
    "V = max(0, X)",
    "book 2.4.2",
)
EXP = _unary(
    "exp",
    "exponential of each element",
    functions.exp,
    np.exp,
    "V = e^X",
    "toolkit, beyond the book",
    zero_in_gaps=(0,),
)
COSINE = _unary(
    "cosine",
    "cosine of each element, in radians",
    functions.cos,
    np.cos,
    "V = cos X",
    "toolkit, beyond the book",
)
LOG = _unary(
    "log",
    "natural logarithm of each element; arguments below 1e-37 are taken as 1e-37",
    composites.clamped_log,
    lambda x: np.log(np.maximum(x, composites.LOG_FLOOR)),
    "V = ln max(X, 1e-37)",
    "book 2.4.2; the floor is the toolkit's",
)
SOFTMAX = _columnwise(
    "softmax",
    "softmax of each column",
    composites.softmax,
    _softmax_reference,
    "V = e^(X-m) / Σ e^(X-m), m the column's maximum",
    "book 2.4.2",
)
LOG_SOFTMAX = _columnwise(
    "log_softmax",
    "logarithm of the softmax of each column",
    composites.log_softmax,
    _log_softmax_reference,
    "V = X - m - ln Σ e^(X-m), m the column's maximum",
    "book 2.4.2",
)
HARDMAX = _columnwise(
    "hardmax",
    "1 at the first maximum of each column, 0 elsewhere; no gradient flows",
    composites.one_hot_maximum,
    _hardmax_reference,
    "V_ij = [i = argmax_k X_kj], first maximum on ties",
    "toolkit of January 2016, beyond the book",
)


# --- two operands --------------------------------------------------------------------------------


def _sum_type(a: MatrixType, b: MatrixType, *, repeat_columns: bool) -> MatrixType:
    """The size of a sum or difference, by the toolkit's broadcasting forms."""
    if None in (a.rows, a.cols, b.rows, b.cols):
        return merged(a, b) if _vector_free(a, b) else MatrixType(None, None)
    for big, small in ((a, b), (b, a)):
        assert big.rows is not None and small.rows is not None
        row_vector = small.rows == 1 and small.cols == big.cols
        column_vector = small.cols == 1 and big.rows % small.rows == 0
        if big.size == small.size or row_vector or column_vector:
            return _with_image(big, small)
    if repeat_columns and a.rows == b.rows and _divides(b.cols, a.cols):
        return _with_image(a, b)
    raise TypeRuleError(
        f"requires equal sizes, or one operand a row vector over the same columns or a column "
        f"vector whose rows divide the other's, got {a} and {b}",
        operand=1,
        slug="shape-mismatch",
    )


def _with_image(big: MatrixType, small: MatrixType) -> MatrixType:
    """The size of `big`; its columns are images if those of either are."""
    require_equal_images(big, small, "operands")
    return merged(big, MatrixType(None, None, small.image))


def _divides(part: MatrixDim, whole: MatrixDim) -> bool:
    return isinstance(part, int) and isinstance(whole, int) and whole % part == 0


def _vector_free(a: MatrixType, b: MatrixType) -> bool:
    """Whether the sizes can only be equal: nothing known of either is 1 (which would broadcast)."""
    return 1 not in (a.rows, a.cols, b.rows, b.cols)


def _broadcasting(*, repeat_columns: bool) -> InferRule:
    def infer(types: Sequence[Type], _params: Params) -> Sequence[Type]:
        a, b = matrix(types[0]), matrix(types[1])
        return [_sum_type(a, b, repeat_columns=repeat_columns)]

    return infer


def _refine_sum(types: Sequence[MatrixType], _params: Params) -> Sequence[MatrixType]:
    """A parameter takes what is unknown of its size from the other operand."""
    a, b = types
    return [
        MatrixType(
            x.rows if x.rows is not None else y.rows, x.cols if x.cols is not None else y.cols
        )
        for x, y in ((a, b), (b, a))
    ]


def _expand_broadcasting(emit: Emit2) -> Callable[..., Value]:
    def expand(b: IRBuilder, op: Operation, operands: Sequence[Value], dtype: DType) -> Value:
        target = node_type(op)
        samples = next(
            (
                v.tensor.dims[0]
                for v, t in zip(operands, operand_types(op), strict=True)
                if t.has_samples
            ),
            0,
        )
        rows = target.rows
        assert rows is not None
        dims = (samples, rows) if target.has_samples else tensor_type(target, 0, dtype).dims
        x, y = (
            spread(b, v, t, target, dims) for v, t in zip(operands, operand_types(op), strict=True)
        )
        return emit(b, x, y)

    return expand


def _tiled(a: Array, b: Array) -> tuple[Array, Array]:
    """The two matrices repeated to one size, for the references."""
    rows, cols = max(a.shape[0], b.shape[0]), max(a.shape[1], b.shape[1])
    return _tile(a, rows, cols), _tile(b, rows, cols)


def _tile(x: Array, rows: int, cols: int) -> Array:
    x = np.tile(x, (rows // x.shape[0], 1)) if x.shape[0] else x
    return np.repeat(x, cols // x.shape[1], axis=1) if x.shape[1] else x


def _plus_reference(_p: Params, a: Array, b: Array) -> Array:
    x, y = _tiled(a, b)
    return x + y


def _minus_reference(_p: Params, a: Array, b: Array) -> Array:
    x, y = _tiled(a, b)
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
    infer=_broadcasting(repeat_columns=True),
    refine=_refine_sum,
    reference=_plus_reference,
    expand=_expand_broadcasting(elementwise.add),
    equation="V = A + B",
    source="book 2.4.3",
)
MINUS = node_def(
    "minus",
    "difference, with broadcasting of row and column vectors",
    ("a", "b"),
    infer=_broadcasting(repeat_columns=False),
    refine=_refine_sum,
    reference=_minus_reference,
    expand=_expand_broadcasting(elementwise.sub),
    equation="V = A - B",
    source="book 2.4.3",
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
)

OPS = (
    NEGATE,
    SIGMOID,
    TANH,
    RECTIFIED_LINEAR,
    EXP,
    COSINE,
    LOG,
    SOFTMAX,
    LOG_SOFTMAX,
    HARDMAX,
    PLUS,
    MINUS,
    ELEMENT_TIMES,
    SCALE,
)
