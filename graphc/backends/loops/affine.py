"""Affine copies over flat memory: the loop nests that move elements, with their strides.

    box of a transposition [N, 3] -> [3, N]     loops      source   target
                                                3          1        N
                                                N          3        1

Neighbouring loops are merged where both sides stay contiguous, and loops of extent 1 are dropped.
The innermost loop is the one with stride 1 in the result, if there is one and the order is free.
Nothing here knows a backend or its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from graphc.ir.codegen import AffineCopy, AffineIndex, StridedCopy
from graphc.ir.elements import as_numbers, converted
from graphc.ir.params import Params
from graphc.ir.types import Dim, DType, TensorType, bound_of
from graphc.passes.analysis.loopnest import Size


@dataclass(frozen=True, slots=True)
class Distance:
    """A number of elements, possibly negative: a sum of sizes, no two of the same symbols."""

    sizes: tuple[Size, ...] = ()

    @staticmethod
    def of(sizes: Iterable[Size]) -> Distance:
        factors: dict[tuple[str, ...], int] = {}
        for size in sizes:
            factors[size.symbols] = factors.get(size.symbols, 0) + size.factor
        return Distance(tuple(Size(f, names) for names, f in sorted(factors.items()) if f))

    def plus(self, other: Distance) -> Distance:
        return Distance.of((*self.sizes, *other.sizes))

    def times(self, size: Size) -> Distance:
        return Distance.of(_product(own, size) for own in self.sizes)

    @property
    def number(self) -> int | None:
        """The number where it is the same in every call."""
        if not self.sizes:
            return 0
        (first, *rest) = self.sizes
        return None if rest or first.symbols else first.factor


def _product(a: Size, b: Size) -> Size:
    return Size(a.factor * b.factor, tuple(sorted((*a.symbols, *b.symbols))))


@dataclass(frozen=True, slots=True)
class Walk:
    """One loop: its extent, the bound of that, and the strides of source and target."""

    extent: Size
    bound: int
    source: Distance
    target: Distance


@dataclass(frozen=True, slots=True)
class CopyNest:
    """Elements of an operand to places of the result; `walks` from the outermost loop in.

    source, target   where the first element is read and written
    """

    operand: int
    source: Distance
    target: Distance
    walks: tuple[Walk, ...]

    def symbols(self) -> set[str]:
        """Names of the dimensions of the call that the nest asks for."""
        distances = [self.source, self.target]
        for walk in self.walks:
            distances += [walk.source, walk.target, Distance((walk.extent,))]
        return {name for d in distances for size in d.sizes for name in size.symbols}


def fill_of(how: StridedCopy, params: Params, dtype: DType) -> bool | int | float | None:
    """The value that the result is filled with before the copies; None where none is needed."""
    if how.fill is None and not how.adds:
        return None
    fill = how.fill(params) if how.fill is not None else 0.0
    return as_numbers(converted(np.full((), fill), dtype)).item()


def copy_nest(
    copy: AffineCopy, operand: TensorType, result: TensorType, *, in_order: bool
) -> CopyNest:
    """The loops of one copy; with `in_order` they are nested in the order of the box."""
    source, source_steps = steps_of(copy.source, operand.dims, len(copy.box))
    target, target_steps = steps_of(copy.target, result.dims, len(copy.box))
    walks = [
        Walk(Size.of((dim,)), bound_of(dim), a, b)
        for dim, a, b in zip(copy.box, source_steps, target_steps, strict=True)
        if dim != 1
    ]
    walks = _merged(walks)
    if not in_order:
        walks.sort(key=lambda walk: walk.target.number == 1)
    return CopyNest(copy.operand, source, target, tuple(walks))


def steps_of(
    places: Sequence[AffineIndex], dims: Sequence[Dim], rank: int
) -> tuple[Distance, list[Distance]]:
    """The offset of index 0 of the box in an array, and the stride of each index."""
    start, steps = Distance(), [Distance()] * rank
    stride = Distance((Size(),))
    for place, dim in zip(reversed(places), reversed(dims), strict=True):
        sign = -1 if place.backward else 1
        start = start.plus(stride.times(Size.of((place.start,)) * Size(sign)))
        if place.backward:
            start = start.plus(stride.times(Size.of((dim,)))).plus(stride.times(Size(-1)))
        for index, step in place.terms:
            steps[index] = steps[index].plus(stride.times(Size(sign * step)))
        stride = stride.times(Size.of((dim,)))
    return start, steps


def _merged(walks: Sequence[Walk]) -> list[Walk]:
    return reduce(_with_walk, walks, list[Walk]())


def _with_walk(outer: list[Walk], walk: Walk) -> list[Walk]:
    """The loops with one more inside, merged with the last where both sides stay contiguous."""
    if outer:
        last = outer[-1]
        goes_on = (walk.source.times(walk.extent), walk.target.times(walk.extent))
        if (last.source, last.target) == goes_on:
            extent = _product(last.extent, walk.extent)
            joined = Walk(extent, last.bound * walk.bound, walk.source, walk.target)
            return [*outer[:-1], joined]
    return [*outer, walk]
