"""Elements at computed places of an axis, and elements put there: by lookups in the IR.

Lookups are of f32 and f64 and of one axis of a matrix; other element types go through one of these
which holds them exactly: integers of 64 bits in two halves.
"""

from __future__ import annotations

from collections.abc import Callable

from graphc.ir.core import IRBuilder, Value
from graphc.ir.dims import Dim, size_product
from graphc.ir.types import DType, TensorType, TypeRuleError
from graphc.ops.constant import constant, extent, full_like
from graphc.ops.elementwise import CLIP, LESS, add, compare, div, mul, select, sub
from graphc.ops.indexed import gather, scatter_add, sparse_product
from graphc.ops.movement import reshape, transpose
from graphc.tensor.numeric import broadcast_to, convert, shape_of
from graphc.tensor.shapes import one_axis

HALF = 1 << 32
BEYOND_I32 = {DType.I64: DType.I64, DType.U32: DType.I64, DType.U64: DType.F64}
"""The types with numbers that i32 has not, and one that has these and can be clipped."""

Lookup = Callable[[IRBuilder, Value], Value]


def taken(b: IRBuilder, x: Value, places: Value, axis: int) -> Value:
    """The parts of x at these places of an axis, in whose stead the axes of `places` come."""
    place = one_axis(axis, x.tensor.rank)
    size, rest = shape_of(x)[place], [n for i, n in enumerate(shape_of(x)) if i != place]
    index = _places(b, places, size, (size_product(shape_of(places)), 1))
    table = _axis_to(b, x, place, 0)

    def look(b: IRBuilder, values: Value) -> Value:
        flat = reshape(b, values, (size, size_product(rest)))
        ones = constant(b, 1.0, TensorType(index.tensor.dims, values.tensor.dtype))
        return sparse_product(b, ones, flat, index)

    found = reshape(b, _as_floats(b, table, look), (*shape_of(places), *rest))
    count, rank = places.tensor.rank, places.tensor.rank + len(rest)
    order = [*range(count, count + place), *range(count), *range(count + place, rank)]
    return transpose(b, found, order)


def taken_along(b: IRBuilder, x: Value, places: Value, axis: int) -> Value:
    """x[.., places[.., k, ..], ..]: both have the same sizes but along the axis."""
    place = one_axis(axis, x.tensor.rank)
    _require_alike(x, places, place)
    rows, index = _rows(b, x, place), _rows(b, places, place)
    size = rows.tensor.dims[1]
    index = _places(b, index, size, index.tensor.dims)
    found = _as_floats(b, rows, lambda b, values: gather(b, values, index))
    return _unrowed(b, found, shape_of(places), place)


def added_along(b: IRBuilder, x: Value, places: Value, values: Value, axis: int) -> Value:
    """x with values added at places of an axis, floating-point numbers."""
    place = one_axis(axis, x.tensor.rank)
    _require_alike(x, places, place)
    index, given = _rows(b, places, place), _rows(b, values, place)
    size = shape_of(x)[place]
    index = _places(b, index, size, index.tensor.dims)
    made = _unrowed(b, scatter_add(b, given, index, size), shape_of(x), place)
    return add(b, x, made)


def _require_alike(x: Value, places: Value, axis: int) -> None:
    rests = [[n for i, n in enumerate(shape_of(v)) if i != axis] for v in (x, places)]
    if rests[0] != rests[1]:
        raise TypeRuleError(
            f"requires the same sizes but along axis {axis}, got {shape_of(x)} and places "
            f"{shape_of(places)}",
            slug="shape-mismatch",
        )


def _places(b: IRBuilder, places: Value, size: Dim, dims: tuple[Dim, ...]) -> Value:
    """As lookups take them: i32 from the front, where a negative one counts from the end. Those
    that are no i32 are outside of every axis, and stay so."""
    wider = BEYOND_I32.get(places.tensor.dtype)
    if wider is not None:
        places = convert(b, places, wider)
        limits = [full_like(b, limit, places) for limit in (-(1 << 31), (1 << 31) - 1)]
        places = b.emit_one(CLIP, places, *limits)
    index = reshape(b, convert(b, places, DType.I32), dims)
    is_behind = compare(b, LESS, index, full_like(b, 0, index))
    return select(b, is_behind, add(b, index, _size(b, size, index)), index)


def _size(b: IRBuilder, size: Dim, like: Value) -> Value:
    """A size in every element of integers."""
    if isinstance(size, int):
        return full_like(b, size, like)
    number = convert(b, extent(b, size, TensorType((), DType.F64)), like.tensor.dtype)
    return broadcast_to(b, number, shape_of(like))


def _axis_to(b: IRBuilder, x: Value, axis: int, goal: int) -> Value:
    order = [i for i in range(x.tensor.rank) if i != axis]
    order.insert(goal, axis)
    return transpose(b, x, order)


def _rows(b: IRBuilder, x: Value, axis: int) -> Value:
    """[everything else, the axis]."""
    last = _axis_to(b, x, axis, x.tensor.rank - 1)
    *lead, size = shape_of(last)
    return reshape(b, last, (size_product(lead), size))


def _unrowed(b: IRBuilder, rows: Value, shape: tuple[Dim, ...], axis: int) -> Value:
    """The rows of an array of this shape as that array."""
    rest = [n for i, n in enumerate(shape) if i != axis]
    whole = reshape(b, rows, (*rest, shape[axis]))
    return _axis_to(b, whole, len(shape) - 1, axis)


def _as_floats(b: IRBuilder, x: Value, look: Lookup) -> Value:
    """The lookup in x, whatever its element type."""
    dtype = x.tensor.dtype
    if dtype is DType.U64:
        return convert(b, _as_floats(b, convert(b, x, DType.I64), look), dtype)
    if dtype.is_float or dtype.itemsize < 4:
        wide = DType.F64 if dtype is DType.F64 else DType.F32
        return convert(b, look(b, convert(b, x, wide)), dtype)
    if dtype is not DType.I64:
        return convert(b, look(b, convert(b, x, DType.F64)), dtype)
    half = full_like(b, HALF, x)
    high = div(b, x, half)
    low = sub(b, x, mul(b, high, half))
    found = [convert(b, look(b, convert(b, v, DType.F64)), dtype) for v in (high, low)]
    return add(b, mul(b, found[0], full_like(b, HALF, found[0])), found[1])
