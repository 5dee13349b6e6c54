"""Convolutions in LLVM: every shape of tile, against the references, within the arrays' bounds."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from graphc.backends.llvm.emit import emit_function
from graphc.backends.llvm.runtime import compile_function
from graphc.backends.llvm.target import X86_64, X86_64_V3, X86_64_V4, Target
from graphc.backends.signature import make_signature
from graphc.ir.printer import print_module
from graphc.ops import default_context
from graphc.passes import pipeline
from graphc.passes.analysis.window_products import Panel, balanced, best_tile, most_rows, panels
from graphc.passes.manager import PassManager
from tests.support.compiling import call, parse
from tests.support.guarded_child import exit_code_guarded
from tests.support.guarded_memory import SIDES, Side
from tests.support.native import check_text, fused, random_arguments, runnable_targets


def products(
    image: tuple[int, int, int],
    sizes: tuple[int, int],
    strides: tuple[int, int],
    features: int,
    dtype: str = "f32",
    bound: int = 9,
) -> str:
    """A convolution and its two gradients: N images of width, height and channels."""
    width, height, channels = image
    places = [(e - s) // t + 1 for e, s, t in zip(image, sizes, strides, strict=False)]
    x, y = f"Nx{width}x{height}x{channels}", f"Nx{places[0]}x{places[1]}x{features}"
    patches = f"Nx{places[0]}x{places[1]}x{sizes[0]}x{sizes[1]}x{channels}"
    w = f"{sizes[0]}x{sizes[1]}x{channels}x{features}"
    walk = f"sizes = {list(sizes)}, strides = {list(strides)}"
    back = f"extents = [{width}, {height}], strides = {list(strides)}"
    return f"""
