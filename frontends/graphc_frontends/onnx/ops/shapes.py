"""Operators on shapes: sizes, reshaping, joining, cutting."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

import graphc as gc
from graphc.tensor.program_builder import Symbol
from graphc_frontends.onnx.graph import Context
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.parts import OF_A_PART, Part, is_whole, part_of, turned
from graphc_frontends.onnx.reading import element_type
from graphc_frontends.onnx.values import (
    Dim,
    as_sizes,
    axis_of,
    computed,
    dtype_of,
    fixed,
    has_sizes,
    is_known,
    known_ints,
    known_number,
    known_sizes,
    mistake,
    numbered,
    of,
    product_of,
    rank_of,
    shape_of,
    unsupported,
    with_numbers,
)


@operator("Constant")
def constant(
    *,
    value: Any = None,
    value_float: float | None = None,
    value_floats: Sequence[float] | None = None,
    value_int: int | None = None,
    value_ints: Sequence[int] | None = None,
) -> object:
    if value is not None:
        return value
    if value_float is not None:
        return np.float32(value_float).reshape(())
    if value_floats is not None:
        return np.array(value_floats, np.float32)
    if value_int is not None:
        return np.array(value_int, np.int64)
    if value_ints is not None:
        return np.array(value_ints, np.int64)
    raise mistake("not-supported", "requires a value that is an array of numbers")


@operator("Shape")
def shape(x: Any, *, start: int = 0, end: int | None = None) -> object:
    return as_sizes(shape_of(x)[start:end])


@operator("Size")
def size(x: Any) -> object:
    total: Any = 1
    for n in shape_of(x):
        total = total * n
    return as_sizes([total]).reshape(())


@operator("ConstantOfShape")
def constant_of_shape(sizes: Any, *, value: Any = None) -> object:
    shape = known_sizes(sizes, "the shape")
    number = np.zeros(1, np.float32) if value is None else value
    if all(isinstance(n, int) for n in shape):
        return np.full(shape, number.reshape(-1)[0])  # type: ignore[arg-type]
    return gc.full(shape, number.reshape(-1)[0].item(), number.dtype)


@operator("Reshape", 5)
def reshape(x: Any, sizes: Any, *, allowzero: int = 0) -> object:
    wanted = known_sizes(sizes, "the shape")
    if not allowzero:
        wanted = [shape_of(x)[i] if n == 0 else n for i, n in enumerate(wanted)]
    elif -1 in wanted and 0 in wanted:
        raise mistake("bad-value", f"requires no size of -1 beside a 0, got {wanted}")
    if is_known(x):
        return x.reshape([int(n) for n in wanted])  # type: ignore[arg-type]
    return gc.reshape(x, wanted)


@operator("Flatten")
def flatten(x: Any, *, axis: int) -> object:
    place = axis + rank_of(x) if axis < 0 else axis
    sizes = shape_of(x)
    return of(x).reshape(x, (product_of(sizes[:place]), product_of(sizes[place:])))


@operator("Transpose")
def transpose(x: Any, *, perm: Sequence[int] | None = None) -> object:
    return of(x).transpose(x, None if perm is None else tuple(perm))


@operator("Squeeze")
def squeeze(x: Any, *, axes: Sequence[int] | None = None) -> object:
    return of(x).squeeze(x, None if axes is None else tuple(axes))


@operator("Squeeze", 13)
def squeeze_13(x: Any, axes: Any = None) -> object:
    return squeeze(x, axes=None if axes is None else known_ints(axes, "the axes"))


@operator("Unsqueeze")
def unsqueeze(x: Any, *, axes: Sequence[int]) -> object:
    return of(x).expand_dims(x, tuple(axes))


@operator("Unsqueeze", 13)
def unsqueeze_13(x: Any, axes: Any) -> object:
    return unsqueeze(x, axes=known_ints(axes, "the axes"))


@operator("Expand")
def expand(x: Any, sizes: Any, *, context: Context) -> object:
    """Broadcasting in both directions: a size of 1 leaves the array's own."""
    if has_sizes(x):
        (x,) = with_numbers(x)
    wanted = known_sizes(sizes, "the shape")
    own = shape_of(x)
    rank = max(len(own), len(wanted))
    own = (1,) * (rank - len(own)) + own
    wanted = [1] * (rank - len(wanted)) + wanted
    target = [o if w == 1 else w for o, w in zip(own, wanted, strict=True)]
    return _repeated(x, target, context)


