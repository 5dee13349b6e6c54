"""The text form as it is written: names, numbers, params, locations, regions."""

from __future__ import annotations

import pytest

from graphc.ir.core import Function, IRBuilder, Module, RegionKind, ResultInfo
from graphc.ir.printer import print_module, print_name, print_operation
from graphc.ir.types import DType, Symbol, TensorType
from graphc.ops.control import RETURN
from graphc.ops.elementwise import NEG
from graphc.support.source import UNKNOWN, Location, Span
from tests.support.text_form import parsed

F32 = TensorType((2,), DType.F32)


def negations(*names: str | None) -> Function:
    """A function that negates its argument `x` once for each name."""
    function = Function("f", RegionKind.SSA)
    x = function.add_argument("x", F32, "input")
    builder = IRBuilder(function.block)
    for name in names:
        builder.emit(NEG, [x], names=[name])
    builder.emit(RETURN)
    return function


def results(function: Function) -> list[str]:
    """The names before `= neg` in the function's text."""
    text = print_module(Module([function]))
    return [line.split(" = ")[0].strip() for line in text.splitlines() if " = neg" in line]


def test_a_module_prints_its_dims_first() -> None:
    module = Module([], [Symbol("N", 8), Symbol("T2", 3)])
    assert print_module(module) == "dim N <= 8\ndim T2 <= 3\n"


def test_an_empty_module_prints_as_nothing() -> None:
    assert print_module(Module()) == ""


def test_a_function_prints_roles_results_updates_and_arena() -> None:
    text = (
        "dim N <= 4\n\n"
        "func @f(%x: tensor<Nx2xf32> input, %w: tensor<1xf64> parameter) -> "
        '(y: tensor<Nx2xf32>, "w new": tensor<1xf64> updates %w) arena 128 {\n'
        "  %neg = neg %x : tensor<Nx2xf32>\n"
        "  return %neg, %w\n"
        "}\n"
    )
    assert print_module(parsed(text)) == text


def test_values_without_names_are_called_by_their_kind() -> None:
    assert results(negations(None, None, None)) == ["%neg", "%neg_1", "%neg_2"]


def test_an_empty_name_counts_as_none() -> None:
    assert results(negations("", None)) == ["%neg", "%neg_1"]


def test_what_a_node_is_computed_of_is_called_by_the_node() -> None:
    function = negations(None, None, "h", None)
    for op, node in zip(function.block, ("h", "h", "h", "d.h"), strict=False):
        op.location = UNKNOWN.within(node)
    assert results(function) == ["%h.neg", "%h.neg_1", "%h", "%d.h.neg"]


def test_an_authors_name_goes_before_a_label_and_a_label_before_a_kind() -> None:
    function = negations(None, None, "neg")
    first, second, *_ = function.block
    second.result.label = "neg"
    assert results(function) == ["%neg_1", "%neg_2", "%neg"]
    first.result.label = "neg_2"
    assert results(function) == ["%neg_2", "%neg_1", "%neg"]


def test_a_replacement_takes_the_label_over() -> None:
    function = negations(None, None)
    first, second, _ = function.block
    second.result.label = "d.W"
    second.replace_with([first.result])
    assert results(function) == ["%d.W"]


def test_a_node_without_a_name_stays_without() -> None:
    text = "graph @g {\n  %0 = node.input {rows = 1} : matrix<1x*>\n}\n"
    assert print_module(parsed(text)) == text


def test_equal_names_get_suffixes_that_nobody_has() -> None:
    names = results(negations("a", "a", "a_1", "a", "a_2"))
    assert names == ["%a", "%a_3", "%a_1", "%a_4", "%a_2"]
    assert len(set(names)) == len(names)


def test_many_equal_names_are_all_told_apart() -> None:
    names = results(negations(*["a"] * 20_000))
    assert len(set(names)) == 20_000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("W", "%W"),
        ("L1.z", "%L1.z"),
        ("_x9", "%_x9"),
        ("größe", '%"größe"'),
        ("7", '%"7"'),
        ("a b", '%"a b"'),
        ('say "hi"\n', '%"say \\"hi\\"\\n"'),
        ("", '%""'),
        (".a", '%".a"'),
        ("inf", "%inf"),
    ],
)
def test_a_name_that_is_no_identifier_is_quoted(name: str, text: str) -> None:
    assert print_name("%", name) == text