dim N <= {bound}
func @f(%x: tensor<{x}xf32> input, %w: tensor<{w}xf32> parameter, %dy: tensor<{y}xf32> input)
    -> (y: tensor<{y}xf32>, dx: tensor<{x}xf32>, dw: tensor<{w}xf32>) {{
  %p = patches %x {{axis = 1, {walk}}} : tensor<{patches}xf32>
  %y = matmul %p, %w {{contract = 3}} : tensor<{y}xf32>
  %q = matmul %dy, %w {{transpose_b = true}} : tensor<{patches}xf32>
  %dx = overlap_add %q {{axis = 1, {back}}} : tensor<{x}xf32>
  %t = matmul %dy, %p {{transpose_a = true, contract = 3}}
    : tensor<{features}x{sizes[0]}x{sizes[1]}x{channels}xf32>
  %dw = transpose %t {{permutation = [1, 2, 3, 0]}} : tensor<{w}xf32>
  return %y, %dx, %dw
}}
""".replace("f32", dtype)


def all_three(
    image: tuple[int, int, int],
    sizes: tuple[int, int],
    strides: tuple[int, int],
    features: int,
    dtype: str = "f32",
) -> str:
    """These, planned."""
    return fused(products(image, sizes, strides, features, dtype))


SHAPES = [
    ((28, 28, 1), (5, 5), (1, 1), 16),  # one channel: neighbouring windows share elements
    ((12, 12, 16), (5, 5), (1, 1), 32),
    ((9, 7, 3), (3, 3), (1, 1), 6),  # narrower than a vector
    ((9, 8, 3), (3, 2), (2, 1), 23),  # vectors that overlap
    ((11, 10, 5), (4, 3), (3, 2), 10),
    ((6, 5, 2), (6, 5), (1, 1), 3),  # one place
    ((7, 9, 4), (1, 1), (1, 1), 17),
    ((8, 8, 1), (2, 2), (2, 2), 1),
    ((5, 4, 9), (2, 3), (1, 1), 33),
    ((1, 40, 2), (1, 7), (1, 3), 5),
    ((40, 1, 2), (7, 1), (2, 1), 12),
    ((6, 5, 32), (3, 2), (2, 1), 64),  # weights in blocks, rows of places far apart
    ((5, 5, 16), (2, 1), (1, 1), 48),
    ((5, 6, 17), (2, 2), (1, 1), 68),
    ((30, 30, 16), (3, 3), (1, 1), 20),  # more than one block of columns
]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(("image", "sizes", "strides", "features"), SHAPES, ids=str)
def test_a_convolution_and_its_gradients(
    image: tuple[int, int, int],
    sizes: tuple[int, int],
    strides: tuple[int, int],
    features: int,
    dtype: str,
) -> None:
    text = all_three(image, sizes, strides, features, dtype)
    assert "move.patches" not in text
    assert "move.overlap_add" not in text
    tolerance = 2e-3 if dtype == "f32" else 1e-11  # of sums of up to a thousand products
    check_text(text, [{"N": n} for n in (0, 1, 2, 5)], tolerance=tolerance)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("image", "sizes", "strides", "features"), SHAPES[1:13], ids=str)
def test_nothing_is_touched_outside_the_arrays(
    image: tuple[int, int, int],
    sizes: tuple[int, int],
    strides: tuple[int, int],
    features: int,
    side: Side,
) -> None:
    module = parse(all_three(image, sizes, strides, features))
    function = module.functions[0]
    signature = make_signature(module, function)
    given = random_arguments(signature, {"N": 3})
    for target in runnable_targets():
        code = exit_code_guarded(function, signature, target, given, {"N": 3}, side)
        assert code == 0, target.isa


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(
    ("image", "sizes", "features"),
    [((28, 28, 1), (5, 5), 16), ((12, 12, 16), (5, 5), 32), ((14, 12, 7), (3, 4), 70)],
    ids=str,
)
def test_parts_of_images_and_of_weights(
    image: tuple[int, int, int], sizes: tuple[int, int], features: int, dtype: str
) -> None:
    module = parse(products(image, sizes, (1, 1), features, dtype, bound=64))
    passes = pipeline("fuse-patches,fuse-kernels,split-work,plan-memory")
    PassManager(passes, verify=True).run(module, default_context())
    text = print_module(module)
    assert text.count('parallel = "images", ') == 2
    assert text.count('parallel = "rows", ') == 1
    tolerance = 1e-2 if dtype == "f32" else 1e-10
    check_text(text, [{"N": n} for n in (0, 1, 7, 64)], tolerance=tolerance)


PADDED = """
dim N <= 9
func @f(%x: tensor<Nx7x9x3xf32> input, %w: tensor<3x4x3x10xf32> parameter,
        %dy: tensor<Nx3x8x10xf32> input)
    -> (y: tensor<Nx3x8x10xf32>, dx: tensor<Nx7x9x3xf32>, dw: tensor<3x4x3x10xf32>) {
  %i = pad %x {low = [0, 1, 0, 0], high = [0, 0, 2, 0], inner = [0, 0, 0, 0]}
    : tensor<Nx8x11x3xf32>
  %p = patches %i {axis = 1, sizes = [3, 4], strides = [2, 1]} : tensor<Nx3x8x3x4x3xf32>
  %y = matmul %p, %w {contract = 3} : tensor<Nx3x8x10xf32>
  %q = matmul %dy, %w {transpose_b = true} : tensor<Nx3x8x3x4x3xf32>
  %s = overlap_add %q {axis = 1, extents = [8, 11], strides = [2, 1]} : tensor<Nx8x11x3xf32>
  %dx = slice %s {starts = [0, 1, 0, 0], stops = [N, 8, 9, 3], steps = [1, 1, 1, 1]}
    : tensor<Nx7x9x3xf32>
  %t = matmul %dy, %p {transpose_a = true, contract = 3} : tensor<10x3x4x3xf32>
  %dw = transpose %t {permutation = [1, 2, 3, 0]} : tensor<3x4x3x10xf32>
  return %y, %dx, %dw
}
"""


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_zeros_around_an_image_cost_memory_for_one(dtype: str) -> None:
    text = fused(PADDED.replace("f32", dtype))
    assert "move.pad" not in text
    assert "move.slice" not in text
    assert text.count(f" workspace tensor<1x8x11x3x{dtype}> at ") == 3
    tolerance = 1e-4 if dtype == "f32" else 1e-11
    check_text(text, [{"N": n} for n in (0, 1, 2, 5)], tolerance=tolerance)


def test_signals_are_images_of_one_column() -> None:
    text = fused("""
