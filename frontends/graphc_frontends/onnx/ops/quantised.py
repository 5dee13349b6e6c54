"""Quantised operators: integers of 2 to 16 bits that stand for (integer - zero point) scale, and
floats of 8 and 4 bits that stand for float scale.

Products of integers are those of floats, which are exact: in f32 where all sums stay below 2^24, in
f64 else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.support.element_types import lacking_name
from graphc.support.short_types import SHORT_FLOATS, SHORT_INTEGERS, SHORT_TYPES
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.ops.convolution import ConvSettings, conv
from graphc_frontends.onnx.ops.elementwise import cast_to, round_, within
from graphc_frontends.onnx.reading import element_type
from graphc_frontends.onnx.values import (
    axis_of,
    dtype_of,
    mistake,
    of,
    rank_of,
    shape_of,
    unsupported,
)

QUANTISED = ("int8", "uint8", "int16", "uint16", "int32")
"""Types of numpy's that floats are quantised to."""

SMALL = 2**24 // 255**2
"""Products of differences of 8 bits that f32 adds up without a rounding."""


# --- between floats and integers -----------------------------------------------------------------


@operator("QuantizeLinear")
def quantize_linear(
    x: Any,
    scale: Any,
    zero: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> object:
    """x / scale, rounded to the even one of two, plus the zero point, within the type."""
    dtype = _quantised_type(zero, output_dtype)
    like = element_type(precision) if precision else dtype_of(scale)
    parts = (cast_to(x, like), cast_to(_spread(scale, x, axis, block_size), like))
    ratio = of(*parts).divide(*parts)
    offset = None if zero is None else _spread(zero, x, axis, block_size)
    return _quantised(ratio, offset, dtype, saturate)


def _quantised_type(zero: Any, output_dtype: int) -> np.dtype[Any]:
    dtype = element_type(output_dtype) if output_dtype else np.dtype(np.uint8)
    dtype = dtype if zero is None else dtype_of(zero)
    if lacking_name(dtype) not in SHORT_TYPES and dtype.name not in QUANTISED:
        raise unsupported(f"quantising to {dtype}")
    return dtype


def _quantised(ratio: Any, zero: Any, dtype: np.dtype[Any], saturate: int = 1) -> object:
    """The nearest numbers of the type, of integers those whose zero is the zero point."""
    name = lacking_name(dtype)
    if name in SHORT_FLOATS:
        return cast_to(within(ratio, dtype) if saturate else ratio, dtype)
    whole: Any = round_(cast_to(ratio, np.dtype(np.float32)))
    if zero is not None:
        whole = whole + cast_to(zero, np.dtype(np.float32))
    info = np.iinfo(dtype) if name is None else None
    ends = (info.min, info.max) if info else SHORT_INTEGERS[name or ""].limits
    low, high = (np.asarray(n, np.float32) for n in ends)
    xp = of(whole)
    return cast_to(xp.minimum(xp.maximum(whole, low), high), dtype)


@operator("DequantizeLinear")
def dequantize_linear(
    x: Any,
    scale: Any,
    zero: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> object:
    """(x - zero point) scale."""
    dtype = element_type(output_dtype) if output_dtype else dtype_of(scale)
    return cast_to(
        _difference(x, None if zero is None else _spread(zero, x, axis, block_size), np.float32)
        * cast_to(_spread(scale, x, axis, block_size), np.dtype(np.float32)),
        dtype,
    )


def _difference(x: Any, zero: Any, dtype: Any) -> Any:
    """x less its zero point, as floats, in which differences of 8 and 16 bits are exact."""
    if zero is None or dtype_of(x) == np.int32:
        return cast_to(x, np.dtype(dtype))
    return cast_to(x, np.dtype(dtype)) - cast_to(zero, np.dtype(dtype))


def _spread(given: Any, x: Any, axis: int, block_size: int) -> Any:
    """A scale or a zero point so that it meets its elements of x: of all of them, of each place of
    an axis, or of so many places one after the other."""
    rank = rank_of(given)
    if rank == 0 or (rank == 1 and shape_of(given) == (1,)):
        return given.reshape(())
    place, sizes = axis_of(axis, rank_of(x)), shape_of(x)
    if block_size:
        return _blocks(given, place, sizes, block_size)
    if rank != 1 or shape_of(given)[0] != sizes[place]:
        message = f"requires scales for the {sizes[place]} places of axis {place}"
        raise mistake("shape-mismatch", f"{message}, got sizes {shape_of(given)}")
    return given.reshape(tuple(n if i == place else 1 for i, n in enumerate(sizes)))


def _blocks(given: Any, place: int, sizes: Sequence[Any], block_size: int) -> Any:
    """Each element of an axis so many times; the last ones may be fewer."""
    own = shape_of(given)
    if len(own) != len(sizes) or own[place] != -(-sizes[place] // block_size):
        message = f"requires a scale for every {block_size} of sizes {[*sizes]} along axis {place}"
        raise mistake("shape-mismatch", f"{message}, got sizes {[*own]}")
    xp = of(given)
    repeated = xp.broadcast_to(
        xp.expand_dims(given, place + 1), (*own[: place + 1], block_size, *own[place + 1 :])
    )
    long = repeated.reshape((*own[:place], own[place] * block_size, *own[place + 1 :]))
    return long[(slice(None),) * place + (slice(0, sizes[place]),)]


# --- products ------------------------------------------------------------------------------------


def _exact(terms: Any, *operands: Any) -> Any:
    """The floats in which sums of so many products are exact."""
    is_short = all(dtype_of(x).itemsize == 1 for x in operands)
    is_small = is_short and isinstance(terms, int) and terms <= SMALL
    return np.float32 if is_small else np.float64


def _along(given: Any, behind: int) -> Any:
    """A scale or a zero point for each place of an axis with so many more behind it; one for all of
    them as it is."""
    if given is None or rank_of(given) != 1:
        return given
    return given.reshape((-1, *[1] * behind))


def _behind_rows(a: Any) -> int:
    """How many axes are behind that of a's rows."""
    return min(rank_of(a), 2) - 1


def _product(a: Any, b: Any, a_zero: Any, b_zero: Any) -> Any:
    """The product of matrices less their zero points, which may be those of a's rows and of b's
    columns, as exact floats."""
    dtype = _exact(shape_of(a)[-1], a, b)
    left = _difference(a, _along(a_zero, _behind_rows(a)), dtype)
    right = _difference(b, b_zero, dtype)
    return of(left, right).matmul(left, right)


@operator("MatMulInteger")
def matmul_integer(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> object:
    return _as_i32(_product(a, b, a_zero, b_zero))


def _as_i32(x: Any) -> object:
    """The low bits, as integers add up."""
    return cast_to(cast_to(x, np.dtype(np.int64)), np.dtype(np.int32))


@operator("QLinearMatMul")
def qlinear_matmul(
    a: Any,
    a_scale: Any,
    a_zero: Any,
    b: Any,
    b_scale: Any,
    b_zero: Any,
    y_scale: Any,
    y_zero: Any,
) -> object:
    made = _product(a, b, a_zero, b_zero)
    return _requantised(made, _along(a_scale, _behind_rows(a)), b_scale, y_scale, y_zero)


def _requantised(made: Any, x_scale: Any, w_scale: Any, y_scale: Any, y_zero: Any) -> object:
    """Sums of products of quantised numbers, quantised in their turn."""
    single = np.dtype(np.float32)
    factor = cast_to(x_scale, single) * cast_to(w_scale, single) / cast_to(y_scale, single)
    return _quantised(cast_to(made, single) * factor, y_zero, dtype_of(y_zero))


# --- convolutions --------------------------------------------------------------------------------


def _convolved(x: Any, w: Any, x_zero: Any, w_zero: Any, settings: ConvSettings) -> Any:
    """The convolution of what is left of both without their zero points, as exact floats."""
    terms: Any = 1
    for n in shape_of(w)[1:]:
        terms = terms * n
    dtype = _exact(terms, x, w)
    kernel = _difference(w, _along(w_zero, rank_of(w) - 1), dtype)
    return conv(_difference(x, x_zero, dtype), kernel, settings=settings)


@operator("ConvInteger", settings=ConvSettings)
def conv_integer(
    x: Any, w: Any, x_zero: Any = None, w_zero: Any = None, *, settings: ConvSettings
) -> object:
    return _as_i32(_convolved(x, w, x_zero, w_zero, settings))


@operator("QLinearConv", settings=ConvSettings)
def qlinear_conv(
    x: Any,
    x_scale: Any,
    x_zero: Any,
    w: Any,
    w_scale: Any,
    w_zero: Any,
    y_scale: Any,
    y_zero: Any,
    bias: Any = None,
    *,
    settings: ConvSettings,
) -> object:
    """The scale and the zero point of w may be those of each feature; the bias is in units of the
    product of both scales."""
    made = _convolved(x, w, x_zero, w_zero, settings)
    extents = rank_of(x) - 2
    if bias is not None:
        made = made + _along(cast_to(bias, dtype_of(made)), extents)
    return _requantised(made, x_scale, _along(w_scale, extents), y_scale, y_zero)
