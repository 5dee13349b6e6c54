"""How long the parts are that work is cut into, and what stays in one piece."""

from __future__ import annotations

import math

import pytest

from graphc.ir.core import Operation
from graphc.ir.types import bound_of
from graphc.ir.verifier import verify_module
from graphc.ops.schedules import ProductSchedule, schedule_of
from graphc.passes.analysis.work import (
    COLUMNS,
    even_length,
    kernel_ns,
)
from graphc.passes.split_work import (
    CHUNK_NS,
    FAR_PART,
    GRAIN_NS,
    LINE_BYTES,
    MOST_LOOKUP_PARTS,
    MOST_PARTS,
    MOST_PRODUCT_PARTS,
    SHORT_KERNEL_CHUNK_NS,
    split_function,
)
from graphc.support.diagnostics import DiagnosticSink
from tests.support.compiling import parse


def split(text: str) -> Operation:
    """The first operation of a function, which may be cut."""
    (function,) = parse(text).functions
    split_function(function)
    return next(iter(function.block))


def product(m: int, k: int, n: int) -> Operation:
    return split(f"""
func @f(%x: tensor<{m}x{k}xf32> input, %w: tensor<{k}x{n}xf32> parameter)
    -> (y: tensor<{m}x{n}xf32>) {{
  %y = gemm %x, %w : tensor<{m}x{n}xf32>
  return %y
}}
""")


def sigmoid(*dims: int) -> Operation:
    type = f"tensor<{'x'.join(map(str, dims))}xf32>"
    return split(f"""
func @f(%x: {type} input) -> (y: {type}) {{
  %y = kernel %x : {type} {{
  ^(%a: {type}):
    %b = sigmoid %a : {type}
    yield %b
  }}
  return %y
}}
""")


@pytest.mark.parametrize(("batch", "is_cut"), [(1, False), (2, True), (32, True)])
def test_products_over_a_batch_are_handed_out_whole(batch: int, is_cut: bool) -> None:
    op = split(f"""
func @f(%x: tensor<{batch}x128x64xf32> input, %y: tensor<{batch}x64x128xf32> input)
    -> (z: tensor<{batch}x128x128xf32>) {{
  %z = gemm %x, %y {{batch = 1}} : tensor<{batch}x128x128xf32>
  return %z
}}
""")
    schedule = schedule_of(op)
    assert (schedule is not None) == is_cut
    if schedule is not None:
        assert (schedule.parallel, schedule.chunk) == ("batch", 1)


def test_a_kernel_is_cut_from_the_grain_on() -> None:
    kernels = [sigmoid(rows, 64) for rows in range(8, 1024, 8)]
    works = [kernel_ns(kernel) for kernel in kernels]
    assert works[0] < GRAIN_NS < works[-1]
    assert [schedule_of(k) is not None for k in kernels] == [work >= GRAIN_NS for work in works]


@pytest.mark.parametrize("rows", [500, 1000, 30_000, 1_000_000])
def test_parts_of_a_kernel_do_enough_and_are_not_too_many(rows: int) -> None:
    kernel = sigmoid(rows, 64)
    cut = schedule_of(kernel)
    assert cut is not None
    assert cut.parallel == 0
    assert math.ceil(rows / cut.chunk) <= MOST_PARTS
    assert kernel_ns(kernel) * cut.chunk / rows >= CHUNK_NS


