"""The scalar vocabulary as numpy calls: which ufunc or helper (`helpers.py`) a scalar op is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphc.backends.numpy.helpers import HELPERS
from graphc.backends.numpy.linear_kernel import Constant, Item, ScalarOp
from graphc.ir.types import DType
from graphc.support.short_types import (
    SHORT_FLOATS,
    SHORT_INTEGERS,
    SHORT_TYPES,
    ShortFloat,
    ShortInteger,
)

UFUNCS = {
    "add": "np.add",
    "sub": "np.subtract",
    "mul": "np.multiply",
    "div": "np.divide",
    "neg": "np.negative",
    "abs": "np.absolute",
    "sqrt": "np.sqrt",
    "exp": "np.exp",
    "expm1": "np.expm1",
    "log": "np.log",
    "log1p": "np.log1p",
    "tanh": "np.tanh",
    "sin": "np.sin",
    "cos": "np.cos",
    "arctan": "np.arctan",
    "power": "np.power",
    "floor": "np.floor",
    "maximum": "np.maximum",
    "minimum": "np.minimum",
    "equal": "np.equal",
    "not_equal": "np.not_equal",
    "less": "np.less",
    "less_equal": "np.less_equal",
    "greater": "np.greater",
    "greater_equal": "np.greater_equal",
    "bitwise_and": "np.bitwise_and",
    "bitwise_or": "np.bitwise_or",
    "bitwise_xor": "np.bitwise_xor",
    "logical_and": "np.logical_and",
    "logical_or": "np.logical_or",
    "logical_not": "np.logical_not",
}


def callee(scalar_op: ScalarOp) -> str:
    """The function that computes `scalar_op`: a ufunc, or the name of a helper."""
    if scalar_op.name == "cast":
        return _cast(scalar_op.args[0].dtype, scalar_op.dtype)
    if scalar_op.name == "div" and not scalar_op.dtype.is_float:
        return "divide_integers"
    return UFUNCS.get(scalar_op.name, scalar_op.name)


def is_helper(scalar_op: ScalarOp) -> bool:
    return callee(scalar_op) in HELPERS


def _cast(source: DType, target: DType) -> str:
    for one, way in ((source, "of"), (target, "to")):
        if one.value in SHORT_TYPES:
            return f"{way}_short_{'float' if one.is_float else 'integer'}"
    if source is DType.BF16:
        return "of_bf16"
    if target is DType.BF16:
        return "to_bf16"
    if target is DType.I1:
        return "np.not_equal"  # called with 0 as its second operand, see `extra_operand`
    return "to_integer" if source.is_float and not target.is_float else "convert"


def extra_operand(scalar_op: ScalarOp) -> str:
    """What a function needs besides the scalar op's operands."""
    if scalar_op.name == "cast":
        for dtype in (scalar_op.args[0].dtype, scalar_op.dtype):
            if dtype.value in SHORT_TYPES:
                return _format(SHORT_TYPES[dtype.value])
    return "0" if scalar_op.name == "cast" and scalar_op.dtype is DType.I1 else ""


def _format(of: ShortFloat | ShortInteger) -> str:
    if isinstance(of, ShortInteger):
        return f"({of.bits}, {int(of.is_signed)})"
    numbers = (of.fraction, of.bias, of.most, of.beyond, of.nan, of.sign)
    return f"({', '.join(map(str, numbers))}, {int(of.is_unsigned_zero)})"


