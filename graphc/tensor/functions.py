"""The functions of arrays that users call, with numpy's names and meaning.

Each takes traced values, arrays and numbers alike; docs/tensor.md lists where they differ from
numpy. `Tensor` has the operators and most of these as methods. Those of the elements of arrays
follow from the records of the operations (`OpDef.array`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphc.ir.core import IRBuilder, Value
from graphc.ir.dims import size_ceiling
from graphc.ir.elements import converted
from graphc.ir.types import DType, Symbol, TensorType, TypeRuleError
from graphc.ops import bits, elementwise, functions, random, training_forms
from graphc.ops.constant import constant, iota
from graphc.support.diagnostics import fail
from graphc.tensor import lookup, normalisation, numeric
from graphc.tensor.caller import caller_location
from graphc.tensor.promotion import PlainArray, element_type, named_type, number_as
from graphc.tensor.shapes import Axes, a_shape, fixed_sizes, whole
from graphc.tensor.stored_types import as_computed, as_stored, bitcast_stored
from graphc.tensor.tensor import (
    Tensor,
    absolute,
    apply,
    average,
    cast,
    divide,
    emit,
    floats,
    largest,
    matmul,
    numbers,
    of_elements,
    power,
    reshape,
    right_shift,
    smallest,
    total,
    transpose,
)
from graphc.tensor.tracing import PROGRAM, Trace, Traced

# --- elements ------------------------------------------------------------------------------------


def relu(x: Any) -> Any:
    """max(x, 0), with slope 0 at 0."""
    return of_elements(elementwise.MAXIMUM)(x, 0)


def square(x: Any) -> Any:
    """x times x."""
    return of_elements(elementwise.MUL)(x, x)


def bitcast(x: Any, dtype: Any) -> Any:
    """The numbers of another type of as many bits that have the same ones, numpy's `view`; not of
    floats of 16 bits and fewer."""
    return apply(lambda b, v: bitcast_stored(b, v, named_type(dtype)), x)


def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, y elsewhere. Both are computed everywhere."""

    def make(trace: Trace) -> Value:
        b, dtype = trace.builder, trace.common([x, y])
        chosen = (as_computed(b, v) for v in trace.lift([x, y], dtype))
        return as_stored(b, numeric.choose(b, *trace.lift([condition]), *chosen), dtype)

    return emit([condition, x, y], make)


# --- over axes -----------------------------------------------------------------------------------


