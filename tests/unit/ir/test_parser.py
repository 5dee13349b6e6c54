"""Reading the text form: exact places of mistakes, recovery after them, limits, odd names."""

from __future__ import annotations

import math

import pytest

from graphc.ir.core import Module
from graphc.ir.params import Literalish
from graphc.ir.parser import parse_module, parse_params_text
from graphc.ir.printer import print_module
from graphc.ir.token_reader import MAX_ERRORS
from graphc.ir.types import DType, Symbol, TensorType
from graphc.ops import default_context
from graphc.ops.constant import ConstantParams
from graphc.support.diagnostics import DiagnosticSink, GraphcError
from graphc.support.source import UNKNOWN
from tests.support.text_form import broken_rules, legal, parse_problems, parsed

HEAD = "func @f(%x: tensor<2xf32> input) -> (y: tensor<2xf32>) {\n"


def body(*lines: str) -> list[str]:
    """What is reported for these lines in a function of `%x` whose first line is line 2."""
    return parse_problems(HEAD + "".join(f"  {line}\n" for line in lines) + "}\n")


def hyperparameters(text: str) -> dict[str, Literalish]:
    """Parameters of a pass; mistakes raise."""
    sink = DiagnosticSink()
    found = parse_params_text(text, sink, [Symbol("N", 4)])
    sink.raise_if_errors()
    return found


# --- the places of mistakes ---


def test_an_undefined_value_is_reported_at_its_use() -> None:
    assert body("%y = add %x, %missing : tensor<2xf32>", "return %y") == [
        "2:16-24 undefined-name: value %missing is not defined"
    ]


