"""Products with bodies on every backend: any block, size and layout, against the references."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.backends.signature import make_signature
from graphc.ir.evaluate import evaluate
from graphc.ops import default_context
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from tests.support.compiling import JUDGED, call, load_backend, parse
from tests.support.native import TOLERANCE, random_arguments
from tests.support.product_bodies import LAYOUTS, product_with_body

SIZES = (0, 1, 5, 12, 33, 70)
BLOCKS = (("rows", 1), ("rows", 12), ("rows", 100), ("cols", 7), ("cols", 32), ("cols", 512))


def text_of(layout: str, along: str, block: int, extents: tuple[int, int], dtype: str) -> str:
    """With a sum over the rows where the blocks are columns."""
    schedule = f'schedule {{parallel = "{along}", chunk = {block}}}'
    return product_with_body(layout, schedule, extents, dtype, has_sum=along == "cols")


def check(backend_name: str, text: str, dtype: str) -> None:
    backend = load_backend(backend_name)
    if isinstance(backend, str):
        pytest.skip(backend)
    module = parse(text)
    if backend.stage == "kernels":
        PassManager(pipeline("plan-memory"), verify=True).run(module, default_context())
    (function,) = module.functions
    signature = make_signature(module, function)
    compiled = backend.compile(function, signature)
    for rows in SIZES:
        arguments = random_arguments(signature, {"N": rows})
        expected = evaluate(function, arguments, {"N": rows})
        got = call(compiled, signature, arguments, {"N": rows})
        for name, array in expected.items():
            np.testing.assert_allclose(got[name], array, TOLERANCE[dtype], 10 * TOLERANCE[dtype])


@pytest.mark.parametrize("backend", JUDGED)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(("along", "block"), BLOCKS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_body_gets_the_product_whatever_the_blocks(
    layout: str, along: str, block: int, dtype: str, backend: str
) -> None:
    check(backend, text_of(layout, along, block, (9, 45), dtype), dtype)


@pytest.mark.parametrize("backend", JUDGED)
@pytest.mark.parametrize(("inner", "cols"), [(0, 3), (1, 1), (3, 0), (300, 16), (2, 1), (17, 2)])
@pytest.mark.parametrize("along", ["rows", "cols"])
def test_a_body_gets_products_of_any_extents(
    along: str, inner: int, cols: int, backend: str
) -> None:
    check(backend, text_of("plain", along, 24, (inner, cols), "f32"), "f32")


def test_a_kernel_that_takes_a_product_twice_goes_with_it() -> None:
    module = parse(
        """
dim N <= 8
func @f(%a: tensor<Nx3xf32> input, %b: tensor<3x5xf32> input) -> (y: tensor<Nx5xf32>) {
  %p = gemm %a, %b : tensor<Nx5xf32>
  %y = kernel %p, %p : tensor<Nx5xf32> {
  ^(%s: tensor<Nx5xf32>, %t: tensor<Nx5xf32>):
    %0 = mul %s, %t : tensor<Nx5xf32>
    yield %0
  }
  return %y
}
"""
    )
    PassManager(pipeline("fuse-epilogues{least_bytes = 0}"), verify=True).run(
        module, default_context()
    )
    assert [op.opdef.name for op in module.functions[0].block] == ["gemm.fused", "return"]