@pytest.mark.parametrize(
    ("rows", "inner", "is_cut"),
    [(96, 256, True), (96, 16, False), (16, 512, False)],
    ids=["behind chunks", "behind a product in one piece", "less than is worth it"],
)
def test_short_kernels_are_cut_where_threads_are_awake(rows: int, inner: int, is_cut: bool) -> None:
    (function,) = parse(f"""
func @f(%x: tensor<{rows}x{inner}xf32> input, %w: tensor<{inner}x256xf32> parameter,
        %b: tensor<{rows}x4x64xf32> input) -> (z: tensor<{rows}x4x64xf32>) {{
  %y = gemm %x, %w : tensor<{rows}x256xf32>
  %h = reshape %y {{dims = [{rows}, 4, 64]}} : tensor<{rows}x4x64xf32>
  %z = kernel %h, %b : tensor<{rows}x4x64xf32> {{
  ^(%h: tensor<{rows}x4x64xf32>, %b: tensor<{rows}x4x64xf32>):
    %s = add %h, %b : tensor<{rows}x4x64xf32>
    %a = tanh %s : tensor<{rows}x4x64xf32>
    yield %a
  }}
  return %z
}}
""").functions
    split_function(function)
    gemm, _, kernel = list(function.block)[:3]
    assert (schedule_of(gemm) is not None) == (inner > 16)
    assert kernel_ns(kernel) < GRAIN_NS
    schedule = schedule_of(kernel)
    assert (schedule is not None) == is_cut
    if schedule is not None:
        work = kernel_ns(kernel) * schedule.chunk / rows
        assert (schedule.parallel, work >= SHORT_KERNEL_CHUNK_NS) == (0, True)


@pytest.mark.parametrize("elements", [100_003, 1_000_000])
def test_parts_of_the_innermost_axis_are_whole_cache_lines(elements: int) -> None:
    cut = schedule_of(sigmoid(1, elements))
    assert cut is not None
    assert cut.parallel == 1
    assert cut.chunk * 4 % LINE_BYTES == 0


@pytest.mark.parametrize("cols", [512, 1000, 1008, 1200, 4096])
def test_parts_of_a_product_are_whole_tiles(cols: int) -> None:
    cut = schedule_of(product(256, 512, cols))
    assert cut is not None
    assert cut.parallel == "cols"
    assert cut.chunk % COLUMNS == 0
    assert math.ceil(cols / cut.chunk) <= 2 * MOST_PRODUCT_PARTS


@pytest.mark.parametrize("rows", [100, 350, 1000])
def test_parts_that_read_a_far_factor_have_many_rows_or_columns(rows: int) -> None:
    cut = schedule_of(product(rows, 10_000, 200))
    assert cut is not None
    assert cut.chunk >= FAR_PART


def test_there_are_two_parts_where_one_alone_has_few_rows() -> None:
    cut = schedule_of(product(64, 10_000, 64))
    assert cut is not None
    assert cut.chunk == 32


@pytest.mark.parametrize(
    ("extent", "length", "multiple", "expected"),
    [
        (512, 64, 16, 64),  # divides already
        (1008, 128, 16, 112),  # the longest that divides
        (1000, 128, 16, 128),  # no multiple of 16 divides
        (96, 80, 16, 48),
        (16 * 31, 128, 16, 128),  # 16 would divide, but is less than half
    ],
)
def test_the_longest_length_of_equal_parts_is_taken_down_to_half(
    extent: int, length: int, multiple: int, expected: int
) -> None:
    assert even_length(extent, length, multiple) == expected


def scheduled(text: str) -> list[Operation]:
    """The products of a function, split."""
    module = parse(text)
    (function,) = module.functions
    split_function(function)
    sink = DiagnosticSink()
    verify_module(module, sink)
    assert not sink.has_errors
    return [op for op in function.block if op.opdef.name == "gemm"]


def gates(k: int, n: int, second: str = "%x") -> str:
    """Two products of one row, of %x and of %x or %o."""
    c, w = f"tensor<1x{n}xf32>", f"tensor<{k}x{n}xf32>"
    return f"""
func @f(%x: tensor<1x{k}xf32> input, %o: tensor<1x{k}xf32> input, %a: {w} parameter,
        %b: {w} parameter) -> (y: {c}, z: {c}) {{
  %y = gemm %x, %a : {c}
  %z = gemm {second}, %b : {c}
  return %y, %z
}}
"""


