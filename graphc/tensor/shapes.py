"""Shapes and axes of arrays by numpy's rules; nothing is emitted here.

Every function raises TypeRuleError for what does not fit.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

from graphc.ir.dims import size_product, size_quotient, size_text
from graphc.ir.types import Dim, Symbol, TypeRuleError

Shape = tuple[Dim, ...]
"""Sizes; that of a program's axis may be a symbol, whose value each call decides."""
Axes = int | Sequence[int] | None


def whole(number: object, what: str) -> int:
    """`number` as an integer, whatever integer type it has."""
    try:
        return operator.index(number)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        raise TypeRuleError(
            f"requires {what} to be a whole number, got {number!r}", slug="argument-type"
        ) from None


def one_axis(axis: object, rank: int) -> int:
    """`axis` counted from the front."""
    index = whole(axis, "an axis")
    if not -rank <= index < rank:
        raise TypeRuleError(
            f"requires an axis from {-rank} to {rank - 1}, got {index}"
            if rank
            else f"requires an array with axes, got axis {index} of a single number",
            slug="bad-value",
        )
    return index % rank


def some_axes(axes: Axes, rank: int) -> tuple[int, ...]:
    """`axes` counted from the front and ascending; all of them for None."""
    if axes is None:
        return tuple(range(rank))
    given = axes if isinstance(axes, tuple | list) else (axes,)
    found = [one_axis(a, rank) for a in given]
    if len(set(found)) != len(found):
        raise TypeRuleError(f"requires every axis once, got {given}", slug="bad-value")
    return tuple(sorted(found))


def common_shape(shapes: Sequence[Shape]) -> Shape:
    """The shape that numpy's broadcasting gives."""
    rank = max((len(s) for s in shapes), default=0)
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    result: list[Dim] = []
    for sizes in zip(*padded, strict=True):
        larger = {n for n in sizes if n != 1}
        if len(larger) > 1:
            listed = " and ".join(map(shape_text, shapes))
            wanted = "sizes equal or 1"
            if any(isinstance(n, Symbol) for n in larger):
                wanted += ", equal in every call by what they are made of"
            raise TypeRuleError(
                f"requires shapes that broadcast: {wanted}, counted from the last axis; "
                f"got {listed}",
                slug="shape-mismatch",
            )
        result.append(larger.pop() if larger else 1)
    return tuple(result)


def shape_text(shape: Shape) -> str:
    """A shape as Python writes it; of a size that others make, how."""
    sizes = ", ".join(map(size_text, shape))
    return f"({sizes},)" if len(shape) == 1 else f"({sizes})"


def fixed_sizes(shape: Shape, what: str) -> tuple[int, ...]:
    """The sizes, where `what` requires them to be known before the call."""
    for size in shape:
        if isinstance(size, Symbol):
            raise TypeRuleError(
                f"{what} requires sizes that are known before the call, got {shape}",
                slug="not-supported",
            )
    return tuple(size for size in shape if isinstance(size, int))


def _sizes(given: object) -> list[Dim]:
    sizes = given if isinstance(given, tuple | list) else (given,)
    return [s if isinstance(s, Symbol) else whole(s, "a size") for s in sizes]


def _least(shape: Sequence[Dim]) -> int:
    """The smallest of the known sizes, 0 where there are none."""
    return min((s for s in shape if isinstance(s, int)), default=0)


def a_shape(given: object) -> Shape:
    """One size or several as a shape."""
    shape = _sizes(given)
    if _least(shape) < 0:
        raise TypeRuleError(f"requires sizes of at least 0, got {given}", slug="bad-value")
    return tuple(shape)


def full_shape(given: object, before: Shape) -> Shape:
    """A shape for as many elements as `before` has; one entry of -1 is what is left over."""
    shape = _sizes(given)
    if shape.count(-1) == 1:
        rest = size_quotient(before, [s for s in shape if s != -1])
        if rest is not None:
            shape[shape.index(-1)] = rest
    size = size_product(before)
    if _least(shape) < 0 or size_product(shape) != size:
        raise TypeRuleError(
            f"requires a shape of {size_text(size)} elements, got {given}", slug="shape-mismatch"
        )
    return tuple(shape)
