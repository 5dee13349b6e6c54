"""The functions of arrays that users call, with numpy's names and meaning.

Each takes traced values, arrays and numbers alike; docs/tensor.md lists where they differ from
numpy. `Tensor` has the operators and most of these as methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.ir.core import OpDef, Value
from graphc.ir.types import TypeRuleError
from graphc.ops import elementwise as ops
from graphc.ops import functions as mathematics
from graphc.support.diagnostics import fail
from graphc.tensor import numeric
from graphc.tensor.caller import caller_location
from graphc.tensor.numeric import elementwise
from graphc.tensor.promotion import PlainArray, element_type, named_type
from graphc.tensor.shapes import Axes, a_shape, whole
from graphc.tensor.tensor import absolute as absolute
from graphc.tensor.tensor import add as add
from graphc.tensor.tensor import (
    apply,
    average,
    comparison,
    emit,
    floats,
    largest,
    logical,
    multiply,
    numbers,
    smallest,
    total,
)
from graphc.tensor.tensor import cast as cast
from graphc.tensor.tensor import divide as divide
from graphc.tensor.tensor import matmul as matmul
from graphc.tensor.tensor import negative as negative
from graphc.tensor.tensor import power as power
from graphc.tensor.tensor import reshape as reshape
from graphc.tensor.tensor import subtract as subtract
from graphc.tensor.tensor import transpose as transpose
from graphc.tensor.tracing import Trace, Traced

# --- elements ------------------------------------------------------------------------------------


def _of_floats(op: OpDef, x: Any) -> Any:
    return floats(elementwise(op), x)


def exp(x: Any) -> Any:
    """e to the power of each element."""
    return _of_floats(mathematics.EXP, x)


def expm1(x: Any) -> Any:
    """e to the power of each element, less 1; accurate near 0."""
    return _of_floats(mathematics.EXPM1, x)


def log(x: Any) -> Any:
    """Natural logarithm: -inf at 0, nan below."""
    return _of_floats(mathematics.LOG, x)


def log1p(x: Any) -> Any:
    """Natural logarithm of 1 + x, accurate near 0: -inf at -1, nan below."""
    return _of_floats(mathematics.LOG1P, x)


def sqrt(x: Any) -> Any:
    """Square root; nan below 0."""
    return _of_floats(mathematics.SQRT, x)


def sin(x: Any) -> Any:
    """Sine of radians."""
    return _of_floats(mathematics.SIN, x)


def cos(x: Any) -> Any:
    """Cosine of radians."""
    return _of_floats(mathematics.COS, x)


def tanh(x: Any) -> Any:
    """Hyperbolic tangent."""
    return _of_floats(mathematics.TANH, x)


def sigmoid(x: Any) -> Any:
    """1 / (1 + e^-x)."""
    return _of_floats(mathematics.SIGMOID, x)


def erf(x: Any) -> Any:
    """The error function 2/√π ∫ e^(-t²) dt from 0 to x."""
    return _of_floats(mathematics.ERF, x)


def floor(x: Any) -> Any:
    """The largest whole number not above; its derivative is 0."""
    return _of_floats(mathematics.FLOOR, x)


def relu(x: Any) -> Any:
    """max(x, 0), with slope 0 at 0."""
    return maximum(x, 0)


def square(x: Any) -> Any:
    """x times x."""
    return multiply(x, x)


def maximum(x: Any, y: Any) -> Any:
    """The larger element; nan if either is nan. Where they are equal, y gets the gradient."""
    return numbers(elementwise(ops.MAXIMUM), x, y)


def minimum(x: Any, y: Any) -> Any:
    """The smaller element; nan if either is nan. Where they are equal, y gets the gradient."""
    return numbers(elementwise(ops.MINIMUM), x, y)


def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, y elsewhere. Both are computed everywhere."""

    def make(trace: Trace) -> Value:
        return numeric.choose(trace.builder, *trace.lift([condition]), *trace.lift([x, y]))

    return emit([condition, x, y], make)


def less(x: Any, y: Any) -> Any:
    return comparison(ops.LESS)(x, y)


def less_equal(x: Any, y: Any) -> Any:
    return comparison(ops.LESS_EQUAL)(x, y)


def greater(x: Any, y: Any) -> Any:
    return comparison(ops.GREATER)(x, y)


def greater_equal(x: Any, y: Any) -> Any:
    return comparison(ops.GREATER_EQUAL)(x, y)


def equal(x: Any, y: Any) -> Any:
    return comparison(ops.EQUAL)(x, y)


def not_equal(x: Any, y: Any) -> Any:
    return comparison(ops.NOT_EQUAL)(x, y)


def logical_and(x: Any, y: Any) -> Any:
    return logical(ops.LOGICAL_AND)(x, y)


def logical_or(x: Any, y: Any) -> Any:
    return logical(ops.LOGICAL_OR)(x, y)


def logical_not(x: Any) -> Any:
    return logical(ops.LOGICAL_NOT)(x)


def stop_gradient(x: Any) -> Any:
    """x, taken as a constant by every derivative."""
    return apply(elementwise(ops.STOP_GRADIENT), x)


