"""Which way products are computed, from what is known of their extents."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from graphc.ir.machine import MACHINES, Machine
from graphc.ir.types import DType
from graphc.ops.contraction import STRETCH
from graphc.ops.schedules import Tiling
from graphc.passes.analysis.product_schedules import misfit
from graphc.passes.analysis.product_tiles import (
    UNBOUNDED,
    ProductForm,
    ProductRange,
    choose_tiling,
    panel_schedule,
)
from graphc.passes.analysis.schedules import complete_schedule
from tests.support.compiling import parse

V3 = MACHINES["x86-64-v3"]
V4 = MACHINES["x86-64-v4"]


def rows_of(m: int | None, n: int, k: int, *, b_transposed: bool = False) -> ProductRange:
    pitch = k if b_transposed else n
    return ProductRange(DType.F32, m, n, k, pitch, m or UNBOUNDED, k, b_transposed=b_transposed)


def tiling(m: int | None, n: int, k: int, *, b_transposed: bool = False) -> Tiling:
    return choose_tiling(V3, rows_of(m, n, k, b_transposed=b_transposed))


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_few_rows_transpose_b_unless_its_rows_share_lines_of_a_cache(rows: int) -> None:
    assert tiling(rows, 512, 1000, b_transposed=True).b == "transposed by tiles"
    assert tiling(rows, 512, 1024, b_transposed=True).b == "packed"


def test_blocks_grow_with_the_caches_and_stay_small_on_the_stack() -> None:
    whole = rows_of(4096, 4096, 8192)

    def of(l1: int, l2: int, *, a_transposed: bool = False) -> Tiling:
        return choose_tiling(replace(V3, l1=l1, l2=l2), replace(whole, a_transposed=a_transposed))

    small, large, huge = of(32768, 524288), of(49152, 2 << 20), of(1 << 20, 1 << 30)
    assert small.depth < large.depth < huge.depth <= 49152 // 64
    assert small.block * small.depth * 4 <= 262144 < large.block * large.depth * 4
    packed = of(1 << 20, 1 << 30, a_transposed=True)
    assert packed.block * packed.depth * 4 <= 131072
    tiny = of(1024, 2048)
    assert tiny.block >= tiny.rows >= 3


@pytest.mark.parametrize(("rows", "machine", "block"), [(256, V3, 90), (252, V3, 0), (256, V4, 0)])
def test_blocks_are_smaller_where_b_lies_in_panels_and_vectors_are_short(
    rows: int, machine: Machine, block: int
) -> None:
    """A quarter of 512 KB are 128 rows of 256 steps."""
    (function,) = parse(f"""dim N <= {rows}
