"""Operators on the elements of arrays: arithmetic, comparisons, activations."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import floordiv
from operator import mod as modulo
from typing import Any

import numpy as np

import graphc as gc
from graphc.support.element_types import lacking_name
from graphc.support.short_types import SHORT_FLOATS, SHORT_INTEGERS
from graphc.tensor.program_builder import Symbol
from graphc.tensor.tensor import quotient
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.reading import element_type
from graphc_frontends.onnx.values import (
    Dim,
    Weight,
    computed,
    dtype_of,
    has_sizes,
    is_float,
    is_known,
    of,
    with_numbers,
)

# --- those that numpy has ------------------------------------------------------------------------

_SAME = {
    "Abs": "absolute",
    "Exp": "exp",
    "Floor": "floor",
    "Log": "log",
    "Neg": "negative",
    "Not": "logical_not",
    "Sin": "sin",
    "Cos": "cos",
    "Sqrt": "sqrt",
    "Tanh": "tanh",
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "And": "logical_and",
    "Or": "logical_or",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Xor": "not_equal",
}
"""The functions of arrays, by numpy's names."""

OF_TWO = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")
"""Since version 7 these broadcast as numpy does; `former.py` has what they were before."""


OF_SIZES = ("Add", "Mul", "Sub")
"""What is known of sizes that calls decide; the others are numbers that a call computes."""


def _register(name: str, function: str) -> None:
    @operator(name, 7 if name in OF_TWO else 1)
    def handler(*inputs: Any) -> object:
        if name not in OF_SIZES and has_sizes(*inputs):
            return getattr(gc, function)(*with_numbers(*inputs))
        return getattr(of(*inputs), function)(*computed(*inputs))


for _name, _function in _SAME.items():
    _register(_name, _function)


@operator("Equal", 7)
def equal(x: Any, y: Any) -> object:
    """Of sizes that calls decide known where it is the same in all calls."""
    if is_known(x) and is_known(y) and has_sizes(x, y):
        found = np.asarray(np.frompyfunc(_are_equal, 2, 1)(x, y))
        if None not in found.reshape(-1).tolist():
            return found.astype(bool)
    x, y = with_numbers(x, y) if has_sizes(x, y) else (x, y)
    return of(x, y).equal(x, y)


def _are_equal(a: Dim, b: Dim) -> bool | None:
    """Whether sizes are equal in every call; None where calls decide it."""
    if not (isinstance(a, Symbol) or isinstance(b, Symbol)):  # they may be texts
        return bool(a == b)
    less = a - b
    if not isinstance(less, Symbol):
        return less == 0
    return False if any(isinstance(n, int) and n < 0 for n in (a, b)) else None


@operator("Div", 7)
def div(x: Any, y: Any) -> object:
    """Of integers the quotient cut towards zero."""
    x, y = computed(x, y)
    if is_float(x):
        return of(x, y).divide(x, y)
    if not (is_known(x) and is_known(y)):
        return quotient(x, y)
    if has_sizes(x, y):  # which are not negative
        whole = _of_sizes(floordiv, x, y)
        return quotient(*with_numbers(x, y)) if whole is None else whole
    whole = x // y
    return np.where((whole < 0) & (whole * y != x), whole + 1, whole).astype(x.dtype)


