"""Which tiles are chosen for products on a GPU, and which are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphc.ir.machine import GPUS, GpuMachine
from graphc.ir.printer import print_module
from graphc.ops import default_context
from graphc.ops.schedules import GPU_TILES
from graphc.passes.analysis.gpu_products import (
    GpuProduct,
    choose_tiling,
    estimate,
    misfit,
)
from graphc.passes.choose_schedule import ChooseSchedule
from graphc.passes.manager import PassManager
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import parse

MACHINE = GPUS["sm_90"]


def product(m: int, n: int, k: int, itemsize: int = 4) -> GpuProduct:
    return GpuProduct(itemsize, 1, m, n, k, (False, False))


def text(schedule: str, k: int = 300, dtype: str = "f32") -> str:
    a, b, c = (f"tensor<{dims}x{dtype}>" for dims in (f"64x{k}", f"{k}x48", "64x48"))
    return (
        f"func @f(%a: {a} input, %b: {b} input) -> (y: {c}) {{\n"
        f"  %y = gemm %a, %b {schedule} : {c}\n  return %y\n}}\n"
    )


def scheduled(source: str) -> str:
    module = parse(source)
    PassManager([ChooseSchedule("sm_90")], verify=True).run(module, default_context())
    return print_module(module)


@pytest.mark.parametrize(
    ("sizes", "tile"),
    [((4096, 4096, 4096), (128, 128)), ((1, 512, 512), (4, 32)), ((512, 1, 512), (32, 4))],
)
def test_large_products_have_large_tiles_and_few_rows_or_columns_small_ones(
    sizes: tuple[int, int, int], tile: tuple[int, int]
) -> None:
    chosen = choose_tiling(product(*sizes), MACHINE)
    assert (chosen.rows, chosen.cols) == tile


def test_a_few_long_sums_are_split_and_many_are_not() -> None:
    assert choose_tiling(product(64, 64, 40000), MACHINE).split
    assert not choose_tiling(product(4096, 4096, 40000), MACHINE).split


@pytest.mark.parametrize("sizes", [(1, 1, 1), (0, 5, 0), (300, 70, 5000), (4096, 512, 512)])
@pytest.mark.parametrize("machine", GPUS.values(), ids=GPUS)
def test_what_is_chosen_fits_and_nothing_that_fits_is_estimated_shorter(
    sizes: tuple[int, int, int], machine: GpuMachine
) -> None:
    for itemsize in (4, 8):
        form = product(*sizes, itemsize)
        chosen = choose_tiling(form, machine)
        assert misfit(chosen, form, machine) == ""
        for rows, cols in GPU_TILES:
            other = replace(chosen, rows=rows, cols=cols)
            if not misfit(other, form, machine):
                assert estimate(chosen, form, machine) <= estimate(other, form, machine)


def test_a_schedule_is_printed_reads_back_and_stays() -> None:
    printed = scheduled(text(""))
    assert "schedule {grid = {rows = " in printed
    assert scheduled(printed) == printed
    forced = "schedule {grid = {rows = 64, cols = 32, depth = 16, stages = 3, split = true}}"
    assert forced in scheduled(text(forced))


@pytest.mark.parametrize(
    ("grid", "wanted"),
    [
        ("rows = 48, cols = 32, depth = 16, stages = 3", "rows x cols out of 128 x 128, "),
        ("rows = 32, cols = 32, depth = 24, stages = 3", "a depth out of 8, 16, 32, 64, got 24"),
        ("rows = 32, cols = 32, depth = 16, stages = 1", "2 to 8 stages, got 1"),
    ],
)
def test_a_number_that_no_tile_has_is_refused(grid: str, wanted: str) -> None:
    with pytest.raises(GraphcError, match="`grid` requires") as caught:
        PassManager([], verify=True).run(
            parse(text(f"schedule {{grid = {{{grid}}}}}")), default_context()
        )
    assert wanted in str(caught.value)


@pytest.mark.parametrize(
    ("grid", "k", "dtype", "wanted"),
    [
        (
            "rows = 32, cols = 32, depth = 16, stages = 3, split = true",
            256,
            "f32",
            "more than 256 steps of k where they are split, got at most 256",
        ),
        (
            "rows = 128, cols = 128, depth = 8, stages = 3",
            300,
            "f64",
            "a tile of at most 8192 sums, got 128 x 128",
        ),
        (
            "rows = 128, cols = 128, depth = 64, stages = 8",
            300,
            "f32",
            "at most 232448 bytes of shared memory, got ",
        ),
    ],
)
def test_a_tile_that_does_not_fit_the_product_is_refused(
    grid: str, k: int, dtype: str, wanted: str
) -> None:
    with pytest.raises(GraphcError, match="bad-schedule") as caught:
        scheduled(text(f"schedule {{grid = {{{grid}}}}}", k, dtype))
    assert wanted in str(caught.value)