@pytest.mark.parametrize("name", ["inf", "nan", "nan.x"])
def test_a_result_name_that_reads_as_a_number_is_quoted(name: str) -> None:
    assert print_name("", name) == f'"{name}"'


@pytest.mark.parametrize("name", ["information", "nano", "inf_1"])
def test_a_result_name_that_only_starts_like_a_number_is_not(name: str) -> None:
    assert print_name("", name) == name


def test_a_nested_region_is_indented() -> None:
    text = (
        "func @f(%x: tensor<2xf32> input) -> (y: tensor<2xf32>) {\n"
        "  %y = kernel %x at result:0 : tensor<2xf32> {\n"
        "  ^(%a: tensor<2xf32>):\n"
        "    %neg = neg %a : tensor<2xf32>\n"
        "    yield %neg\n"
        "  }\n"
        "  return %y\n"
        "}\n"
    )
    assert print_module(parsed(text)) == text


def test_locations_print_only_when_asked_for() -> None:
    function = negations("a", "b")
    first, _, _ = function.block
    first.location = Location(Span("n.ndl", 3, 5, 9))
    module = Module([function])
    assert "loc(" not in print_module(module)
    text = print_module(module, locations=True)
    assert text.count("loc(unknown)") == 2
    assert text.count('loc("n.ndl":3:5-9)') == 1


def test_a_location_shows_macro_calls_and_merged_places() -> None:
    call = Location(Span("n.ndl", 12, 1, 8))
    function = negations("a")
    first, _ = function.block
    first.location = Location(Span("m.ndl", 3, 5, 9), call, (Location(Span('b"c', 1, 1, 2)),))
    text = print_module(Module([function]), locations=True)
    assert 'loc("m.ndl":3:5-9 from "n.ndl":12:1-8, "b\\"c":1:1-2)' in text


def test_an_operation_prints_as_it_stands_in_its_function() -> None:
    function = negations("a", "a")
    _, second, _ = function.block
    assert print_operation(second) == "%a_1 = neg %x : tensor<2xf32>"


def test_an_operation_inside_a_kernel_prints_with_the_functions_names() -> None:
    module = parsed(
        """
        func @f(%x: tensor<2xf32> input) -> (y: tensor<2xf32>) {
          %y = kernel %x : tensor<2xf32> {
          ^(%a: tensor<2xf32>):
            %0 = neg %a : tensor<2xf32>
            yield %0
          }
          return %y
        }
        """
    )
    kernel = next(iter(module.functions[0].block))
    inner = kernel.regions[0].block.first
    assert inner is not None
    assert print_operation(inner) == "%neg = neg %a : tensor<2xf32>"
    assert print_operation(kernel) == "%y = kernel %x : tensor<2xf32>"


def test_an_operation_in_no_block_can_still_be_shown() -> None:
    function = negations("a")
    op = next(iter(function.block))
    function.block.unlink(op)
    assert print_operation(op) == "%a = neg %x : tensor<2xf32>"


def test_a_result_without_location_says_so() -> None:
    function = negations("a")
    assert next(iter(function.block)).location == UNKNOWN
    assert "%a = neg %x : tensor<2xf32> loc(unknown)\n" in print_module(
        Module([function]), locations=True
    )


def test_result_infos_name_the_argument_they_update() -> None:
    function = negations()
    function.block.terminator.set_operands(function.arguments)  # type: ignore[union-attr]
    function.results = [ResultInfo("new", "x")]
    assert "-> (new: tensor<2xf32> updates %x)" in print_module(Module([function]))


def test_text_with_locations_reads_back_to_the_same_text() -> None:
    function = negations("a", "b")
    first, _, _ = function.block
    first.location = Location(Span("n.ndl", 3, 5, 9))
    text = print_module(Module([function]), locations=True)
    assert print_module(parsed(text), locations=True) == text
