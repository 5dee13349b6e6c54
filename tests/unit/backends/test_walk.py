"""What every backend does alike: results at their places, what a step of a loop reads and keeps.

The backend here writes a line for each call; its arrays are texts.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from graphc.backends.walk import Walker
from graphc.ir.core import Operation, Value
from graphc.ir.placement import Address
from graphc.ir.types import Dim
from graphc.support.diagnostics import InternalError
from tests.support.compiling import parse

LOOP = """func @main(%w: tensor<2x2xf64> input, %x: tensor<4x3x2xf64> input,
           %a: tensor<3x2xf64> input, %b: tensor<3x2xf64> input)
    -> (h: tensor<3x2xf64>, c: tensor<3x2xf64>, hs: tensor<4x3x2xf64>) arena 192 {
  %h, %c, %hs = loop %w, %x, %a, %b
      {count = 4, sequences = 1, carried = 2, backward = BACKWARD, history = [0, -1]}
      at result:0, result:1, result:2
      : tensor<3x2xf64>, tensor<3x2xf64>, tensor<4x3x2xf64> {
  ^(%v: tensor<2x2xf64>, %e: tensor<3x2xf64>, %u: tensor<3x2xf64>, %d: tensor<3x2xf64>):
    %0 = gemm %u, %v at arena:0 : tensor<3x2xf64>
    %1 = copy %0 at stack:0 : tensor<3x2xf64>
    %2 = copy %d at carried:1 : tensor<3x2xf64>
    %3 = copy %e at arena:64 : tensor<3x2xf64>
    yield %1, %2, %1
  }
  return %h, %c, %hs
}"""

FORWARD = """
result:1 = b
for t < 4:
  h0[t] = 0 < t ? result:2[t - 1] : a
  arena:0 = gemm h0[t], w
  result:2[t] = copy arena:0
  result:1 = copy result:1
  arena:64 = copy x[t]
result:0 = 0 < 4 ? result:2[3] : a
"""


class Traced(Walker[str, str]):
    def __init__(self, where: dict[Value, str]) -> None:
        super().__init__(where)
        self.lines: list[str] = []
        self.depth = 0

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def view(self, op: Operation) -> str:
        return f"{self.where[op.operands[0]]} as {op.result.type}"

    def placed(self, value: Value, place: Address) -> str:
        return self.in_step(place) or str(place)

    def compute(self, op: Operation) -> None:
        read = ", ".join(self.where[v] for v in op.operands)
        self.line(f"{self.where[op.result]} = {op.opdef.name} {read}")

    def count(self, dim: Dim) -> str:
        return str(dim)

    def last(self, count: str, *, backward: bool) -> str:
        return "0" if backward else str(int(count) - 1)

    def shifted(self, step: str, by: int) -> str:
        return f"{step} {'+' if by > 0 else '-'} 1"

    def steps(self, count: str, body: Callable[[str, str], None], *, backward: bool) -> None:
        self.line(f"for t < {count}{' backward' if backward else ''}:")
        self.depth += 1
        body("t", "turn" if backward else "t")
        self.depth -= 1

    def element(self, value: Value, outer: Value, step: str, *, is_kept: bool = False) -> str:
        return f"{self.where[outer]}[{step}]"

    def kept(self, value: Value, stack: Value, step: str, number: str, otherwise: str) -> str:
        text = f"0 < {number} ? {self.where[stack]}[{step}] : {otherwise}"
        if self.depth == 0:
            return text
        self.line(f"h0[t] = {text}")
        return "h0[t]"

    def copy(self, source: str, target: Value) -> None:
        self.line(f"{self.where[target]} = {source}")


def traced(text: str) -> str:
    (function,) = parse(text).functions
    walker = Traced({a: a.name or "" for a in function.arguments})
    for op in function.block:
        walker.operation(op)
    return "\n" + "\n".join(walker.lines) + "\n"


def test_a_step_finds_what_is_carried_in_place_or_in_the_stack_that_keeps_it() -> None:
    assert traced(LOOP.replace("BACKWARD", "false")) == FORWARD


def test_backward_the_step_before_is_the_next_one_in_memory() -> None:
    backward = FORWARD.replace("for t < 4:", "for t < 4 backward:")
    backward = backward.replace("0 < t ? result:2[t - 1]", "0 < turn ? result:2[t + 1]")
    assert traced(LOOP.replace("BACKWARD", "true")) == backward.replace(
        "result:2[3]", "result:2[0]"
    )


def test_what_nobody_reads_is_not_fetched_from_its_stack() -> None:
    text = LOOP.replace("BACKWARD", "false").replace("return %h,", "return %a,")
    assert traced(text) == FORWARD.replace("result:0 = 0 < 4 ? result:2[3] : a\n", "")


def test_a_view_is_no_place_of_its_own() -> None:
    text = """func @main(%x: tensor<2x3xf64> input) -> (y: tensor<6xf64>) arena 0 {
      %0 = reshape %x {dims = [6]} : tensor<6xf64>
      %y = copy %0 at result:0 : tensor<6xf64>
      return %y
    }"""
    assert traced(text) == "\nresult:0 = copy x as tensor<6xf64>\n"


def test_results_without_places_are_refused() -> None:
    text = "func @main(%x: tensor<2xf64> input) -> (y: tensor<2xf64>) {\n"
    text += "  %y = copy %x : tensor<2xf64>\n  return %y\n}"
    with pytest.raises(InternalError, match="a `copy` has no place"):
        traced(text)