def test_an_undefined_value_is_reported_at_each_of_its_uses_with_a_near_name() -> None:
    assert body(
        "%yes = neg %x : tensor<2xf32>", "%z = add %yet, %yet : tensor<2xf32>", "return %yes"
    ) == [
        "3:12-16 undefined-name: value %yet is not defined; did you mean `%yes`?",
        "3:18-22 undefined-name: value %yet is not defined; did you mean `%yes`?",
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            "%y = nge %x : tensor<2xf32>",
            "2:8-11 unknown-op: no operation `nge`; did you mean `neg`?",
        ),
        ("%y = neg %x", "3:3-9 parse: 1 results need 1 types, got 0"),
        ("neg %x : tensor<2xf32>", "3:3-9 parse: 0 results need 0 types, got 1"),
        ("%y neg %x : tensor<2xf32>", "2:6-9 parse: `=` is required here, got `neg`"),
        ("%y = neg %x, : tensor<2xf32>", "2:16-17 parse: an operand is required here, got `:`"),
        ("%y = %x", "2:8-10 parse: an operation name is required here, got `%x`"),
        ("%y = neg %x : 2xf32", "2:17-18 parse: a type is required here, got `2`"),
        ("%y = neg %x : tensor<2xf31>", "2:17-30 parse: an element type is one of f32, f64, i32,"),
        ("%y = neg %x : tensor<Mxf32>", "2:17-30 undefined-name: `M` is no size and no declared"),
        ("%y = neg %x : tensor<-2xf32>", "2:17-31 undefined-name: `-2` is no size"),
        ("%y = neg %x : matrix<2>", "2:17-26 parse: a matrix type is matrix<ROWSxCOLS>"),
        ("%y = neg %x : matrix<*x2>", "2:17-28 parse: a matrix type is matrix<ROWSxCOLS>"),
        ("%y = neg %x : matrix<ax2>", "2:17-28 parse: `a` is no matrix size"),
        ("%y = neg %x : matrix<6x2 image 3x2>", "2:17-38 parse: an image is WIDTHxHEIGHTxCHANNELS"),
        (
            "%y = neg %x : matrix<6x2 image 3x2x->",
            "2:17-40 parse: an image is WIDTHxHEIGHTxCHANNELS",
        ),
        (
            "%y = neg %x : matrix<6x2 image 3x1x1>",
            "2:17-40 parse: an image 3x1x1 has 3 rows, got `matrix<6x2 image 3x1x1>`",
        ),
        (
            "%y = neg %x : matrix<?x2 image 3x1x1>",
            "2:17-40 parse: an image 3x1x1 has 3 rows, got `matrix<?x2 image 3x1x1>`",
        ),
        ("%y = neg %x : matrix<6x2  image 3x2x1>", "2:17-41 parse: `2 ` is no matrix size"),
        ("%x = neg %x : tensor<2xf32>", "2:3-5 duplicate-name: value %x is defined twice"),
        (
            "%y = reduce_sum %x {axis = [0]} : tensor<1xf32>",
            "2:8-18 bad-value: reduce_sum: no parameter",
        ),
        (
            "%y = reduce_sum %x {axes = 0} : tensor<1xf32>",
            "2:8-18 bad-value: reduce_sum: parameter `axes`",
        ),
        (
            "%y = reduce_sum %x {axes = [0], axes = [0]} : tensor<1xf32>",
            "2:35-39 parse: parameter `axes` is given twice",
        ),
        (
            "%y = reduce_sum %x {axes = [zero]} : tensor<1xf32>",
            "2:31-35 parse: `zero` is no value and no declared dimension",
        ),
        (
            "%y = reduce_sum %x {axes = } : tensor<1xf32>",
            "2:30-31 parse: a value is required, got `}`",
        ),
        (
            "%y = reduce_sum %x {axes = [0 : tensor<1xf32>",
            "2:33-34 parse: `,` is required here, got `:`",
        ),
        (
            "%y = gemm %x, %x schedule {tile = {rows = 1, vectors = 1, lanes = 8, row = 2}} : "
            "tensor<2xf32>",
            "2:20-28 bad-value: the schedule of gemm: in `tile`: no parameter `row`; the param",
        ),
        (
            "%y = gemm %x, %x schedule {tile = {rows = 1, vectors = 1}} : tensor<2xf32>",
            "2:20-28 bad-value: the schedule of gemm: in `tile`: parameter `lanes` is required",
        ),
        (
            "%y = gemm %x, %x schedule {tile = {rows = {}, vectors = 1}} : tensor<2xf32>",
            "2:20-28 bad-value: the schedule of gemm: in `tile`: parameter `rows` requires an ",
        ),
        (
            "%y = gemm %x, %x schedule {tile = 6} : tensor<2xf32>",
            "2:20-28 bad-value: the schedule of gemm: parameter `tile` requires a record of ro",
        ),
        (
            "%y = gemm %x, %x schedule {tile = {rows = 1, rows = 1}} : tensor<2xf32>",
            "2:48-52 parse: parameter `rows` is given twice",
        ),
        (
            "%y = gemm %x, %x schedule {tile = {rows 1}} : tensor<2xf32>",
            "2:43-44 parse: `=` is required here, got `1`",
        ),
        (
            "%y = reduce_sum %x {axes = {a = 1}} : tensor<1xf32>",
            "2:8-18 bad-value: reduce_sum: parameter `axes` requires a list of an integer, got",
        ),
        ('%y = neg %x : tensor<2xf32> loc("a":1)', "2:40-41 parse: `:` is required here, got `)`"),
        (
            '%y = neg %x : tensor<2xf32> loc("a":1:2 3)',
            "2:43-44 parse: an end column (`-9`) is required",
        ),
        (
            '%y = neg %x : tensor<2xf32> loc("a":1:2-3.5)',
            "2:42-46 parse: an end column (`-9`) is req",
        ),
        (
            '%y = neg %x : tensor<2xf32> loc("a":1:2-inf)',
            "2:42-46 parse: an end column (`-9`) is req",
        ),
        (
            '%y = neg %x : tensor<2xf32> loc("a":1.5:2-3)',
            "2:39-42 parse: a line is an integer, got",
        ),
        (
            '%y = neg %x : tensor<2xf32> loc("a":-1:2-3)',
            "2:39-41 parse: a line is not negative, got",
        ),
        (
            '%y = neg %x : tensor<2xf32> loc("\\q":1:2-3)',
            "2:35-39 parse: a string may hold the escapes",
        ),
        ('%"\\q" = neg %x : tensor<2xf32>', "2:3-8 parse: a quoted name holds an unknown escape"),
        ("%y = neg %x $ : tensor<2xf32>", "2:15-16 lexical: `$` starts no token of the IR text"),
        ('%y = neg %"x : tensor<2xf32>', "2:12-14 lexical: a string ends on the line it starts on"),
    ],
)
def test_a_mistake_is_reported_at_its_token(line: str, problem: str) -> None:
    found = body(line, "return %x")
    assert found[0].startswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("fnc @f {\n}", "1:1-4 parse: `dim`, `graph` or `func` is required, got `fnc`"),
        ("func f {\n}", "1:6-7 parse: a function name (`@name`) is required here, got `f`"),
        ("graph @a {\n", "2:1-2 parse: `}` is required here, got the end of the text"),
        ("graph @a {\n}\ngraph @a {\n}", "3:7-9 duplicate-name: function @a is defined twice"),
        ("dim n <= 4", "1:5-6 parse: a dimension name is capital letters and digits"),
        ("dim N < 4", "1:7-8 lexical: `<` starts no token"),
        ("dim N <= x", "1:10-11 parse: a bound is required here, got `x`"),
        ("dim N <= -4", "1:10-12 parse: a bound is not negative, got -4"),
        ("dim N <= 4.0", "1:10-13 parse: a bound is an integer, got `4.0`"),
        ("dim N <= 4\ndim N <= 4", "2:5-6 duplicate-name: dimension N is declared twice"),
        ("func @f(%x: tensor<f32>) {\n}", "1:24-25 parse: a role is required here, got `)`"),
        (
            "func @f(%x: tensor<f32> output) {\n}",
            "1:25-31 parse: a role is one of input, parameter",
        ),
        (
            "func @f() -> (%y: tensor<f32>) {\n}",
            "1:15-17 parse: a result name is required, got `%y`",
        ),
        ("func @f() -> (", "1:15-16 parse: a result name is required, got the end of the text"),
        (
            "func @f() -> (y: tensor<f32>) {\n  return\n}",
            "1:6-8 parse: @f declares 1 results but returns 0",
        ),
        (
            "func @f(%x: tensor<f32> input) -> (y: tensor<f64>) {\n  return %x\n}",
            "1:36-37 parse: declared as tensor<f64> but tensor<f32> is returned",
        ),
        ("func @f() arena x {\n}", "1:17-18 parse: the arena's size is required here, got `x`"),
    ],
)
def test_a_mistake_outside_of_bodies_is_reported_at_its_token(text: str, problem: str) -> None:
    found = parse_problems(text)
    assert found[0].startswith(problem)