dim N <= 9
func @f(%x: tensor<Nx3x20x2xf32> input, %w: tensor<5x2x4xf32> parameter)
    -> (y: tensor<Nx3x8x4xf32>, z: tensor<16x3xf32>) {
  %p = patches %x {axis = 2, sizes = [5], strides = [2]} : tensor<Nx3x8x5x2xf32>
  %y = matmul %p, %w {contract = 2} : tensor<Nx3x8x4xf32>
  %s = slice %x {starts = [0, 0, 0, 0], stops = [N, 1, 20, 1], steps = [1, 1, 1, 1]}
    : tensor<Nx1x20x1xf32>
  %r = reduce_sum %s {axes = [0]} : tensor<1x1x20x1xf32>
  %t = reshape %r {dims = [20]} : tensor<20xf32>
  %u = patches %t {axis = 0, sizes = [5], strides = [1]} : tensor<16x5xf32>
  %k = constant {type = tensor<5x3xf32>, value = [0.5]} : tensor<5x3xf32>
  %z = matmul %u, %k : tensor<16x3xf32>
  return %y, %z
}
""")
    assert text.count("= conv %") == 2
    check_text(text, [{"N": n} for n in (0, 1, 4)], tolerance=1e-4)


def test_sums_do_not_depend_on_the_other_images() -> None:
    """The same image gives the same bits, whatever stands beside it."""
    module = parse(all_three((12, 12, 16), (5, 5), (1, 1), 32))
    function = module.functions[0]
    signature = make_signature(module, function)
    compiled = compile_function(function, signature)
    given = list(random_arguments(signature, {"N": 3}).values())
    many = [np.zeros((3, 8, 8, 32), np.float32), np.zeros((3, 12, 12, 16), np.float32)]
    compiled(given, [*many, np.zeros((5, 5, 16, 32), np.float32)], {"N": 3})
    one = [np.zeros((1, 8, 8, 32), np.float32), np.zeros((1, 12, 12, 16), np.float32)]
    alone = [given[0][2:].copy(), given[1], given[2][2:].copy()]
    compiled(alone, [*one, np.zeros((5, 5, 16, 32), np.float32)], {"N": 1})
    for together, single in zip(many, one, strict=True):
        np.testing.assert_array_equal(together[2:], single)


@pytest.mark.parametrize("bound", [130, 1000, 40_000])
def test_sums_over_images_have_the_same_bits_for_any_bound_and_any_parts(bound: int) -> None:
    """In parts their chains have other memory, beside that of other threads."""
    image, samples = ((12, 12, 5), (4, 4), (1, 1), 33), {"N": 130}
    found: list[np.ndarray] = []
    for split in ("", "split-work,"):
        module = parse(products(*image, bound=bound))
        passes = pipeline(f"fuse-patches,fuse-kernels,{split}plan-memory")
        PassManager(passes, verify=True).run(module, default_context())
        assert ('parallel = "rows", ' in print_module(module)) == bool(split)
        (function,) = module.functions
        signature = make_signature(module, function)
        given = random_arguments(signature, samples)
        found.append(call(compile_function(function, signature), signature, given, samples)["dw"])
    np.testing.assert_array_equal(found[0], found[1])
    x, dy = (given[name].astype(np.float64) for name in ("x", "dy"))
    windows = np.lib.stride_tricks.sliding_window_view(x, (4, 4), (1, 2))
    exact = np.einsum("npqcij,npqo->ijco", windows, dy)
    np.testing.assert_allclose(found[0], exact, atol=1e-5 * np.abs(exact).max())


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("apart", [True, False])
def test_panels_cover_all_columns_and_stay_inside(lanes: int, apart: bool) -> None:
    for columns in range(1, 70):
        seen = [0] * columns
        for panel in panels(columns, lanes, apart=apart):
            firsts = [panel.start + i * panel.step for i in range(panel.count)]
            for first, (start, width) in itertools.product(firsts, panel.vectors):
                assert first + start + width <= columns
                for i in range(width):
                    seen[first + start + i] += 1
        assert min(seen) == 1
        assert not apart or max(seen) == 1


def test_a_narrow_rest_goes_by_halves() -> None:
    assert panels(7, 8, apart=False) == [Panel(0, ((0, 4), (4, 2), (6, 1)))]


@pytest.mark.parametrize("target", [X86_64, X86_64_V3, X86_64_V4], ids=lambda t: t.isa)
def test_sums_of_a_tile_fit_into_the_registers(target: Target) -> None:
    registers = 32 if target is X86_64_V4 else 16
    for vectors in range(1, 6):
        assert most_rows(target.machine, vectors) * vectors <= registers - 4


@pytest.mark.parametrize("across", [1, 3, 8, 24])
@pytest.mark.parametrize("down", [1, 5, 8, 12, 24])
def test_a_tile_has_no_more_places_than_rows(across: int, down: int) -> None:
    i, j = best_tile(across, down, 6, 2)
    assert 1 <= i * j <= 6


def test_balanced_pieces_cover_the_extent() -> None:
    for extent in range(1, 60):
        pieces = balanced(extent, 12)
        assert sum(size * many for size, many in pieces) == extent
        assert max(size for size, _ in pieces) <= 12
        assert len(pieces) <= 2


LONG = """
func @f(%x: tensor<2x140002x4xf32> input, %y: tensor<2x140000x64xf32> input)
    -> (w: tensor<64x3x4xf32>) {
  %p = patches %x {axis = 1, sizes = [3], strides = [1]} : tensor<2x140000x3x4xf32>
  %w = matmul %y, %p {transpose_a = true, contract = 2} : tensor<64x3x4xf32>
  return %w
}
"""


def test_a_long_axis_is_not_copied_to_the_stack() -> None:
    module = parse(LONG)
    passes = pipeline("fuse-patches,fuse-kernels,plan-memory")
    PassManager(passes, verify=True).run(module, default_context())
    (function,) = module.functions
    signature = make_signature(module, function)
    for target in (X86_64, X86_64_V3, X86_64_V4):
        text = emit_function(function, signature, target)
        assert "define internal void @graphc.conv" in text
        assert all(int(n) < 1 << 17 for n in re.findall(r"alloca \[([0-9]+) x float\]", text))
