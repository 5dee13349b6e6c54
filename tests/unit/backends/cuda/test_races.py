"""Programs of kernels have no data races; ThreadSanitizer finds one without a meeting."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.ir.core import Function
from graphc.ir.machine import GPUS
from graphc.runtime.signature import Signature
from tests.support.compiling import parse
from tests.support.cuda.races import missing, races
from tests.support.cuda.sample import planned
from tests.support.native import random_arguments

pytestmark = pytest.mark.slow

SIZES = {"N": 40}

# A layer and its softmax, the gradient of its weights, and sums over rows and columns.
LAYER = """
dim N <= 40
func @f(%x: tensor<Nx24xf32> input, %w: tensor<24x40xf32> input, %b: tensor<1x40xf32> input)
    -> (y: tensor<Nx40xf32>, g: tensor<24x40xf32>, t: tensor<1x40xf32>) {
  %p = gemm %x, %w : tensor<Nx40xf32>
  %c = broadcast %b {dims = [N, 40]} : tensor<Nx40xf32>
  %z = add %p, %c : tensor<Nx40xf32>
  %m = reduce_max %z {axes = [1]} : tensor<Nx1xf32>
  %n = broadcast %m {dims = [N, 40]} : tensor<Nx40xf32>
  %d = sub %z, %n : tensor<Nx40xf32>
  %y = exp %d : tensor<Nx40xf32>
  %g = gemm %x, %y {transpose_a = true} : tensor<24x40xf32>
  %t = reduce_sum %y {axes = [0]} : tensor<1x40xf32>
  return %y, %g, %t
}
"""


@pytest.fixture(autouse=True)
def sanitizer() -> None:
    if missing():
        pytest.skip(missing())


def layer(launch: str) -> tuple[Function, Signature, list[np.ndarray]]:
    function, signature = planned(parse(LAYER), GPUS["sm_90"])
    assert launch in ("graph", "grid", "block")
    function.launch = launch
    return function, signature, list(random_arguments(signature, SIZES).values())


@pytest.mark.parametrize("launch", ["graph", "grid", "block"])
def test_a_program_has_no_races(launch: str) -> None:
    assert races(*layer(launch), SIZES) == ""


@pytest.mark.parametrize(("launch", "line"), [("grid", "meet_all("), ("block", "meet();")])
def test_a_race_is_found(launch: str, line: str) -> None:
    found = races(*layer(launch), SIZES, without=line)
    assert "ThreadSanitizer: data race" in found
