"""Affine copies as loops over memory: strides, starts, joined loops, their order."""

from __future__ import annotations

from graphc.backends.loops.affine import CopyNest, Distance, copy_nest, fill_of
from graphc.ir.codegen import AffineCopy, AffineIndex, StridedCopy
from graphc.ir.params import NoParams
from graphc.ir.types import Dim, DType, Symbol, TensorType
from graphc.passes.analysis.loopnest import Size

N = Symbol("N", 8)


def nest(
    box: tuple[Dim, ...],
    source: tuple[tuple[Dim, AffineIndex], ...],
    target: tuple[tuple[Dim, AffineIndex], ...],
    *,
    in_order: bool = False,
) -> CopyNest:
    """The loops of one copy; extents and places of every axis of either side."""
    copy = AffineCopy(0, box, tuple(a for _, a in source), tuple(a for _, a in target))
    types = [TensorType(tuple(d for d, _ in side), DType.F32) for side in (source, target)]
    return copy_nest(copy, types[0], types[1], in_order=in_order)


def numbers(made: CopyNest) -> list[tuple[int, int | None, int | None]]:
    """Extent and distances of loops whose sizes are known."""
    return [(w.extent.factor, w.source.number, w.target.number) for w in made.walks]


def dim(index: int, step: int = 1, start: int = 0, *, backward: bool = False) -> AffineIndex:
    return AffineIndex(start, ((index, step),), backward)


def test_what_lies_alike_on_both_sides_is_one_loop() -> None:
    made = nest(
        (2, 3, 5), ((2, dim(0)), (3, dim(1)), (5, dim(2))), ((6, dim(0)), (3, dim(1)), (5, dim(2)))
    )
    assert numbers(made) == [(30, 1, 1)]


def test_an_extent_of_one_is_no_loop() -> None:
    made = nest(
        (2, 1, 3), ((2, dim(0)), (1, dim(1)), (3, dim(2))), ((3, dim(2)), (1, dim(1)), (2, dim(0)))
    )
    assert numbers(made) == [(3, 1, 2), (2, 3, 1)]


def test_the_loop_that_writes_neighbours_is_the_innermost() -> None:
    made = nest((2, 3), ((2, dim(0)), (3, dim(1))), ((3, dim(1)), (2, dim(0))))
    assert numbers(made) == [(3, 1, 2), (2, 3, 1)]


def test_sums_keep_the_order_of_the_box() -> None:
    made = nest((2, 3), ((2, dim(0)), (3, dim(1))), ((3, dim(1)), (2, dim(0))), in_order=True)
    assert numbers(made) == [(2, 3, 1), (3, 1, 2)]


def test_backwards_starts_at_the_end() -> None:
    made = nest(
        (4, 3), ((4, dim(0)), (5, dim(1, start=1, backward=True))), ((4, dim(0)), (3, dim(1)))
    )
    assert numbers(made) == [(4, 5, 3), (3, -1, 1)]
    assert made.source.number == 3


def test_windows_walk_an_axis_in_two_loops() -> None:
    both = AffineIndex(0, ((0, 2), (1, 1)))
    made = nest((3, 4), ((8, both),), ((3, dim(0)), (4, dim(1))))
    assert numbers(made) == [(3, 2, 4), (4, 1, 1)]


def test_distances_may_depend_on_the_call() -> None:
    made = nest((N, 3), ((3, dim(1)), (N, dim(0, backward=True))), ((N, dim(0)), (3, dim(1))))
    samples, columns = made.walks
    assert samples.extent == Size(1, ("N",))
    assert samples.bound == 8
    assert samples.source.number == -1
    assert columns.source == Distance((Size(1, ("N",)),))
    assert made.source == Distance((Size(-1), Size(1, ("N",))))
    assert made.symbols() == {"N"}


def test_sizes_that_cancel_leave_a_number() -> None:
    n = Distance((Size(3, ("N",)), Size(2)))
    assert n.number is None
    assert n.plus(Distance((Size(-3, ("N",)),))).number == 2
    assert Distance().number == 0


def test_a_fill_has_the_element_type() -> None:
    def fill(value: float, dtype: DType) -> bool | int | float | None:
        return fill_of(StridedCopy(lambda _p, _o, _r: [], lambda _p: value), NoParams(), dtype)

    assert fill(1.5, DType.F32) == 1.5
    assert fill(-1.5, DType.I32) == -1
    assert fill(2.0, DType.I1) is True
    assert fill_of(StridedCopy(lambda _p, _o, _r: []), NoParams(), DType.F32) is None
    assert fill_of(StridedCopy(lambda _p, _o, _r: [], adds=True), NoParams(), DType.F32) == 0.0
