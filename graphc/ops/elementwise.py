"""Operations on one element of each operand. Operand types are equal: broadcasting is its own op.

The gradient rules call one another, so arithmetic, comparisons and choices share this file;
`functions.py` has the mathematical functions. At a kink the rules take one side: `maximum(a, b)`
gives the cotangent to `a` where a > b and to `b` elsewhere, so that ReLU, `maximum(x, 0)`, has
slope 0 at 0; `abs` has slope 0 at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from graphc.ir.codegen import Elementwise
from graphc.ir.core import Array, IRBuilder, NotDifferentiable, OpDef, Operation, Trait, Value
from graphc.ir.elements import converted
from graphc.ir.params import NoParams, Params
from graphc.ir.scalar import Scalars, scalar_op
from graphc.ir.types import DType, Type, TypeRuleError
from graphc.ops.constant import full_like
from graphc.ops.rules import (
    NUMBERS,
    Tangents,
    comparison,
    diagonal_jvp,
    multilinear_jvp,
    require_dtype,
    same_types,
    tensor,
)

S = TypeVar("S")
Cotangents = Sequence[Value | None]

_PURE = frozenset({Trait.PURE})
_COMMUTATIVE = frozenset({Trait.PURE, Trait.COMMUTATIVE})


# --- emitters ----------------------------------------------------------------------------------


def add(b: IRBuilder, x: Value, y: Value) -> Value:
    """The sum, of elements that are only stored too: rounded, or cut to the low bits."""
    dtype = x.tensor.dtype
    if dtype is dtype.computed:
        return b.emit_one(ADD, x, y)
    return cast(b, b.emit_one(ADD, *(cast(b, v, dtype.computed) for v in (x, y))), dtype)


def sub(b: IRBuilder, x: Value, y: Value) -> Value:
    return b.emit_one(SUB, x, y)


def mul(b: IRBuilder, x: Value, y: Value) -> Value:
    return b.emit_one(MUL, x, y)


def div(b: IRBuilder, x: Value, y: Value) -> Value:
    return b.emit_one(DIV, x, y)


def neg(b: IRBuilder, x: Value) -> Value:
    return b.emit_one(NEG, x)


def absolute(b: IRBuilder, x: Value) -> Value:
    return b.emit_one(ABS, x)


def maximum(b: IRBuilder, x: Value, y: Value) -> Value:
    return b.emit_one(MAXIMUM, x, y)


def compare(b: IRBuilder, kind: OpDef, x: Value, y: Value) -> Value:
    """One of EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL."""
    return b.emit_one(kind, x, y)


def select(b: IRBuilder, condition: Value, x: Value, y: Value) -> Value:
    return b.emit_one(SELECT, condition, x, y)


def cast(b: IRBuilder, x: Value, dtype: DType) -> Value:
    return b.emit_one(CAST, x, params=CastParams(dtype))


# --- arithmetic --------------------------------------------------------------------------------


def _add_vjp(_b: IRBuilder, _op: Operation, dz: Value) -> Cotangents:
    return [dz, dz]


def _sub_vjp(b: IRBuilder, _op: Operation, dz: Value) -> Cotangents:
    return [dz, neg(b, dz)]


def _mul_vjp(b: IRBuilder, op: Operation, dz: Value) -> Cotangents:
    x, y = op.operands
    return [mul(b, dz, y), mul(b, dz, x)]


def _div_vjp(b: IRBuilder, op: Operation, dz: Value) -> Cotangents:
    _, y = op.operands
    dx = div(b, dz, y)
    return [dx, neg(b, mul(b, dx, op.result))]


def _div_reference(_p: NoParams, x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return x / y
    # Integers: truncated towards zero, 0 for a zero divisor, the smallest value wraps.
    safe = np.where((y == 0) | (y == -1), 1, y).astype(x.dtype)
    floor = x // safe
    quotient = np.where((x % safe != 0) & ((x < 0) != (safe < 0)), floor + 1, floor)
    return np.where(y == 0, 0, np.where(y == -1, np.negative(x), quotient)).astype(x.dtype)


def _neg_vjp(b: IRBuilder, _op: Operation, dy: Value) -> Cotangents:
    return [neg(b, dy)]


def _abs_vjp(b: IRBuilder, op: Operation, dy: Value) -> Cotangents:
    (x,) = op.operands
    zero = full_like(b, 0.0, x)
    below = select(b, compare(b, LESS, x, zero), neg(b, dy), full_like(b, 0.0, dy))
    return [select(b, compare(b, GREATER, x, zero), dy, below)]


ADD = OpDef(
    name="add",
    summary="sum of two operands",
    operands=("x", "y"),
    infer=same_types(NUMBERS),
    reference=lambda _p, x, y: x + y,
    codegen=Elementwise(scalar_op("add")),
    vjp=_add_vjp,
    jvp=diagonal_jvp,
    traits=_COMMUTATIVE,
    equation="z = x + y",
    array="add",
)
SUB = OpDef(
    name="sub",
    summary="difference of two operands",
    operands=("x", "y"),
    infer=same_types(NUMBERS),
    reference=lambda _p, x, y: x - y,
    codegen=Elementwise(scalar_op("sub")),
    vjp=_sub_vjp,
    jvp=diagonal_jvp,
    equation="z = x - y",
    array="subtract",
)
MUL = OpDef(
    name="mul",
    summary="element-wise product",
    operands=("x", "y"),
    infer=same_types(NUMBERS),
    reference=lambda _p, x, y: x * y,
    codegen=Elementwise(scalar_op("mul")),
    vjp=_mul_vjp,
    jvp=diagonal_jvp,
    traits=_COMMUTATIVE,
    equation="z = x y",
    array="multiply",
)
DIV = OpDef(
    name="div",
    summary="quotient, infinite or nan where y is 0; integers truncate and are 0 there",
    operands=("x", "y"),
    infer=same_types(NUMBERS),
    reference=_div_reference,
    codegen=Elementwise(scalar_op("div")),
    vjp=_div_vjp,
    jvp=diagonal_jvp,
    equation="z = x / y",
    gap_values=(0.0, 1.0),
    source="toolkit, later than NDL",
    ndl=("ElementDivide",),
)
NEG = OpDef(
    name="neg",
    summary="negation",
    operands=("x",),
    infer=same_types(NUMBERS),
    reference=lambda _p, x: -x,
    codegen=Elementwise(scalar_op("neg")),
    vjp=_neg_vjp,
    jvp=diagonal_jvp,
    equation="y = -x",
    array="negative",
    source="book 2.4.2",
    ndl=("Negate",),
)
ABS = OpDef(
    name="abs",
    summary="absolute value; slope 0 at 0",
    operands=("x",),
    infer=same_types(NUMBERS),
    reference=lambda _p, x: np.abs(x),
    codegen=Elementwise(scalar_op("abs")),
    vjp=_abs_vjp,
    jvp=diagonal_jvp,
    equation="y = |x|",
    source="toolkit, later than NDL",
    array="absolute",
    ndl=("Abs",),
)


# --- selection ---------------------------------------------------------------------------------


def _maximum_vjp(b: IRBuilder, op: Operation, dz: Value) -> Cotangents:
    return _pick_vjp(b, GREATER, op, dz)


def _minimum_vjp(b: IRBuilder, op: Operation, dz: Value) -> Cotangents:
    return _pick_vjp(b, LESS, op, dz)


def _pick_vjp(b: IRBuilder, kind: OpDef, op: Operation, dz: Value) -> Cotangents:
    x, y = op.operands
    first = compare(b, kind, x, y)
    zero = full_like(b, 0.0, dz)
    return [select(b, first, dz, zero), select(b, first, zero, dz)]


def _infer_select(types: Sequence[Type], _params: Params) -> Sequence[Type]:
    condition, x, y = (tensor(t, i) for i, t in enumerate(types))
    if condition.dtype is not DType.I1 or condition.dims != x.dims:
        raise TypeRuleError(
            f"requires a condition of type {x.with_dtype(DType.I1)}, got {condition}", operand=0
        )
    require_dtype(x, (*NUMBERS, DType.I1), 1)
    if x != y:
        raise TypeRuleError(f"requires choices of one type, got {x} and {y}", operand=2)
    return [x]


def _select_vjp(b: IRBuilder, op: Operation, dz: Value) -> Cotangents:
    condition = op.operands[0]
    zero = full_like(b, 0.0, dz)
    return [None, select(b, condition, dz, zero), select(b, condition, zero, dz)]


MAXIMUM = OpDef(
    name="maximum",
    summary="the larger operand; nan if either is nan; of equal ones y gets the gradient",
    operands=("x", "y"),
    infer=same_types(NUMBERS),
    reference=lambda _p, x, y: np.maximum(x, y),
    codegen=Elementwise(scalar_op("maximum")),
    vjp=_maximum_vjp,
    jvp=diagonal_jvp,
    equation="z = max(x, y)",
    array="maximum",
)
MINIMUM = OpDef(
    name="minimum",
    summary="the smaller operand; nan if either is nan; of equal ones y gets the gradient",
    operands=("x", "y"),
    infer=same_types(NUMBERS),
    reference=lambda _p, x, y: np.minimum(x, y),
    codegen=Elementwise(scalar_op("minimum")),
    vjp=_minimum_vjp,
    jvp=diagonal_jvp,
    equation="z = min(x, y)",
    array="minimum",
)


def _clip_rule(s: Scalars[S], _params: Params, /, *args: S) -> S:
    x, low, high = args
    return s.minimum(s.maximum(x, low), high)


def _clip_vjp(b: IRBuilder, op: Operation, dy: Value) -> Cotangents:
    x, low, high = op.operands
    zero = full_like(b, 0.0, dy)
    is_above = compare(b, GREATER, maximum(b, x, low), high)
    is_below = compare(b, LESS, x, low)
    rest = select(b, is_above, zero, dy)
    return [
        select(b, is_below, zero, rest),
        select(b, is_below, rest, zero),
        select(b, is_above, dy, zero),
    ]


CLIP = OpDef(
    name="clip",
    summary="x within low and high, high where they cross; slope 1 at both; nan if any is nan",
    operands=("x", "low", "high"),
    infer=same_types(NUMBERS),
    reference=lambda _p, x, low, high: np.minimum(np.maximum(x, low), high),
    codegen=Elementwise(_clip_rule),
    vjp=_clip_vjp,
    jvp=diagonal_jvp,
    equation="y = min(max(x, low), high)",
    source="toolkit, later than NDL",
    array="clip",
    ndl=("Clip",),
)
SELECT = OpDef(
    name="select",
    summary="x where the condition holds, y elsewhere",
    operands=("condition", "x", "y"),
    infer=_infer_select,
    reference=lambda _p, c, x, y: np.where(c, x, y),
    codegen=Elementwise(scalar_op("select")),
    vjp=_select_vjp,
    jvp=diagonal_jvp,
    equation="z = c ? x : y",
    source="numpy",
    ndl=("Where",),
)


# --- comparisons and logic -----------------------------------------------------------------------


def _comparison(name: str, summary: str, symbol: str, commutative: bool = False) -> OpDef:
    function = getattr(np, name)
    return OpDef(
        name=name,
        summary=summary,
        operands=("x", "y"),
        infer=comparison,
        reference=lambda _p, x, y: function(x, y),
        codegen=Elementwise(scalar_op(name)),
        vjp=NotDifferentiable.ZERO,
        traits=_COMMUTATIVE if commutative else _PURE,
        equation=f"z = (x {symbol} y)",
        source="toolkit, later than NDL",
        array=name,
        ndl=("".join(part.capitalize() for part in name.split("_")),),
    )


EQUAL = _comparison("equal", "whether the operands are equal; false on nan", "=", True)
NOT_EQUAL = _comparison("not_equal", "whether the operands differ; true on nan", "≠", True)
LESS = _comparison("less", "whether x is less than y", "<")
LESS_EQUAL = _comparison("less_equal", "whether x is at most y", "≤")
GREATER = _comparison("greater", "whether x is greater than y", ">")
GREATER_EQUAL = _comparison("greater_equal", "whether x is at least y", "≥")


def _logical(name: str, summary: str, operands: tuple[str, ...], equation: str) -> OpDef:
    function = getattr(np, name)
    return OpDef(
        name=name,
        summary=summary,
        operands=operands,
        infer=same_types((DType.I1,)),
        reference=lambda _p, *xs: function(*xs),
        codegen=Elementwise(scalar_op(name)),
        vjp=NotDifferentiable.ZERO,
        traits=_COMMUTATIVE if len(operands) == 2 else _PURE,
        equation=equation,
        array=name,
    )


LOGICAL_AND = _logical("logical_and", "both", ("x", "y"), "z = x and y")
LOGICAL_OR = _logical("logical_or", "at least one", ("x", "y"), "z = x or y")
LOGICAL_NOT = _logical("logical_not", "negation of a truth value", ("x",), "y = not x")


# --- gradients cut off ---------------------------------------------------------------------------


def identity_rule(_s: Scalars[S], _params: Params, /, *args: S) -> S:
    """The first operand."""
    return args[0]


STOP_GRADIENT = OpDef(
    name="stop_gradient",
    summary="its operand, taken as a constant by gradients",
    operands=("x",),
    infer=same_types((*NUMBERS, DType.I1)),
    reference=lambda _p, x: x.copy(),
    codegen=Elementwise(identity_rule),
    vjp=NotDifferentiable.ZERO,
    equation="y = x",
    array="stop_gradient",
)


def stop_gradient(b: IRBuilder, x: Value) -> Value:
    return b.emit_one(STOP_GRADIENT, x)


# --- conversion ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CastParams(Params):
    dtype: DType


def _infer_cast(types: Sequence[Type], params: CastParams) -> Sequence[Type]:
    return [tensor(types[0]).with_dtype(params.dtype)]


def _cast_reference(params: CastParams, x: Array) -> Array:
    return converted(x, params.dtype)


def _cast_rule(s: Scalars[S], params: Params, /, *args: S) -> S:
    assert isinstance(params, CastParams)
    return s.cast(args[0], params.dtype)


def _cast_vjp(b: IRBuilder, op: Operation, dy: Value) -> Cotangents:
    source, target = op.operands[0].tensor, op.result.tensor
    if not (source.dtype.is_float and target.dtype.is_float):
        return [None]
    return [cast(b, dy, source.dtype)]


def _cast_jvp(b: IRBuilder, op: Operation, tangents: Tangents) -> Sequence[Value]:
    """Linear between floats; nothing moves along a whole number."""
    return multilinear_jvp(b, op, tangents) if op.result.tensor.dtype.is_float else []


CAST = OpDef(
    name="cast",
    summary="another element type; float to integer saturates and takes nan to 0",
    operands=("x",),
    params=CastParams,
    infer=_infer_cast,
    reference=_cast_reference,
    codegen=Elementwise(_cast_rule),
    vjp=_cast_vjp,
    jvp=_cast_jvp,
)


def _round_bf16_reference(_p: NoParams, x: Array) -> Array:
    """By arithmetic on numbers: a multiple of the smallest difference of numbers as large as x."""
    _, exponent = np.frexp(x)
    with np.errstate(over="ignore", invalid="ignore"):
        step = np.ldexp(1.0, np.maximum(exponent - 8, -133))
        rounded = (np.rint(x / step) * step).astype(x.dtype)
    return np.where(np.isfinite(x), np.copysign(rounded, x), x)


ROUND_BF16 = OpDef(
    name="round_bf16",
    summary="the nearest number of bf16, which has 8 significant bits; of two the even one",
    operands=("x",),
    infer=same_types((DType.F32,)),
    reference=_round_bf16_reference,
    codegen=Elementwise(scalar_op("round_bf16")),
    vjp=NotDifferentiable.ZERO,
    equation="y = bf16(x)",
)


def round_bf16(b: IRBuilder, x: Value) -> Value:
    return b.emit_one(ROUND_BF16, x)


OPS = (
    ADD,
    SUB,
    MUL,
    DIV,
    NEG,
    ABS,
    MAXIMUM,
    MINIMUM,
    CLIP,
    SELECT,
    EQUAL,
    NOT_EQUAL,
    LESS,
    LESS_EQUAL,
    GREATER,
    GREATER_EQUAL,
    LOGICAL_AND,
    LOGICAL_OR,
    LOGICAL_NOT,
    STOP_GRADIENT,
    CAST,
    ROUND_BF16,
)
