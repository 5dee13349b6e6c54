"""Walks: outer before inner, program order, any depth."""

from __future__ import annotations

from graphc.ir.core import Block, Operation, Region
from graphc.ir.traversal import blocks, made_of, walk
from graphc.ops.kernel import KERNEL
from tests.support.text_form import legal

TEXT = """
graph @g {
  %x = node.input {rows = 2} : matrix<2x*>
}
func @f(%x: tensor<2xf32> input) {
  %a = kernel %x : tensor<2xf32> {
  ^(%p: tensor<2xf32>):
    %q = neg %p : tensor<2xf32>
    yield %q
  }
  %b = abs %a : tensor<2xf32>
  return
}
"""
INSIDE = ["kernel", "neg", "yield", "abs", "return"]


def test_a_module_is_walked_in_program_order_outer_before_inner() -> None:
    assert [op.opdef.name for op in walk(legal(TEXT))] == ["node.input", *INSIDE]


def test_a_walk_may_start_at_any_level() -> None:
    function = legal(TEXT).functions[1]
    for root in (function, function.body, function.block):
        assert [op.opdef.name for op in walk(root)] == INSIDE
    kernel = function.block.first
    assert kernel is not None
    assert [op.opdef.name for op in walk(kernel)] == ["kernel", "neg", "yield"]


def test_the_current_operation_may_be_erased_while_walking() -> None:
    function = legal(TEXT).functions[1]
    for op in walk(function):
        if op.opdef.name == "abs":
            op.erase()
    assert [op.opdef.name for op in walk(function)] == ["kernel", "neg", "yield", "return"]


def test_blocks_come_outer_before_inner() -> None:
    function = legal(TEXT).functions[1]
    assert [len(block) for block in blocks(function)] == [3, 2]


def test_nesting_of_any_depth_is_walked_without_recursion() -> None:
    block = Block()
    for _ in range(20_000):
        outer = Block()
        outer.append(Operation(KERNEL, [], [], regions=[Region([block])]))
        block = outer
    assert sum(1 for _ in walk(block)) == 20_000
    assert sum(1 for _ in blocks(Region([block]))) == 20_001
    next(iter(block)).drop_references()


def test_what_a_value_is_made_of_comes_once_and_operands_first() -> None:
    doublings = "".join(f"  %x{i + 1} = add %x{i}, %x{i} : tensor<2xf32>\n" for i in range(64))
    text = (
        f"func @f(%x0: tensor<2xf32> input) -> (y: tensor<2xf32>) {{\n{doublings}  return %x64\n}}"
    )
    (last,) = legal(text).functions[0].returned
    assert [v.name for v in made_of(last, lambda _: False)] == [f"x{i}" for i in range(65)]


def test_what_the_ends_are_made_of_is_left_out() -> None:
    text = """
func @f(%x: tensor<2xf32> input) -> (y: tensor<2xf32>) {
  %a = neg %x : tensor<2xf32>
  %b = exp %a : tensor<2xf32>
  %c = add %b, %a : tensor<2xf32>
  return %c
}
"""
    (last,) = legal(text).functions[0].returned
    assert [v.name for v in made_of(last, lambda v: v.name == "b")] == ["b", "x", "a", "c"]
