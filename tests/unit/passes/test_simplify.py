"""The rules are tested in `tests/golden/passes/simplify`; here, that none is forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphc.ir.core import Function, Module
from graphc.ir.parser import parse_module
from graphc.ir.printer import print_module
from graphc.ir.rewriter import Firing
from graphc.ops import default_context
from graphc.passes.matching import is_number, splat
from graphc.passes.simplify import PATTERNS, simplify

GOLDEN = Path(__file__).parents[2] / "golden/passes/simplify"


def read(text: str) -> Module:
    context = default_context()
    module = parse_module(text, context)
    context.sink.raise_if_errors()
    return module


def function(body: str) -> Function:
    return read(f"func @f(%x: tensor<2xf32> input) -> (z: tensor<2xf32>) {{\n{body}\n}}").functions[
        0
    ]


def constant(value: str, dtype: str = "f32") -> Function:
    type = f"tensor<2x{dtype}>"
    return function(f"%c = constant {{type = {type}, value = [{value}]}} : {type}\n return %x")


def test_every_rule_fires_in_a_golden_test() -> None:
    fired: list[Firing] = []
    for path in sorted(GOLDEN.glob("*.gir")):
        for each in read(path.read_text(encoding="utf-8")).functions:
            simplify(each, fired)
    assert {f.pattern for f in fired} == {p.name for p in PATTERNS}


def test_no_rule_fires_in_the_near_misses() -> None:
    module = read((GOLDEN / "left-alone.gir").read_text(encoding="utf-8"))
    before = print_module(module)
    assert [simplify(f) for f in module.functions] == [0] * len(module.functions)
    assert print_module(module) == before


@pytest.mark.parametrize(
    ("value", "dtype", "number", "same"),
    [
        ("0.0", "f32", 0.0, True),
        ("-0.0", "f32", 0.0, False),
        ("-0.0", "f32", -0.0, True),
        ("1", "i32", 1, True),
        ("1.00000001", "f32", 1, True),  # as f32 it is 1
        ("1.00000001", "f64", 1, False),
        ("1.0, 2.0", "f32", 1, False),
        ("true", "i1", 1, False),
        ("nan", "f32", 1, False),
    ],
)
def test_a_constant_is_compared_as_its_element_type_holds_it(
    value: str, dtype: str, number: float, same: bool
) -> None:
    first = constant(value, dtype).block.first
    assert first is not None
    assert is_number(first.result, number) is same


def test_equal_elements_are_one_number() -> None:
    first = constant("2.5, 2.5").block.first
    assert first is not None
    assert splat(first.result) == 2.5


def test_a_value_read_elsewhere_too_is_not_reduced_twice() -> None:
    f = read(
        """func @f(%x: tensor<2x3xf32> input) -> (y: tensor<2x1xf32>, z: tensor<1x1xf32>) {
          %y = reduce_max %x {axes = [1]} : tensor<2x1xf32>
          %z = reduce_max %y {axes = [0]} : tensor<1x1xf32>
          return %y, %z
        }"""
    ).functions[0]
    assert simplify(f) == 0


def test_locations_follow_the_operation_that_is_replaced() -> None:
    f = function("%a = neg %x : tensor<2xf32>\n %z = add %x, %a : tensor<2xf32>\n return %z")
    (old,) = (op for op in f.block if op.opdef.name == "add")
    where = old.location
    simplify(f)
    (new,) = (op for op in f.block if op.opdef.name == "sub")
    assert new.location == where


def test_kernels_are_left_alone() -> None:
    f = read(
        """func @f(%x: tensor<2xf32> input) -> (z: tensor<2xf32>) arena 0 {
          %z = kernel %x at result:0 : tensor<2xf32> {
          ^(%a: tensor<2xf32>):
            %b = neg %a : tensor<2xf32>
            %c = neg %b : tensor<2xf32>
            yield %c
          }
          return %z
        }"""
    ).functions[0]
    assert simplify(f) == 0
