"""What operations compute and move."""

from __future__ import annotations

import re

import pytest

from graphc.ir.core import Module, Operation
from graphc.passes.analysis.costs import Cost, cost, is_light, total_cost, walk_costs
from tests.support.compiling import parse

SIZES = {"N": 10, "T": 7}


def operations(body: str, arguments: str, results: str) -> tuple[Module, list[Operation]]:
    roles = re.sub(r"(tensor<\w+>)", r"\1 input", arguments)
    text = f"dim N <= 256\ndim T <= 64\n\nfunc @f({roles}) -> ({results}) {{\n{body}\n}}\n"
    module = parse(text)
    return module, list(module.functions[0].block)


def one(body: str, arguments: str, result: str) -> Cost:
    _, ops = operations(f"{body}\n  return %y", arguments, f"y: {result}")
    return cost(ops[0], SIZES)


def test_a_product_does_two_operations_for_each_multiply_add() -> None:
    found = one(
        "  %y = gemm %a, %b : tensor<Nx4xf32>",
        "%a: tensor<Nx3xf32>, %b: tensor<3x4xf32>",
        "tensor<Nx4xf32>",
    )
    assert found == Cost(2 * 10 * 3 * 4, 4 * (10 * 3 + 3 * 4), 4 * 10 * 4)


def test_transposed_and_batched_products_count_the_same_dims() -> None:
    transposed = one(
        "  %y = gemm %a, %b {transpose_a = true, transpose_b = true} : tensor<Nx4xf64>",
        "%a: tensor<3xNxf64>, %b: tensor<4x3xf64>",
        "tensor<Nx4xf64>",
    )
    assert transposed == Cost(240, 8 * 42, 8 * 40)
    batched = one(
        "  %y = gemm %a, %b {batch = 1} : tensor<Nx2x4xf32>",
        "%a: tensor<Nx2x3xf32>, %b: tensor<Nx3x4xf32>",
        "tensor<Nx2x4xf32>",
    )
    assert batched.flops == 10 * 2 * 2 * 3 * 4


def test_a_product_with_a_body_counts_both() -> None:
    body = """  %y = gemm.fused %a, %b, %c : tensor<Nx4xf32> {
  ^(%p: tensor<Nx4xf32>, %q: tensor<1x4xf32>):
    %0 = broadcast %q {dims = [N, 4]} : tensor<Nx4xf32>
    %1 = add %p, %0 : tensor<Nx4xf32>
    yield %1
  }"""
    arguments = "%a: tensor<Nx3xf32>, %b: tensor<3x4xf32>, %c: tensor<1x4xf32>"
    found = one(body, arguments, "tensor<Nx4xf32>")
    assert found == Cost(2 * 10 * 3 * 4 + 10 * 4, 4 * (10 * 3 + 3 * 4 + 4), 4 * 10 * 4)


def test_a_kernel_counts_its_body_by_what_each_operation_runs_over() -> None:
    body = """  %y, %s = kernel %x, %b : tensor<Nx8xf32>, tensor<Nx1xf32> {
  ^(%p: tensor<Nx8xf32>, %q: tensor<1x8xf32>):
    %0 = broadcast %q {dims = [N, 8]} : tensor<Nx8xf32>
    %1 = add %p, %0 : tensor<Nx8xf32>
    %2 = tanh %1 : tensor<Nx8xf32>
    %3 = reduce_sum %2 {axes = [1]} : tensor<Nx1xf32>
    %4 = neg %3 : tensor<Nx1xf32>
    yield %2, %4
  }
  return %y, %s"""
    _, ops = operations(
        body,
        "%x: tensor<Nx8xf32>, %b: tensor<1x8xf32>",
        "y: tensor<Nx8xf32>, s: tensor<Nx1xf32>",
    )
    # add, tanh and the sum over 80 elements, neg over 10; the broadcast is free.
    assert cost(ops[0], SIZES) == Cost(3 * 80 + 10, 4 * (80 + 8), 4 * (80 + 10))


def test_a_convolution_is_a_product_with_every_window() -> None:
    found = one(
        "  %y = conv %x, %w {axis = 1, strides = [2]} : tensor<Nx4x6xf32>",
        "%x: tensor<Nx9x5xf32>, %w: tensor<3x5x6xf32>",
        "tensor<Nx4x6xf32>",
    )
    assert found == Cost(2 * 10 * 4 * 3 * 5 * 6, 4 * (10 * 9 * 5 + 3 * 5 * 6), 4 * 10 * 4 * 6)


