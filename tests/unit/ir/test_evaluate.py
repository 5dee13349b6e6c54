"""The reference evaluator: order, sizes, regions, and references that lie about their type."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphc.ir.core import Function, IRBuilder, RegionKind, ResultInfo
from graphc.ir.evaluate import evaluate, evaluate_graph
from graphc.ir.types import DType, TensorType
from graphc.ops.control import RETURN
from graphc.ops.elementwise import NEG
from graphc.support.diagnostics import InternalError
from tests.support.text_form import legal

F32 = TensorType((2,), DType.F32)


def test_results_come_by_name() -> None:
    module = legal(
        """
        dim N <= 4
        func @f(%x: tensor<Nxf64> input) -> (minus: tensor<Nxf64>, same: tensor<Nxf64>) {
          %y = neg %x : tensor<Nxf64>
          return %y, %x
        }
        """
    )
    found = evaluate(module.functions[0], {"x": np.array([1.0, -2.0, 3.0])}, {"N": 3})
    assert {name: array.tolist() for name, array in found.items()} == {
        "minus": [-1.0, 2.0, -3.0],
        "same": [1.0, -2.0, 3.0],
    }


def test_a_kernel_is_evaluated_through_its_body() -> None:
    module = legal(
        """
        func @f(%x: tensor<2xf64> input) -> (y: tensor<2xf64>) {
          %y = kernel %x : tensor<2xf64> {
          ^(%a: tensor<2xf64>):
            %b = mul %a, %a : tensor<2xf64>
            yield %b
          }
          return %y
        }
        """
    )
    found = evaluate(module.functions[0], {"x": np.array([2.0, 3.0])}, {})
    assert found["y"].tolist() == [4.0, 9.0]


def test_a_dimension_in_params_takes_the_size_of_the_call() -> None:
    module = legal(
        """
        dim N <= 9
        func @f() -> (y: tensor<1xf32>) {
          %y = extent {dim = N, type = tensor<1xf32>} : tensor<1xf32>
          return %y
        }
        """
    )
    assert evaluate(module.functions[0], {}, {"N": 7})["y"].tolist() == [7.0]


@pytest.mark.parametrize(
    "wrong", [lambda _p, x: x[:1], lambda _p, x: x.astype(np.float64), lambda _p, x: x[None]]
)
def test_a_reference_that_gives_another_type_than_it_says_is_caught(wrong: object) -> None:
    function = Function("f", RegionKind.SSA)
    x = function.add_argument("x", F32, "input")
    lying = replace(NEG, reference=wrong)
    builder = IRBuilder(function.block)
    builder.emit(RETURN, [builder.emit_one(lying, x)])
    function.results = [ResultInfo("y")]
    with pytest.raises(InternalError, match="the reference of neg gave"):
        evaluate(function, {"x": np.zeros(2, np.float32)}, {})


def test_a_function_without_terminator_has_no_value() -> None:
    with pytest.raises(InternalError, match="no terminator"):
        evaluate(Function("f", RegionKind.SSA), {}, {})


def test_floating_point_exceptions_are_values_and_no_warnings() -> None:
    module = legal(
        """
        func @f(%x: tensor<2xf32> input) -> (y: tensor<2xf32>) {
          %y = log %x : tensor<2xf32>
          return %y
        }
        """
    )
    found = evaluate(module.functions[0], {"x": np.array([0.0, -1.0], np.float32)}, {})
    assert found["y"][0] == -np.inf
    assert np.isnan(found["y"][1])


def test_a_graph_is_evaluated_in_any_order_of_its_nodes() -> None:
    module = legal(
        """
        graph @g {
          %z = node.times %W, %h : matrix<1x*>
          %h = node.negate %x : matrix<2x*>
          %W = node.parameter {rows = 1, cols = 2} : matrix<1x2>
          %x = node.input {rows = 2} : matrix<2x*>
        }
        """
    )
    leaves = {"W": np.array([[1.0, 10.0]]), "x": np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])}
    assert evaluate_graph(module.functions[0], leaves)["z"].tolist() == [[-41.0, -52.0, -63.0]]


def test_a_graph_with_a_cycle_has_no_value() -> None:
    module = legal(
        """
        graph @g {
          %h = node.plus %x, %p : matrix<2x*>
          %p = node.past_value %h : matrix<2x*>
          %x = node.input {rows = 2} : matrix<2x*>
        }
        """
    )
    with pytest.raises(ValueError, match="cycle"):
        evaluate_graph(module.functions[0], {"x": np.zeros((2, 1))})


def test_a_leaf_without_value_is_named() -> None:
    module = legal("graph @g {\n  %x = node.input {rows = 2} : matrix<2x*>\n}\n")
    with pytest.raises(InternalError, match="`x` no value"):
        evaluate_graph(module.functions[0], {})
