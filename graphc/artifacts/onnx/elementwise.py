"""What element-wise operations become: a formula of ONNX operators on arrays that broadcast.

ONNX leaves open what a float that no integer fits becomes, and an integer divided by 0, and has no
exp(x) - 1 and ln(1 + x): the formulas here give what the IR says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from graphc.artifacts.onnx.graph import Graph
from graphc.ir.core import OpDef, Operation
from graphc.ir.types import DType
from graphc.ops import bits, random, training_forms
from graphc.ops import elementwise as e
from graphc.ops import functions as f
from graphc.ops.constant import EXTENT

Formula = Callable[..., str]
"""(graph, operation, *arrays) -> the array of the result; arrays are named, and broadcast."""


def _dtype(op: Operation) -> DType:
    """Of the last operand, which is no condition."""
    return op.operands[-1].tensor.dtype


def _plain(name: str) -> Formula:
    """The operator of that name."""
    return lambda g, _op, *xs: g.node(name, *xs)


# --- arithmetic ------------------------------------------------------------------------------


def _div(g: Graph, op: Operation, x: str, y: str) -> str:
    """Of integers 0 for a zero divisor, which ends the process elsewhere, as the smallest integer
    divided by -1 may."""
    dtype = _dtype(op)
    if dtype.is_float:
        return g.node("Div", x, y)
    zero, one, minus = (g.number(n, dtype) for n in (0, 1, -1))
    is_zero, turns = g.node("Equal", y, zero), g.node("Equal", y, minus)
    safe = g.node("Where", g.node("Or", is_zero, turns), one, y)
    quotient = g.node("Where", turns, g.node("Neg", x), g.node("Div", x, safe))
    return g.node("Where", is_zero, zero, quotient)


def _clip(g: Graph, _op: Operation, x: str, low: str, high: str) -> str:
    return g.node("Min", g.node("Max", x, low), high)


def _select(g: Graph, op: Operation, condition: str, x: str, y: str) -> str:
    """Of truth values by logic: runtimes choose among numbers."""
    if _dtype(op) is not DType.I1:
        return g.node("Where", condition, x, y)
    chosen = g.node("And", condition, x)
    return g.node("Or", chosen, g.node("And", g.node("Not", condition), y))


def _comparison(name: str) -> Formula:
    """Truth values are compared as numbers."""

    def formula(g: Graph, op: Operation, x: str, y: str) -> str:
        if _dtype(op) is DType.I1:
            x, y = (g.cast(v, DType.I32) for v in (x, y))
        return g.node(name, x, y)

    return formula


def _not_equal(g: Graph, _op: Operation, x: str, y: str) -> str:
    return g.node("Not", g.node("Equal", x, y))


# --- functions -------------------------------------------------------------------------------


def _expm1(g: Graph, op: Operation, x: str) -> str:
    """tanh(x / 2) (e^x + 1), in which nothing cancels near 0."""
    half, one = (g.number(n, _dtype(op)) for n in (0.5, 1.0))
    return g.node(
        "Mul", g.node("Tanh", g.node("Mul", x, half)), g.node("Add", g.node("Exp", x), one)
    )


def _log1p(g: Graph, op: Operation, x: str) -> str:
    """ln(u) x / (u - 1) for u = 1 + x as it is rounded, where |x| < 1 (Kahan)."""
    one = g.number(1.0, _dtype(op))
    u = g.node("Add", one, x)
    plain = g.node("Log", u)
    near = g.node("Mul", plain, g.node("Div", x, g.node("Sub", u, one)))
    near = g.node("Where", g.node("Equal", u, one), x, near)
    return g.node("Where", g.node("Less", g.node("Abs", x), one), near, plain)


def _elu(g: Graph, op: Operation, x: str) -> str:
    """In f64 by a formula: ONNX Runtime has the operator in f32 alone."""
    if _dtype(op) is DType.F32:
        return g.node("Elu", x)
    below = g.node("Less", x, g.number(0.0, _dtype(op)))
    return g.node("Where", below, _expm1(g, op, x), x)


def _softplus(g: Graph, op: Operation, x: str) -> str:
    """As `_elu`."""
    if _dtype(op) is DType.F32:
        return g.node("Softplus", x)
    tail = _log1p(g, op, g.node("Exp", g.node("Neg", g.node("Abs", x))))
    return g.node("Add", g.node("Max", x, g.number(0.0, _dtype(op))), tail)


def _gelu(g: Graph, op: Operation, x: str) -> str:
    """Below -40 the second factor is 0, which minus infinity would make nan."""
    dtype = _dtype(op)
    root, one, half, least = (g.number(n, dtype) for n in (np.sqrt(0.5), 1.0, 0.5, -40.0))
    bell = g.node("Erf", g.node("Mul", x, root))
    return g.node(
        "Mul",
        g.node("Mul", g.node("Max", x, least), half),
        g.node("Add", bell, one),
    )


# --- bits ------------------------------------------------------------------------------------


def _left_shift(g: Graph, op: Operation, x: str, y: str) -> str:
    """ONNX shifts unsigned numbers, whose bits are the same; 0 for a count outside of them."""
    moved = _shifted(g, op, x, y, "LEFT")
    return g.node("Where", _counts(g, op, y), moved, g.number(0, _dtype(op)))


def _right_shift(g: Graph, op: Operation, x: str, y: str) -> str:
    """Of a negative number the bits that it does not have are moved: zeros come in for its sign."""
    zero, minus = (g.number(n, _dtype(op)) for n in (0, -1))
    is_below = g.node("Less", x, zero)
    positive = g.node("Where", is_below, g.node("BitwiseNot", x), x)
    moved = _shifted(g, op, positive, y, "RIGHT")
    moved = g.node("Where", is_below, g.node("BitwiseNot", moved), moved)
    beyond = g.node("Where", is_below, minus, zero)
    return g.node("Where", _counts(g, op, y), moved, beyond)


def _counts(g: Graph, op: Operation, y: str) -> str:
    """Whether a count is one of the type's bits."""
    least, limit = (g.number(n, _dtype(op)) for n in (0, 8 * _dtype(op).itemsize))
    return g.node("And", g.node("GreaterOrEqual", y, least), g.node("Less", y, limit))


