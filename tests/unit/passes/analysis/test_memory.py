"""The checker of memory plans finds every kind of mistake."""

from __future__ import annotations

import pytest

from graphc.ir.core import Function
from graphc.ir.parser import parse_module
from graphc.ops import default_context
from graphc.passes.analysis.memory import check_plan, memory_report

GOOD = """func @f(%x: tensor<4x4xf32> input, %w: tensor<4x4xf32> parameter)
    -> (z: tensor<4x4xf32>, w: tensor<4x4xf32> updates %w) arena 128 {
  %a = gemm %x, %w at arena:0 : tensor<4x4xf32>
  %b = gemm %x, %a at arena:64 : tensor<4x4xf32>
  %c = kernel %a, %b at arena:64 : tensor<4x4xf32> {
  ^(%0: tensor<4x4xf32>, %1: tensor<4x4xf32>):
    %2 = add %0, %1 : tensor<4x4xf32>
    yield %2
  }
  %z = gemm %c, %w at result:0 : tensor<4x4xf32>
  %n = kernel %w, %c at argument:1 : tensor<4x4xf32> {
  ^(%3: tensor<4x4xf32>, %4: tensor<4x4xf32>):
    %5 = sub %3, %4 : tensor<4x4xf32>
    yield %5
  }
  return %z, %n
}
"""


def function(text: str) -> Function:
    context = default_context()
    module = parse_module(text, context)
    context.sink.raise_if_errors()
    return module.functions[0]


def test_a_sound_plan_has_no_problems() -> None:
    assert check_plan(function(GOOD)) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("arena 128", "arena 64", "ends past the arena's 64 bytes"),
        ("%b = gemm %x, %a at arena:64", "%b = gemm %x, %a at arena:0", "over its"),
        ("%c = kernel %a, %b at arena:64", "%c = kernel %a, %b at arena:32", "32"),
        ("result:0", "arena:0", "result z is written 0 times"),
        ("result:0", "result:1", "which is no result of the function"),
        ("argument:1", "argument:0", "which is no result of the function"),
        ("return %z, %n", "return %n, %z", "is not what"),
        ("= add %0, %1", "= add %1, %1", None),
    ],
)
def test_a_mistake_is_found(old: str, new: str, problem: str | None) -> None:
    assert old in GOOD
    found = check_plan(function(GOOD.replace(old, new)))
    assert (found == []) if problem is None else any(problem in f for f in found)


def test_reading_a_value_that_was_overwritten_is_found() -> None:
    text = GOOD.replace("%b = gemm %x, %a at arena:64", "%b = gemm %x, %x at arena:0")
    assert any("reads %a" in f for f in check_plan(function(text)))


def test_reading_an_argument_after_its_update_is_found() -> None:
    lines = GOOD.splitlines()
    product = next(i for i, line in enumerate(lines) if "%z = gemm" in line)
    moved = lines.pop(product)
    lines.insert(len(lines) - 2, moved)
    assert any("reads %w" in f for f in check_plan(function("\n".join(lines))))


def test_two_results_of_one_operation_may_not_share_memory() -> None:
    text = """func @f(%x: tensor<2xf32> input) -> (z: tensor<2xf32>) arena 64 {
      %a, %b = kernel %x at arena:0, arena:0 : tensor<2xf32>, tensor<2xf32> {
      ^(%0: tensor<2xf32>):
        %1 = exp %0 : tensor<2xf32>
        %2 = neg %0 : tensor<2xf32>
        yield %1, %2
      }
      %z = copy %b at result:0 : tensor<2xf32>
      return %z
    }"""
    assert any("two results" in f for f in check_plan(function(text)))


@pytest.mark.parametrize(
    ("body", "sound"),
    [
        ("%1 = exp %0 : tensor<2x2xf32>\n yield %1", True),
        (
            """%1 = reduce_sum %0 {axes = [1]} : tensor<2x1xf32>
            %2 = broadcast %1 {dims = [2, 2]} : tensor<2x2xf32>
            yield %2""",
            False,
        ),
    ],
)
def test_only_a_kernel_without_reductions_works_in_place(body: str, sound: bool) -> None:
    text = f"""func @f(%x: tensor<2x2xf32> input) -> (z: tensor<2x2xf32>) arena 64 {{
      %a = gemm %x, %x at arena:0 : tensor<2x2xf32>
      %b = kernel %a at arena:0 : tensor<2x2xf32> {{
      ^(%0: tensor<2x2xf32>):
        {body}
      }}
      %z = copy %b at result:0 : tensor<2x2xf32>
      return %z
    }}"""
    assert (check_plan(function(text)) == []) is sound


def test_a_function_without_a_plan_says_so() -> None:
    text = GOOD.replace(" arena 128", "")
    assert check_plan(function(text)) == ["@f has no arena"]


WORKING = """func @f(%x: tensor<4x6xf32> input, %w: tensor<3x1xf32> parameter)
    -> (y: tensor<4x4xf32>, z: tensor<4x6xf32>) arena 320 {
  %a = copy %x at arena:0 : tensor<4x6xf32>
  %b = copy %x at arena:128 : tensor<4x6xf32>
  %y = conv %a, %w {axis = 1, strides = [2], low = [1], high = [2]} at result:0
    workspace tensor<1x9xf32> at arena:256 : tensor<4x4xf32>
  %z = copy %b at result:1 : tensor<4x6xf32>
  return %y, %z
}
"""


