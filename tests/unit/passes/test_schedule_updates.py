"""What runs earlier when updates run as soon as they may, and what keeps its place."""

from __future__ import annotations

from graphc.ir.core import Function
from graphc.passes.fuse_kernels import fuse
from graphc.passes.plan_memory import plan
from graphc.passes.schedule_updates import schedule_updates
from tests.support.compiling import parse

HEAD = """
func @f(%d: tensor<3x3xf32> input, %e: tensor<4x4xf32> input,
        %w: tensor<3x3xf32> parameter, %v: tensor<4x4xf32> parameter)
    -> (w: tensor<3x3xf32> updates %w, v: tensor<4x4xf32> updates %v, y: tensor<3x3xf32>) {
"""
LOOP = """
  %y = loop %w, %d {count = 3, sequences = 0, carried = 1} : tensor<3x3xf32> {
  ^(%u: tensor<3x3xf32>, %h: tensor<3x3xf32>):
    %n = matmul %h, %u : tensor<3x3xf32>
    yield %n
  }
"""


def fused(lines: str) -> Function:
    """A step over the parameters %w and %v with the slopes %d and %e."""
    (function,) = parse(f"{HEAD}{lines}  return %w1, %v1, %y\n}}\n").functions
    fuse(function)
    return function


def order(function: Function) -> list[str]:
    return [op.results[0].name or "" for op in function.block if op.results]


def test_a_loop_reads_an_argument_before_its_update() -> None:
    function = fused(f"""
  %g = matmul %d, %d : tensor<3x3xf32>
  {LOOP}
  %w1 = add %w, %g : tensor<3x3xf32>
  %v1 = add %v, %e : tensor<4x4xf32>
""")
    schedule_updates(function)
    assert order(function) == ["v1", "g", "y", "w1"]


def test_an_update_waits_for_readers_of_a_view_of_its_argument() -> None:
    function = fused("""
  %r = reshape %v {dims = [4, 4]} : tensor<4x4xf32>
  %t = matmul %r, %e : tensor<4x4xf32>
  %y = slice %t {starts = [0, 0], stops = [3, 3], steps = [1, 1]} : tensor<3x3xf32>
  %v1 = add %v, %e : tensor<4x4xf32>
  %w1 = add %w, %d : tensor<3x3xf32>
""")
    schedule_updates(function)
    assert order(function) == ["w1", "r", "t", "v1", "y"]


def test_what_updates_nothing_keeps_its_order() -> None:
    function = fused("""
  %a = matmul %d, %w : tensor<3x3xf32>
  %b = matmul %d, %d : tensor<3x3xf32>
  %y = matmul %b, %a : tensor<3x3xf32>
  %v1 = matmul %v, %e : tensor<4x4xf32>
  %w1 = matmul %w, %a : tensor<3x3xf32>
""")
    schedule_updates(function)
    assert order(function) == ["v1", "a", "w1", "b", "y"]
    assert schedule_updates(function) == 0


def test_no_argument_is_copied_for_an_update_that_moved() -> None:
    function = fused(f"""
  {LOOP}
  %v1 = add %v, %e : tensor<4x4xf32>
  %w1 = add %w, %d : tensor<3x3xf32>
""")
    assert schedule_updates(function) == 2
    plan(function)
    assert "copy" not in [op.opdef.name for op in function.block]