def test_short_products_of_one_factor_are_computed_at_the_same_time() -> None:
    first, second = scheduled(gates(400, 400))
    assert not first.schedule_as(ProductSchedule).beside
    assert second.schedule_as(ProductSchedule).beside
    assert schedule_of(first) is schedule_of(second) is None


def test_short_products_of_two_factors_are_cut_by_whole_parts() -> None:
    products = scheduled(gates(512, 512, "%o"))
    for op in products:
        cut = schedule_of(op)
        assert cut is not None
        assert cut.parallel == "cols"
        assert 512 % cut.chunk == 0
        assert not op.schedule_as(ProductSchedule).beside


BESIDE = "schedule {beside = true}"


@pytest.mark.parametrize(
    "text",
    [
        gates(8, 8, "%o").replace("gemm %o, %b", f"gemm %o, %b {BESIDE}"),
        gates(8, 8).replace("gemm %x, %a", f"gemm %x, %a {BESIDE}"),
        gates(8, 8)
        .replace("gemm %x, %b", f"gemm %x, %b {BESIDE}")
        .replace("gemm %x, %a", 'gemm %x, %a schedule {parallel = "cols", chunk = 4}'),
    ],
    ids=["another first factor", "nothing before it", "one that is cut before it"],
)
def test_products_that_cannot_be_computed_at_the_same_time(text: str) -> None:
    sink = DiagnosticSink()
    verify_module(parse(text), sink)
    (message,) = sink.diagnostics
    assert "`beside` requires a product of the same first factor before it" in message.message


@pytest.mark.parametrize("second", ["%x", "%o"])
@pytest.mark.parametrize(("k", "n"), [(300, 300), (40, 20)])
def test_a_call_with_little_to_share_is_not_shared(k: int, n: int, second: str) -> None:
    for op in scheduled(gates(k, n, second)):
        assert op.schedule == ProductSchedule()


LOOKUPS = {
    "sparse_product": ("64x50", "400x300", "64x300", ""),
    "sampled_product": ("64x300", "400x300", "64x50", ""),
    "gather": ("64x4000000", "", "64x50", ""),
    "transposed_sparse_product": ("64x50", "64x300", "400x300", " {size = 400}"),
}


def lookup(name: str, schedule: str = "") -> str:
    x, y, z, flags = LOOKUPS[name]
    second = f"%y: tensor<{y}xf32> input, " if y else ""
    return f"""
func @f(%x: tensor<{x}xf32> input, {second}%i: tensor<64x50xi32> input) -> (z: tensor<{z}xf32>) {{
  %z = index.{name} %x, {"%y, " if y else ""}%i{flags} {schedule} : tensor<{z}xf32>
  return %z
}}
"""


@pytest.mark.parametrize("name", LOOKUPS)
def test_lookups_are_cut_by_rows_of_their_result(name: str) -> None:
    schedule = schedule_of(op := split(lookup(name)))
    assert (schedule is None) == (name == "gather")  # which is little work
    if schedule is not None:
        rows = bound_of(op.result.tensor.dims[0])
        assert schedule.parallel == "rows"
        assert rows / MOST_LOOKUP_PARTS <= schedule.chunk < rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            """func @f(%x: tensor<4x3x3xf32> input) -> (z: tensor<4x3x3xf32>) {
  %z = gemm %x, %x {batch = 1} schedule {parallel = "rows", chunk = 1} : tensor<4x3x3xf32>
  return %z
}
""",
            'are cut by it: parallel = "batch"',
        ),
        (
            """func @f(%x: tensor<3x3xf32> input) -> (z: tensor<3x3xf32>) {
  %z = gemm %x, %x schedule {parallel = "batch", chunk = 1} : tensor<3x3xf32>
  return %z
}
""",
            'are cut by it: parallel = "batch"',
        ),
    ],
)
def test_what_cannot_be_cut_so_is_an_error(text: str, message: str) -> None:
    verify_module(parse(text), sink := DiagnosticSink())
    (found,) = sink.diagnostics
    assert message in found.message
