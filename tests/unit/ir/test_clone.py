"""Copies: equal to the original and independent of it."""

from __future__ import annotations

from graphc.ir.clone import clone_module, clone_operations
from graphc.ir.core import Block
from graphc.ir.equivalence import modules_equal
from graphc.ir.printer import print_module
from graphc.ir.traversal import walk
from tests.support.text_form import broken_rules, legal

TEXT = """
dim N <= 4
graph @network {
  %h = node.plus %x, %p : matrix<2x*>
  %p = node.past_value %h : matrix<2x*>
  %x = node.input {rows = 2, tags = ["feature"]} : matrix<2x*>
}
func @f(%x: tensor<Nx2xf32> input, %s: tensor<2xf32> state)
  -> (y: tensor<Nx2xf32>, s: tensor<2xf32> updates %s) arena 64 {
  %y = kernel %x at result:0 : tensor<Nx2xf32> {
  ^(%a: tensor<Nx2xf32>):
    %b = neg %a : tensor<Nx2xf32>
    yield %b
  }
  return %y, %s
}
"""


def test_a_copy_prints_as_the_original_with_locations() -> None:
    module = legal(TEXT)
    copy = clone_module(module)
    assert print_module(copy, locations=True) == print_module(module, locations=True)
    assert modules_equal(copy, module)
    assert broken_rules(copy) == []


def test_a_copy_shares_no_operation_and_no_value() -> None:
    module = legal(TEXT)
    copy = clone_module(module)
    assert not set(walk(module)) & set(walk(copy))
    values = {v for op in walk(module) for v in op.operands}
    assert not values & {v for op in walk(copy) for v in op.operands}


def test_changing_a_copy_leaves_the_original_alone() -> None:
    module = legal(TEXT)
    before = print_module(module)
    copy = clone_module(module)
    function = copy.functions[1]
    function.results.clear()
    function.roles[0] = "state"
    function.block.terminator.set_operands([])  # type: ignore[union-attr]
    for op in copy.functions[0].block:
        op.drop_references()
    copy.dims.clear()
    assert print_module(module) == before
    assert broken_rules(module) == []


def test_operands_that_are_not_copied_are_kept() -> None:
    module = legal(TEXT)
    kernel, _ = module.functions[1].block
    target = Block()
    clone_operations([kernel], target, {})
    (copy,) = target
    assert copy.operands == kernel.operands
    assert (copy, 0) in kernel.operands[0].uses