def test_a_workspace_beside_all_that_lives_is_sound() -> None:
    assert check_plan(function(WORKING)) == []
    assert check_plan(function(WORKING.replace("copy %b", "copy %x").replace(":256", ":128"))) == []


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("arena:0", "`conv` of %y works in arena:0, where its operand %a lies"),
        ("arena:64", "where its operand %a lies"),
        ("arena:192", "`copy` of %z reads %b, whose memory holds something else by then"),
        ("arena:240", "arena:240 is not a multiple of 64"),
        ("arena:320", "arena:320 ends past the arena's 320 bytes"),
        ("result:0", "works in result:0, which is not in the arena"),
    ],
)
def test_a_workspace_where_something_else_lives_is_found(place: str, problem: str) -> None:
    found = check_plan(function(WORKING.replace("arena:256", place)))
    assert any(problem in f for f in found), found


def test_a_workspace_over_a_result_or_another_workspace_is_found() -> None:
    text = WORKING.replace("at result:0", "at arena:256")
    assert any("memory of %y that it uses otherwise" in f for f in check_plan(function(text)))
    two = """func @f(%x: tensor<4x3x2xf32> input, %d: tensor<4x3x2xf32> input)
    -> (w: tensor<3x2x2xf32>) arena 256 {
  %w = conv.weight_grad %x, %d {axis = 1, sizes = [3], strides = [1], low = [1], high = [1]}
    schedule {parallel = "images", chunk = 2} at result:0
    workspace tensor<2x5x2xf32> at arena:0, tensor<2x3x2x2xf32> at arena:128 : tensor<3x2x2xf32>
  return %w
}
"""
    assert check_plan(function(two)) == []
    found = check_plan(function(two.replace("arena:128", "arena:64")))
    assert any("memory of %workspace 0 that it uses otherwise too" in f for f in found), found


def test_a_workspace_that_is_missing_is_found() -> None:
    text = WORKING.replace("workspace tensor<1x9xf32> at arena:256", "")
    assert any("has another workspace than it needs" in f for f in check_plan(function(text)))


def test_a_workspace_counts_at_the_peak() -> None:
    report = memory_report(function(WORKING))
    assert (report.lower_bound_bytes, report.peak) == (128 + 128 + 64, str(96 + 96 + 36))


TOGETHER = """dim T <= 4
func @f(%x: tensor<Tx4x4xf32> input, %h: tensor<4x4xf32> input)
    -> (y: tensor<4x4xf32>, z: tensor<4x4xf32>) arena 128 {
  %y = loop %x, %h {count = T, sequences = 1, carried = 1} at result:0 : tensor<4x4xf32> {
  ^(%e: tensor<4x4xf32>, %c: tensor<4x4xf32>):
    %p = gemm %c, %e at arena:0 : tensor<4x4xf32>
    %q = gemm %p, %e at carried:0 : tensor<4x4xf32>
    yield %q
  }
  %z = loop %x, %h {count = T, sequences = 1, carried = 1} schedule {beside = true} at result:1
      : tensor<4x4xf32> {
  ^(%f: tensor<4x4xf32>, %d: tensor<4x4xf32>):
    %r = gemm %d, %f at arena:64 : tensor<4x4xf32>
    %s = gemm %r, %f at carried:0 : tensor<4x4xf32>
    yield %s
  }
  return %y, %z
}
"""


def test_what_runs_at_the_same_time_shares_no_memory() -> None:
    assert check_plan(function(TOGETHER)) == []
    shared = TOGETHER.replace("arena:64", "arena:0")
    assert any("runs at the same time" in problem for problem in check_plan(function(shared)))
    assert check_plan(function(shared.replace(" schedule {beside = true}", ""))) == []


BEGUN = """func @f(%x: tensor<4x4xf32> input) -> (z: tensor<4x4xf32>) arena 192 {
  %a = gemm %x, %x at arena:0 : tensor<4x4xf32>
  %s = all_reduce_start %a {members = 2} at arena:0 : tensor<4x4xf32>
  %b = gemm %x, %x at arena:64 : tensor<4x4xf32>
  %t = all_reduce_finish %s at arena:0 : tensor<4x4xf32>
  %z = gemm %t, %b at result:0 : tensor<4x4xf32>
  return %z
}
"""


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("arena:64", "arena:128", None),
        ("%b = gemm %x, %x at arena:64", "%b = gemm %x, %x at arena:0", "holds something else"),
        ("%x, %x at arena:64", "%x, %a at arena:64", "holds something else"),
        ("finish %s at arena:0", "finish %s at arena:128", "where the sums were begun"),
    ],
)
def test_the_memory_of_a_sum_that_is_begun_is_its_own(
    old: str, new: str, problem: str | None
) -> None:
    assert old in BEGUN
    found = check_plan(function(BEGUN.replace(old, new)))
    assert (found == []) if problem is None else any(problem in f for f in found), found