def _repeated(x: Any, target: Sequence[Dim], context: Context) -> Any:
    """The array in a shape that may have sizes of a call."""
    if is_known(x) and any(isinstance(n, Symbol) for n in target):
        x = context.builder.hold(x)
    return of(x).broadcast_to(x, target)


@operator("Concat")
def concat(*inputs: Any, axis: int) -> object:
    if any(isinstance(x, Part) for x in inputs):
        return _joined(inputs, axis)
    return of(*inputs).concatenate(computed(*inputs), axis)


def _joined(parts: Sequence[Any], axis: int) -> object:
    match parts:
        case [Part() as behind, Part() as before] if is_whole(behind, before, axis):
            return turned(before)
        case _:
            raise unsupported(f"joining {OF_A_PART} with something else than the rest of the array")


@operator("Split")
def split(x: Any, *, axis: int, split: Sequence[int] | None = None, context: Context) -> object:
    place = axis_of(axis, rank_of(x))
    size = fixed([shape_of(x)[place]], "a split")[0]
    if split is None:
        split = _equal_parts(size, context.outputs)
    if sum(split) != size:
        message = f"requires parts that make {size} elements of axis {place}, got {[*split]}"
        raise mistake("shape-mismatch", message)
    ends = np.cumsum([0, *split])
    return tuple(_part(x, place, int(a), int(b)) for a, b in pairwise(ends))


@operator("Split", 13)
def split_13(
    x: Any, parts: Any = None, *, axis: int, num_outputs: int | None = None, context: Context
) -> object:
    given = None if parts is None else known_ints(parts, "the parts")
    if num_outputs is not None:
        place = axis_of(axis, rank_of(x))
        given = _equal_parts(fixed([shape_of(x)[place]], "a split")[0], num_outputs)
    return split(x, axis=axis, split=given, context=context)


