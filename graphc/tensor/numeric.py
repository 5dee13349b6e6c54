"""What numpy's operations on arrays mean in the IR: rules that emit tensor operations.

Every rule takes a builder and values whose element types agree already, and raises TypeRuleError
for shapes that do not fit. A size may be a symbol, which a call decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from graphc.ir.core import IRBuilder, OpDef, Value
from graphc.ir.dims import size_product, size_quotient
from graphc.ir.types import (
    Dim,
    DType,
    Symbol,
    TensorType,
    TypeRuleError,
)
from graphc.ops import composites
from graphc.ops.constant import extent, full_like
from graphc.ops.contraction import matmul as emit_matmul
from graphc.ops.depthwise import DEPTHWISE_DATA_GRAD, DepthwiseDataGradParams, depthwise
from graphc.ops.elementwise import cast, div, mul, select
from graphc.ops.functions import POWER
from graphc.ops.indexed import gather
from graphc.ops.movement import concat, pad, reshape, reverse, slice_axis, transpose
from graphc.ops.patches import overlap_add, patches
from graphc.ops.reduction import broadcast, reduce_max, reduce_min, reduce_sum
from graphc.ops.selection import top_indices
from graphc.tensor.shapes import (
    Axes,
    Shape,
    common_shape,
    fixed_sizes,
    one_axis,
    shape_text,
    some_axes,
    whole,
)

MAX_PRODUCTS = 64
"""The largest constant exponent that becomes products instead of a general power."""


def shape_of(value: Value) -> Shape:
    return value.tensor.dims


# --- elements ------------------------------------------------------------------------------------


def broadcast_to(b: IRBuilder, x: Value, shape: Shape) -> Value:
    """`x` with leading axes added and sizes of 1 repeated."""
    if shape_of(x) == shape:
        return x
    if common_shape([shape_of(x), shape]) != shape:
        raise TypeRuleError(
            f"requires a shape that broadcasts to {shape}, got {shape_of(x)}", slug="shape-mismatch"
        )
    missing = len(shape) - x.tensor.rank
    return broadcast(b, reshape(b, x, (1,) * missing + shape_of(x)), shape)


def broadcast_all(b: IRBuilder, values: Sequence[Value]) -> list[Value]:
    """The values at their common shape."""
    shape = common_shape([shape_of(v) for v in values])
    return [broadcast_to(b, v, shape) for v in values]


def elementwise(op: OpDef) -> Callable[..., Value]:
    """A rule that broadcasts its operands and applies `op`."""

    def rule(b: IRBuilder, *values: Value) -> Value:
        return b.emit_one(op, *broadcast_all(b, values))

    return rule


def convert(b: IRBuilder, x: Value, dtype: DType) -> Value:
    """`x` with elements of `dtype`; `x` itself when it has them."""
    return x if x.tensor.dtype is dtype else cast(b, x, dtype)


def choose(b: IRBuilder, condition: Value, x: Value, y: Value) -> Value:
    """x where the condition is not 0, y elsewhere."""
    test = convert(b, condition, DType.I1)
    return select(b, *broadcast_all(b, [test, x, y]))


def whole_power(b: IRBuilder, x: Value, exponent: int) -> Value:
    """x to a constant whole power, by squaring."""
    if exponent < 0:
        return div(b, full_like(b, 1.0, x), whole_power(b, x, -exponent))
    result: Value | None = None
    square = x
    while exponent:
        if exponent & 1:
            result = square if result is None else mul(b, result, square)
        exponent >>= 1
        if exponent:
            square = mul(b, square, square)
    return full_like(b, 1.0 if x.tensor.dtype.is_float else 1, x) if result is None else result


general_power = elementwise(POWER)


# --- reductions ----------------------------------------------------------------------------------


def _dropped(b: IRBuilder, reduced: Value, axes: Sequence[int], keepdims: bool) -> Value:
    """`reduced`, whose `axes` have size 1, without them unless they are to be kept."""
    if keepdims:
        return reduced
    return reshape(b, reduced, [n for i, n in enumerate(shape_of(reduced)) if i not in axes])


def total(b: IRBuilder, x: Value, axis: Axes, keepdims: bool) -> Value:
    axes = some_axes(axis, x.tensor.rank)
    return _dropped(b, reduce_sum(b, x, axes), axes, keepdims)


def average(b: IRBuilder, x: Value, axis: Axes, keepdims: bool) -> Value:
    axes = some_axes(axis, x.tensor.rank)
    added = _dropped(b, reduce_sum(b, x, axes), axes, keepdims)
    count = size_product(shape_of(x)[a] for a in axes)
    return div(b, added, _size(b, count, added))


def _size(b: IRBuilder, dim: Dim, like: Value) -> Value:
    """A size as a number, in every element of a floating-point type."""
    if isinstance(dim, int):
        return full_like(b, float(dim), like)
    number = extent(b, dim, TensorType((), like.tensor.dtype))
    return broadcast_to(b, number, shape_of(like))


def extremum(b: IRBuilder, x: Value, axis: Axes, keepdims: bool, *, largest: bool) -> Value:
    axes = some_axes(axis, x.tensor.rank)
    if any(shape_of(x)[a] == 0 for a in axes):
        raise TypeRuleError(
            f"requires elements to compare, got shape {shape_of(x)} over axes {list(axes)}",
            slug="bad-value",
        )
    if not axes:
        return x
    reduce = reduce_max if largest else reduce_min
    reduced = reduce(b, x, axes, "first")
    return _dropped(b, reduced, axes, keepdims)


def softmax(b: IRBuilder, x: Value, axis: int) -> Value:
    return composites.softmax(b, x, one_axis(axis, x.tensor.rank))


def log_softmax(b: IRBuilder, x: Value, axis: int) -> Value:
    return composites.log_softmax(b, x, one_axis(axis, x.tensor.rank))


def normalized(b: IRBuilder, x: Value, axis: int, epsilon: float) -> Value:
    return composites.normalized(b, x, one_axis(axis, x.tensor.rank), epsilon)


def top_k(b: IRBuilder, x: Value, count: int, axis: int) -> tuple[Value, Value]:
    """The largest along an axis in order, and their places."""
    rank = x.tensor.rank
    place = one_axis(axis, rank)
    order = [*(i for i in range(rank) if i != place), place]
    back = sorted(range(rank), key=order.__getitem__)
    last = transpose(b, x, order)
    *lead, size = shape_of(last)
    rows = reshape(b, last, (size_product(lead), size))
    found = top_indices(b, rows, count)
    values, places = (
        transpose(b, reshape(b, v, (*lead, count)), back) for v in (gather(b, rows, found), found)
    )
    return values, places


# --- products ------------------------------------------------------------------------------------


def matmul(b: IRBuilder, x: Value, y: Value) -> Value:
    """numpy's `@`: vectors count as one row or one column, leading axes broadcast."""
    left, right = shape_of(x), shape_of(y)
    if not left or not right:
        raise TypeRuleError(
            f"@ requires arrays with axes, got shapes {left} and {right}; use * for a number",
            slug="shape-mismatch",
        )
    if left[-1] != right[-2 if len(right) > 1 else 0]:
        which = "second last size" if len(right) > 1 else "size"
        raise TypeRuleError(
            f"@ requires the last size of the left to be the {which} of the right, "
            f"got {shape_text(left)} and {shape_text(right)}",
            slug="shape-mismatch",
        )
    a = reshape(b, x, (1, *left)) if len(left) == 1 else x
    c = reshape(b, y, (*right, 1)) if len(right) == 1 else y
    product = _product(b, a, c)
    shape = list(shape_of(product))
    if len(right) == 1:
        del shape[-1]
    if len(left) == 1:
        del shape[len(shape) - (1 if len(right) == 1 else 2)]
    return reshape(b, product, shape)


