"""Convolutions, poolings and their gradients on the emulated device, against the references.

Each call is made in two orders of threads, with the same bits (`tests/support/cuda/functions.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from graphc.backends.cuda import pooling, windows
from graphc.backends.cuda.compiler import compile_text
from graphc.backends.cuda.source import write_source
from graphc.backends.signature import make_signature
from graphc.ir.core import ContractionMode, Function, Module
from graphc.ir.evaluate import evaluate
from graphc.ir.machine import GPUS, GpuMachine
from graphc.ops import default_context
from graphc.ops.schedules import WINDOW_TILES, ConvSchedule, WeightGradSchedule, WindowTile
from graphc.passes import pipeline
from graphc.passes.choose_schedule import choose_schedules
from graphc.passes.manager import PassManager
from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import call, parse
from tests.support.cuda.building import missing
from tests.support.cuda.functions import compile_together
from tests.support.cuda.tools import needs_nvrtc
from tests.support.native import random_arguments

GPU = GPUS["sm_90"]
Pair = tuple[int, int]
needs_emulator = pytest.mark.skipif(missing() != "", reason=missing() or "it is there")


@dataclass(frozen=True)
class Windows:
    """Images of some channels, N of them, and the windows over them."""

    image: tuple[int, int, int]
    sizes: Pair
    strides: Pair = (1, 1)
    features: int = 1
    low: Pair = (0, 0)
    high: Pair = (0, 0)
    block: int = 0
    bound: int = 4

    @property
    def places(self) -> Pair:
        ends = zip(self.image, self.low, self.high, self.sizes, self.strides, strict=False)
        a, b = ((e + before + after - s) // t + 1 for e, before, after, s, t in ends)
        return a, b


CONVOLUTIONS = [
    Windows((9, 7, 3), (3, 3), features=6),  # rows of which no two elements are loaded together
    Windows((12, 12, 16), (5, 5), features=32),  # sums of more than one chain
    Windows((8, 8, 1), (2, 2), (2, 2), 1),
    Windows((9, 8, 4), (3, 2), (2, 1), 23),  # as many channels as are loaded together
    Windows((6, 5, 2), (6, 5), features=3),  # one window
    Windows((7, 9, 4), (1, 1), features=17),
    Windows((9, 9, 6), (2, 2), (3, 4), 6),  # some elements are in no window
    Windows((1, 40, 2), (1, 7), (1, 3), 5),
    Windows((7, 9, 3), (3, 4), (2, 1), 10, (1, 0), (0, 2)),
    Windows((8, 8, 16), (3, 3), features=16, low=(1, 1), high=(1, 1)),
    Windows((6, 5, 32), (3, 2), (2, 1), 64, block=16),
    Windows((5, 5, 16), (2, 1), features=48, low=(1, 0), block=16),
    Windows((8, 8, 64), (3, 3), features=64, low=(1, 1), high=(1, 1), bound=2),  # sums in parts
    Windows((10, 10, 2), (3, 3), features=4, bound=40),
]
POOLINGS = [
    Windows((8, 8, 16), (2, 2), (2, 2)),  # all elements, each in one window
    Windows((9, 7, 3), (2, 2), (2, 2)),  # some in none
    Windows((7, 6, 5), (3, 2), (1, 1)),  # some in several
    Windows((10, 9, 6), (3, 3), (2, 2)),
    Windows((9, 5, 1), (2, 1), (3, 2)),
    Windows((6, 7, 100), (6, 7)),  # one window
]


def dims(*extents: int) -> str:
    return "x".join(map(str, extents))


def products(w: Windows) -> str:
    """A convolution and its two gradients."""
    width, height, channels = w.image
    x, y = f"Nx{dims(*w.image)}", f"Nx{dims(*w.places)}x{w.features}"
    k, back = f"{dims(*w.sizes)}x{channels}x{w.features}", (*w.sizes[:1], w.features, w.sizes[1])
    of_result, of_image = k, f"{dims(*back)}x{channels}"
    if w.block:
        of_result = f"{w.features // w.block}x{dims(*w.sizes)}x{channels}x{w.block}"
        of_image = f"{dims(*w.sizes)}x{channels // w.block}x{w.features}x{w.block}"
    around = f"strides = {list(w.strides)}"
    if any((*w.low, *w.high)):
        around += f", low = {list(w.low)}, high = {list(w.high)}"
    block = f", block = {w.block}" if w.block else ""
    return f"""