def _equal_parts(size: int, count: int) -> list[int]:
    """Parts of one size, the last what is left."""
    length = -(-size // max(count, 1))
    return [max(min(length, size - i * length), 0) for i in range(count)]


def _part(x: Any, axis: int, start: int, stop: int) -> object:
    return x[(slice(None),) * axis + (slice(start, stop),)]


@operator("Slice")
def slice_1(
    x: Any, *, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None = None
) -> object:
    return _sliced(x, starts, ends, axes, None)


@operator("Slice", 10)
def slice_10(
    x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None, *, context: Context
) -> object:
    along = [0] if axes is None else known_ints(axes, "the axes")
    each = [1] if steps is None else known_ints(steps, "the steps")
    if len(along) == 1 and each == [1]:
        part = part_of(x, starts, ends, along[0], context.builder)
        if part is not None:
            return part
    first, last = known_sizes(starts, "the starts"), known_sizes(ends, "the ends")
    if is_known(x) and any(isinstance(n, Symbol) for n in (*first, *last)):
        x = context.builder.hold(with_numbers(x)[0]) if not has_sizes(x) else with_numbers(x)[0]
    return _sliced(
        x, first, last, axes if axes is None else along, steps if steps is None else each
    )


def _sliced(
    x: Any,
    starts: Sequence[Dim],
    ends: Sequence[Dim],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> object:
    index: list[object] = [slice(None)] * rank_of(x)
    places = range(len(starts)) if axes is None else axes
    for start, end, axis, step in zip(
        starts, ends, places, steps or [1] * len(starts), strict=True
    ):
        place = axis_of(axis, rank_of(x))
        index[place] = _cut(start, end, step, shape_of(x)[place])
    return x[tuple(index)]


def _cut(start: Dim, end: Dim, step: int, size: Dim) -> slice:
    """Python's slice: ONNX writes ends outside of the axis as far away as it likes."""
    if not isinstance(size, int):
        far = 1 << 30
        first = None if isinstance(start, int) and (start == 0 or start <= -far) else start
        last = None if end == size or (isinstance(end, int) and end >= far) else end
        return slice(first, last, step)
    if not isinstance(start, int) or not isinstance(end, int):
        return slice(start, end, step)
    low = max(start + size, 0) if start < 0 else min(start, size)
    if step < 0:
        low = min(start + size if start < 0 else start, size - 1)
        high = end + size if end < 0 else end
        return slice(low, high if high >= 0 else None, step) if low >= 0 else slice(0, 0)
    return slice(low, max(end + size, 0) if end < 0 else min(end, size), step)


@operator("Tile", 6)
def tile(x: Any, repeats: Any, *, context: Context) -> object:
    for axis, count in enumerate(known_sizes(repeats, "the repeats")):
        if isinstance(count, Symbol):
            lead, size, rest = shape_of(x)[:axis], shape_of(x)[axis], shape_of(x)[axis + 1 :]
            apart = of(x).expand_dims(with_numbers(x)[0] if has_sizes(x) else x, axis)
            wide = _repeated(apart, (*lead, count, size, *rest), context)
            x = gc.reshape(wide, (*lead, count * size, *rest))
        elif count != 1:
            x = of(x).concatenate([x] * count, axis) if count else _part(x, axis, 0, 0)
    return x


@operator("Range")
def range_(start: Any, limit: Any, delta: Any) -> object:
    first, last, step = (
        known_number(v, w)
        for v, w in ((start, "the start"), (limit, "the limit"), (delta, "the step"))
    )
    if isinstance(first, Symbol):  # as places behind what a cache holds
        return gc.arange(0, last - first, step, dtype_of(start)) + gc.cast(first, dtype_of(start))
    if isinstance(last, Symbol):
        return gc.arange(first, last, step, dtype_of(start))
    return np.arange(first, last, step, dtype=dtype_of(start))


@operator("EyeLike")
def eye_like(x: Any, *, dtype: int | None = None, k: int) -> object:
    rows, cols = fixed(shape_of(x), "a diagonal")
    kind = dtype_of(x) if dtype is None else element_type(dtype)
    return np.eye(rows, cols, k, kind)


@operator("Trilu")
def trilu(x: Any, k: Any = None, *, upper: int) -> object:
    """The elements on one side of the diagonal that begins at column k, which is one of them."""
    rows, cols = (numbered(n) for n in shape_of(x)[-2:])
    offset = 0 if k is None else gc.reshape(k, ()) if isinstance(k, gc.Tensor) else _diagonal(k)
    beyond = cols - offset - of(rows, cols).expand_dims(rows, 1)
    kept = beyond >= 0 if upper else beyond <= 0
    return of(x, kept).where(kept, x, np.zeros((), dtype_of(x)))


def _diagonal(k: Any) -> Any:
    number = known_number(k, "the diagonal")
    return number if isinstance(number, Symbol) else int(number)


def _sizes(x: Any) -> tuple[Any, ...]:
    """To compute with."""
    return shape_of(x)


@operator("DepthToSpace")
def depth_to_space(x: Any, *, blocksize: int, mode: str = "DCR") -> object:
    n, c, h, w = _sizes(x)
    depth = c // blocksize**2
    if mode == "DCR":
        split = of(x).reshape(x, (n, blocksize, blocksize, depth, h, w))
        moved = of(x).transpose(split, (0, 3, 4, 1, 5, 2))
    else:
        split = of(x).reshape(x, (n, depth, blocksize, blocksize, h, w))
        moved = of(x).transpose(split, (0, 1, 4, 2, 5, 3))
    return of(x).reshape(moved, (n, depth, h * blocksize, w * blocksize))


@operator("SpaceToDepth")
def space_to_depth(x: Any, *, blocksize: int, mode: str = "DCR") -> object:
    n, c, h, w = _sizes(x)
    rows, cols = (s // blocksize for s in (h, w))
    split = of(x).reshape(x, (n, c, rows, blocksize, cols, blocksize))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return of(x).reshape(
        of(x).transpose(split, order),
        (n, c * blocksize**2, rows, cols),
    )