# --- over axes -----------------------------------------------------------------------------------


def sum(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The sum over `axis`, all axes for None. Integers and truth values add up as i64."""
    return total(x, axis, keepdims)


def mean(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The average over `axis`, all axes for None; nan of nothing."""
    return average(x, axis, keepdims)


def max(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The largest element over `axis`. Every element that attains it gets the gradient."""
    return largest(x, axis, keepdims)


def min(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The smallest element over `axis`. Every element that attains it gets the gradient."""
    return smallest(x, axis, keepdims)


def softmax(x: Any, axis: int = -1) -> Any:
    """e^x / Σ e^x along `axis`, without overflow."""
    return floats(lambda b, v: numeric.softmax(b, v, axis), x)


def log_softmax(x: Any, axis: int = -1) -> Any:
    """log softmax along `axis`, without overflow."""
    return floats(lambda b, v: numeric.log_softmax(b, v, axis), x)


def cross_correlate(signal: Any, kernel: Any) -> Any:
    """c[i..] = Σ_j kernel[j..] signal[i.. + j..] where the kernel lies inside.

    The kernel has one axis or more and slides over as many of the signal's last axes.
    """
    return floats(numeric.correlate, signal, kernel)


def maxpool(x: Any, n: int) -> Any:
    """The largest of every n neighbours along the last axis, whose size n divides."""
    return numbers(lambda b, v: numeric.pool_maximum(b, v, whole(n, "n")), x)


# --- shapes --------------------------------------------------------------------------------------


def expand_dims(x: Any, axis: Axes) -> Any:
    """New axes of size 1 at these places of the result."""
    return apply(lambda b, v: numeric.expanded(b, v, axis), x)


def squeeze(x: Any, axis: Axes = None) -> Any:
    """Axes of size 1 taken away, all of them for None."""
    return apply(lambda b, v: numeric.squeezed(b, v, axis), x)


def broadcast_to(x: Any, shape: int | Sequence[int]) -> Any:
    """Repeated to a larger shape by numpy's rules."""
    return apply(lambda b, v: numeric.broadcast_to(b, v, a_shape(shape)), x)


def concatenate(arrays: Sequence[Any], axis: int = 0) -> Any:
    """The arrays one after the other along an axis."""
    parts = _several(arrays, "concatenate")
    return apply(lambda b, *values: numeric.joined(b, values, axis), *parts)


def stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Arrays of one shape along a new axis; numbers too."""
    parts = _several(arrays, "stack")
    return apply(lambda b, *values: numeric.stacked(b, values, axis), *parts)


def _several(arrays: object, who: str) -> list[Any]:
    if not isinstance(arrays, tuple | list) or not arrays:
        raise fail(
            "argument-type",
            f"{who} requires a list of at least one array, got {arrays!r}",
            caller_location(),
        )
    return list(arrays)


def flip(x: Any, axis: Axes = None) -> Any:
    """Backwards along `axis`, along all axes for None."""
    return apply(lambda b, v: numeric.flipped(b, v, axis), x)


def pad(x: Any, widths: Any, value: float = 0.0) -> Any:
    """`value` around the elements: a width, a pair (before, after), or a pair for every axis."""
    return apply(lambda b, v: numeric.padded(b, v, widths, value), x)


# --- arrays that are constants --------------------------------------------------------------------
# They are numpy arrays, and constants of the function that uses them. Without a dtype they take the
# floating-point type of what they meet.


def zeros(shape: Any, dtype: Any = None) -> np.ndarray:
    """An array of zeros."""
    return _constant(lambda: np.zeros(a_shape(shape)), dtype)


def ones(shape: Any, dtype: Any = None) -> np.ndarray:
    """An array of ones."""
    return _constant(lambda: np.ones(a_shape(shape)), dtype)


def full(shape: Any, value: Any, dtype: Any = None) -> Any:
    """An array of one number, which may be a traced one."""
    if isinstance(value, Traced):
        repeated = broadcast_to(value, shape)
        return repeated if dtype is None else cast(repeated, dtype)
    return _constant(lambda: np.full(a_shape(shape), value), dtype)


def arange(start: float, stop: float | None = None, step: float = 1, dtype: Any = None) -> Any:
    """start, start + step, … before stop; with one argument from 0 to before it."""
    first, end = (0, start) if stop is None else (start, stop)
    return _constant(lambda: np.arange(first, end, step), dtype)


def eye(n: int, m: int | None = None, dtype: Any = None) -> np.ndarray:
    """n rows, m or n columns: 1 on the diagonal, 0 elsewhere."""
    return _constant(lambda: np.eye(n, m), dtype)


def _constant(make: Callable[[], np.ndarray], dtype: object) -> np.ndarray:
    """The array in an element type; what numpy refuses is an error at the user's line."""
    try:
        array = make()
        element_type(array.dtype)
        return array.view(PlainArray) if dtype is None else array.astype(named_type(dtype).numpy)
    except TypeRuleError as problem:
        raise fail(problem.slug, problem.message, caller_location()) from None
    except (TypeError, ValueError, ArithmeticError) as problem:
        raise fail("argument-type", f"no such array: {problem}", caller_location()) from None


abs = absolute
