"""Structural equality: what counts and what does not."""

from __future__ import annotations

import pytest

from graphc.ir.equivalence import modules_equal
from tests.support.text_form import parsed

FUNC = """
dim N <= 4
func @f(%x: tensor<Nxf32> input, %w: tensor<Nxf32> parameter)
  -> (y: tensor<Nxf32> updates %w) arena 64 {
  %a = sub %x, %w : tensor<Nxf32>
  %b = broadcast %a {dims = [N]} : tensor<Nxf32>
  %y = kernel %b : tensor<Nxf32> {
  ^(%p: tensor<Nxf32>):
    %q = neg %p : tensor<Nxf32>
    yield %q
  }
  return %y
}
"""
GRAPH = """
graph @g {
  %h = node.plus %x, %p : matrix<2x*>
  %p = node.past_value %h : matrix<2x*>
  %x = node.input {rows = 2} : matrix<2x*>
}
"""


@pytest.mark.parametrize("text", [FUNC, GRAPH, ""])
def test_a_module_equals_itself_read_twice(text: str) -> None:
    assert modules_equal(parsed(text), parsed(text))


@pytest.mark.parametrize(
    ("old", "new"), [("%a", "%other"), ("%q", "%7"), ("%y", "%0"), ("%p", '%"a b"')]
)
def test_the_names_of_values_in_a_func_do_not_count(old: str, new: str) -> None:
    assert old in FUNC
    assert modules_equal(parsed(FUNC), parsed(FUNC.replace(old, new)))


def test_locations_do_not_count() -> None:
    line = "%a = sub %x, %w : tensor<Nxf32>"
    placed = FUNC.replace(line, f'{line} loc("t":1:2-3)')
    assert "loc" in placed
    assert modules_equal(parsed(FUNC), parsed(placed))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dim N <= 4", "dim N <= 5"),
        ("dim N <= 4", "dim N <= 4 step 2"),
        ("@f", "@g"),
        ("%x: tensor<Nxf32> input", "%x: tensor<Nxf32> state"),
        ("y: tensor", "z: tensor"),
        (" updates %w", ""),
        ("arena 64", "arena 128"),
        ("arena 64", ""),
        ("sub %x, %w", "sub %w, %x"),
        ("sub %x, %w", "add %x, %w"),
        ("sub %x, %w", "sub %x, %x"),
        ("neg %p", "abs %p"),
        ("kernel %b", "kernel %b at result:0"),
        ("kernel %b", "kernel %b workspace tensor<2xf32> at arena:0"),
        ("{dims = [N]}", "{dims = [4]}"),
        ("yield %q", "yield %p"),
        ("kernel %b", "kernel %a"),
    ],
)
def test_everything_else_in_a_func_counts(old: str, new: str) -> None:
    assert old in FUNC
    assert not modules_equal(parsed(FUNC), parsed(FUNC.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%x = node.input", "%X = node.input"),
        ("%h = node.plus %x, %p", "%h = node.plus %p, %x"),
        ("rows = 2}", 'rows = 2, tags = ["feature"]}'),
        ("%x = node.input {rows = 2} : matrix<2x*>", "%x = node.input {rows = 2} : matrix<?x*>"),
        ("graph @g", "func @g"),
    ],
)
def test_names_params_edges_and_types_of_a_graph_count(old: str, new: str) -> None:
    text = GRAPH.replace(old, new).replace("plus %x", "plus %X" if "%X" in new else "plus %x")
    assert not modules_equal(parsed(GRAPH), parsed(text))


def test_nan_equals_nan_and_zero_is_not_minus_zero() -> None:
    def constant(value: str) -> str:
        return (
            f"func @f() {{\n  %c = constant {{type = tensor<f32>, value = [{value}]}}"
            " : tensor<f32>\n  return\n}\n"
        )

    assert modules_equal(parsed(constant("nan")), parsed(constant("nan")))
    assert not modules_equal(parsed(constant("0.0")), parsed(constant("-0.0")))
    assert not modules_equal(parsed(constant("0.0")), parsed(constant("0")))


def test_modules_of_different_length_are_not_equal() -> None:
    assert not modules_equal(parsed(GRAPH), parsed(GRAPH + "graph @other {\n}\n"))