def sum(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The sum over `axis`, all axes for None. Integers and truth values add up as i64."""
    return total(x, axis, keepdims)


def mean(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The average over `axis`, all axes for None; nan of nothing."""
    return average(x, axis, keepdims)


def max(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The largest element over `axis`. The first one that attains it gets the gradient."""
    return largest(x, axis, keepdims)


def min(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The smallest element over `axis`. The first one that attains it gets the gradient."""
    return smallest(x, axis, keepdims)


def softmax(x: Any, axis: int = -1) -> Any:
    """e^x / Σ e^x along `axis`, without overflow."""
    return floats(lambda b, v: numeric.softmax(b, v, axis), x)


def log_softmax(x: Any, axis: int = -1) -> Any:
    """log softmax along `axis`, without overflow."""
    return floats(lambda b, v: numeric.log_softmax(b, v, axis), x)


def layer_normalization(
    x: Any, scale: Any = 1.0, bias: Any = 0.0, axis: int = -1, epsilon: float = 1e-5
) -> Any:
    """scale · (x - mean) / √(variance + epsilon) + bias, mean and variance along `axis`."""
    made = floats(lambda b, v: numeric.normalized(b, v, axis, float(epsilon)), x)
    return of_elements(elementwise.ADD)(of_elements(elementwise.MUL)(made, scale), bias)


def batch_normalization(
    x: Any,
    scale: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    axis: int = -1,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
) -> Any:
    """scale · (x - mean) / √(variance + epsilon) + bias along `axis`, each (channels,) or a number.

    A training of a program takes the mean and the variance (divided by the number of elements) of
    the minibatch's channels. Then `mean` and `variance` have to be parameters: they are not trained
    but become momentum times themselves plus (1 - momentum) times what the minibatch shows. (Ioffe
    and Szegedy, Batch Normalization, 2015)
    """

    def rule(b: IRBuilder, x: Value, *columns: Value) -> Value:
        settings = float(epsilon), float(momentum)
        return normalisation.batch_normalized(b, x, columns, axis, *settings)  # type: ignore[arg-type]

    return floats(rule, x, scale, bias, mean, variance)


def dropout(x: Any, rate: float = 0.5) -> Any:
    """x. In a training of a program each element is 0 with probability `rate`, else divided by
    1 - rate.

    Which ones follows from the seed of the training, the number of the step and the element's
    place, on every backend. (Srivastava et al., Dropout, 2014)
    """
    return floats(lambda b, v: training_forms.drop(b, v, float(rate)), x)


def top_k(x: Any, k: int, axis: int = -1) -> tuple[Any, Any]:
    """The k largest along `axis` in order, and their places (i32); nan counts as the largest.

    Of equal elements the first comes first. The gradient goes to the places that were chosen.
    """
    return (
        floats(lambda b, v: numeric.top_k(b, v, whole(k, "k"), axis)[0], x),
        floats(lambda b, v: numeric.top_k(b, v, whole(k, "k"), axis)[1], x),
    )


def cross_correlate(signal: Any, kernel: Any) -> Any:
    """c[i..] = Σ_j kernel[j..] signal[i.. + j..] where the kernel lies inside.

    The kernel has one axis or more and slides over as many of the signal's last axes.
    """
    return floats(numeric.correlate, signal, kernel)


def take(x: Any, indices: Any, axis: int = 0) -> Any:
    """The parts of x at these whole numbers along an axis; their axes stand in its place.

    A negative place counts from the end; one outside of the axis gives zeros.
    """
    return _looked_up(lookup.taken, x, indices, axis)


def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Any:
    """x[.., indices[.., k, ..], ..], where both have the same sizes but along the axis.

    A negative place counts from the end; one outside of the axis gives zeros.
    """
    return _looked_up(lookup.taken_along, x, indices, axis)


def add_along_axis(x: Any, indices: Any, values: Any, axis: int = -1) -> Any:
    """x with values added at places along an axis; several for one place are all added.

    A negative place counts from the end; what is outside of the axis is left out.
    """

    def make(trace: Trace) -> Value:
        dtype = trace.common([x, values])
        floating = dtype if dtype.is_float else trace.default
        b = trace.builder
        table, given = (as_computed(b, v) for v in trace.lift([x, values], floating))
        made = lookup.added_along(b, table, trace.lift_one(indices), given, axis)
        return as_stored(b, made, floating)

    return emit([x, indices, values], make)


def _looked_up(rule: Callable[..., Value], x: Any, indices: Any, axis: int) -> Any:
    def make(trace: Trace) -> Value:
        return rule(trace.builder, trace.lift_one(x), trace.lift_one(indices), axis)

    return emit([x, indices], make)


def windows(x: Any, sizes: Any, strides: Any = 1, axis: int = 0) -> Any:
    """Every window of these sizes, so far apart, over the axes from `axis` on.

    An axis of E elements becomes one of (E - size) // stride + 1, and the windows' own axes follow
    these. `max` and `mean` over those are poolings.
    """
    return apply(lambda b, v: numeric.windows(b, v, sizes, strides, axis), x)


def conv(x: Any, weights: Any, strides: Any = 1) -> Any:
    """The product of every window of images with weights: [.., windows.., features].

    Images are [.., extents.., channels], weights [sizes.., channels, features]; `pad` puts zeros
    around images.
    """
    return floats(lambda b, v, w: numeric.convolved(b, v, w, strides), x, weights)


def conv_transpose(x: Any, weights: Any, strides: Any = 1) -> Any:
    """The slope of `conv` to its images: [.., extents.., channels] of x [.., windows.., features].

    weights [sizes.., channels, features] are those of the `conv`. What windows make of each place
    of x is added where they overlap; extents are (windows - 1) stride + size.
    """
    return floats(lambda b, v, w: numeric.transposed_convolution(b, v, w, strides), x, weights)


def depthwise_conv(
    x: Any, weights: Any, strides: Any = 1, padding: Any = 0, dilations: Any = 1
) -> Any:
    """Windows of each channel of images, times a kernel of its own: [.., windows.., channels].

    Images are [.., extents.., channels] with one or two extents, weights [sizes.., channels].
    `padding`: a number of elements around, or for each axis a pair (before, after); what a window
    has there is left out of its sum. The elements of a window are `dilations` apart.
    """
    settings = strides, padding, dilations
    return floats(lambda b, v, w: numeric.convolved_depthwise(b, v, w, *settings), x, weights)


def depthwise_conv_transpose(x: Any, weights: Any, strides: Any = 1, dilations: Any = 1) -> Any:
    """The slope of `depthwise_conv` to its images: [.., extents.., channels] of x [.., windows..,
    channels].

    weights [sizes.., channels] are those of the `depthwise_conv`, one or two sizes. What windows
    make of each place of x is added where they overlap; extents are
    (windows - 1) stride + (size - 1) dilation + 1.
    """
    settings = strides, dilations
    return floats(lambda b, v, w: numeric.transposed_depthwise(b, v, w, *settings), x, weights)


def maxpool(x: Any, n: int) -> Any:
    """The largest of every n neighbours along the last axis, whose size n divides."""
    return numbers(lambda b, v: numeric.pool_maximum(b, v, whole(n, "n")), x, is_ordered=True)


# --- shapes --------------------------------------------------------------------------------------


def expand_dims(x: Any, axis: Axes) -> Any:
    """New axes of size 1 at these places of the result."""
    return apply(lambda b, v: numeric.expanded(b, v, axis), x)


def squeeze(x: Any, axis: Axes = None) -> Any:
    """Axes of size 1 taken away, all of them for None."""
    return apply(lambda b, v: numeric.squeezed(b, v, axis), x)


def broadcast_to(x: Any, shape: Any) -> Any:
    """Repeated to a larger shape by numpy's rules."""
    return _over(lambda b, v: numeric.broadcast_to(b, v, a_shape(shape)), x, shape)


def random_uniform(shape: Any, step: Any, *, seed: int = 0, stream: int = 0) -> Any:
    """f32 numbers k / 2^24 in [0, 1) that look random.

    step    a whole number; each has numbers of its own, the same one the same
    seed    0 to 2^64 - 1
    stream  tells the uses of one seed apart, 0 to 2^64 - 1

    An element follows from these and its place alone, on every backend.
    """

    def rule(b: IRBuilder, value: Value) -> Value:
        if value.tensor.dims:
            given = f"requires one whole number as step, got the shape {value.tensor.dims}"
            raise TypeRuleError(given, slug="shape-mismatch")
        return random.uniform(b, a_shape(shape), seed=seed, stream=stream, step=value)

    return _over(rule, step, shape, DType.I64)


def _over(rule: Callable[..., Value], x: Any, shape: Any, to: DType | None = None) -> Any:
    """`rule` on x for a shape, whose open sizes are those of a program that is being made."""
    sizes = shape if isinstance(shape, tuple | list) else [shape]
    symbols = [s for s in sizes if isinstance(s, Symbol)]
    return emit([x, *symbols], lambda t: rule(t.builder, *t.lift([x], to)))


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


def zeros(shape: Any, dtype: Any = None) -> Any:
    """An array of zeros; with a size that each call decides a traced one."""
    return full(shape, 0.0, dtype)


def ones(shape: Any, dtype: Any = None) -> Any:
    """An array of ones; with a size that each call decides a traced one."""
    return full(shape, 1.0, dtype)


def full(shape: Any, value: Any, dtype: Any = None) -> Any:
    """An array of one number, which may be a traced one."""
    if isinstance(value, Traced):
        repeated = broadcast_to(value, shape)
        return repeated if dtype is None else cast(repeated, dtype)
    program = PROGRAM.get()
    if program is not None and any(isinstance(s, Symbol) for s in np.atleast_1d(shape)):
        return _filled(program, shape, value, dtype)
    return _constant(lambda: np.full(fixed_sizes(a_shape(shape), "an array"), value), dtype)


def _filled(trace: Trace, shape: Any, value: float, dtype: Any) -> Any:
    """An array of one number, some of whose sizes the call decides."""
    try:
        of = trace.default if dtype is None else named_type(dtype)
        type = TensorType(a_shape(shape), of)
        with trace.builder.at(caller_location()):
            return Tensor(trace, constant(trace.builder, number_as(value, of), type))
    except TypeRuleError as problem:
        raise fail(problem.slug, problem.message, caller_location()) from None


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    """start, start + step, … before stop; with one argument from 0 to before it.

    With a stop that each call decides a traced one, whose start and step are whole numbers.
    """
    first, end = (0, start) if stop is None else (start, stop)
    program = PROGRAM.get()
    if program is not None and isinstance(end, Symbol):
        return _counted(program, first, end, step, dtype)
    return _constant(lambda: np.arange(first, end, step), dtype)


def _counted(trace: Trace, start: object, stop: Symbol, step: object, dtype: Any) -> Any:
    """Whole numbers up to one that the call decides."""
    try:
        first, each = whole(start, "start"), whole(step, "step")
        if each < 1:
            raise TypeRuleError(f"requires a step of at least 1, got {each}", slug="bad-value")
        of = DType.I64 if dtype is None else named_type(dtype)
        type = TensorType((size_ceiling(stop - first, each),), of)
        with trace.builder.at(caller_location()):
            numbers = Tensor(trace, iota(trace.builder, 0, type))
    except TypeRuleError as problem:
        raise fail(problem.slug, problem.message, caller_location()) from None
    return numbers if (first, each) == (0, 1) else numbers * each + first


def eye(n: int, m: int | None = None, dtype: Any = None) -> np.ndarray:
    """n rows, m or n columns: 1 on the diagonal, 0 elsewhere."""
    return _constant(lambda: np.eye(n, m), dtype)


def _constant(make: Callable[[], np.ndarray], dtype: object) -> np.ndarray:
    """The array in an element type; what numpy refuses is an error at the user's line."""
    try:
        array = make()
        element_type(array.dtype)
        return array.view(PlainArray) if dtype is None else converted(array, named_type(dtype))
    except TypeRuleError as problem:
        raise fail(problem.slug, problem.message, caller_location()) from None
    except (TypeError, ValueError, ArithmeticError) as problem:
        raise fail("argument-type", f"no such array: {problem}", caller_location()) from None


_OF_ELEMENTS = [of_elements(op) for op in (*elementwise.OPS, *functions.OPS, *bits.OPS) if op.array]
_OTHERS = (
    *(
        arange,
        batch_normalization,
        bitcast,
        broadcast_to,
        cast,
        concatenate,
        conv,
        conv_transpose,
        cross_correlate,
        depthwise_conv,
        depthwise_conv_transpose,
        divide,
        dropout,
        expand_dims,
        eye,
        flip,
    ),
    *(
        full,
        layer_normalization,
        log_softmax,
        matmul,
        max,
        maxpool,
        mean,
        min,
        ones,
        pad,
        power,
        random_uniform,
        relu,
        reshape,
    ),
    *(add_along_axis, take, take_along_axis),
    *(softmax, square, squeeze, stack, sum, top_k, transpose, where, windows, zeros),
)

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{f.__name__: f for f in (*_OF_ELEMENTS, *_OTHERS)},
    "abs": absolute,
    "absolute": absolute,
    "right_shift": right_shift,
}
"""By the names that users write behind `gc.`."""