def _product(b: IRBuilder, x: Value, y: Value) -> Value:
    left, right = shape_of(x), shape_of(y)
    if len(right) == 2:  # one matrix for all: the leading axes are more rows
        return emit_matmul(b, x, y)
    lead = common_shape([left[:-2], right[:-2]])
    return emit_matmul(
        b,
        broadcast_to(b, x, (*lead, *left[-2:])),
        broadcast_to(b, y, (*lead, *right[-2:])),
        batch=len(lead),
    )


def correlate(b: IRBuilder, signal: Value, kernel: Value) -> Value:
    """c[i..] = Σ k[j..] s[i.. + j..] over the last axes, as many as the kernel has."""
    long, short = shape_of(signal), fixed_sizes(shape_of(kernel), "the kernel of cross_correlate")
    count = len(short)
    inner = long[len(long) - count :]
    if (
        not count
        or count > len(long)
        or any(not k or (isinstance(s, int) and k > s) for k, s in zip(short, inner, strict=True))
    ):
        raise TypeRuleError(
            f"cross_correlate requires a kernel no larger than the signal's last axes, "
            f"got {short} for {shape_text(long)}",
            slug="shape-mismatch",
        )
    seen = patches(b, signal, len(long) - count, short, (1,) * count)
    lead = shape_of(seen)[: len(long)]
    size = math.prod(short)
    flat = reshape(b, seen, (size_product(lead), size))
    return reshape(b, emit_matmul(b, flat, reshape(b, kernel, (size, 1))), lead)


