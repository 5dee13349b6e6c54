"""Which way products are computed, from what is known of their extents."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from graphc.backends.llvm.target import TARGETS, Target
from graphc.backends.loops.blocking import UNCUT, Cuts, Extents, cuts_for
from graphc.backends.loops.tiles import STRETCH
from graphc.ir.types import DType


def cuts(m: int | None, n: int, k: int, *, turned: bool = False) -> Cuts:
    extents = Extents(m, n, k, k if turned else n, m or UNCUT, k)
    machine = TARGETS["x86-64-v3"].machine
    return cuts_for(machine, DType.F32, extents, by_columns=False, turned=turned)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_few_rows_turn_b_unless_its_rows_share_lines_of_a_cache(rows: int) -> None:
    assert cuts(rows, 512, 1000, turned=True).source == "turned by tiles"
    assert cuts(rows, 512, 1024, turned=True).source == "packed"


def test_blocks_grow_with_the_caches_and_stay_small_on_the_stack() -> None:
    extents = Extents(4096, 4096, 8192, 4096, 4096, 8192)

    def of(l1: int, l2: int, *, by_columns: bool = False) -> Cuts:
        machine = replace(TARGETS["x86-64-v3"].machine, l1=l1, l2=l2)
        return cuts_for(machine, DType.F32, extents, by_columns=by_columns, turned=False)

    small, large, huge = of(32768, 524288), of(49152, 2 << 20), of(1 << 20, 1 << 30)
    assert small.depth < large.depth < huge.depth <= 49152 // 64
    assert small.rows * small.depth * 4 <= 262144 < large.rows * large.depth * 4
    packed = of(1 << 20, 1 << 30, by_columns=True)
    assert packed.rows * packed.depth * 4 <= 131072
    assert of(1024, 2048).rows >= 6


def test_a_tile_of_few_rows_has_more_vectors_unless_a_panel_would_not_stay_near() -> None:
    turned, as_stored = (
        [len(cuts(rows, 512, 1024, turned=turned).tile.starts) for rows in (1, 2, 3, 4)]
        for turned in (True, False)
    )
    assert turned == [3, 3, 3, 2]
    assert as_stored == [8, 5, 3, 3]


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda t: t.isa)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("turned", [False, True])
def test_a_panel_holds_all_of_k_or_whole_stretches(
    turned: bool, dtype: DType, target: Target
) -> None:
    for m, k, l1 in itertools.product((1, 2, 3, 50, None), (10, 300, 1024, None), (8192, 49152)):
        extents = Extents(m, 400, k, 1024, UNCUT, UNCUT)
        machine = replace(target.machine, l1=l1)
        cut = cuts_for(machine, dtype, extents, by_columns=False, turned=turned)
        assert cut.depth % STRETCH == 0 or (k is not None and cut.depth >= k)
        assert cut.is_long == (min(cut.depth, k or UNCUT) > STRETCH)


def test_only_a_large_b_is_fetched_long_before_its_use() -> None:
    near, far = cuts(48, 200, 300), cuts(48, 200, 10_000)
    assert near.source == far.source == "packed by tiles"
    assert 0 < near.ahead < far.ahead


def test_short_rows_that_are_turned_are_fetched_a_tile_before_their_use() -> None:
    cut = cuts(1, 1200, 300, turned=True)
    assert cut.ahead == cut.tile.width
    assert cuts(1, 1200, 1000, turned=True).ahead == 0  # rows so long the processor fetches itself
    assert cuts(1, 300, 300, turned=True).ahead == 0  # in a near cache anyway


def test_a_gradient_over_a_minibatch_is_summed_in_one_panel() -> None:
    assert cuts(10_000, 200, 350).depth >= 350