def _shifted(g: Graph, op: Operation, x: str, y: str, direction: str) -> str:
    """In u64, of which the lower half is what i32 has."""
    safe = g.node("Where", _counts(g, op, y), y, g.number(0, _dtype(op)))
    wide = [g.node("Cast", v, to="u64") for v in (x, safe)]
    return g.cast(g.node("BitShift", *wide, direction=direction), _dtype(op))


# --- other types -----------------------------------------------------------------------------


def _cast(g: Graph, op: Operation, x: str) -> str:
    """From a float to an integer the nearest one that there is, 0 for nan."""
    source, target = op.operands[0].tensor.dtype, op.result.tensor.dtype
    is_size = op.operands[0].op is not None and op.operands[0].op.opdef is EXTENT
    if not source.is_float or target.is_float or target is DType.I1 or is_size:
        return g.cast(x, target)
    info = np.iinfo(target.numpy)
    over, under = (g.number(n, source) for n in (float(info.max) + 1, float(info.min)))
    inside = g.node("And", g.node("Less", x, over), g.node("Greater", x, under))
    whole = g.cast(g.node("Where", inside, x, g.number(0.0, source)), target)
    least, most = (g.number(n, target) for n in (info.min, info.max))
    whole = g.node("Where", g.node("LessOrEqual", x, under), least, whole)
    return g.node("Where", g.node("GreaterOrEqual", x, over), most, whole)


def _round_bf16(g: Graph, op: Operation, x: str) -> str:
    return g.cast(g.node("Cast", x, to="bf16"), _dtype(op))