def _of_sizes(function: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """What a function of two whole numbers gives for sizes; None where that is no size."""
    try:
        return np.asarray(function(x, y))
    except TypeError:
        return None


@operator("Mod")
def mod(x: Any, y: Any, *, fmod: int) -> object:
    """With the sign of y, and with `fmod` that of x."""
    if has_sizes(x, y) and is_known(x) and is_known(y):
        rest = _of_sizes(modulo, x, y)
        if rest is not None:
            return rest
        x, y = with_numbers(x, y)
    if is_known(x) and is_known(y):
        return np.fmod(x, y) if fmod else np.remainder(x, y)
    x, y = computed(x, y)
    rest = _float_rest(x, y) if is_float(x) else x - quotient(x, y) * y
    return rest if fmod else gc.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


def _float_rest(x: Any, y: Any) -> Any:
    """x without the whole multiples of y, with the sign of x."""
    ratio = x / y
    whole = gc.where(ratio < 0, -gc.floor(-ratio), gc.floor(ratio))
    return x - gc.where(whole == 0, 0, whole * y)  # y may be infinite


@operator("Pow", 7)
def power(x: Any, exponent: Any) -> object:
    """The type of the result is that of the base."""
    if is_known(x) and is_known(exponent):
        return np.power(x, exponent).astype(x.dtype)
    number = _number(exponent)
    if number is None:
        made = gc.power(gc.cast(x, "f64") if not is_float(x) else x, _as_float(exponent, x))
    else:
        made = gc.power(x, number)
    return gc.cast(made, dtype_of(x))


def _as_float(exponent: Any, x: Any) -> Any:
    return gc.cast(exponent, dtype_of(x) if is_float(x) else "f64")


def _number(exponent: Any) -> Any:
    """The exponent, where it is one number that is known."""
    array = exponent.array if isinstance(exponent, Weight) else exponent
    if is_known(array) and array.ndim == 0 and array.dtype != object:
        number = array.item()
        return int(number) if number == int(number) else number
    return None


def _variadic(name: str, function: str) -> None:
    @operator(name)
    def handler(*inputs: Any) -> object:
        xp = of(*inputs)
        return reduce(getattr(xp, function), computed(*inputs))


for _name, _function in {"Max": "maximum", "Min": "minimum", "Sum": "add"}.items():
    _variadic(_name, _function)


@operator("Mean")
def mean(*inputs: Any) -> object:
    total: Any = reduce(of(*inputs).add, inputs)
    return total / len(inputs)


@operator("Where")
def where(condition: Any, x: Any, y: Any) -> object:
    if not is_known(condition):
        x, y = with_numbers(x, y)
    else:
        x, y = computed(x, y)
    return of(condition, x, y).where(condition, x, y)


@operator("Identity")
def identity(x: Any) -> object:
    return x


# --- those that numpy lacks ----------------------------------------------------------------------


@operator("Reciprocal")
def reciprocal(x: Any) -> object:
    return 1 / x


@operator("Relu")
def relu(x: Any) -> object:
    return of(x).maximum(x, np.zeros((), dtype_of(x)))


@operator("Sigmoid")
def sigmoid(x: Any) -> object:
    return gc.sigmoid(x)


@operator("Erf")
def erf(x: Any) -> object:
    return gc.erf(x)


@operator("Softplus")
def softplus(x: Any) -> object:
    return gc.softplus(x)


@operator("Softsign")
def softsign(x: Any) -> object:
    return x / (1 + gc.abs(x))


@operator("Tan")
def tan(x: Any) -> object:
    return gc.sin(x) / gc.cos(x)


@operator("Atan")
def atan(x: Any) -> Any:
    return np.arctan(x) if is_known(x) else gc.arctan(x)


@operator("Asin")
def asin(x: Any) -> Any:
    """2 arctan(x / (1 + sqrt(1 - x^2))), where the difference is a product that loses nothing."""
    return 2 * gc.arctan(x / (1 + gc.sqrt((1 - x) * (1 + x))))


@operator("Acos")
def acos(x: Any) -> Any:
    """2 arctan(sqrt((1 - x) / (1 + x))), with infinity at -1."""
    return 2 * gc.arctan(gc.sqrt(1 - x) / gc.sqrt(1 + x))


@operator("Ceil")
def ceil(x: Any) -> object:
    return np.ceil(x) if is_known(x) else -gc.floor(-x)


@operator("Round")
def round_(x: Any) -> object:
    """To the nearest whole number, from the middle to the even one."""
    if is_known(x):
        return np.round(x)
    low = gc.floor(x)
    rest, is_even = x - low, low / 2 == gc.floor(low / 2)
    up = (rest > 0.5) | ((rest == 0.5) & ~is_even)
    return gc.where(up, low + 1, low)


@operator("Sinh")
def sinh(x: Any) -> object:
    less_one = gc.expm1(x)
    return gc.where(gc.abs(x) < 1, (less_one + less_one / (less_one + 1)) / 2, _half(x, -1))


@operator("Cosh")
def cosh(x: Any) -> object:
    return _half(x, 1)


def _half(x: Any, sign: int) -> Any:
    return gc.exp(x) / 2 + sign * (gc.exp(-x) / 2)


FAR = 1e9
"""Beyond it the square root of x^2 + 1 is x in either type, whose square might be infinite."""
LOG_2 = np.log(2.0).item()


@operator("Asinh")
def asinh(x: Any) -> object:
    size = gc.where(x < 0, -x, x)  # whose slope at 0 is 1
    near, far = gc.minimum(size, FAR), gc.maximum(size, FAR)
    found = gc.log1p(near + near * near / (1 + gc.sqrt(near * near + 1)))
    found = gc.where(size > FAR, gc.log(far) + LOG_2, found)
    return gc.where(x < 0, -found, found)


@operator("Acosh")
def acosh(x: Any) -> object:
    near, far = gc.minimum(x, FAR), gc.maximum(x, FAR)
    found = gc.log(near + gc.sqrt(near - 1) * gc.sqrt(near + 1))
    return gc.where(x > FAR, gc.log(far) + LOG_2, found)


@operator("Atanh")
def atanh(x: Any) -> object:
    return (gc.log1p(x) - gc.log1p(-x)) / 2


@operator("Elu")
def elu(x: Any, *, alpha: float) -> object:
    if alpha == 1:
        return gc.elu(x)
    return gc.where(x < 0, alpha * gc.expm1(gc.minimum(x, 0)), x)


@operator("Celu")
def celu(x: Any, *, alpha: float) -> object:
    return gc.maximum(x, 0) + gc.minimum(alpha * gc.expm1(x / alpha), 0)


@operator("Selu")
def selu(x: Any, *, alpha: float, gamma: float) -> object:
    return gamma * gc.where(x > 0, x, alpha * gc.expm1(gc.minimum(x, 0)))


@operator("LeakyRelu")
def leaky_relu(x: Any, *, alpha: float) -> object:
    return gc.where(x < 0, alpha * x, x)


@operator("ThresholdedRelu")
def thresholded_relu(x: Any, *, alpha: float) -> object:
    return gc.where(x > alpha, x, 0)


@operator("PRelu", 7)
def prelu(x: Any, slope: Any) -> object:
    return gc.where(x < 0, slope * x, x)


@operator("HardSigmoid")
def hard_sigmoid(x: Any, *, alpha: float, beta: float) -> object:
    return gc.clip(alpha * x + beta, 0.0, 1.0)


@operator("HardSwish")
def hard_swish(x: Any) -> object:
    return x * gc.clip(x / 6 + 0.5, 0.0, 1.0)


@operator("Mish")
def mish(x: Any) -> object:
    return x * gc.tanh(gc.softplus(x))


@operator("Gelu")
def gelu(x: Any, *, approximate: str) -> object:
    if approximate == "none":
        return gc.gelu(x)
    return 0.5 * x * (1 + gc.tanh(np.sqrt(2 / np.pi).item() * (x + 0.044715 * x * x * x)))


@operator("Shrink")
def shrink(x: Any, *, bias: float, lambd: float) -> object:
    return gc.where(x < -lambd, x + bias, gc.where(x > lambd, x - bias, 0))


@operator("Sign")
def sign(x: Any) -> object:
    """nan is its own sign."""
    if is_known(x):
        return np.sign(x)
    return gc.where(x > 0, 1, gc.where(x < 0, -1, x * 0)).astype(x.dtype)


@operator("IsNaN")
def is_nan(x: Any) -> object:
    return x != x  # nan is not itself


@operator("IsInf")
def is_inf(x: Any, *, detect_negative: int, detect_positive: int) -> object:
    found = x != x
    found = of(x).logical_and(found, of(x).logical_not(found))
    if detect_positive:
        found = found | (x == np.inf)
    if detect_negative:
        found = found | (x == -np.inf)
    return found


@operator("Clip", 6)
def clip_6(x: Any, *, min: float, max: float) -> object:
    return clip(x, np.asarray(min, dtype_of(x)), np.asarray(max, dtype_of(x)))


@operator("Clip", 11)
def clip(x: Any, low: Any = None, high: Any = None) -> object:
    xp = of(x, low, high)
    made = x if low is None else xp.maximum(x, low)
    return made if high is None else xp.minimum(made, high)


@operator("CastLike", 15)
def cast_like(x: Any, like: Any, *, saturate: int = 1) -> object:
    return _cast(x, dtype_of(like), saturate)


@operator("Cast")
def cast(x: Any, *, to: int, saturate: int = 1) -> object:
    return _cast(x, element_type(to), saturate)


def _cast(x: Any, dtype: np.dtype[Any], saturate: int) -> Any:
    """Of what is beyond an f8 its largest number where it saturates; of a float as an integer of 4
    or 2 bits the low bits."""
    name = lacking_name(dtype)
    if saturate and name in SHORT_FLOATS:
        return cast_to(within(x, dtype), dtype)
    if name in SHORT_INTEGERS and is_float(x):
        return cast_to(cast_to(x, np.dtype(np.int32)), dtype)
    return cast_to(x, dtype)


def within(x: Any, dtype: np.dtype[Any]) -> Any:
    """f32 or f64 between the ends of a float of 8 bits or fewer; nan stays."""
    most = SHORT_FLOATS[lacking_name(dtype) or ""].largest
    wide = x if dtype_of(x) == np.float64 else cast_to(x, np.dtype(np.float32))
    xp = of(wide)
    ends = (np.asarray(n, dtype_of(wide)) for n in (-most, most))
    return xp.minimum(xp.maximum(wide, next(ends)), next(ends))


def cast_to(x: Any, dtype: np.dtype[Any]) -> Any:
    """Elements of another type. Sizes of a call stay what they are: as floats they are numbers that
    it computes, and the sizes again where these become integers."""
    sizes = x.array if isinstance(x, Weight) else x
    if has_sizes(sizes):
        if dtype.kind in "iu":
            return sizes
        (made,) = with_numbers(sizes, dtype=dtype)
        return Weight(made.trace, made.value, sizes)
    return x.astype(dtype) if is_known(x) else gc.cast(x, dtype)