func @f(%x: tensor<Nx512xf32> input, %w: tensor<512x512xf32> parameter) -> (y: tensor<Nx512xf32>) {{
  %y = gemm %x, %w : tensor<Nx512xf32>
  return %y
}}
""").functions
    op = function.block.first
    assert op is not None
    op.schedule = complete_schedule(op, machine)
    made = panel_schedule(op, machine)
    assert made is not None and made.tile is not None
    assert made.tile.block == block


def test_no_more_rows_of_a_share_lines_of_a_cache_than_it_has_ways() -> None:
    def rows(m: int, k: int, machine: Machine = V4, *, a_transposed: bool = False) -> int:
        return choose_tiling(machine, replace(rows_of(m, 256, k), a_transposed=a_transposed)).rows

    assert [rows(128, k) for k in (1000, 1024, 1040, 512, 2048)] == [12, 8, 12, 12, 8]
    assert rows(128, 1024, replace(V4, l1=45056)) == 11
    assert rows(128, 1024, V3) == 6
    assert rows(128, 1024, a_transposed=True) == 12
    assert rows(12, 1024) == 12


def test_tiles_that_copy_a_b_from_far_away_are_wider() -> None:
    def shape(n: int) -> tuple[int, int]:
        tiling = choose_tiling(V4, rows_of(128, n, 1000))
        return tiling.rows, tiling.vectors

    assert [shape(n) for n in (512, 528)] == [(12, 2), (6, 4)]  # 2.05 and 2.11 MB


def test_tiles_are_wide_where_loads_bind() -> None:
    def shape(m: int, n: int, k: int, **more: bool) -> tuple[int, int]:
        tiling = choose_tiling(replace(V4, l1=49152), replace(rows_of(m, n, k), **more))
        return tiling.rows, tiling.vectors

    assert shape(256, 512, 784) == shape(256, 512, 784, b_transposed=True) == (8, 3)
    assert shape(256, 96, 784, b_transposed=True) == (8, 3)
    # Much would be left over at the right; few rows; short sums; packed rows of A.
    others = [(256, 100, 784), (31, 512, 784), (256, 512, 127)]
    assert {shape(*dims, b_transposed=True) for dims in others} == {(12, 2)}
    assert shape(256, 512, 784, a_transposed=True) == (12, 2)
    assert shape(256, 512, 1032, a_transposed=True) == (8, 3)  # a B of 2.1 MB


def test_a_tile_of_few_rows_has_more_vectors_unless_a_panel_would_not_stay_near() -> None:
    b_transposed, as_stored = (
        [tiling(rows, 512, 1024, b_transposed=b_transposed).vectors for rows in (1, 2, 3, 4)]
        for b_transposed in (True, False)
    )
    assert b_transposed == [3, 3, 3, 2]
    assert as_stored == [8, 5, 3, 3]


@pytest.mark.parametrize("machine", [V3, V4], ids=["v3", "v4"])
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_panels_of_few_rows_are_about_as_wide_as_each_other(rows: int, machine: Machine) -> None:
    for n in range(16, 1300, 13):
        made = choose_tiling(machine, rows_of(rows, n, 300))
        width = made.vectors * made.lanes
        panels = -(-n // width)
        assert panels * width - n < panels * made.lanes


def test_rows_known_at_the_call_are_as_few_as_their_bound() -> None:
    for most in (2, 3, 10, 12):
        static = rows_of(most, 300, 300)
        assert choose_tiling(V4, replace(static, m=None)) == choose_tiling(V4, static)
    assert choose_tiling(V4, replace(rows_of(13, 300, 300), m=None)).b == "packed by tiles"


def test_a_c_that_no_near_cache_holds_is_fetched_before_its_sums() -> None:
    form = ProductForm(DType.F32, 350, 10_000, 200, transpose_a=False, transpose_b=False)
    # Chunks are parts of the same C, a body takes it from a near cache.
    chunk = replace(form, split="cols", part=128)
    near = [replace(form, n=100), replace(form, split="cols", part=128, pitch=128)]
    found = [choose_tiling(V4, f.call_range()).prefetch_c for f in (form, chunk, *near)]
    assert found == [True, True, False, False]
    assert not choose_tiling(V3, form.call_range()).prefetch_c


def test_few_rows_are_fetched_into_the_first_cache_with_long_vectors() -> None:
    levels = [choose_tiling(m, rows_of(2, 512, 300)).prefetch_level for m in (V3, V4)]
    assert levels == [2, 1]


@pytest.mark.parametrize("machine", MACHINES.values(), ids=list(MACHINES))
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("b_transposed", [False, True])
def test_a_panel_holds_all_of_k_or_whole_stretches_and_the_tiling_fits(
    b_transposed: bool, dtype: DType, machine: Machine
) -> None:
    extents = itertools.product((1, 2, 3, 50, None), (1, 9, 400, None), (10, 300, 1024, None))
    for (m, n, k), l1 in itertools.product(extents, (8192, 49152)):
        pitch = k if b_transposed else n
        x = ProductRange(dtype, m, n, k, pitch, 4096, 4096, b_transposed=b_transposed)
        made = choose_tiling(replace(machine, l1=l1), x)
        assert made.depth % STRETCH == 0 or (k is not None and made.depth >= k)
        assert misfit(made, x) == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lanes": 16, "vectors": 14}, "vectors that begin inside the 200 columns, got 14 of 16"),
        ({"depth": 100}, "a depth of all 300 steps or a multiple of 256, got 100"),
        ({"b": "packed"}, 'b = "in place" or "packed by tiles" for a B that is stored by rows'),
        ({"a": "packed"}, 'a depth, a block and an A that is stored by columns for a = "packed"'),
        ({"block": 50}, "a block of whole tiles of 6 rows, got 50"),
        ({"depth": 0, "b": "packed by tiles"}, "a panel of 1 to 1048576 bytes, got depth 0"),
    ],
)
def test_a_tiling_that_does_not_fit_is_told_what_is_required(
    change: dict[str, object], message: str
) -> None:
    x = rows_of(48, 200, 300)
    made = replace(choose_tiling(V3, x), **change)  # type: ignore[arg-type]  # names are above
    assert misfit(made, x).startswith(message)


def test_only_a_large_b_is_fetched_long_before_its_use() -> None:
    near, far = tiling(48, 200, 300), tiling(48, 200, 10_000)
    assert near.b == far.b == "packed by tiles"
    assert 0 < near.prefetch < far.prefetch


def test_short_rows_that_are_transposed_are_fetched_a_tile_before_their_use() -> None:
    made = tiling(1, 1200, 300, b_transposed=True)
    assert made.prefetch == made.vectors * made.lanes
    long = tiling(1, 1200, 1000, b_transposed=True)
    assert long.prefetch == 0  # the processor fetches rows so long itself
    assert tiling(1, 300, 300, b_transposed=True).prefetch == 0  # in a near cache anyway


def test_a_gradient_over_a_minibatch_is_summed_in_one_panel() -> None:
    assert tiling(10_000, 200, 350).depth >= 350
