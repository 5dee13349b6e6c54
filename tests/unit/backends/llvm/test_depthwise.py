"""Depthwise convolution in LLVM and C: every width of channels, kind of window and cut, against the
references; what lies outside of the images is neither read nor multiplied."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

import graphc as gc
from graphc.backends.loops.depthwise import Depthwise, tiles_of
from graphc.backends.signature import make_signature
from graphc.ir.core import Module
from graphc.ir.evaluate import evaluate
from graphc.ir.types import DType
from graphc.ops.depthwise import DepthwiseParams, depthwise_shape
from graphc.ops.schedules import ChannelSchedule
from tests.support.compiling import call, parse
from tests.support.guarded_child import exit_code_guarded
from tests.support.guarded_memory import SIDES, Side
from tests.support.native import check_text, random_arguments, runnable_targets

Walk = tuple[
    tuple[int, int, int], tuple[int, int], tuple[int, int], tuple[int, ...], tuple[int, int]
]
"""Width, height and channels, sizes, strides, (low, low, high, high), dilations."""

WALKS: list[Walk] = [
    ((8, 56, 16), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),  # tiles of 8 that read alike
    ((7, 23, 5), (3, 3), (2, 2), (0, 0, 1, 1), (1, 1)),  # padded at one end, as TensorFlow does
    ((9, 20, 37), (2, 5), (1, 3), (1, 0, 0, 2), (2, 1)),
    ((3, 300, 18), (1, 130), (1, 1), (0, 65, 0, 64), (1, 1)),  # too much code: loops
    ((4, 3, 100), (7, 9), (1, 1), (5, 6, 5, 6), (1, 1)),  # windows wider than images
    ((1, 1, 1), (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    ((5, 21, 64), (3, 2), (3, 11), (4, 0, 1, 9), (1, 1)),  # steps over what is between windows
]


def text_of(walk: Walk, dtype: str = "f32") -> str:
    """The convolution and both gradients, placed; N images."""
    (width, height, channels), sizes, strides, around, dilations = walk
    spans = [(s - 1) * d + 1 for s, d in zip(sizes, dilations, strict=True)]
    extents = [width + around[0] + around[2], height + around[1] + around[3]]
    places = [(e - s) // t + 1 for e, s, t in zip(extents, spans, strides, strict=True)]
    x, y = f"Nx{width}x{height}x{channels}", f"Nx{places[0]}x{places[1]}x{channels}"
    w = f"{sizes[0]}x{sizes[1]}x{channels}"
    numbers = (
        f"strides = {list(strides)}, low = {list(around[:2])}, high = {list(around[2:])}, "
        f"dilations = {list(dilations)}"
    )
    return f"""