@dataclass(frozen=True)
class Recorder:
    """`Scalars` over a linearised kernel's items: each scalar op of a rule becomes one `ScalarOp`,
    handed to `record`."""

    record: Callable[[ScalarOp], Item]

    def _scalar_op(self, name: str, dtype: DType, *args: Item) -> Item:
        return self.record(ScalarOp.of(name, dtype, args))

    def add(self, a: Item, b: Item, /) -> Item:
        return self._scalar_op("add", a.dtype, a, b)

    def sub(self, a: Item, b: Item, /) -> Item:
        return self._scalar_op("sub", a.dtype, a, b)

    def mul(self, a: Item, b: Item, /) -> Item:
        return self._scalar_op("mul", a.dtype, a, b)

    def div(self, a: Item, b: Item, /) -> Item:
        return self._scalar_op("div", a.dtype, a, b)

    def neg(self, a: Item, /) -> Item:
        return self._scalar_op("neg", a.dtype, a)

    def abs(self, a: Item, /) -> Item:
        return self._scalar_op("abs", a.dtype, a)

    def sqrt(self, a: Item, /) -> Item:
        return self._scalar_op("sqrt", a.dtype, a)

    def exp(self, a: Item, /) -> Item:
        return self._scalar_op("exp", a.dtype, a)

    def expm1(self, a: Item, /) -> Item:
        return self._scalar_op("expm1", a.dtype, a)

    def log(self, a: Item, /) -> Item:
        return self._scalar_op("log", a.dtype, a)

    def log1p(self, a: Item, /) -> Item:
        return self._scalar_op("log1p", a.dtype, a)

    def tanh(self, a: Item, /) -> Item:
        return self._scalar_op("tanh", a.dtype, a)

    def sigmoid(self, a: Item, /) -> Item:
        return self._scalar_op("sigmoid", a.dtype, a)

    def erf(self, a: Item, /) -> Item:
        return self._scalar_op("erf", a.dtype, a)

    def sin(self, a: Item, /) -> Item:
        return self._scalar_op("sin", a.dtype, a)

    def cos(self, a: Item, /) -> Item:
        return self._scalar_op("cos", a.dtype, a)

    def arctan(self, a: Item, /) -> Item:
        return self._scalar_op("arctan", a.dtype, a)

    def power(self, a: Item, b: Item, /) -> Item:
        return self._scalar_op("power", a.dtype, a, b)

    def floor(self, a: Item, /) -> Item:
        return self._scalar_op("floor", a.dtype, a)

    def round_bf16(self, a: Item, /) -> Item:
        return self._scalar_op("round_bf16", a.dtype, a)

    def maximum(self, a: Item, b: Item, /) -> Item:
        return self._scalar_op("maximum", a.dtype, a, b)

    def minimum(self, a: Item, b: Item, /) -> Item:
        return self._scalar_op("minimum", a.dtype, a, b)

    def equal(self, a: Item, b: Item, /) -> Item:
        return self._scalar_op("equal", DType.I1, a, b)

    def not_equal(self, a: Item, b: Item, /) -> Item:
        return self._scalar_op("not_equal", DType.I1, a, b)

    def less(self, a: Item, b: Item, /) -> Item:
        return self._scalar_op("less", DType.I1, a, b)

    def less_equal(self, a: Item, b: Item, /) -> Item:
        return self._scalar_op("less_equal", DType.I1, a, b)

    def greater(self, a: Item, b: Item, /) -> Item:
        return self._scalar_op("greater", DType.I1, a, b)

    def greater_equal(self, a: Item, b: Item, /) -> Item:
        return self._scalar_op("greater_equal", DType.I1, a, b)

    def logical_and(self, a: Item, b: Item, /) -> Item:
        return self._scalar_op("logical_and", DType.I1, a, b)

    def logical_or(self, a: Item, b: Item, /) -> Item:
        return self._scalar_op("logical_or", DType.I1, a, b)

    def logical_not(self, a: Item, /) -> Item:
        return self._scalar_op("logical_not", DType.I1, a)

    def bitwise_and(self, a: Item, b: Item, /) -> Item:
        return self._scalar_op("bitwise_and", a.dtype, a, b)

    def bitwise_or(self, a: Item, b: Item, /) -> Item:
        return self._scalar_op("bitwise_or", a.dtype, a, b)

    def bitwise_xor(self, a: Item, b: Item, /) -> Item:
        return self._scalar_op("bitwise_xor", a.dtype, a, b)

    def left_shift(self, a: Item, b: Item, /) -> Item:
        return self._scalar_op("left_shift", a.dtype, a, b)

    def right_shift(self, a: Item, b: Item, /) -> Item:
        return self._scalar_op("right_shift", a.dtype, a, b)

    def select(self, condition: Item, a: Item, b: Item, /) -> Item:
        return self._scalar_op("select", a.dtype, condition, a, b)

    def cast(self, a: Item, dtype: DType, /) -> Item:
        if a.dtype is dtype:
            return a
        if a.dtype.numpy.names and dtype is not a.dtype.computed:
            return self.cast(self._scalar_op("cast", a.dtype.computed, a), dtype)
        if dtype.value in SHORT_INTEGERS and a.dtype is not DType.I32:
            whole = self.cast(a, DType.I64 if a.dtype.computed is DType.I64 else DType.I32)
            if a.dtype.is_float:
                least, most = (self.literal(n, whole) for n in dtype.limits)
                whole = self.minimum(self.maximum(whole, least), most)
            return self._scalar_op("cast", dtype, whole)
        if dtype.value in SHORT_FLOATS and not a.dtype.is_float:
            a = self._scalar_op("cast", DType.F64, a)
        return self._scalar_op("cast", dtype, a)

    def bitcast(self, a: Item, dtype: DType, /) -> Item:
        return a if a.dtype is dtype else self._scalar_op("bitcast", dtype, a)

    def literal(self, value: float, like: Item, /) -> Item:
        return Constant((1,) * len(like.dims), like.dtype, (value,))

    def random_uniform(self, counter: Item, key: Item, /) -> Item:
        return self._scalar_op("random_uniform", DType.F32, counter, key)