# --- going on after a mistake ---


def test_one_run_reports_the_mistakes_of_every_line() -> None:
    found = body(
        "%a = : neg", "%b = nge %x : tensor<2xf32>", "%c = neg %d : tensor<2xf32>", "return %x"
    )
    assert [line.split(" ")[1] for line in found] == ["parse:", "unknown-op:", "undefined-name:"]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (("%y = ngee %x : tensor<2xf32>", "return %y"), "unknown-op: no operation `ngee`"),
        (("%y = neg %x : tensor<2xf32>", "retrun %y"), "unknown-op: no operation `retrun`"),
        (("%y = neg %x : tensor<2xf32>", "return %q"), "undefined-name: value %q is not defined"),
        (("%a, %y = ngee %x : tensor<2xf32>", "return %y"), "unknown-op: no operation `ngee`"),
        (("%y = neg $x : tensor<2xf32>", "return %y"), "lexical: `$` starts no token"),
        (('%y = neg %"x : tensor<2xf32>', "return %y"), "lexical: a string ends on the line"),
        (
            ("%a = ngee %x : tensor<2xf32>", "%y = neg %a : tensor<2xf32>", "return %y"),
            "unknown-op: no operation `ngee`",
        ),
    ],
)
def test_one_mistake_is_one_message(lines: tuple[str, ...], problem: str) -> None:
    head = "func @f(%x: tensor<2xf32> input) -> (y: tensor<2xf32>) {\n"
    (found,) = parse_problems(head + "\n".join(lines) + "\n}\n")
    assert f" {problem}" in found


def test_a_name_that_no_line_gives_is_reported_beside_another_mistake() -> None:
    found = body("%a = ngee %x : tensor<2xf32>", "%b = neg %q : tensor<2xf32>", "return %a")
    assert [line.split(" ")[1] for line in found] == ["unknown-op:", "undefined-name:"]


@pytest.mark.parametrize("bound", ["<= x", "= M", "<= -1", ""])
def test_a_dimension_without_a_bound_is_no_mistake_of_those_who_use_it(bound: str) -> None:
    text = f"dim N {bound}\nfunc @f(%x: tensor<Nxf32> input) {{\n  return\n}}\n"
    assert len(parse_problems(text)) == 1


def test_a_later_function_is_read_after_a_broken_header() -> None:
    context = default_context()
    module = parse_module("func oops {\n}\ngraph @fine {\n}\n", context)
    assert [f.name for f in module.functions] == ["fine"]


def test_a_dimension_after_a_mistake_is_still_declared() -> None:
    text = "dim n <= 4\ndim N <= 8\nfunc @f(%x: tensor<Nxf32> input) {\n  return\n}\n"
    assert len(parse_problems(text)) == 1


def test_a_parameter_called_dim_is_no_declaration() -> None:
    assert len(parse_problems("graph oops {\n %a = extent {dim = 3}\n}\n")) == 1


