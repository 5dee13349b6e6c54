"""The pattern driver: rest, order, names, locations, dead code, and patterns that fight."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from graphc.ir.core import IRBuilder, Module, Operation, Value
from graphc.ir.printer import print_module
from graphc.ir.rewriter import Firing, Pattern, apply_patterns
from graphc.ops.elementwise import ABS, ADD, NEG
from graphc.support.diagnostics import InternalError
from tests.support.text_form import broken_rules, legal

HEAD = "func @f(%x: tensor<2xf32> input) -> (y: tensor<2xf32>) {\n"


def cancel(_b: IRBuilder, op: Operation) -> Sequence[Value] | None:
    """-(-x) is x."""
    inner = op.operands[0].op
    return [inner.operands[0]] if inner is not None and inner.opdef is NEG else None


def as_sum(b: IRBuilder, op: Operation) -> Sequence[Value] | None:
    """|x| becomes -x + -x: wrong mathematics, but two new operations."""
    negative = b.emit_one(NEG, op.operands[0])
    return [b.emit_one(ADD, negative, negative)]


def to_abs(b: IRBuilder, op: Operation) -> Sequence[Value] | None:
    return [b.emit_one(ABS, op.operands[0])]


def to_neg(b: IRBuilder, op: Operation) -> Sequence[Value] | None:
    return [b.emit_one(NEG, op.operands[0])]


CANCEL = Pattern("cancel", NEG, cancel)


def function(*lines: str) -> Module:
    return legal(HEAD + "".join(f"  {line}\n" for line in lines) + "}\n")


def names(module: Module) -> list[str]:
    return [op.opdef.name for op in module.functions[0].block]


def test_patterns_apply_until_none_fires() -> None:
    module = function(
        "%a = neg %x : tensor<2xf32>",
        "%b = neg %a : tensor<2xf32>",
        "%c = neg %b : tensor<2xf32>",
        "%y = neg %c : tensor<2xf32>",
        "return %y",
    )
    assert apply_patterns(module.functions[0].block, [CANCEL]) == 2
    assert names(module) == ["return"]
    assert broken_rules(module) == []


def test_a_pattern_that_never_fires_changes_nothing() -> None:
    module = function("%y = neg %x : tensor<2xf32>", "return %y")
    before = print_module(module)
    assert apply_patterns(module.functions[0].block, [CANCEL]) == 0
    assert print_module(module) == before


def test_a_pattern_without_root_looks_at_every_operation() -> None:
    module = function("%y = abs %x : tensor<2xf32>", "return %y")
    seen: list[str] = []

    def look(_b: IRBuilder, op: Operation) -> Sequence[Value] | None:
        seen.append(op.opdef.name)
        return None

    apply_patterns(module.functions[0].block, [Pattern("look", None, look)])
    assert sorted(seen) == ["abs", "return"]


def test_new_operations_stand_where_the_old_one_stood_with_its_location_and_name() -> None:
    module = function("%y = abs %x : tensor<2xf32>", "%z = neg %x : tensor<2xf32>", "return %y")
    block = module.functions[0].block
    first, second, _ = block
    block.terminator.set_operands([first.result])  # type: ignore[union-attr]
    second.erase()
    place = first.location
    apply_patterns(block, [Pattern("as-sum", ABS, as_sum)])
    assert names(module) == ["neg", "add", "return"]
    assert [op.location for op in block][:2] == [place, place]
    assert block.terminator is not None
    assert block.terminator.operands[0].name == "y"


def test_new_operations_are_looked_at_again() -> None:
    module = function("%a = neg %x : tensor<2xf32>", "%y = abs %a : tensor<2xf32>", "return %y")
    apply_patterns(module.functions[0].block, [CANCEL, Pattern("to-neg", ABS, to_neg)])
    assert names(module) == ["return"]


def test_operations_that_nobody_reads_any_more_go_away() -> None:
    module = function("%d = neg %x : tensor<2xf32>", "%e = neg %d : tensor<2xf32>", "return %x")
    apply_patterns(module.functions[0].block, [])
    assert names(module) == ["return"]


def only_reader(b: IRBuilder, op: Operation) -> Sequence[Value] | None:
    """|-x| is |x|, where nobody else reads -x."""
    inner = op.operands[0].op
    if inner is None or inner.opdef is not NEG or len(inner.result.uses) > 1:
        return None
    return [b.emit_one(ABS, inner.operands[0])]


def test_an_only_reader_that_is_left_is_looked_at_again() -> None:
    module = function(
        "%a = neg %x : tensor<2xf32>",
        "%b = abs %a : tensor<2xf32>",
        "%c = neg %a : tensor<2xf32>",  # becomes x, after which %b is the only reader of %a
        "%y = add %b, %c : tensor<2xf32>",
        "return %y",
    )
    apply_patterns(module.functions[0].block, [CANCEL, Pattern("only-reader", ABS, only_reader)])
    assert names(module) == ["abs", "add", "return"]


def test_the_trace_says_what_fired_where() -> None:
    module = function("%y = abs %x : tensor<2xf32>", "return %y")
    trace: list[Firing] = []
    apply_patterns(module.functions[0].block, [Pattern("to-neg", ABS, to_neg)], trace=trace)
    assert [f.pattern for f in trace] == ["to-neg"]
    assert trace[0].operation == "%y = abs %x : tensor<2xf32>"


def test_two_patterns_that_undo_each_other_are_named() -> None:
    module = function("%y = abs %x : tensor<2xf32>", "return %y")
    fighting = [Pattern("to-neg", ABS, to_neg), Pattern("to-abs", NEG, to_abs)]
    with pytest.raises(
        InternalError, match=r"do not come to rest: .*to-neg.*to-abs|to-abs.*to-neg"
    ):
        apply_patterns(module.functions[0].block, fighting)


def test_a_long_chain_is_rewritten_without_recursion() -> None:
    lines = ["%v0 = neg %x : tensor<2xf32>"]
    lines += [f"%v{i + 1} = neg %v{i} : tensor<2xf32>" for i in range(9_999)]
    module = function(*lines, "return %v9999")
    assert apply_patterns(module.functions[0].block, [CANCEL]) == 5_000
    assert names(module) == ["return"]