def windows(b: IRBuilder, x: Value, sizes: object, strides: object, axis: int) -> Value:
    """Every window over neighbouring axes: [.., E.., ..] to [.., P.., S.., ..]."""
    wanted = _numbers(sizes, "a window's size")
    place = one_axis(axis, x.tensor.rank)
    walked = shape_of(x)[place : place + len(wanted)]
    steps = _numbers(strides, "a stride", len(wanted))
    fits = all(not isinstance(e, int) or s <= e for s, e in zip(wanted, walked, strict=False))
    if len(walked) != len(wanted) or not fits:
        raise TypeRuleError(
            f"windows requires sizes within the axes from {place} on, got {wanted} for "
            f"{shape_text(shape_of(x))}",
            slug="shape-mismatch",
        )
    return patches(b, x, place, wanted, steps)


def _numbers(given: object, what: str, count: int | None = None) -> tuple[int, ...]:
    """Whole numbers of at least 1, `count` of them, or any number: one alone is for all axes."""
    several = given if isinstance(given, tuple | list) else [given] * (count or 1)
    numbers = tuple(whole(n, what) for n in several)
    if not numbers or min(numbers) < 1 or count not in (None, len(numbers)):
        raise TypeRuleError(
            f"requires {what} of at least 1 for each axis, got {given}", slug="bad-value"
        )
    return numbers


def convolved(b: IRBuilder, x: Value, w: Value, strides: object) -> Value:
    """Windows of [.., E.., C] times [S.., C, F]: [.., P.., F]."""
    sizes = fixed_sizes(shape_of(w), "the weights of conv")
    walked = len(sizes) - 2
    first = x.tensor.rank - 1 - walked
    if walked < 1 or first < 0 or shape_of(x)[-1] != sizes[-2]:
        raise TypeRuleError(
            "conv requires images [.., extents.., channels] and weights [sizes.., channels, "
            f"features], got {shape_text(shape_of(x))} and {sizes}",
            slug="shape-mismatch",
        )
    seen = windows(b, x, sizes[:walked], strides, first)
    return emit_matmul(b, seen, w, contract=walked + 1)


def transposed_convolution(b: IRBuilder, x: Value, w: Value, strides: object) -> Value:
    """[.., P.., F] times [S.., C, F], added where windows lie: [.., E.., C]."""
    dims = fixed_sizes(shape_of(w), "the weights of conv_transpose")
    walked = len(dims) - 2
    first = x.tensor.rank - 1 - walked
    if walked < 1 or first < 0 or shape_of(x)[-1] != dims[-1] or 0 in dims:
        raise TypeRuleError(
            "conv_transpose requires images [.., extents.., features] and weights [sizes.., "
            f"channels, features], got {shape_text(shape_of(x))} and {dims}",
            slug="shape-mismatch",
        )
    steps = _numbers(strides, "a stride", walked)
    places = shape_of(x)[first:-1]
    if 0 in places:
        raise TypeRuleError(
            f"conv_transpose requires extents of at least 1, got {shape_text(shape_of(x))}",
            slug="shape-mismatch",
        )
    extents = [(p - 1) * t + s for p, t, s in zip(places, steps, dims[:walked], strict=True)]
    product = emit_matmul(b, x, w, transpose_b=True)
    return overlap_add(b, product, first, extents, steps, refuses_none=True)


def convolved_depthwise(
    b: IRBuilder, x: Value, w: Value, strides: object, padding: object, dilations: object
) -> Value:
    """Windows of [.., E.., C] times [S.., C]: [.., P.., C]."""
    sizes = fixed_sizes(shape_of(w), "the weights of depthwise_conv")
    walked = len(sizes) - 1
    first = x.tensor.rank - 1 - walked
    if walked not in (1, 2) or first < 0 or shape_of(x)[-1] != sizes[-1]:
        raise TypeRuleError(
            "depthwise_conv requires images [.., extents.., channels] and weights [sizes.., "
            f"channels] of one or two sizes, got {shape_text(shape_of(x))} and {sizes}",
            slug="shape-mismatch",
        )
    steps = _numbers(strides, "a stride", walked)
    apart = _numbers(dilations, "a dilation", walked)
    low, high = _around(padding, walked)
    return depthwise(b, x, w, first, steps, low, high, apart)


