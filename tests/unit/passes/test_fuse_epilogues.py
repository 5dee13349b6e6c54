"""Which products a kernel takes over, and how long the parts are that they are made in."""

from __future__ import annotations

import pytest

from graphc.ir.core import ContractionMode, Function, Operation
from graphc.ops.epilogue import GEMM_FUSED
from graphc.ops.schedules import schedule_of
from graphc.passes.fuse_epilogues import LEAST_BYTES, SHORT_BYTES, SHORT_SUMS, fuse_epilogues
from graphc.passes.fuse_kernels import fuse
from tests.support.compiling import parse


def fused(text: str, least_bytes: int = 0) -> Function:
    (function,) = parse(text).functions
    fuse(function)
    fuse_epilogues(function, least_bytes)
    return function


def names(function: Function) -> list[str]:
    return [op.opdef.name for op in function.block]


def layer(rows: int, inner: int, cols: int) -> str:
    """A product and an activation behind it."""
    return f"""
func @f(%x: tensor<{rows}x{inner}xf32> input, %w: tensor<{inner}x{cols}xf32> parameter)
    -> (y: tensor<{rows}x{cols}xf32>) {{
  %p = matmul %x, %w : tensor<{rows}x{cols}xf32>
  %y = sigmoid %p : tensor<{rows}x{cols}xf32>
  return %y
}}
"""


def test_a_product_that_two_kernels_read_stays_alone() -> None:
    text = """
func @f(%x: tensor<8x8xf32> input, %w: tensor<8x8xf32> parameter, %v: tensor<8x8xf32> parameter)
    -> (y: tensor<8x8xf32>, z: tensor<8x8xf32>) {
  %p = gemm %x, %w : tensor<8x8xf32>
  %y = kernel %p : tensor<8x8xf32> {
  ^(%a: tensor<8x8xf32>):
    %b = sigmoid %a : tensor<8x8xf32>
    yield %b
  }
  %z = kernel %p : tensor<8x8xf32> {
  ^(%c: tensor<8x8xf32>):
    %d = tanh %c : tensor<8x8xf32>
    yield %d
  }
  return %y, %z
}
"""
    (function,) = parse(text).functions
    assert fuse_epilogues(function, least_bytes=0) == 0
    assert names(function) == ["gemm", "kernel", "kernel", "return"]


def test_of_two_products_the_one_of_more_work_is_taken() -> None:
    function = fused("""
func @f(%x: tensor<8x4xf32> input, %w: tensor<4x8xf32> parameter,
        %u: tensor<8x64xf32> input, %v: tensor<64x8xf32> parameter) -> (y: tensor<8x8xf32>) {
  %p = matmul %x, %w : tensor<8x8xf32>
  %q = matmul %u, %v : tensor<8x8xf32>
  %y = add %p, %q : tensor<8x8xf32>
  return %y
}
""")
    assert names(function) == ["gemm", "gemm.fused", "return"]
    taken = next(op for op in function.block if op.opdef is GEMM_FUSED)
    assert [v.name for v in taken.operands[:2]] == ["u", "v"]


@pytest.mark.parametrize(("cols", "expected"), [(1024, "gemm.fused"), (1023, "gemm")])
def test_a_product_of_less_than_the_least_bytes_stays_alone(cols: int, expected: str) -> None:
    rows = LEAST_BYTES // (1024 * 4)
    assert names(fused(layer(rows, SHORT_SUMS + 1, cols), LEAST_BYTES))[0] == expected


@pytest.mark.parametrize(
    ("inner", "cols", "contraction", "chunk"),
    [
        (SHORT_SUMS, 256, "fma", 16),
        (SHORT_SUMS + 1, 256, "fma", None),
        (SHORT_SUMS, 255, "fma", None),
        (SHORT_SUMS, 256, "bf16", None),  # factors may be copied for each part
    ],
)
def test_one_of_short_sums_is_taken_from_fewer_bytes_on_in_shorter_parts(
    inner: int, cols: int, contraction: ContractionMode, chunk: int | None
) -> None:
    (function,) = parse(layer(SHORT_BYTES // (256 * 4), inner, cols)).functions
    function.contraction = contraction
    fuse(function)
    assert fuse_epilogues(function) == (chunk is not None)
    split = schedule_of(next(iter(function.block)))
    assert (split.chunk if split else None) == chunk


@pytest.mark.parametrize(
    ("dims", "expected"),
    [
        ((4096, 64, 512), ("rows", 32)),  # the second factor fits in a near cache
        ((512, 512, 1024), ("cols", 64)),  # it does not
        ((8192, 512, 1024), ("rows", 16)),  # a column is too long for the stack
        ((8192, 512, 8192), None),  # and so is a row
        ((512, 512, 1008), ("cols", 64)),  # whole tiles, though 48 would divide the columns
        ((512, 512, 1056), ("cols", 32)),  # of whole tiles those that divide them
    ],
)
def test_parts_are_short_enough_and_divide_the_extent_if_they_can(
    dims: tuple[int, int, int], expected: tuple[str, int] | None
) -> None:
    first: Operation = next(iter(fused(layer(*dims)).block))
    split = schedule_of(first)
    assert (None if split is None else (split.parallel, split.chunk)) == expected


@pytest.mark.parametrize("dims", [(1, 8, 8), (8, 8, 1), (8192, 512, 8192)])
def test_without_parts_a_product_of_any_size_takes_its_kernel(dims: tuple[int, int, int]) -> None:
    (function,) = parse(layer(*dims)).functions
    fuse(function)
    assert fuse_epilogues(function, 0) == 0
    assert fuse_epilogues(function, 0, in_parts=False) == 1
    first: Operation = next(iter(function.block))
    assert (first.opdef, schedule_of(first)) == (GEMM_FUSED, None)
