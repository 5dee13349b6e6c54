"""The laws of the text form: what is printed reads back the same, and no text breaks the parser."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphc.ir.clone import clone_module
from graphc.ir.core import Module
from graphc.ir.equivalence import modules_equal
from graphc.ir.parser import parse_module
from graphc.ir.printer import print_module
from graphc.ir.verifier import verify_module
from graphc.ops import default_context
from graphc.support.diagnostics import DiagnosticSink, render
from tests.support.random_functions import make_function
from tests.support.strategies import modules
from tests.support.text_form import broken_rules, parsed

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
anything = settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
any_text = settings(max_examples=400, deadline=None)

EXAMPLE = """
dim N <= 4
graph @network {
  %h = node.plus %x, %p : matrix<2x*> loc("n.ndl":3:5-9 from "n.ndl":12:1-8)
  %p = node.past_value %h {time_step = 2, default_hidden_activity = -0.0} : matrix<2x*>
  %x = node.input {rows = 2, tags = ["feature"]} : matrix<2x*>
  %i = node.input {width = 3, height = 2, channels = 1} : matrix<6x* image 3x2x1>
}
func @f(%x: tensor<Nx2xf32> input, %"a b": tensor<2xf32> state)
  -> (y: tensor<Nx2xf32>, s: tensor<2xf32> updates %"a b") arena 64 {
  %y = kernel %x at result:0 : tensor<Nx2xf32> {
  ^(%a: tensor<Nx2xf32>):
    %c = constant {type = tensor<Nx2xf32>, value = [1e-45]} : tensor<Nx2xf32>
    %b = mul %a, %c : tensor<Nx2xf32>
    yield %b
  }
  return %y, %"a b"
}
"""


def assert_round_trip(module: Module, *, locations: bool) -> None:
    text = print_module(module, locations=locations)
    again = parsed(text)
    assert modules_equal(again, module)
    assert print_module(again, locations=locations) == text


@anything
@given(modules())
def test_a_module_reads_back_the_same(module: Module) -> None:
    assert_round_trip(module, locations=False)


@anything
@given(modules())
def test_a_module_reads_back_the_same_with_its_locations(module: Module) -> None:
    assert_round_trip(module, locations=True)


@anything
@given(modules())
def test_a_copy_of_a_module_equals_it(module: Module) -> None:
    copy = clone_module(module)
    assert modules_equal(copy, module)
    assert print_module(copy, locations=True) == print_module(module, locations=True)


@anything
@given(modules())
def test_the_verifier_judges_any_module(module: Module) -> None:
    sink = DiagnosticSink()
    verify_module(module, sink)
    render(sink.diagnostics)


@pytest.mark.parametrize("seed", range(40))
def test_a_well_typed_function_reads_back_the_same_and_stays_legal(seed: int) -> None:
    module = make_function(seed).module
    assert broken_rules(module) == []
    assert_round_trip(module, locations=False)
    assert broken_rules(parsed(print_module(module))) == []


def read(text: str) -> None:
    """Parse any text at all; what could be read is verified and printed, and reads back."""
    context = default_context()
    module = parse_module(text, context)
    render(context.sink.diagnostics)
    if context.sink.has_errors:
        return
    verify_module(module, context.sink)
    render(context.sink.diagnostics)
    assert_round_trip(module, locations=False)


@any_text
@given(st.text(max_size=200))
def test_any_text_is_read_or_reported(text: str) -> None:
    read(text)


@any_text
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_reported(data: bytes) -> None:
    read(data.decode("latin-1"))
    read(data.decode("utf-8", errors="surrogateescape"))


TOKENS = (
    *("dim", "graph", "func", "N", "@f", "%x", "%y", "%0", "(", ")", "{", "}", "[", "]", "^", ":"),
    *(",", "->", "<=", "=", "-", "arena", "1", "-3", "2.5", "nan", "inf", '"s"', '%"q"', "//"),
    *("tensor<Nx2xf32>", "tensor<f64>", "matrix<2x*>", "matrix<?x?>", "input", "parameter"),
    *("matrix<6x* image 3x2x1>", " image 1x2x1>"),
    *("updates", "loc", "from", "neg", "add", "kernel", "return", "yield", "node.input", "rows"),
    *("node.plus", "true", "none", "constant", "type", "value", "dims", "axes"),
)


@any_text
@given(st.lists(st.sampled_from([*TOKENS, "\n"]), max_size=60))
def test_any_row_of_tokens_is_read_or_reported(tokens: list[str]) -> None:
    read(" ".join(tokens))


@any_text
@given(st.integers(0, 2**32), st.integers(1, 8))
def test_a_damaged_text_is_read_or_reported(seed: int, edits: int) -> None:
    choose = random.Random(seed)
    text = EXAMPLE
    for _ in range(edits):
        at, end = sorted(choose.randrange(len(text) + 1) for _ in range(2))
        kind = choose.randrange(5)
        if kind == 0:
            text = text[:at] + text[min(end, at + 12) :]
        elif kind == 1:
            text = text[:at] + choose.choice(TOKENS) + text[at:]
        elif kind == 2:
            text = (
                text[:at]
                + chr(choose.choice((0, 10, 34, 92, 123, 125, 0x202E, 0xD800)))
                + text[at:]
            )
        elif kind == 3:
            text = text[:at] + text[at : at + 40] + text[at:]
        else:
            lines = text.split("\n")
            choose.shuffle(lines)
            text = "\n".join(lines)
    read(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 200_000,
        "{" * 200_000,
        "graph @g {" * 50_000,
        "func @f() {\n" + "kernel {\n^():\n" * 20_000,
        '"' * 200_001,
        '%"\\' * 100_000,
        "tensor<" * 100_000,
        "matrix<" + "1x" * 100_000 + ">",
        "// " * 200_000,
        "-" * 200_000,
        "dim N <= " + "9" * 200_000,
        "func @f(" + "%x: tensor<f32> input, " * 20_000,
        "func @f() {\n" + "%a, " * 50_000,
        "graph @g {\n" + "  %x = node.input {rows = 1} : matrix<1x*>\n" * 20_000 + "}",
        "func @f() -> (" + "y: tensor<f32>, " * 20_000,
        "".join(f"func @f{i}() {{ return }}\n" for i in range(10_000)),
    ],
    ids=lambda text: text[:12].replace("\n", " "),
)
def test_a_long_text_is_read_or_reported_without_hanging(text: str) -> None:
    context = default_context()
    module = parse_module(text, context)
    verify_module(module, DiagnosticSink())
    render(context.sink.diagnostics)