def test_a_pooling_folds_every_element_of_every_window() -> None:
    found = one(
        '  %y = pool %x {scalar_op = "maximum", axis = 1, sizes = [3], strides = [2]} '
        ": tensor<Nx4x5xf32>",
        "%x: tensor<Nx9x5xf32>",
        "tensor<Nx4x5xf32>",
    )
    assert found == Cost(10 * 4 * 3 * 5, 4 * 10 * 9 * 5, 4 * 10 * 4 * 5)


def test_extents_are_at_their_bounds_where_no_call_is_given() -> None:
    _, (op, _) = operations(
        "  %y = gemm %a, %b : tensor<Nx4xf64>\n  return %y",
        "%a: tensor<Nx3xf64>, %b: tensor<3x4xf64>",
        "y: tensor<Nx4xf64>",
    )
    assert cost(op) == cost(op, {"N": 256})


@pytest.mark.parametrize(
    ("text", "light"),
    [
        ("add %x, %x", True),
        ("maximum %x, %x", True),
        ("stop_gradient %x", True),
        ("tanh %x", False),
        ("div %x, %x", False),
        ("sqrt %x", False),
        ("matmul %x, %x", False),
    ],
)
def test_light_is_what_weighs_no_more_than_an_addition(text: str, light: bool) -> None:
    square = "tensor<3x3xf32>"
    body = f"  %y = {text} : {square}\n  return %y"
    _, (op, _) = operations(body, f"%x: {square}", f"y: {square}")
    assert is_light(op) == light


def test_an_operand_that_is_given_twice_is_read_once() -> None:
    found = one(
        "  %y = gemm %a, %a {transpose_b = true} : tensor<NxNxf32>",
        "%a: tensor<Nx3xf32>",
        "tensor<NxNxf32>",
    )
    assert found.bytes_read == 4 * 30


def test_moving_elements_computes_nothing() -> None:
    found = one(
        "  %y = move.transpose %x {permutation = [1, 0]} : tensor<3xNxf32>",
        "%x: tensor<Nx3xf32>",
        "tensor<3xNxf32>",
    )
    assert found == Cost(0, 120, 120)


def test_of_a_table_the_rows_that_are_looked_up_are_read() -> None:
    found = one(
        "  %y = index.sparse_product %x, %t, %i : tensor<Nx5xf32>",
        "%x: tensor<Nx2xf32>, %t: tensor<1000x5xf32>, %i: tensor<Nx2xi32>",
        "tensor<Nx5xf32>",
    )
    assert found == Cost(2 * 10 * 2 * 5, 4 * (20 + 10 * 2 * 5 + 20), 4 * 50)


def test_no_more_of_a_table_is_read_than_there_is() -> None:
    found = one(
        "  %y = index.sparse_product %x, %t, %i : tensor<Nx5xf32>",
        "%x: tensor<Nx2xf32>, %t: tensor<3x5xf32>, %i: tensor<Nx2xi32>",
        "tensor<Nx5xf32>",
    )
    assert found.bytes_read == 4 * (20 + 15 + 20)


def test_views_cost_nothing() -> None:
    found = one(
        "  %y = reshape %x {dims = [3, N]} : tensor<3xNxf32>",
        "%x: tensor<Nx3xf32>",
        "tensor<3xNxf32>",
    )
    assert found == Cost()


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_what_stands_in_a_loop_counts_once_for_each_step(steps: int) -> None:
    body = """  %y = loop %w, %x, %h0 {count = T, sequences = 1, carried = 1} : tensor<Nx3xf32> {
  ^(%a: tensor<3x3xf32>, %b: tensor<Nx3xf32>, %c: tensor<Nx3xf32>):
    %0 = gemm %c, %a : tensor<Nx3xf32>
    yield %0
  }
  return %y"""
    module, _ = operations(
        body,
        "%w: tensor<3x3xf32>, %x: tensor<TxNx3xf32>, %h0: tensor<Nx3xf32>",
        "y: tensor<Nx3xf32>",
    )
    sizes = {"N": 10, "T": steps}
    (found,) = walk_costs(module.functions[0].block, sizes)
    assert (found[0].opdef.name, found[1], found[2].flops) == ("gemm", steps, 180)
    assert total_cost(module.functions[0].block, sizes).flops == 180 * steps


def test_costs_are_added_and_multiplied() -> None:
    total = Cost(1, 2, 3).times(2).plus(Cost(10, 20, 30))
    assert total == Cost(12, 24, 36)
    assert total.bytes == 60