dim N <= {w.bound}
func @f(%x: tensor<{x}xf32> input, %k: tensor<{of_result}xf32> input,
        %b: tensor<{of_image}xf32> input, %dy: tensor<{y}xf32> input)
    -> (y: tensor<{y}xf32>, dx: tensor<{x}xf32>, dk: tensor<{k}xf32>) {{
  %y = conv %x, %k {{axis = 1, {around}{block}}} : tensor<{y}xf32>
  %dx = conv.data_grad %dy, %b {{axis = 1, extents = [{width}, {height}], {around}{block}}}
    : tensor<{x}xf32>
  %dk = conv.weight_grad %x, %dy {{axis = 1, sizes = {list(w.sizes)}, {around}}} : tensor<{k}xf32>
  return %y, %dx, %dk
}}
"""


def poolings(w: Windows, word: str) -> str:
    """A pooling and both gradients."""
    width, height, channels = w.image
    x, y = f"Nx{dims(*w.image)}", f"Nx{dims(*w.places)}x{channels}"
    walk = f"sizes = {list(w.sizes)}, strides = {list(w.strides)}"
    return f"""
dim N <= {w.bound}
func @f(%x: tensor<{x}xf32> input, %dy: tensor<{y}xf32> input)
    -> (y: tensor<{y}xf32>, dx: tensor<{x}xf32>, s: tensor<{x}xf32>) {{
  %y = pool %x {{scalar_op = "{word}", axis = 1, {walk}}} : tensor<{y}xf32>
  %dx = pool.max_grad %x, %y, %dy {{axis = 1, {walk}}} : tensor<{x}xf32>
  %s = pool.sum_grad %dy {{axis = 1, extents = [{width}, {height}], {walk}}} : tensor<{x}xf32>
  return %y, %dx, %s
}}
"""


SIGNAL = """
dim N <= 3
func @f(%x: tensor<Nx3x20x2xf32> input, %k: tensor<5x2x4xf32> input)
    -> (y: tensor<Nx3x8x4xf32>, p: tensor<Nx3x6x2xf32>) {
  %y = conv %x, %k {axis = 2, strides = [2]} : tensor<Nx3x8x4xf32>
  %p = pool %x {scalar_op = "add", axis = 2, sizes = [5], strides = [3]} : tensor<Nx3x6x2xf32>
  return %y, %p
}
"""


def planned(
    text: str, tile: WindowTile | None = None, contraction: ContractionMode = "fma"
) -> Module:
    """With the schedules that the GPU asks for, or with this tile."""
    module = parse(text)
    (function,) = module.functions
    function.contraction = contraction
    for op in function.block:
        if tile is not None and isinstance(op.schedule, ConvSchedule | WeightGradSchedule):
            op.schedule = replace(op.schedule, grid=tile)
    choose_schedules(function, GPU)
    PassManager(pipeline("plan-memory"), verify=True).run(module, default_context())
    return module


def compiled(
    texts: Iterable[str], tile: WindowTile | None = None, contraction: ContractionMode = "fma"
) -> list[tuple[Function, CompiledFunction, Signature]]:
    modules = [planned(text, tile, contraction) for text in texts]
    functions = [(m.functions[0], make_signature(m, m.functions[0])) for m in modules]
    made = compile_together(functions)
    return [(f, c, s) for (f, s), c in zip(functions, made, strict=True)]


def check(made: tuple[Function, CompiledFunction, Signature], samples: int) -> None:
    function, code, signature = made
    sizes = {"N": samples}
    given = random_arguments(signature, sizes)
    expected, got = evaluate(function, given, sizes), call(code, signature, given, sizes)
    for name, value in expected.items():
        largest = np.abs(value).max(initial=1.0)
        allowed = (1e-5 if value.dtype == np.float32 else 1e-13) * largest
        np.testing.assert_allclose(got[name], value, rtol=0, atol=allowed, err_msg=name)


@cache
def all_compiled(dtype: str) -> list[tuple[Function, CompiledFunction, Signature]]:
    """In one go: a compiler takes longer to start than for a function."""
    words = ("maximum", "minimum", "add")
    texts = [*map(products, CONVOLUTIONS), SIGNAL]
    texts += [poolings(w, words[i % 3]) for i, w in enumerate(POOLINGS)]
    return compiled([text.replace("f32", dtype) for text in texts])


@needs_emulator
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_convolutions_and_poolings_are_those_of_the_references(dtype: str) -> None:
    for made in all_compiled(dtype):
        (bound,) = {d.bound for d in made[2].dims}
        for samples in {0, 1, 2, bound}:
            check(made, samples)


@needs_emulator
@pytest.mark.parametrize(("rows", "columns"), WINDOW_TILES)
def test_every_tile_computes_the_same(rows: int, columns: int) -> None:
    depth, stages = (8, 3) if columns == 32 else (32, 2)
    tile = WindowTile(rows, columns, depth, stages, part=256)
    shapes = [Windows((9, 8, 3), (3, 3), (2, 2), 5), Windows((9, 7, 32), (3, 3), features=36)]
    for made in compiled([products(w) for w in shapes], tile=tile):
        check(made, 3)


@needs_emulator
def test_the_maximum_of_a_window_with_nan_is_nan() -> None:
    ((_, code, signature),) = compiled([poolings(POOLINGS[0], "maximum")])
    given = random_arguments(signature, {"N": 1})
    places = [(0, 0, 0), (3, 2, 1), (4, 5, 2), (7, 7, 3)]
    for place in places:
        given["x"][(0, *place)] = np.nan
    found = call(code, signature, given, {"N": 1})["y"]
    expected = {(a // 2, b // 2, channel) for a, b, channel in places}
    assert set(map(tuple, np.argwhere(np.isnan(found[0])).tolist())) == expected


@needs_emulator
def test_arrays_that_32_bits_cannot_index(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (windows, pooling):
        monkeypatch.setattr(module, "SAFE_INDEX", 1)
    shapes = [Windows((9, 8, 3), (3, 3), (2, 2), 5), Windows((6, 6, 4), (3, 3), features=4)]
    texts = [*map(products, shapes), poolings(POOLINGS[2], "maximum")]
    assert "typedef int Index" not in text_of(*map(planned, texts))
    for made in compiled(texts):
        check(made, 3)


def text_of(*modules: Module, machine: GpuMachine = GPU) -> str:
    functions = [(m.functions[0], make_signature(m, m.functions[0])) for m in modules]
    return write_source(functions, machine).text


@pytest.mark.parametrize(
    ("contraction", "sums"),
    [("fma", "Sums<A, B, true>"), ("off", "Sums<A, B, false>"), ("tf32", "TensorSums<A, B>")],
)
def test_products_are_added_up_as_the_contraction_says(
    contraction: ContractionMode, sums: str
) -> None:
    module = planned(products(CONVOLUTIONS[0]), WindowTile(64, 32, 16, 4), contraction)
    assert text_of(module).count(f" SumsOf = {sums};") == 3


@needs_emulator
def test_tensor_cores_round_factors_alone() -> None:
    shapes = [Windows((9, 8, 3), (3, 3), (2, 2), 5), Windows((9, 7, 32), (3, 3), features=36)]
    tile = WindowTile(64, 32, 16, 3)
    for function, code, signature in compiled(map(products, shapes), tile, "tf32"):
        given = random_arguments(signature, {"N": 3})
        expected = evaluate(function, given, {"N": 3})
        for name, value in call(code, signature, given, {"N": 3}).items():
            error = np.abs(value - expected[name]).max() / np.abs(expected[name]).max()
            assert 1e-5 < error < 2e-3, name


@needs_nvrtc
def test_kernels_keep_everything_in_registers() -> None:
    shapes = [
        Windows((32, 32, 16), (3, 3), (1, 1), 16, (1, 1), (1, 1), bound=128),
        Windows((16, 16, 32), (3, 3), (2, 2), 64, (1, 1), (1, 1), bound=128),
        Windows((32, 32, 3), (5, 5), (1, 1), 16, bound=256),
    ]
    pools = [poolings(Windows((8, 8, 16), (3, 3), (2, 2)), word) for word in ("maximum", "add")]
    modules = [*map(planned, [*map(products, shapes), *pools])]
    modules.append(planned(products(shapes[1]), contraction="tf32"))
    text = text_of(*modules)
    assert "TensorSums<A, B>;" in text
    for name, found in compile_text(text, "sm_90").resources.items():
        assert (found.spills, found.stack) == (0, 0), name
        assert found.registers <= 128, f"{name}: {found.registers} registers"


def test_equal_convolutions_share_a_kernel() -> None:
    modules = [planned(products(CONVOLUTIONS[0])) for _ in range(2)]
    assert text_of(*modules).count("_sizes {") == 3


def test_a_tile_that_needs_more_shared_memory_than_there_is_is_refused() -> None:
    module = planned(products(CONVOLUTIONS[0]), WindowTile(128, 128, 16, 4))
    with pytest.raises(GraphcError, match="requires 75776 bytes of shared memory, a block has"):
        text_of(module, machine=replace(GPU, shared=16384))
