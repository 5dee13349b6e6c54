"""Mathematical functions of one element, and the power x^y.

Backends compute them to a few units in the last place (docs/numerics.md), each in its own way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from graphc.ir.codegen import Elementwise
from graphc.ir.core import Array, IRBuilder, NotDifferentiable, OpDef, Operation, Value
from graphc.ir.params import NoParams, Params
from graphc.ir.scalar import Scalars, scalar_op
from graphc.ops.constant import full_like
from graphc.ops.elementwise import (
    EQUAL,
    GREATER_EQUAL,
    LOGICAL_AND,
    MINIMUM,
    add,
    compare,
    div,
    maximum,
    mul,
    neg,
    select,
    sub,
)
from graphc.ops.rules import FLOATS, diagonal_jvp, same_types

S = TypeVar("S")
Cotangents = Sequence[Value | None]


# --- emitters ----------------------------------------------------------------------------------


def exp(b: IRBuilder, x: Value) -> Value:
    return b.emit_one(EXP, x)


def expm1(b: IRBuilder, x: Value) -> Value:
    return b.emit_one(EXPM1, x)


def log(b: IRBuilder, x: Value) -> Value:
    return b.emit_one(LOG, x)


def log1p(b: IRBuilder, x: Value) -> Value:
    return b.emit_one(LOG1P, x)


def sqrt(b: IRBuilder, x: Value) -> Value:
    return b.emit_one(SQRT, x)


def tanh(b: IRBuilder, x: Value) -> Value:
    return b.emit_one(TANH, x)


def sigmoid(b: IRBuilder, x: Value) -> Value:
    return b.emit_one(SIGMOID, x)


def erf(b: IRBuilder, x: Value) -> Value:
    return b.emit_one(ERF, x)


def sin(b: IRBuilder, x: Value) -> Value:
    return b.emit_one(SIN, x)


def cos(b: IRBuilder, x: Value) -> Value:
    return b.emit_one(COS, x)


def arctan(b: IRBuilder, x: Value) -> Value:
    return b.emit_one(ARCTAN, x)


def power(b: IRBuilder, x: Value, y: Value) -> Value:
    return b.emit_one(POWER, x, y)


def floor(b: IRBuilder, x: Value) -> Value:
    return b.emit_one(FLOOR, x)


# --- gradients and references --------------------------------------------------------------------


def _exp_vjp(b: IRBuilder, op: Operation, dy: Value) -> Cotangents:
    return [mul(b, dy, op.result)]


def _expm1_vjp(b: IRBuilder, op: Operation, dy: Value) -> Cotangents:
    return [mul(b, dy, add(b, op.result, full_like(b, 1.0, dy)))]


def _log_vjp(b: IRBuilder, op: Operation, dy: Value) -> Cotangents:
    return [div(b, dy, op.operands[0])]


def _log1p_vjp(b: IRBuilder, op: Operation, dy: Value) -> Cotangents:
    return [div(b, dy, add(b, full_like(b, 1.0, dy), op.operands[0]))]


def _sqrt_vjp(b: IRBuilder, op: Operation, dy: Value) -> Cotangents:
    return [div(b, mul(b, dy, full_like(b, 0.5, dy)), op.result)]


def _tanh_vjp(b: IRBuilder, op: Operation, dy: Value) -> Cotangents:
    y = op.result
    return [mul(b, dy, sub(b, full_like(b, 1.0, y), mul(b, y, y)))]


def _sigmoid_vjp(b: IRBuilder, op: Operation, dy: Value) -> Cotangents:
    y = op.result
    return [mul(b, dy, mul(b, y, sub(b, full_like(b, 1.0, y), y)))]


def _sigmoid_reference(_p: NoParams, x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return (np.where(x < 0, e, np.ones_like(x)) / (1 + e)).astype(x.dtype)


def _erf_vjp(b: IRBuilder, op: Operation, dy: Value) -> Cotangents:
    (x,) = op.operands
    bell = exp(b, neg(b, mul(b, x, x)))
    return [mul(b, dy, mul(b, full_like(b, 2 / math.sqrt(math.pi), bell), bell))]


def _erf_reference(_p: NoParams, x: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x)).astype(x.dtype)


def _sin_vjp(b: IRBuilder, op: Operation, dy: Value) -> Cotangents:
    return [mul(b, dy, cos(b, op.operands[0]))]


def _cos_vjp(b: IRBuilder, op: Operation, dy: Value) -> Cotangents:
    return [neg(b, mul(b, dy, sin(b, op.operands[0])))]


def _arctan_vjp(b: IRBuilder, op: Operation, dy: Value) -> Cotangents:
    (x,) = op.operands
    return [div(b, dy, add(b, full_like(b, 1.0, x), mul(b, x, x)))]


def _power_vjp(b: IRBuilder, op: Operation, dz: Value) -> Cotangents:
    """y x^(y - 1) and x^y ln x; 0 in place of 0 * infinity at y = 0 and at x = 0 <= y.

    The operands are chosen, not the products, so that no nan comes back through a choice when the
    rule itself is differentiated.
    """
    x, y = op.operands
    zero, one = full_like(b, 0.0, x), full_like(b, 1.0, x)
    reduced = select(b, compare(b, EQUAL, y, zero), zero, sub(b, y, one))
    dx = mul(b, dz, mul(b, y, power(b, x, reduced)))
    is_flat = b.emit_one(
        LOGICAL_AND, compare(b, EQUAL, x, zero), compare(b, GREATER_EQUAL, y, zero)
    )
    return [dx, mul(b, dz, mul(b, op.result, log(b, select(b, is_flat, one, x))))]


def _power_reference(_p: NoParams, x: Array, y: Array) -> Array:
    # A square and a reciprocal are rounded once, as the multiplication and division that
    # `simplify` puts in their place.
    z = np.where(y == 2, x * x, np.power(x, y))
    return np.where(y == -1, 1 / x, z).astype(x.dtype)


EXP = OpDef(
    name="exp",
    summary="exponential function",
    operands=("x",),
    infer=same_types(FLOATS),
    reference=lambda _p, x: np.exp(x),
    codegen=Elementwise(scalar_op("exp")),
    vjp=_exp_vjp,
    jvp=diagonal_jvp,
    equation="y = e^x",
    array="exp",
    gap_values=(0.0,),
    source="toolkit, beyond the book",
    ndl=("Exp",),
)
EXPM1 = OpDef(
    name="expm1",
    summary="exponential function minus one, accurate near 0",
    operands=("x",),
    infer=same_types(FLOATS),
    reference=lambda _p, x: np.expm1(x),
    codegen=Elementwise(scalar_op("expm1")),
    vjp=_expm1_vjp,
    jvp=diagonal_jvp,
    equation="y = e^x - 1",
    array="expm1",
)
LOG = OpDef(
    name="log",
    summary="natural logarithm; minus infinity at 0, nan below",
    operands=("x",),
    infer=same_types(FLOATS),
    reference=lambda _p, x: np.log(x),
    codegen=Elementwise(scalar_op("log")),
    vjp=_log_vjp,
    jvp=diagonal_jvp,
    equation="y = ln x",
    array="log",
)
LOG1P = OpDef(
    name="log1p",
    summary="natural logarithm of one more, accurate near 0",
    operands=("x",),
    infer=same_types(FLOATS),
    reference=lambda _p, x: np.log1p(x),
    codegen=Elementwise(scalar_op("log1p")),
    vjp=_log1p_vjp,
    jvp=diagonal_jvp,
    equation="y = ln (1 + x)",
    array="log1p",
)
SQRT = OpDef(
    name="sqrt",
    summary="square root; nan below 0",
    operands=("x",),
    infer=same_types(FLOATS),
    reference=lambda _p, x: np.sqrt(x),
    codegen=Elementwise(scalar_op("sqrt")),
    vjp=_sqrt_vjp,
    jvp=diagonal_jvp,
    equation="y = √x",
    gap_values=(0.0,),
    source="toolkit, later than NDL",
    array="sqrt",
    ndl=("Sqrt",),
)
TANH = OpDef(
    name="tanh",
    summary="hyperbolic tangent",
    operands=("x",),
    infer=same_types(FLOATS),
    reference=lambda _p, x: np.tanh(x),
    codegen=Elementwise(scalar_op("tanh")),
    vjp=_tanh_vjp,
    jvp=diagonal_jvp,
    equation="y = tanh x",
    array="tanh",
    source="book 2.4.2",
    ndl=("Tanh",),
)
SIGMOID = OpDef(
    name="sigmoid",
    summary="logistic sigmoid",
    operands=("x",),
    infer=same_types(FLOATS),
    reference=_sigmoid_reference,
    codegen=Elementwise(scalar_op("sigmoid")),
    vjp=_sigmoid_vjp,
    jvp=diagonal_jvp,
    equation="y = 1 / (1 + e^-x)",
    array="sigmoid",
    source="book 2.4.2",
    ndl=("Sigmoid",),
)
ERF = OpDef(
    name="erf",
    summary="error function",
    operands=("x",),
    infer=same_types(FLOATS),
    reference=_erf_reference,
    codegen=Elementwise(scalar_op("erf")),
    vjp=_erf_vjp,
    jvp=diagonal_jvp,
    equation="y = 2/√π ∫ e^(-t²) dt from 0 to x",
    array="erf",
)
SIN = OpDef(
    name="sin",
    summary="sine of an angle in radians",
    operands=("x",),
    infer=same_types(FLOATS),
    reference=lambda _p, x: np.sin(x),
    codegen=Elementwise(scalar_op("sin")),
    vjp=_sin_vjp,
    jvp=diagonal_jvp,
    equation="y = sin x",
    array="sin",
)
COS = OpDef(
    name="cos",
    summary="cosine of an angle in radians",
    operands=("x",),
    infer=same_types(FLOATS),
    reference=lambda _p, x: np.cos(x),
    codegen=Elementwise(scalar_op("cos")),
    vjp=_cos_vjp,
    jvp=diagonal_jvp,
    equation="y = cos x",
    array="cos",
    source="toolkit, beyond the book",
    ndl=("Cosine", "Cos"),
)
ARCTAN = OpDef(
    name="arctan",
    summary="the angle, in radians from -pi/2 to pi/2, whose tangent is x",
    operands=("x",),
    infer=same_types(FLOATS),
    reference=lambda _p, x: np.arctan(x),
    codegen=Elementwise(scalar_op("arctan")),
    vjp=_arctan_vjp,
    jvp=diagonal_jvp,
    equation="y = arctan x",
    array="arctan",
)
POWER = OpDef(
    name="power",
    summary="x to the power y; nan for a negative x with a y that is not whole; x^0 and 1^y are 1",
    operands=("x", "y"),
    infer=same_types(FLOATS),
    reference=_power_reference,
    codegen=Elementwise(scalar_op("power")),
    vjp=_power_vjp,
    jvp=diagonal_jvp,
    equation="z = x^y",
    gap_values=(1.0, 1.0),
    source="toolkit, later than NDL",
    ndl=("Pow",),
)
FLOOR = OpDef(
    name="floor",
    summary="the largest whole number that is not above x",
    operands=("x",),
    infer=same_types(FLOATS),
    reference=lambda _p, x: np.floor(x),
    codegen=Elementwise(scalar_op("floor")),
    vjp=NotDifferentiable.ZERO,
    equation="y = ⌊x⌋",
    array="floor",
)

# --- activations ---------------------------------------------------------------------------------


def _elu_rule(s: Scalars[S], _params: Params, /, *args: S) -> S:
    (x,) = args
    return s.select(s.less(x, s.literal(0.0, x)), s.expm1(x), x)


def _elu_vjp(b: IRBuilder, op: Operation, dy: Value) -> Cotangents:
    (x,) = op.operands
    return [mul(b, dy, exp(b, b.emit_one(MINIMUM, x, full_like(b, 0.0, x))))]


ELU = OpDef(
    name="elu",
    summary="exponential linear unit: e^x - 1 below 0, x elsewhere; slope 1 at 0",
    operands=("x",),
    infer=same_types(FLOATS),
    reference=lambda _p, x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x),
    codegen=Elementwise(_elu_rule),
    vjp=_elu_vjp,
    jvp=diagonal_jvp,
    equation="y = x < 0 ? e^x - 1 : x",
    source="Clevert, Unterthiner and Hochreiter, Exponential Linear Units, 2015",
    array="elu",
    ndl=("ELU",),
)


def _softplus_rule(s: Scalars[S], _params: Params, /, *args: S) -> S:
    (x,) = args
    return s.add(s.maximum(x, s.literal(0.0, x)), s.log1p(s.exp(s.neg(s.abs(x)))))


def _softplus_vjp(b: IRBuilder, op: Operation, dy: Value) -> Cotangents:
    return [mul(b, dy, sigmoid(b, op.operands[0]))]


SOFTPLUS = OpDef(
    name="softplus",
    summary="logarithm of 1 + e^x, without overflow",
    operands=("x",),
    infer=same_types(FLOATS),
    reference=lambda _p, x: np.logaddexp(x, np.zeros_like(x)),
    codegen=Elementwise(_softplus_rule),
    vjp=_softplus_vjp,
    jvp=diagonal_jvp,
    equation="y = ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|)",
    source="Dugas et al., Incorporating Second-Order Functional Knowledge, 2000",
    array="softplus",
    ndl=("Softplus",),
)


def _gelu_rule(s: Scalars[S], _params: Params, /, *args: S) -> S:
    """Below -40 the second factor is 0, which minus infinity would make nan."""
    (x,) = args
    bell = s.erf(s.mul(x, s.literal(math.sqrt(0.5), x)))
    half = s.mul(s.literal(0.5, x), s.maximum(x, s.literal(-40.0, x)))
    return s.mul(half, s.add(s.literal(1.0, x), bell))


def _gelu_vjp(b: IRBuilder, op: Operation, dy: Value) -> Cotangents:
    """Φ(x) + x φ(x); beyond 40 it is 0 or 1, which infinity times 0 would make nan."""
    (x,) = op.operands
    near = maximum(b, b.emit_one(MINIMUM, x, full_like(b, 40.0, x)), full_like(b, -40.0, x))
    bell = erf(b, mul(b, near, full_like(b, math.sqrt(0.5), x)))
    below = mul(b, full_like(b, 0.5, x), add(b, full_like(b, 1.0, x), bell))
    density = exp(b, mul(b, full_like(b, -0.5, x), mul(b, near, near)))
    scaled = mul(b, density, full_like(b, 1 / math.sqrt(2 * math.pi), x))
    return [mul(b, dy, add(b, below, mul(b, near, scaled)))]


def _gelu_reference(_p: NoParams, x: Array) -> Array:
    share = np.asarray(np.frompyfunc(math.erfc, 1, 1)(-np.sqrt(0.5) * x.astype(np.float64)))
    return np.where(x < -40, -0.0, 0.5 * x * share.astype(x.dtype)).astype(x.dtype)


GELU = OpDef(
    name="gelu",
    summary="Gaussian error linear unit: x times the share of a normal distribution below x",
    operands=("x",),
    infer=same_types(FLOATS),
    reference=_gelu_reference,
    codegen=Elementwise(_gelu_rule),
    vjp=_gelu_vjp,
    jvp=diagonal_jvp,
    equation="y = ½ x (1 + erf(x / √2))",
    source="Hendrycks and Gimpel, Gaussian Error Linear Units, 2016",
    array="gelu",
    ndl=("GELU",),
)

OPS = (
    EXP,
    EXPM1,
    LOG,
    LOG1P,
    SQRT,
    TANH,
    SIGMOID,
    ERF,
    SIN,
    COS,
    ARCTAN,
    POWER,
    FLOOR,
    ELU,
    SOFTPLUS,
    GELU,
)
