"""Whether sums over members are taken apart, by how long a byte is waited for."""

from __future__ import annotations

import pytest

from graphc.passes.overlap_sums import COST, overlap_pays
from tests.support.text_form import parsed

TEXT = """
dim N <= 8

func @step({inputs}) -> (v: tensor<{b}x4xf32>, w: tensor<{a}x4xf32>) {{
  %k = constant {{type = tensor<{b}x4xf32>, value = [0.5]}} : tensor<{b}x4xf32>
  %h = matmul %d, %k : tensor<Nx4xf32>
  %gv = matmul %d, %h {{transpose_a = true}} : tensor<{b}x4xf32>
  %gw = matmul %x, %h {{transpose_a = true}} : tensor<{a}x4xf32>
  %v, %w = all_reduce %gv, %gw {{members = 2}} : tensor<{b}x4xf32>, tensor<{a}x4xf32>
  return %v, %w
}}
"""


def pays(b: int, a: int, idle: float) -> bool | None:
    """Of a first sum of 16 b bytes and a last one of 16 a; 64 bytes fill a bucket."""
    inputs = f"%x: tensor<Nx{a}xf32> input, %d: tensor<Nx{b}xf32> input"
    (function,) = parsed(TEXT.format(a=a, b=b, inputs=inputs)).functions
    return overlap_pays(function, idle, 64)


@pytest.mark.parametrize(
    ("b", "a", "least"),
    [(8, 8, 2 * COST), (24, 8, 4 / 3 * COST), (8, 24, 4 * COST)],
)
def test_bytes_that_something_is_beside_have_to_be_waited_for(b: int, a: int, least: float) -> None:
    """The last bucket has nothing beside it, and costs as much as the others."""
    assert pays(b, a, 0.99 * least) is False
    assert pays(b, a, 1.01 * least) is True
    assert pays(b, a, 0.0) is False


def test_one_bucket_is_nothing_to_choose() -> None:
    assert pays(2, 8, 1.0) is None
