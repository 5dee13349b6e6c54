"""Pooling in LLVM: every width of channels and kind of window, against the references."""

from __future__ import annotations

import pytest

from graphc.backends.signature import make_signature
from tests.support.compiling import parse
from tests.support.guarded_child import exit_code_guarded
from tests.support.guarded_memory import SIDES, Side
from tests.support.native import check_text, random_arguments, runnable_targets


def pooled(
    image: tuple[int, int, int],
    sizes: tuple[int, int],
    strides: tuple[int, int],
    word: str = "maximum",
    dtype: str = "f32",
) -> str:
    """A pooling and both gradients, placed; N images of width, height and channels."""
    width, height, channels = image
    places = [(e - s) // t + 1 for e, s, t in zip(image, sizes, strides, strict=False)]
    x, y = f"Nx{width}x{height}x{channels}", f"Nx{places[0]}x{places[1]}x{channels}"
    walk = f"sizes = {list(sizes)}, strides = {list(strides)}"
    return f"""
dim N <= 9
func @f(%x: tensor<{x}xf32> input, %dy: tensor<{y}xf32> input)
    -> (y: tensor<{y}xf32>, dx: tensor<{x}xf32>, s: tensor<{x}xf32>) arena 0 {{
  %y = pool %x {{scalar_op = "{word}", axis = 1, {walk}}} at result:0 : tensor<{y}xf32>
  %dx = pool.max_grad %x, %y, %dy {{axis = 1, {walk}}} at result:1 : tensor<{x}xf32>
  %s = pool.sum_grad %dy {{axis = 1, extents = [{width}, {height}], {walk}}} at result:2
    : tensor<{x}xf32>
  return %y, %dx, %s
}}
""".replace("f32", dtype)


SHAPES = [
    ((8, 8, 16), (2, 2), (2, 2)),  # all elements, each in one window
    ((9, 7, 3), (2, 2), (2, 2)),  # some in none
    ((7, 6, 5), (3, 2), (1, 1)),  # some in several
    ((10, 9, 37), (3, 3), (2, 2)),
    ((9, 5, 1), (2, 1), (3, 2)),
    ((6, 7, 100), (6, 7), (1, 1)),  # one window, too large to be written out
]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("word", ["maximum", "minimum", "add"])
@pytest.mark.parametrize(("image", "sizes", "strides"), SHAPES, ids=str)
def test_a_pooling_and_its_gradients(
    image: tuple[int, int, int],
    sizes: tuple[int, int],
    strides: tuple[int, int],
    word: str,
    dtype: str,
) -> None:
    check_text(pooled(image, sizes, strides, word, dtype), [{"N": n} for n in (0, 1, 4)])


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("image", "sizes", "strides"), SHAPES, ids=str)
def test_nothing_is_touched_outside_the_arrays(
    image: tuple[int, int, int], sizes: tuple[int, int], strides: tuple[int, int], side: Side
) -> None:
    module = parse(pooled(image, sizes, strides))
    function = module.functions[0]
    signature = make_signature(module, function)
    given = random_arguments(signature, {"N": 3})
    for target in runnable_targets():
        code = exit_code_guarded(function, signature, target, given, {"N": 3}, side)
        assert code == 0, target.isa