def test_what_could_be_read_is_returned() -> None:
    context = default_context()
    module = parse_module(HEAD + "  %y = neg %x : tensor<2xf32>\n  oops\n  return %y\n}\n", context)
    assert [op.opdef.name for op in module.functions[0].block] == ["neg", "return"]


def test_a_text_full_of_mistakes_stops_after_a_hundred() -> None:
    found = body(*["oops"] * 50_000)
    assert len(found) == MAX_ERRORS


def test_a_text_that_is_no_ir_at_all_stops_after_a_hundred_characters() -> None:
    found = parse_problems("$" * 1_000_000)
    assert len(found) == MAX_ERRORS + 1
    assert found[-1].endswith("limit: 100 mistakes: the rest is not read")


def test_undefined_values_among_very_many_are_reported_in_time() -> None:
    lines = [f"%v{i} = neg %x : tensor<2xf32>" for i in range(20_000)]
    lines += [f"%w{i} = neg %u{i} : tensor<2xf32>" for i in range(20_000)]
    assert len(body(*lines, "return %x")) == MAX_ERRORS


def test_many_open_quotes_are_read_in_time() -> None:
    found = parse_problems('"\\' * 200_000)
    assert len(found) < 5


# --- numbers ---


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-7", -7),
        ("007", 7),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("1e-45", 1e-45),
        ("5e-324", 5e-324),
        ("1e+300", 1e300),
        ("1e999", math.inf),
        ("inf", math.inf),
        ("-inf", -math.inf),
        ("0.1", 0.1),
        ("123456789012345678901234567890", 123456789012345678901234567890),
    ],
)
def test_numbers_read_as_python_reads_them(text: str, value: float) -> None:
    found = hyperparameters(f"v = {text}")["v"]
    assert found == value
    assert type(found) is type(value)


def test_nan_and_minus_zero_read_back() -> None:
    found = hyperparameters("a = nan, b = -0.0, c = -nan")
    assert isinstance(found["a"], float) and math.isnan(found["a"])
    assert isinstance(found["c"], float) and math.isnan(found["c"])
    assert math.copysign(1.0, found["b"]) == -1.0  # type: ignore[arg-type]


def test_words_dims_types_and_lists_read_as_values() -> None:
    text = 'a = true, b = false, c = none, d = f64, e = N, f = tensor<Nx1xi1>, g = ["x", [1]]'
    assert hyperparameters(text) == {
        "a": True,
        "b": False,
        "c": None,
        "d": DType.F64,
        "e": Symbol("N", 4),
        "f": TensorType((Symbol("N", 4), 1), DType.I1),
        "g": ["x", [1]],
    }


def test_floats_of_a_constant_survive_the_round_trip_to_the_bit() -> None:
    values = (math.nan, math.inf, -math.inf, -0.0, 1e-45, 5e-324, 0.1, 1e300, 3.0)
    text = ", ".join(map(repr, values))
    module = parsed(
        f"""
        func @f() -> (y: tensor<9xf64>) {{
          %y = constant {{type = tensor<9xf64>, value = [{text}]}} : tensor<9xf64>
          return %y
        }}
        """
    )
    (op, _) = module.functions[0].block
    assert isinstance(op.params, ConstantParams)
    assert [repr(v) for v in op.params.value] == [repr(v) for v in values]
    assert f"value = [{text}]" in print_module(module)


# --- limits ---


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("v = " + "[" * 10_000, "values may be nested at most 64 deep"),
        ("v = " + "9" * 401, "a number has at most 400 characters"),
        ("v = 1." + "9" * 1_000_000, "a number has at most 400 characters"),
    ],
)
def test_values_have_limits(text: str, message: str) -> None:
    with pytest.raises(GraphcError) as caught:
        hyperparameters(text)
    assert caught.value.diagnostics[0].slug == "limit"
    assert message in caught.value.diagnostics[0].message


def test_regions_have_a_limit_of_depth() -> None:
    found = parse_problems("func @f() {\n" + "kernel {\n^():\n" * 5_000)
    assert "limit: regions may be nested at most 64 deep" in found[0]


def test_the_path_of_macro_calls_has_a_limit() -> None:
    path = " from ".join(['"a":1:1-2'] * 5_000)
    found = body(f"%y = neg %x : tensor<2xf32> loc({path})", "return %x")
    assert "limit: at most 64 calls lead to a place" in found[0]


@pytest.mark.parametrize("bound", ["9223372036854775808", "9" * 400, "9" * 5000])
def test_a_bound_fits_into_64_bits(bound: str) -> None:
    found = parse_problems(f"dim N <= {bound}")
    assert "limit:" in found[0]
    assert len(found) == 1