dim N <= 5
func @f(%x: tensor<{x}xf32> input, %w: tensor<{w}xf32> parameter, %dy: tensor<{y}xf32> input)
    -> (y: tensor<{y}xf32>, dx: tensor<{x}xf32>, dw: tensor<{w}xf32>) arena 0 {{
  %y = conv.depthwise %x, %w {{axis = 1, {numbers}}} at result:0 : tensor<{y}xf32>
  %dx = conv.depthwise_data_grad %dy, %w
    {{axis = 1, extents = [{width}, {height}], {numbers}}} at result:1 : tensor<{x}xf32>
  %dw = conv.depthwise_weight_grad %x, %dy
    {{axis = 1, sizes = {list(sizes)}, {numbers}}} at result:2 : tensor<{w}xf32>
  return %y, %dx, %dw
}}
""".replace("f32", dtype)


def cut(module: Module, rows: int) -> None:
    """Rows of results, and channels of weights, in chunks."""
    for op in module.functions[0].block:
        if op.opdef.name.startswith("conv.depthwise"):
            is_weights = op.opdef.name.endswith("weight_grad")
            channels = op.operands[0].tensor.dims[-1]
            assert isinstance(channels, int)
            half = channels // 2 if channels % 2 == 0 else channels
            schedule = ChannelSchedule("channels", half) if is_weights else None
            op.schedule = schedule or ChannelSchedule("rows", rows)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("walk", WALKS, ids=str)
def test_a_convolution_and_its_gradients(walk: Walk, dtype: str) -> None:
    # Sums of up to 900 products, which are of size 10.
    tolerance = {"f32": 1e-4, "f64": 1e-12}[dtype]
    check_text(text_of(walk, dtype), [{"N": n} for n in (0, 1, 3)], tolerance=tolerance)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("walk", WALKS, ids=str)
def test_nothing_is_touched_outside_the_arrays(walk: Walk, side: Side) -> None:
    module = parse(text_of(walk))
    if side == SIDES[0]:
        cut(module, 3)
    function = module.functions[0]
    signature = make_signature(module, function)
    given = random_arguments(signature, {"N": 2})
    for target in runnable_targets():
        code = exit_code_guarded(function, signature, target, given, {"N": 2}, side)
        assert code == 0, target.isa


@pytest.mark.parametrize("rows", [1, 4, 100])
def test_chunks_change_no_bit(rows: int) -> None:
    from graphc.backends.llvm.runtime import compile_function

    for walk in WALKS[:3]:
        whole, parts = parse(text_of(walk)), parse(text_of(walk))
        cut(parts, rows)
        signature = make_signature(whole, whole.functions[0])
        given = random_arguments(signature, {"N": 3})
        made = [
            call(compile_function(m.functions[0], signature, runnable_targets()[0]), signature,
                 given, {"N": 3})
            for m in (whole, parts)
        ]  # fmt: skip
        assert all(made[0][name].tobytes() == made[1][name].tobytes() for name in made[0])


def test_random_sizes_are_those_of_loops_by_hand() -> None:
    """Against plain Python, which knows nothing of tiles, on every native backend."""
    choose, rng = random.Random(5), np.random.default_rng(5)
    for trial in range(10):
        pairs = [
            (
                choose.randint(1, 12),
                choose.randint(1, 4),
                choose.randint(1, 3),
                choose.randint(1, 3),
            )
            for _ in range(2)
        ]
        around = [(choose.randint(0, 3), choose.randint(0, 3)) for _ in range(2)]
        fits = [
            e + sum(a) >= (s - 1) * d + 1 for (e, s, _, d), a in zip(pairs, around, strict=True)
        ]
        if not all(fits):
            continue
        extents, sizes, strides, dilations = zip(*pairs, strict=True)
        channels = choose.randint(1, 40)
        x = rng.standard_normal((2, *extents, channels))
        w = rng.standard_normal((*sizes, channels))
        backend = ("llvm", "c", "numpy")[trial % 3]
        convolve = gc.function(
            lambda x, w, s=strides, a=around, d=dilations: gc.depthwise_conv(x, w, s, a, d),
            backend=backend,
        )
        np.testing.assert_allclose(
            convolve(x, w), by_hand(x, w, strides, around, dilations), rtol=1e-12, atol=1e-12
        )


def by_hand(
    x: np.ndarray,
    w: np.ndarray,
    strides: tuple[int, ...],
    around: list[tuple[int, int]],
    dilations: tuple[int, ...],
) -> np.ndarray:
    """Every product for itself."""
    counts = [
        (x.shape[i + 1] + sum(around[i]) - (w.shape[i] - 1) * dilations[i] - 1) // strides[i] + 1
        for i in (0, 1)
    ]
    y = np.zeros((len(x), *counts, x.shape[-1]))
    for p, q in np.ndindex(*counts):
        for i, j in np.ndindex(*w.shape[:2]):
            row = p * strides[0] + i * dilations[0] - around[0][0]
            column = q * strides[1] + j * dilations[1] - around[1][0]
            if 0 <= row < x.shape[1] and 0 <= column < x.shape[2]:
                y[:, p, q] += x[:, row, column] * w[i, j]
    return y


@pytest.mark.parametrize("backend", ["llvm", "c", "numpy", "reference"])
def test_an_infinite_weight_meets_no_padding(backend: str) -> None:
    weights = np.zeros((3, 3, 2), np.float32)
    weights[0, 0] = np.inf
    convolve = gc.function(lambda x, w: gc.depthwise_conv(x, w, 1, 1), backend=backend)
    made = convolve(np.ones((1, 2, 2, 2), np.float32), weights)
    assert made[0, 1, 1].tolist() == [np.inf, np.inf]
    assert made[0, 0].tolist() == [[0, 0], [0, 0]]
    assert made[0, 1, 0].tolist() == [0, 0]


def test_a_row_of_56_places_is_three_pieces_of_code() -> None:
    types = parse("dim N <= 1\nfunc @f(%x: tensor<4x56x8xf32> input, %w: tensor<3x3x8xf32> input)"
                  " {\n  return\n}").functions[0].arguments  # fmt: skip
    shape = depthwise_shape(
        DepthwiseParams(0, (1, 1), (1, 1), (1, 1), (1, 1)), [a.type for a in types]
    )
    what = Depthwise.of("result", shape, DType.F32)
    assert [(t.first, t.count, len(t.reads)) for t in tiles_of(what)] == [
        (0, 1, 8),
        (8, 5, 8),
        (48, 1, 8),
    ]
    wide = replace(what, columns=replace(what.columns, size=5000, image=5055))
    assert tiles_of(wide) == []


def test_sums_of_weights_stay_near_the_exact_ones() -> None:
    """Over 40,000 places; one chain in f32 is off by a hundred times as much."""
    x = np.full((4, 100, 100, 16), 1.1, np.float32)
    y = np.full((4, 100, 100, 16), 1.3, np.float32)
    module = parse("""
func @f(%x: tensor<4x100x100x16xf32> input, %y: tensor<4x100x100x16xf32> input)
    -> (w: tensor<1x1x16xf32>) {
  %w = depthwise_weight_grad %x, %y {axis = 1, sizes = [1, 1], strides = [1, 1], low = [0, 0],
    high = [0, 0], dilations = [1, 1]} : tensor<1x1x16xf32>
  return %w
}
""")
    exact = 40_000 * float(x[0, 0, 0, 0]) * float(y[0, 0, 0, 0])
    for name in ("llvm", "numpy", "c"):
        made = gc.function(
            lambda x, y: gc.grad(
                lambda w: gc.sum(gc.depthwise_conv(x, w) * y), argnums=0
            )(gc.zeros((1, 1, 16), "f32")),
            backend=name,
        )(x, y)  # fmt: skip
        assert np.abs(made / exact - 1).max() < 2e-6, name
    judged = evaluate(module.functions[0], {"x": x, "y": y}, {})["w"]
    assert np.abs(judged / exact - 1).max() < 2e-6