def transposed_depthwise(
    b: IRBuilder, x: Value, w: Value, strides: object, dilations: object
) -> Value:
    """[.., P.., C] times [S.., C], added where windows lie: [.., E.., C]."""
    sizes = fixed_sizes(shape_of(w), "the weights of depthwise_conv_transpose")
    walked = len(sizes) - 1
    first = x.tensor.rank - 1 - walked
    fits = walked in (1, 2) and first >= 0 and shape_of(x)[-1] == sizes[-1]
    places = shape_of(x)[max(first, 0) : -1]
    if not fits or 0 in (*sizes, *places):
        raise TypeRuleError(
            "depthwise_conv_transpose requires images [.., extents.., channels] and weights "
            "[sizes.., channels] of one or two sizes, none of them 0, got "
            f"{shape_text(shape_of(x))} and {sizes}",
            slug="shape-mismatch",
        )
    steps = _numbers(strides, "a stride", walked)
    apart = _numbers(dilations, "a dilation", walked)
    walks = zip(places, steps, sizes[:-1], apart, strict=True)
    made = [(p - 1) * t + (s - 1) * d + 1 for p, t, s, d in walks]
    extents = tuple(e for e in made if isinstance(e, int))
    if len(extents) < walked:
        return overlap_add(b, _all_products(b, x, w, apart), first, made, steps, refuses_none=True)
    none = (0,) * walked
    params = DepthwiseDataGradParams(first, extents, steps, none, none, apart)
    return b.emit_one(DEPTHWISE_DATA_GRAD, x, w, params=params)


def _all_products(b: IRBuilder, x: Value, w: Value, apart: Sequence[int]) -> Value:
    """[.., P.., C] times each element of [S.., C], with zeros between the products of a place:
    [.., P.., spans.., C]."""
    lead, walked = shape_of(x)[:-1], len(apart)
    spread = reshape(b, x, (*lead, *(1,) * walked, *shape_of(x)[-1:]))
    made = mul(b, *broadcast_all(b, [spread, w]))
    for axis, gap in enumerate(apart, len(lead)):
        if gap > 1:
            dims = shape_of(made)
            (size,) = fixed_sizes(dims[axis : axis + 1], "a kernel")
            low, high = [0] * (len(dims) + 1), [0] * (len(dims) + 1)
            high[axis + 1] = gap - 1
            wide = reshape(b, made, (*dims[: axis + 1], 1, *dims[axis + 1 :]))
            whole_gaps = (*dims[:axis], size * gap, *dims[axis + 1 :])
            made = reshape(b, pad(b, wide, low, high), whole_gaps)
            made = slice_axis(b, made, axis, 0, (size - 1) * gap + 1)
    return made


