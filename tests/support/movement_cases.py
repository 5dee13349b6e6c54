"""Uses of the operations that rearrange elements, for the operation table: dims and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from graphc.ir.params import Params
from graphc.ir.types import Dim, Symbol
from graphc.ops.movement import ConcatParams, PadParams, ReverseParams, SliceParams
from graphc.ops.patches import OverlapAddParams, PatchesParams

Dims = tuple[Dim, ...]
Use = tuple[tuple[Dims, ...], Params]
"""The dims of every operand, and the settings."""

Uses = Callable[[Symbol], Iterable[Use]]
"""The uses of one operation, where the samples are the given symbol."""

Walk = tuple[Dims, tuple[int, ...], Sequence[int], Sequence[int], Dims]
"""Dims before the walked axes, their extents, window sizes and strides, dims after them."""


def slices(n: Symbol) -> Iterable[Use]:
    """Every operand with its start, stop and step along each axis."""
    cuts: list[tuple[Dims, Sequence[tuple[int, Dim, int]]]] = [
        ((), ()),
        ((1,), [(0, 1, 1)]),
        ((1,), [(0, 0, 1)]),
        ((0,), [(0, 0, 1)]),
        ((7,), [(2, 5, 1)]),
        ((7,), [(0, 7, 1)]),
        ((7,), [(6, 7, 3)]),
        ((7,), [(1, 7, 2)]),
        ((7,), [(3, 3, 1)]),
        ((97,), [(3, 90, 1)]),
        ((97,), [(5, 97, 3)]),
        ((1031,), [(17, 1021, 1)]),
        ((5, 7), [(1, 4, 1), (2, 7, 1)]),
        ((5, 7), [(0, 5, 2), (0, 7, 1)]),
        ((5, 7), [(0, 5, 2), (1, 7, 3)]),
        ((5, 7), [(2, 3, 1), (0, 7, 1)]),
        ((0, 7), [(0, 0, 1), (1, 3, 1)]),
        ((33, 65), [(1, 32, 1), (0, 65, 1)]),
        ((33, 65), [(1, 33, 2), (3, 64, 1)]),
        ((3, 1, 5), [(1, 3, 1), (0, 1, 1), (0, 5, 4)]),
        ((2, 3, 2, 3, 2), [(0, 2, 1), (1, 3, 1), (0, 2, 1), (0, 3, 2), (1, 2, 1)]),
        ((2, 2, 2, 2, 3, 2), [(0, 2, 1), *[(1, 2, 1)] * 3, (0, 3, 2), (0, 2, 1)]),
        ((n,), [(0, n, 1)]),
        ((n, 5), [(0, n, 1), (1, 3, 1)]),
        ((n, 17), [(0, n, 1), (0, 17, 2)]),
        ((4, n), [(1, 4, 2), (0, n, 1)]),
        ((3, n, 5), [(1, 2, 1), (0, n, 1), (0, 4, 1)]),
        ((n, 0), [(0, n, 1), (0, 0, 1)]),
    ]
    for dims, axes in cuts:
        starts, stops, steps = (a[0] for a in axes), (a[1] for a in axes), (a[2] for a in axes)
        yield (dims,), SliceParams(tuple(starts), tuple(stops), tuple(steps))


def pads(n: Symbol) -> Iterable[Use]:
    """Every operand with low, high and inner amounts along each axis."""
    amounts: list[tuple[Dims, Sequence[tuple[int, int, int]], float]] = [
        ((), (), 0.0),
        ((1,), [(0, 0, 0)], 0.0),
        ((1,), [(2, 3, 4)], 1.5),
        ((0,), [(0, 0, 3)], 1.0),
        ((0,), [(2, 1, 3)], -2.0),
        ((7,), [(1, 0, 0)], 0.0),
        ((7,), [(0, 2, 0)], -0.0),
        ((7,), [(0, 0, 2)], 0.0),
        ((7,), [(3, 1, 1)], 3.0),
        ((97,), [(3, 5, 0)], 0.0),
        ((97,), [(1, 0, 2)], 1.0),
        ((1031,), [(9, 0, 0)], 0.0),
        ((3, 5), [(1, 2, 0), (0, 0, 0)], 0.0),
        ((3, 5), [(1, 1, 0), (2, 2, 0)], 1.0),
        ((3, 5), [(0, 1, 1), (1, 0, 2)], -1.0),
        ((3, 0), [(1, 0, 0), (0, 2, 0)], 7.0),
        ((33, 65), [(1, 0, 1), (3, 4, 0)], 0.0),
        ((2, 3, 5), [(0, 0, 0), (1, 1, 0), (0, 0, 0)], 0.0),
        ((2, 1, 3, 1, 2, 2), [(0, 1, 0), *[(0, 0, 0)] * 2, (1, 1, 0), (0, 0, 1), (2, 0, 0)], 0.0),
        ((n,), [(0, 0, 0)], 0.0),
        ((n, 5), [(0, 0, 0), (1, 2, 0)], 0.0),
        ((n, 5), [(0, 0, 0), (0, 0, 1)], 2.0),
        ((4, n), [(1, 1, 1), (0, 0, 0)], 0.0),
        ((2, n, 3), [(1, 0, 0), (0, 0, 0), (0, 1, 0)], 0.0),
    ]
    for dims, axes, value in amounts:
        low, high, inner = (tuple(a[i] for a in axes) for i in range(3))
        yield (dims,), PadParams(low, high, inner, value)


def concats(n: Symbol) -> Iterable[Use]:
    """One to four operands along every axis."""
    joined: list[tuple[int, Sequence[Dims]]] = [
        (0, [(1,)]),
        (0, [(1,), (1,)]),
        (0, [(0,), (0,)]),
        (0, [(7,), (0,), (3,)]),
        (0, [(97,), (11,)]),
        (0, [(1031,), (1,), (37,)]),
        (0, [(3, 5), (1, 5), (2, 5)]),
        (1, [(3, 5), (3, 1), (3, 2)]),
        (1, [(0, 5), (0, 2)]),
        (1, [(33, 65), (33, 17)]),
        (1, [(2, 3, 5), (2, 1, 5), (2, 0, 5), (2, 2, 5)]),
        (2, [(2, 3, 5), (2, 3, 4)]),
        (3, [(2, 1, 2, 1, 2, 2), (2, 1, 2, 3, 2, 2)]),
        (1, [(n, 5), (n, 3)]),
        (0, [(4, n), (3, n)]),
        (2, [(2, n, 3), (2, n, 1), (2, n, 17)]),
        (0, [(2, n, 3), (1, n, 3)]),
        (1, [(n, 0), (n, 4)]),
    ]
    for axis, operands in joined:
        yield tuple(operands), ConcatParams(axis)


def reverses(n: Symbol) -> Iterable[Use]:
    """Rank 0 to 6, one axis backwards, several, all, none."""
    turned: list[tuple[Dims, tuple[int, ...]]] = [
        ((), ()),
        ((1,), (0,)),
        ((0,), (0,)),
        ((7,), (0,)),
        ((7,), ()),
        ((37,), (0,)),
        ((1031,), (0,)),
        ((3, 5), (0,)),
        ((3, 5), (1,)),
        ((3, 5), (0, 1)),
        ((0, 5), (1,)),
        ((19, 1), (0, 1)),
        ((33, 65), (0,)),
        ((33, 65), (1,)),
        ((2, 3, 5), (0, 2)),
        ((2, 3, 5), (1,)),
        ((2, 1, 2, 3, 2, 2), (0, 3, 5)),
        ((n,), (0,)),
        ((n, 5), (0,)),
        ((n, 5), (1,)),
        ((3, n), (0, 1)),
        ((2, n, 3), (1,)),
        ((2, n, 17), (0, 1, 2)),
    ]
    for dims, axes in turned:
        yield (dims,), ReverseParams(axes)


_WALKS: tuple[tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]], ...] = (
    # before, walked extents, sizes, strides; the axes after are added below
    ((), (1,), (1,), (1,)),
    ((), (7,), (1,), (1,)),
    ((), (7,), (3,), (1,)),
    ((), (7,), (3,), (2,)),
    ((), (7,), (2,), (3,)),
    ((), (7,), (7,), (1,)),
    ((), (8,), (3,), (4,)),
    ((), (97,), (5,), (1,)),
    ((2,), (7,), (3,), (1,)),
    ((), (5, 7), (2, 3), (1, 1)),
    ((), (5, 7), (2, 3), (2, 2)),
    ((2,), (6, 5), (2, 2), (2, 2)),
    ((3,), (4, 4), (3, 3), (1, 1)),
    ((0,), (5, 4), (2, 2), (1, 2)),
    ((), (3, 4, 3), (2, 2, 2), (1, 2, 1)),
)


def _walked(n: Symbol) -> Iterable[Walk]:
    afters: tuple[Dims, ...] = ((), (3,), (17,), (2, 1), (0,))
    for i, (before, extents, sizes, strides) in enumerate(_WALKS):
        yield tuple(before), tuple(extents), sizes, strides, afters[i % len(afters)]
        yield (*before, n), tuple(extents), sizes, strides, ((), (2,))[i % 2]
        if len(extents) < 3:
            yield tuple(before), tuple(extents), sizes, strides, (n,)


def patches(n: Symbol) -> Iterable[Use]:
    """One to three walked axes, apart and overlapping, with gaps and rests."""
    for before, extents, sizes, strides, after in _walked(n):
        params = PatchesParams(len(before), tuple(sizes), tuple(strides))
        yield ((*before, *extents, *after),), params


def overlap_adds(n: Symbol) -> Iterable[Use]:
    """The same put back."""
    for before, extents, sizes, strides, after in _walked(n):
        numbers = zip(extents, sizes, strides, strict=True)
        places = [(e - s) // t + 1 for e, s, t in numbers]
        params = OverlapAddParams(len(before), extents, tuple(strides))
        yield ((*before, *places, *sizes, *after),), params