def test_a_size_has_at_most_19_digits() -> None:
    assert "undefined-name" in body(f"%y = neg %x : tensor<{'9' * 20}xf32>")[0]


# --- names ---


@pytest.mark.parametrize(
    "name", ["a b", "%x", "@x", 'say \\"hi\\"', "7", "größe", "\\u{202e}", "\\n", "func", ""]
)
def test_a_quoted_name_reads_back_as_the_same_name(name: str) -> None:
    text = f'graph @"{name}" {{\n  %"{name}" = node.input {{rows = 1}} : matrix<1x*>\n}}\n'
    module = parsed(text)
    again = parsed(print_module(module))
    assert again.functions[0].name == module.functions[0].name
    assert [op.result.name for op in again.functions[0].block] == [
        op.result.name for op in module.functions[0].block
    ]


@pytest.mark.parametrize("name", ["inf", "nan", "nan.x", "updates", "f32", "a b", "true", "tensor"])
def test_any_word_can_name_a_result(name: str) -> None:
    module = legal(
        f'func @f(%x: tensor<f32> input) -> ("{name}": tensor<f32>) {{\n  return %x\n}}\n'
    )
    assert [r.name for r in legal(print_module(module)).functions[0].results] == [name]


def test_a_number_without_quotes_is_no_name() -> None:
    module = parsed(HEAD + "  %0 = neg %x : tensor<2xf32>\n  return %0\n}\n")
    assert next(iter(module.functions[0].block)).result.name is None


def test_a_quoted_number_and_a_number_are_two_values() -> None:
    text = '  %0 = neg %x : tensor<2xf32>\n  %"0" = neg %0 : tensor<2xf32>\n  return %"0"\n}\n'
    module = legal(HEAD + text)
    first, second, _ = module.functions[0].block
    assert second.operands == (first.result,)


# --- graphs, comments, locations ---


def test_a_graph_may_have_cycles_and_use_nodes_before_they_are_defined() -> None:
    module = legal(
        """
        graph @network {
          %h = node.plus %x, %p : matrix<2x*>
          %p = node.past_value %h : matrix<2x*>
          %x = node.input {rows = 2} : matrix<2x*>
        }
        """
    )
    plus, past, x = module.functions[0].block
    assert plus.operands == (x.result, past.result)
    assert past.operands == (plus.result,)


def test_comments_may_stand_anywhere_between_tokens() -> None:
    text = "// first\ngraph // kind\n@a // name\n{ // open\n}// last"
    assert [f.name for f in parsed(text).functions] == ["a"]


def test_an_operation_without_loc_is_located_in_the_text() -> None:
    module = parsed("graph @a {\n  %x = node.input {rows = 1} : matrix<1x*>\n}\n")
    assert str(next(iter(module.functions[0].block)).location) == "t.gir:2:8"


def test_locations_read_back_with_macro_calls_and_merged_places() -> None:
    loc = 'loc("m.ndl":3:5-9 from "n.ndl":12:1-8 from "o.ndl":1:1-2, "b \\"c\\"":1:1-2)'
    text = HEAD + f"  %y = neg %x : tensor<2xf32> {loc}\n  return %y\n}}\n"
    module = parsed(text)
    location = next(iter(module.functions[0].block)).location
    assert [str(s) for s in location.call_path()] == ["n.ndl:12:1", "o.ndl:1:1"]
    assert [str(m) for m in location.merged] == ['b "c":1:1']
    assert loc in print_module(module, locations=True)


def test_a_file_that_a_location_names_is_never_opened() -> None:
    text = HEAD + f'  %y = neg %x : tensor<2xf32> loc("{__file__}":1:1-2)\n  return %y\n}}\n'
    location = next(iter(parsed(text).functions[0].block)).location
    assert location.span is not None
    assert location.span.line_text() is None


def test_an_unknown_pass_option_value_is_placed_in_the_options() -> None:
    sink = DiagnosticSink()
    assert parse_params_text("a = 1, b = @x, c = 2", sink) == {"a": 1}
    assert [str(d.span) for d in sink.diagnostics] == ["<text>:1:12"]


def test_the_empty_text_is_the_empty_module() -> None:
    assert broken_rules(parsed("")) == []
    assert isinstance(parsed(""), Module)


def test_an_unknown_location_is_not_that_of_the_line() -> None:
    module = parsed(HEAD + "  %y = neg %x : tensor<2xf32> loc(unknown)\n  return %y\n}\n")
    assert next(iter(module.functions[0].block)).location == UNKNOWN
