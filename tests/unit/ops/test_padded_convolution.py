"""Convolutions with zeros around the images, however they are cut: on every backend, as defined."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from graphc.backends.base import CompiledFunction
from graphc.backends.native import NativeFunction
from graphc.backends.signature import make_signature
from graphc.ir.core import Module
from graphc.ir.evaluate import evaluate
from graphc.ir.parser import parse_module
from graphc.ir.printer import print_module
from graphc.ir.traversal import walk
from graphc.ir.verifier import verify_module
from graphc.ops import default_context
from graphc.ops.convolution import CONV_WEIGHT_GRAD
from graphc.ops.schedules import ConvSchedule, WeightGradSchedule
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from graphc.runtime.signature import Signature
from tests.support.compiling import JUDGED, call, load_backend, parse
from tests.support.guarded_child import exit_code_guarded
from tests.support.guarded_memory import SIDES, Side
from tests.support.native import random_arguments, runnable_targets

TOLERANCE = {"f32": 1e-4, "f64": 1e-11}  # of sums of up to a thousand products

PLANE = """
dim N <= 9
func @f(%x: tensor<Nx7x9x3xf32> input, %w: tensor<3x4x3x10xf32> parameter,
        %v: tensor<3x10x4x3xf32> parameter, %dy: tensor<Nx4x8x10xf32> input)
    -> (y: tensor<Nx4x8x10xf32>, dx: tensor<Nx7x9x3xf32>, dw: tensor<3x4x3x10xf32>) {
  %y = conv %x, %w {axis = 1, strides = [2, 1], low = [1, 0], high = [1, 2]}
    : tensor<Nx4x8x10xf32>
  %dx = conv.data_grad %dy, %v
    {axis = 1, extents = [7, 9], strides = [2, 1], low = [1, 0], high = [1, 2]}
    : tensor<Nx7x9x3xf32>
  %dw = conv.weight_grad %x, %dy
    {axis = 1, sizes = [3, 4], strides = [2, 1], low = [1, 0], high = [1, 2]}
    : tensor<3x4x3x10xf32>
  return %y, %dx, %dw
}
"""
SIGNAL = """
dim N <= 9
func @f(%x: tensor<Nx2x9x3xf32> input, %w: tensor<4x3x5xf32> parameter,
        %v: tensor<5x4x3xf32> parameter, %dy: tensor<Nx2x8x5xf32> input)
    -> (y: tensor<Nx2x8x5xf32>, dx: tensor<Nx2x9x3xf32>, dw: tensor<4x3x5xf32>) {
  %y = conv %x, %w {axis = 2, strides = [1], low = [2], high = [0]} : tensor<Nx2x8x5xf32>
  %dx = conv.data_grad %dy, %v {axis = 2, extents = [9], strides = [1], low = [2], high = [0]}
    : tensor<Nx2x9x3xf32>
  %dw = conv.weight_grad %x, %dy {axis = 2, sizes = [4], strides = [1], low = [2], high = [0]}
    : tensor<4x3x5xf32>
  return %y, %dx, %dw
}
"""
SHAPES = {"plane": PLANE, "signal": SIGNAL}

Schedules = tuple[ConvSchedule, WeightGradSchedule]
WHOLE: Schedules = ConvSchedule(), WeightGradSchedule()
CUT: dict[str, Schedules] = {
    "an image each": (ConvSchedule("images", 1), WeightGradSchedule("images", 1)),
    "four images": (ConvSchedule("images", 4), WeightGradSchedule("images", 4)),
    "all in one chunk": (ConvSchedule("images", 99), WeightGradSchedule("images", 99)),
    "rows of weights": (ConvSchedule("images", 2), WeightGradSchedule("rows", 6)),
}


def planned(text: str, schedules: Schedules) -> Module:
    """With these schedules, and read back from its text."""
    module = parse(text)
    for op in walk(module.functions[0]):
        if op.opdef.workspace is not None:
            op.schedule = schedules[op.opdef is CONV_WEIGHT_GRAD]
    PassManager(pipeline("plan-memory"), verify=True).run(module, default_context())
    return parse(print_module(module))


@cache
def compiled_for(
    backend: str, text: str, schedules: Schedules
) -> tuple[CompiledFunction, Signature] | str:
    """Once for all calls; or why the backend cannot be used here."""
    loaded = load_backend(backend)
    if isinstance(loaded, str):
        return loaded
    module = planned(text, schedules)
    (function,) = module.functions
    signature = make_signature(module, function)
    return loaded.compile(function, signature), signature


def results(
    backend: str, text: str, schedules: Schedules, samples: int, threads: int = 1
) -> dict[str, np.ndarray]:
    """What a call gives, from standard normal numbers."""
    found = compiled_for(backend, text, schedules)
    if isinstance(found, str):
        pytest.skip(found)
    compiled, signature = found
    if isinstance(compiled, NativeFunction):
        compiled.threads = threads
    sizes = {"N": samples}
    return call(compiled, signature, random_arguments(signature, sizes), sizes)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("cut", ["whole", *CUT])
@pytest.mark.parametrize("backend", JUDGED)
def test_all_three_are_what_they_mean(backend: str, cut: str, dtype: str, shape: str) -> None:
    text, schedules = SHAPES[shape].replace("f32", dtype), CUT.get(cut, WHOLE)
    module = parse(text)
    (function,) = module.functions
    for samples in (0, 1, 2, 5, 9):
        sizes = {"N": samples}
        given = random_arguments(make_signature(module, function), sizes)
        expected = evaluate(function, given, sizes)
        got = results(backend, text, schedules, samples)
        for name, value in expected.items():
            np.testing.assert_allclose(
                got[name], value, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], err_msg=name
            )


@pytest.mark.parametrize("cut", CUT)
@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_the_bits_are_the_same_for_any_number_of_threads(backend: str, cut: str) -> None:
    for samples in (0, 1, 9):
        alone = results(backend, PLANE, CUT[cut], samples)
        for threads in (2, 3, 8):
            together = results(backend, PLANE, CUT[cut], samples, threads)
            for name, value in alone.items():
                np.testing.assert_array_equal(together[name], value, err_msg=f"{name}, {threads}")


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("cut", ["whole", *CUT])
def test_nothing_is_touched_outside_the_arrays(cut: str, side: Side) -> None:
    module = planned(PLANE, CUT.get(cut, WHOLE))
    (function,) = module.functions
    signature = make_signature(module, function)
    given = random_arguments(signature, {"N": 9})
    for target in runnable_targets():
        code = exit_code_guarded(function, signature, target, given, {"N": 9}, side)
        assert code == 0, target.isa


def workspaces(schedules: Schedules) -> list[list[str]]:
    """The types of the workspace of each of the three."""
    ops = walk(planned(PLANE, schedules).functions[0])
    return [[str(w.type) for w in op.workspace] for op in ops if op.opdef.workspace is not None]


def test_each_chunk_has_an_image_and_sums_of_its_own() -> None:
    image = ["tensor<1x9x11x3xf32>"]
    assert workspaces(WHOLE) == [image, image, image]
    images = ["tensor<3x9x11x3xf32>"]
    assert workspaces(CUT["four images"]) == [images, images, [*images, "tensor<3x3x4x3x10xf32>"]]
    assert workspaces(CUT["rows of weights"])[2] == ["tensor<6x9x11x3xf32>"]


def test_without_zeros_around_the_images_only_sums_need_memory() -> None:
    line = "conv.weight_grad %x, %dy {axis = 1, sizes = [2], strides = [1]}"
    text = f"""
func @f(%x: tensor<4x5x3xf32> input, %dy: tensor<4x4x2xf32> input) -> (w: tensor<2x3x2xf32>) {{
  %w = {line} schedule {{parallel = "images", chunk = 3}} : tensor<2x3x2xf32>
  return %w
}}
"""
    module = parse(text)
    PassManager(pipeline("plan-memory"), verify=True).run(module, default_context())
    assert "at result:0 workspace tensor<2x2x3x2xf32> at arena:0 :" in print_module(module)


def test_a_workspace_of_another_schedule_is_an_error() -> None:
    text = print_module(planned(PLANE, CUT["four images"]))
    context = default_context()
    edited = parse_module(text.replace("chunk = 4", "chunk = 2", 1), context)
    assert not context.sink.has_errors
    verify_module(edited, context.sink)
    (problem,) = context.sink.diagnostics
    assert "requires a workspace of tensor<5x9x11x3xf32>, got tensor<3x9x11x3" in problem.message
