"""Convolutions whose result for one image is cut into parts: as defined, and the same bits."""

from __future__ import annotations

from dataclasses import replace
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
from graphc.ops.convolution import CONV
from graphc.ops.schedules import ConvSchedule
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from graphc.passes.split_work import image_parts
from graphc.runtime.signature import Signature
from tests.support.compiling import JUDGED, call, load_backend, parse
from tests.support.guarded_child import exit_code_guarded
from tests.support.guarded_memory import SIDES, Side
from tests.support.native import random_arguments, runnable_targets

PADDED = """
dim N <= 5
func @f(%x: tensor<Nx13x9x3xf32> input, %w: tensor<3x4x3x12xf32> parameter)
    -> (y: tensor<Nx7x8x12xf32>) {
  %y = conv %x, %w {axis = 1, strides = [2, 1], low = [1, 0], high = [1, 2]}
    : tensor<Nx7x8x12xf32>
  return %y
}
"""
BLOCKS = """
dim N <= 5
func @f(%x: tensor<Nx9x6x2xf32> input, %w: tensor<6x3x2x2x16xf32> parameter)
    -> (y: tensor<Nx7x5x96xf32>) {
  %y = conv %x, %w {axis = 1, strides = [1, 1], block = 16} : tensor<Nx7x5x96xf32>
  return %y
}
"""
SIGNAL = """
dim N <= 5
func @f(%x: tensor<Nx9x3xf32> input, %w: tensor<4x3x6xf32> parameter) -> (y: tensor<Nx8x6xf32>) {
  %y = conv %x, %w {axis = 1, strides = [1], low = [2], high = [0]} : tensor<Nx8x6xf32>
  return %y
}
"""
TEXTS = {"padded": PADDED, "blocks": BLOCKS, "signal": SIGNAL}
PARTS = [
    ("padded", (7, 1)),
    ("padded", (3, 4)),
    ("padded", (1, 12)),
    ("blocks", (4, 3)),
    ("blocks", (1, 6)),
    ("signal", (1, 2)),
]


def planned(name: str, parts: tuple[int, int]) -> Module:
    """With the result of an image in so many parts, and read back from its text."""
    module = parse(TEXTS[name])
    for op in walk(module.functions[0]):
        if op.opdef is CONV and parts != (1, 1):
            op.schedule = ConvSchedule("images", 1, column_parts=parts[0], feature_parts=parts[1])
    passes = pipeline("choose-schedule,plan-memory")
    PassManager(passes, verify=True).run(module, default_context())
    return parse(print_module(module))


@cache
def compiled_for(
    backend: str, name: str, parts: tuple[int, int]
) -> tuple[CompiledFunction, Signature] | str:
    loaded = load_backend(backend)
    if isinstance(loaded, str):
        return loaded
    module = planned(name, parts)
    (function,) = module.functions
    signature = make_signature(module, function)
    return loaded.compile(function, signature), signature


def result(
    backend: str, name: str, parts: tuple[int, int], samples: int, threads: int = 1
) -> np.ndarray:
    """What a call gives, from standard normal numbers."""
    found = compiled_for(backend, name, parts)
    if isinstance(found, str):
        pytest.skip(found)
    compiled, signature = found
    if isinstance(compiled, NativeFunction):
        compiled.threads = threads
    sizes = {"N": samples}
    return call(compiled, signature, random_arguments(signature, sizes), sizes)["y"]


@pytest.mark.parametrize(("name", "parts"), PARTS)
@pytest.mark.parametrize("backend", JUDGED)
def test_parts_compute_what_is_defined(backend: str, name: str, parts: tuple[int, int]) -> None:
    module = planned(name, parts)
    (function,) = module.functions
    signature = make_signature(module, function)
    for samples in (0, 1, 5):
        sizes = {"N": samples}
        expected = evaluate(function, random_arguments(signature, sizes), sizes)["y"]
        got = result(backend, name, parts, samples)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "parts"), PARTS)
@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_neither_parts_nor_threads_change_a_bit(
    backend: str, name: str, parts: tuple[int, int]
) -> None:
    for samples in (1, 5):
        whole = result("llvm", name, (1, 1), samples)
        for threads in (1, 2, 3, 8):
            np.testing.assert_array_equal(result(backend, name, parts, samples, threads), whole)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("name", "parts"), PARTS)
def test_nothing_is_touched_outside_the_arrays(
    name: str, parts: tuple[int, int], side: Side
) -> None:
    module = planned(name, parts)
    for op in walk(module.functions[0]):
        if isinstance(op.schedule, ConvSchedule):  # tiles are those of the target
            op.schedule = replace(op.schedule, lanes=0, columns=0, tiles=())
    (function,) = module.functions
    signature = make_signature(module, function)
    given = random_arguments(signature, {"N": 3})
    for target in runnable_targets():
        assert exit_code_guarded(function, signature, target, given, {"N": 3}, side) == 0


def test_every_image_has_a_copy_with_zeros_of_its_own() -> None:
    (conv,) = (op for op in walk(planned("padded", (3, 4)).functions[0]) if op.opdef is CONV)
    assert [str(w.type) for w in conv.workspace] == ["tensor<5x15x11x3xf32>"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("parallel = \"images\", chunk = 1, column_parts = 8", "1 to 7 parts of columns, got 8"),
        ("parallel = \"images\", chunk = 1, column_parts = 0", "1 to 7 parts of columns, got 0"),
        ("parallel = \"images\", chunk = 1, feature_parts = 5", "divide 12, got 5"),
        ("parallel = \"images\", chunk = 2, feature_parts = 2", "in chunks of 1 image"),
        ("column_parts = 2", "in chunks of 1 image"),
    ],
)  # fmt: skip
def test_parts_that_there_cannot_be(text: str, problem: str) -> None:
    context = default_context()
    module = parse_module(
        PADDED.replace("high = [1, 2]}", f"high = [1, 2]}} schedule {{{text}}}"), context
    )
    verify_module(module, context.sink)
    (found,) = context.sink.diagnostics
    assert problem in found.message


@pytest.mark.parametrize(
    ("image", "window", "features", "parts"),
    [
        ((55, 55, 64), 3, 64, (16, 1)),  # the image is larger than the weights
        ((7, 7, 512), 3, 512, (1, 16)),
        ((28, 28, 128), 5, 128, (4, 4)),
        ((14, 14, 256), 5, 33, (7, 1)),  # no whole lines of features
        ((8, 8, 16), 5, 32, (1, 1)),  # too little work
    ],
)
def test_the_smaller_factor_is_read_again(
    image: tuple[int, int, int], window: int, features: int, parts: tuple[int, int]
) -> None:
    width, height, channels = image
    low = window // 2
    module = parse(f"""
func @f(%x: tensor<1x{width}x{height}x{channels}xf32> input,
        %w: tensor<{window}x{window}x{channels}x{features}xf32> parameter)
    -> (y: tensor<1x{width}x{height}x{features}xf32>) {{
  %y = conv %x, %w {{axis = 1, strides = [1, 1], low = [{low}, {low}], high = [{low}, {low}]}}
    : tensor<1x{width}x{height}x{features}xf32>
  return %y
}}
""")
    (conv,) = (op for op in walk(module.functions[0]) if op.opdef is CONV)
    PassManager(pipeline("split-work"), verify=True).run(module, default_context())
    schedule = conv.schedule_as(ConvSchedule)
    assert (schedule.column_parts, schedule.feature_parts) == parts
    assert image_parts(conv, 0.0) == (1, 1)
