from __future__ import annotations

import pytest

from graphc.ir.core import Function
from graphc.ir.parser import parse_module
from graphc.ops import default_context
from graphc.passes.eliminate_common_subexpressions import merge_duplicates


def function(body: str, results: str = "z: tensor<2xf32>") -> Function:
    context = default_context()
    text = (
        f"func @f(%x: tensor<2xf32> input, %y: tensor<2xf32> input) -> ({results}) {{\n{body}\n}}"
    )
    module = parse_module(text, context, file="net.gir")
    context.sink.raise_if_errors()
    return module.functions[0]


def names(f: Function) -> list[str]:
    return [op.opdef.name for op in f.block]


def constants(first: str, second: str, type: str = "tensor<2xf32>") -> Function:
    return function(
        f"""%a = constant {{type = {type}, value = [{first}]}} : {type}
        %b = constant {{type = {type}, value = [{second}]}} : {type}
        return %a, %b""",
        f"a: {type}, b: {type}",
    )


def test_operands_of_a_commutative_operation_may_be_exchanged() -> None:
    f = function(
        """%a = add %x, %y : tensor<2xf32>
        %b = add %y, %x : tensor<2xf32>
        %z = mul %a, %b : tensor<2xf32>
        return %z"""
    )
    assert merge_duplicates(f) == 1
    assert names(f) == ["add", "mul", "return"]


def test_operands_of_other_operations_may_not() -> None:
    f = function(
        """%a = sub %x, %y : tensor<2xf32>
        %b = sub %y, %x : tensor<2xf32>
        %z = mul %a, %b : tensor<2xf32>
        return %z"""
    )
    assert merge_duplicates(f) == 0


def test_a_chain_of_duplicates_falls_in_one_run() -> None:
    f = function(
        """%a = exp %x : tensor<2xf32>
        %b = exp %x : tensor<2xf32>
        %c = neg %a : tensor<2xf32>
        %d = neg %b : tensor<2xf32>
        %z = mul %c, %d : tensor<2xf32>
        return %z"""
    )
    assert merge_duplicates(f) == 2
    assert names(f) == ["exp", "neg", "mul", "return"]


def test_the_survivor_remembers_where_the_others_came_from() -> None:
    f = function("%a = exp %x : tensor<2xf32>\n%b = exp %x : tensor<2xf32>\nreturn %b")
    lines = [op.location.span.line for op in f.block if op.location.span is not None]
    merge_duplicates(f)
    survivor = f.block.first
    assert survivor is not None and survivor.location.span is not None
    merged = [m.span.line for m in survivor.location.merged if m.span is not None]
    assert [survivor.location.span.line, *merged] == lines[:2]


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [("0.0", "-0.0", 0), ("0.0", "0.0", 1), ("nan", "nan", 1), ("1.0", "1.0, 1.0", 0)],
)
def test_constants_are_compared_exactly(first: str, second: str, merged: int) -> None:
    assert merge_duplicates(constants(first, second)) == merged


def test_constants_of_other_types_are_different() -> None:
    f = function(
        """%a = constant {type = tensor<2xf32>, value = [1.0]} : tensor<2xf32>
        %b = constant {type = tensor<1x2xf32>, value = [1.0]} : tensor<1x2xf32>
        return %a, %b""",
        "a: tensor<2xf32>, b: tensor<1x2xf32>",
    )
    assert merge_duplicates(f) == 0


def test_big_constants_are_not_compared() -> None:
    many = ", ".join(["1.0"] * 17)
    f = constants(many, many, "tensor<17xf32>")
    assert merge_duplicates(f) == 0
    assert merge_duplicates(f, max_constant_elements=17) == 1


def test_kernels_are_left_alone_but_their_bodies_are_cleaned() -> None:
    f = function(
        """%z = kernel %x : tensor<2xf32> {
        ^(%0: tensor<2xf32>):
          %1 = exp %0 : tensor<2xf32>
          %2 = exp %0 : tensor<2xf32>
          %3 = add %1, %2 : tensor<2xf32>
          yield %3
        }
        return %z"""
    )
    assert merge_duplicates(f) == 1


def test_planned_functions_are_left_alone() -> None:
    f = function("%a = exp %x : tensor<2xf32>\n%b = exp %x : tensor<2xf32>\nreturn %b")
    f.arena = 0
    assert merge_duplicates(f) == 0
