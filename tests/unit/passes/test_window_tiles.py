"""Tiles of convolutions on a GPU: what is chosen reads back, and what cannot be is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphc.ir.core import Module
from graphc.ir.machine import GPUS, MACHINES
from graphc.ir.printer import print_module
from graphc.ops import default_context
from graphc.ops.schedules import ConvSchedule, WeightGradSchedule
from graphc.passes import pipeline
from graphc.passes.analysis.window_products import product_of
from graphc.passes.analysis.window_tiles import matrix_of
from graphc.passes.choose_schedule import choose_schedules
from graphc.passes.manager import PassManager
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import parse

GPU = GPUS["sm_90"]


def conv(schedule: str = "", images: int = 9) -> Module:
    shown = f" schedule {schedule}" if schedule else ""
    return parse(f"""
dim N <= {images}
func @f(%x: tensor<Nx8x6x3xf32> input, %w: tensor<3x3x3x10xf32> parameter,
        %dy: tensor<Nx4x3x10xf32> input) -> (y: tensor<Nx4x3x10xf32>, dw: tensor<3x3x3x10xf32>) {{
  %y = conv %x, %w {{axis = 1, strides = [2, 2], low = [1, 1], high = [0, 0]}}{shown}
    : tensor<Nx4x3x10xf32>
  %dw = conv.weight_grad %x, %dy
    {{axis = 1, sizes = [3, 3], strides = [2, 2], low = [1, 1], high = [0, 0]}}
    : tensor<3x3x3x10xf32>
  return %y, %dw
}}
""")


def planned(module: Module) -> Module:
    PassManager(pipeline("plan-memory"), verify=True).run(module, default_context())
    return module


def test_what_is_chosen_reads_back_and_stays() -> None:
    module = conv()
    assert choose_schedules(module.functions[0], GPU) == 2
    text = print_module(planned(module))
    again = parse(text)
    assert print_module(again) == text
    assert choose_schedules(again.functions[0], GPU) == 0


def test_gpus_of_an_architecture_compute_the_same_parts() -> None:
    texts: set[str] = set()
    for multiprocessors in (1, 78, 132):
        module = conv(images=1000)
        choose_schedules(module.functions[0], replace(GPU, multiprocessors=multiprocessors))
        texts.add(print_module(module))
    assert len(texts) == 1
    assert "part = " in texts.pop()


def test_zeros_around_images_need_memory_on_a_processor_only() -> None:
    module = conv()
    assert print_module(planned(module)).count(" workspace ") == 2
    module = conv()
    choose_schedules(module.functions[0], GPU)
    assert " workspace " not in print_module(planned(module))


@pytest.mark.parametrize("images", [1, 100, 100_000])
def test_long_sums_of_few_elements_go_in_parts_that_cover_them(images: int) -> None:
    module = conv(images=images)
    choose_schedules(module.functions[0], GPU)
    of_result, of_weights = [op for op in module.functions[0].block if op.operands][:2]
    assert isinstance(of_result.schedule, ConvSchedule)
    assert isinstance(of_weights.schedule, WeightGradSchedule)
    assert of_result.schedule.grid is not None
    assert of_weights.schedule.grid is not None
    assert of_result.schedule.grid.part == 0
    assert bool(of_weights.schedule.grid.part) == (images > 1)
    part = of_weights.schedule.grid.part
    assert part <= matrix_of(product_of(of_weights)).steps


@pytest.mark.parametrize(
    ("tile", "message"),
    [
        (
            "rows = 96, columns = 64, depth = 16, stages = 4",
            "`grid` requires rows x columns out of 128 x 128, 128 x 64, 64 x 64, 128 x 32, "
            "64 x 32, 32 x 32, 128 x 16, 64 x 16, 32 x 16, got 96 x 64",
        ),
        (
            "rows = 64, columns = 64, depth = 24, stages = 4",
            "`grid` requires a depth out of 8, 16, 32, 64, got 24",
        ),
        (
            "rows = 64, columns = 64, depth = 16, stages = 1",
            "`grid` requires 2 to 8 stages, got 1",
        ),
        (
            "rows = 64, columns = 64, depth = 16, stages = 4, part = 100",
            "`grid` requires parts of a multiple of 256 steps, got 100",
        ),
    ],
)
def test_a_tile_that_cannot_be_is_refused(tile: str, message: str) -> None:
    with pytest.raises(GraphcError) as caught:
        PassManager([], verify=True).run(conv(f"{{grid = {{{tile}}}}}"), default_context())
    assert message in str(caught.value)


def test_a_schedule_for_a_gpu_is_no_processors() -> None:
    module = conv("{grid = {rows = 64, columns = 64, depth = 16, stages = 4}}")
    with pytest.raises(GraphcError, match="`conv` has a schedule for a GPU"):
        choose_schedules(module.functions[0], MACHINES["x86-64-v3"])