def _around(padding: object, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How many elements there are before and after, on each axis."""
    several = padding if isinstance(padding, tuple | list) else [padding] * count
    pairs = [pair if isinstance(pair, tuple | list) else (pair, pair) for pair in several]
    if len(pairs) != count or any(len(pair) != 2 for pair in pairs):
        raise TypeRuleError(
            f"requires a padding of one number, or one or two for each of {count} axes, "
            f"got {padding}",
            slug="bad-value",
        )
    low, high = (tuple(whole(n, "padding") for n in ends) for ends in zip(*pairs, strict=True))
    if min((*low, *high)) < 0:
        raise TypeRuleError(f"requires a padding of at least 0, got {padding}", slug="bad-value")
    return low, high


def pool_maximum(b: IRBuilder, x: Value, n: int) -> Value:
    """The largest of every n neighbours along the last axis, which n divides."""
    shape = shape_of(x)
    cells = size_quotient(shape[-1:], [n]) if shape and n > 0 else None
    if cells is None:
        raise TypeRuleError(
            f"maxpool requires a last axis that {n} divides, got shape {shape}",
            slug="shape-mismatch",
        )
    return extremum(b, reshape(b, x, (*shape[:-1], cells, n)), -1, False, largest=True)


# --- movement ------------------------------------------------------------------------------------


def permuted(b: IRBuilder, x: Value, axes: object) -> Value:
    rank = x.tensor.rank
    if axes is None:
        order = list(range(rank))[::-1]
    else:
        given = axes if isinstance(axes, Iterable) else (axes,)
        order = [one_axis(a, rank) for a in given]
    if sorted(order) != list(range(rank)):
        raise TypeRuleError(
            f"transpose requires each of the {rank} axes once, got {axes}", slug="bad-value"
        )
    return transpose(b, x, order)


def joined(b: IRBuilder, values: Sequence[Value], axis: int) -> Value:
    """The values one after the other along an axis."""
    shapes = [shape_of(v) for v in values]
    place = one_axis(axis, len(shapes[0]))
    rests = {(*s[:place], *s[place + 1 :]) if len(s) == len(shapes[0]) else None for s in shapes}
    if len(rests) > 1:
        raise TypeRuleError(
            f"concatenate requires shapes that agree but for axis {place}, "
            f"got {' and '.join(map(shape_text, shapes))}",
            slug="shape-mismatch",
        )
    return concat(b, values, place)


def stacked(b: IRBuilder, values: Sequence[Value], axis: int) -> Value:
    """The values, all of one shape, along a new axis."""
    shapes = [shape_of(v) for v in values]
    if len(set(shapes)) > 1:
        raise TypeRuleError(
            f"stack requires arrays of one shape, got {' and '.join(map(str, shapes))}",
            slug="shape-mismatch",
        )
    return concat(b, [expanded(b, v, axis) for v in values], one_axis(axis, len(shapes[0]) + 1))


def expanded(b: IRBuilder, x: Value, axis: Axes) -> Value:
    """New axes of size 1 at these places of the result."""
    given = axis if isinstance(axis, tuple | list) else (axis,)
    rank = x.tensor.rank + len(given)
    places = some_axes([whole(a, "an axis") for a in given], rank)
    old = iter(shape_of(x))
    return reshape(b, x, [1 if i in places else next(old) for i in range(rank)])


def squeezed(b: IRBuilder, x: Value, axis: Axes) -> Value:
    """Axes of size 1 taken away; all of them for None."""
    shape = shape_of(x)
    ones = [i for i, n in enumerate(shape) if n == 1]
    axes = ones if axis is None else some_axes(axis, len(shape))
    if not set(axes) <= set(ones):
        raise TypeRuleError(
            f"squeeze requires axes of size 1, got {list(axes)} of shape {shape}", slug="bad-value"
        )
    return reshape(b, x, [n for i, n in enumerate(shape) if i not in axes])


def flipped(b: IRBuilder, x: Value, axis: Axes) -> Value:
    return reverse(b, x, some_axes(axis, x.tensor.rank))


def padded(b: IRBuilder, x: Value, widths: object, value: Any) -> Value:
    """`value` around the elements: one width, one (before, after), or one such pair per axis."""
    rank = x.tensor.rank
    pairs = _pad_widths(widths, rank)
    if any(isinstance(width, int) and width < 0 for pair in pairs for width in pair):
        raise TypeRuleError(f"pad requires widths of at least 0, got {widths}", slug="bad-value")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeRuleError(
            f"pad requires a number to fill with, got {value!r}", slug="argument-type"
        ) from None
    return pad(b, x, [p[0] for p in pairs], [p[1] for p in pairs], value=number)


def _pad_widths(widths: object, rank: int) -> list[tuple[Dim, Dim]]:
    if isinstance(widths, tuple | list):
        entries = list(widths)
        if len(entries) == 2 and not any(isinstance(e, tuple | list) for e in entries):
            entries = [entries]
        if len(entries) == 1:
            entries = entries * rank
        if len(entries) == rank:
            return [_pair(e) for e in entries]
    else:
        return [_pair(widths)] * rank
    raise TypeRuleError(
        f"pad requires one width, one pair, or a pair for each of {rank} axes, got {widths}",
        slug="bad-value",
    )


def _pair(entry: object) -> tuple[Dim, Dim]:
    parts = list(entry) if isinstance(entry, tuple | list) else [entry, entry]
    if len(parts) == 1:
        parts = parts * 2
    if len(parts) != 2:
        raise TypeRuleError(f"pad requires pairs (before, after), got {entry}", slug="bad-value")
    before, after = (p if isinstance(p, Symbol) else whole(p, "a width") for p in parts)
    return before, after
