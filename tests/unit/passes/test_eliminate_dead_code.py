from __future__ import annotations

from graphc.ir.core import Function
from graphc.ir.parser import parse_module
from graphc.ops import default_context
from graphc.passes.eliminate_dead_code import remove_dead_operations


def function(text: str) -> Function:
    context = default_context()
    module = parse_module(text, context)
    context.sink.raise_if_errors()
    return module.functions[0]


def test_a_chain_that_nobody_reads_goes_in_one_run() -> None:
    f = function(
        """func @f(%x: tensor<2xf32> input) -> (z: tensor<2xf32>) {
          %a = exp %x : tensor<2xf32>
          %b = neg %a : tensor<2xf32>
          %z = tanh %x : tensor<2xf32>
          return %z
        }"""
    )
    assert remove_dead_operations(f) == 2
    assert [op.opdef.name for op in f.block] == ["tanh", "return"]


def test_arguments_stay() -> None:
    f = function("func @f(%x: tensor<2xf32> input) {\n return\n}")
    assert remove_dead_operations(f) == 0
    assert len(f.arguments) == 1


def test_an_operation_with_one_result_in_use_stays() -> None:
    f = function(
        """func @f(%x: tensor<2xf32> input) -> (z: tensor<2xf32>) {
          %z, %b = kernel %x : tensor<2xf32>, tensor<2xf32> {
          ^(%0: tensor<2xf32>):
            %1 = exp %0 : tensor<2xf32>
            %2 = neg %0 : tensor<2xf32>
            yield %1, %2
          }
          return %z
        }"""
    )
    assert remove_dead_operations(f) == 0


def test_dead_operations_inside_kernels_go_too() -> None:
    f = function(
        """func @f(%x: tensor<2xf32> input) -> (z: tensor<2xf32>) {
          %z = kernel %x : tensor<2xf32> {
          ^(%0: tensor<2xf32>):
            %1 = exp %0 : tensor<2xf32>
            %2 = neg %0 : tensor<2xf32>
            yield %1
          }
          return %z
        }"""
    )
    assert remove_dead_operations(f) == 1


def test_nodes_are_what_the_user_wrote() -> None:
    f = function(
        """graph @net {
          %a = node.constant {value = 1.0} : matrix<1x1>
        }"""
    )
    assert remove_dead_operations(f) == 0
