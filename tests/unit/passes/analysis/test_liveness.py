from __future__ import annotations

from graphc.ir.parser import parse_module
from graphc.ops import default_context
from graphc.passes.analysis.liveness import Liveness, live_ranges

TEXT = """func @f(%x: tensor<2x2xf32> input, %unused: tensor<2xf32> input) -> (z: tensor<2x2xf32>) {
  %a = gemm %x, %x : tensor<2x2xf32>
  %v = reshape %a {dims = [4]} : tensor<4xf32>
  %b = gemm %x, %x : tensor<2x2xf32>
  %w = reshape %v {dims = [2, 2]} : tensor<2x2xf32>
  %z = gemm %b, %w : tensor<2x2xf32>
  %dead = gemm %b, %b : tensor<2x2xf32>
  return %z
}"""


def ranges() -> tuple[Liveness, dict[str, tuple[int, int]]]:
    context = default_context()
    module = parse_module(TEXT, context)
    context.sink.raise_if_errors()
    liveness = live_ranges(module.functions[0].block)
    return liveness, {v.name or "": (r.start, r.end) for v, r in liveness.ranges.items()}


def test_a_value_lives_from_its_operation_to_its_last_reader() -> None:
    assert ranges()[1]["b"] == (2, 5)


def test_a_reader_of_a_view_reads_the_memory_behind_it() -> None:
    assert ranges()[1]["a"] == (0, 4)


def test_views_have_no_memory_of_their_own() -> None:
    liveness, found = ranges()
    assert {"v", "w"} & found.keys() == set()
    roots = {value.name: root.name for value, root in liveness.roots.items()}
    assert (roots["v"], roots["w"]) == ("a", "a")


def test_arguments_live_before_the_first_operation() -> None:
    found = ranges()[1]
    assert found["x"] == (-1, 2)
    assert found["unused"] == (-1, -1)


def test_return_reads_what_it_hands_out() -> None:
    assert ranges()[1]["z"] == (4, 6)


def test_a_value_that_nobody_reads_ends_where_it_starts() -> None:
    assert ranges()[1]["dead"] == (5, 5)