def _random_uniform(g: Graph, _op: Operation, counter: str, key: str) -> str:
    """Philox2x32 on halves of 32 bits in u64; products are those of i64, which have the same bits.

    Each round turns (low, high) into (the upper half of low · multiplier) ^ key ^ high, and its
    lower half.
    """

    def word(value: int) -> str:
        return g.file.array(np.array(value, np.uint64))

    mask, half = word(0xFFFFFFFF), word(32)

    def unsigned(x: str) -> str:
        return g.node("Cast", x, to="u64")

    key, counter = g.node("BitwiseAnd", unsigned(key), mask), unsigned(counter)
    low = g.node("BitwiseAnd", counter, mask)
    high = g.node("BitShift", counter, half, direction="RIGHT")
    multiplier = g.file.array(np.array(random.MULTIPLIER, np.int64))
    step = word(random.KEY_STEP)
    for _ in range(random.ROUNDS):
        product = unsigned(g.node("Mul", g.cast(low, DType.I64), multiplier))
        upper = g.node("BitShift", product, half, direction="RIGHT")
        low = g.node("BitwiseXor", g.node("BitwiseXor", upper, key), high)
        high = g.node("BitwiseAnd", product, mask)
        key = g.node("BitwiseAnd", g.node("Add", key, step), mask)
    shift = word(32 - random.UNIT_BITS)
    upper = g.node("BitShift", high, shift, direction="RIGHT")
    unit = g.number(2.0**-random.UNIT_BITS, DType.F32)
    return g.node("Mul", g.cast(g.cast(upper, DType.I64), DType.F32), unit)


def _running_statistic(g: Graph, _op: Operation, running: str, seen: str, *_mean: str) -> str:
    """The first, in the shape of all."""
    return g.node("Where", g.file.array(np.array(True)), running, seen)


FORMULAS: Mapping[OpDef, Formula] = {
    e.ADD: _plain("Add"),
    e.SUB: _plain("Sub"),
    e.MUL: _plain("Mul"),
    e.DIV: _div,
    e.NEG: _plain("Neg"),
    e.ABS: _plain("Abs"),
    e.MAXIMUM: _plain("Max"),
    e.MINIMUM: _plain("Min"),
    e.CLIP: _clip,
    e.SELECT: _select,
    e.EQUAL: _plain("Equal"),
    e.NOT_EQUAL: _not_equal,
    e.LESS: _comparison("Less"),
    e.LESS_EQUAL: _comparison("LessOrEqual"),
    e.GREATER: _comparison("Greater"),
    e.GREATER_EQUAL: _comparison("GreaterOrEqual"),
    e.LOGICAL_AND: _plain("And"),
    e.LOGICAL_OR: _plain("Or"),
    e.LOGICAL_NOT: _plain("Not"),
    e.STOP_GRADIENT: lambda _g, _op, x: x,
    training_forms.DROP: lambda _g, _op, x: x,
    training_forms.RUNNING_STATISTIC: _running_statistic,
    e.CAST: _cast,
    e.ROUND_BF16: _round_bf16,
    f.EXP: _plain("Exp"),
    f.EXPM1: _expm1,
    f.LOG: _plain("Log"),
    f.LOG1P: _log1p,
    f.SQRT: _plain("Sqrt"),
    f.TANH: _plain("Tanh"),
    f.SIGMOID: _plain("Sigmoid"),
    f.ERF: _plain("Erf"),
    f.SIN: _plain("Sin"),
    f.COS: _plain("Cos"),
    f.POWER: _plain("Pow"),
    f.FLOOR: _plain("Floor"),
    f.ELU: _elu,
    f.SOFTPLUS: _softplus,
    f.GELU: _gelu,
    f.ARCTAN: _plain("Atan"),
    bits.BITWISE_AND: _plain("BitwiseAnd"),
    bits.BITWISE_OR: _plain("BitwiseOr"),
    bits.BITWISE_XOR: _plain("BitwiseXor"),
    bits.BITWISE_NOT: _plain("BitwiseNot"),
    bits.LEFT_SHIFT: _left_shift,
    bits.RIGHT_SHIFT: _right_shift,
    random.RANDOM_UNIFORM: _random_uniform,
}
