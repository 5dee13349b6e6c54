"""Words, numbers, comments, separators and brackets: what the text of NDL is made of."""

from __future__ import annotations

import math

import pytest

from tests.support.ndl import network, node, problem, problems

X = "x = Input(3)\n"


@pytest.mark.parametrize("text", ["X=INPUT(3)\nY=sIGmoid(x)", "x=input(3);y=Sigmoid(X)"])
def test_names_of_functions_and_variables_know_no_case(text: str) -> None:
    assert network(text).lower() == "x = input() rows=3\ny = sigmoid(x)"


@pytest.mark.parametrize("separator", ["\n", ";", ",", "\r\n", "\r", " ; \n\n , "])
def test_statements_are_separated_by_line_ends_semicolons_and_commas(separator: str) -> None:
    text = separator.join(["x=Input(3)", "y=Sigmoid(x)", ""])
    assert network(text) == "x = input() rows=3\ny = sigmoid(x)"


def test_a_closing_bracket_ends_a_statement() -> None:
    text = "x=Input(3) y=Sigmoid(x) FeatureNodes=(x) z=Tanh(y)"
    assert network(text).splitlines()[1:] == ["y = sigmoid(x)", "z = tanh(y)"]


def test_a_number_does_not_end_a_statement() -> None:
    assert problem("a=3 b=4") == "1:5-6 parse: the end of the statement is required, got `b`"


def test_line_ends_inside_brackets_are_harmless() -> None:
    text = "x = Input(\n  3\n)\ny = Plus(\n  x,\n\n  x\n  )\nOutputNodes = (\n y\n)"
    assert network(text) == "x = input() rows=3\ny = plus(x, x) #output"


@pytest.mark.parametrize("arguments", ["x, x", "x : x", "x\nx", "x,\nx", "x\n,x", ",x,x", "x,x,"])
def test_commas_colons_and_line_ends_separate_arguments(arguments: str) -> None:
    assert network(f"{X}y=Plus({arguments})").endswith("y = plus(x, x)")


def test_a_nested_call_needs_no_separator_after_it() -> None:
    assert network(f"{X}y=Plus(Tanh(x) x)").endswith("y = plus(unnamed1, x)")


def test_two_words_need_a_separator() -> None:
    assert problem(f"{X}y=Plus(x x)") == "2:10-11 parse: `,` or `)` is required, got `x`"


def test_an_argument_may_not_be_left_out() -> None:
    assert problem(f"{X}y=Plus(x,,x)") == "2:10-11 parse: an argument is missing here"


def test_a_comment_reaches_from_a_hash_to_the_end_of_the_line() -> None:
    text = "# first\nx=Input(3) # (the input\n\t# more\ny=Plus(x, # left\n x) #right"
    assert network(text) == "x = input() rows=3\ny = plus(x, x)"


def test_a_comment_may_follow_a_bracket_or_separator_directly() -> None:
    assert network("x=Input(3)#comment\ny=Tanh(x);#comment").endswith("y = tanh(x)")


def test_a_comment_starts_inside_quotes_too() -> None:
    text = 'w=Parameter(2, init=fromFile, initFromFilePath="a #b.txt")'
    assert "lexical: a quote has to be closed on its line" in " ".join(problems(text))


def test_one_hash_inf_is_infinity_and_no_comment() -> None:
    assert node("v = 1#INF\nc=Constant(v)", "c").settings == {"value": math.inf}
    assert node("c=Constant(-1#inf)", "c").settings == {"value": -math.inf}


@pytest.mark.parametrize(
    ("text", "value"),
    [("-1", -1.0), ("+1", 1.0), (".5", 0.5), ("-.5", -0.5), ("5.", 5.0), ("1e-3", 1e-3)],
)
def test_the_sign_or_dot_after_an_opening_bracket_belongs_to_the_number(
    text: str, value: float
) -> None:
    assert node(f"c=Constant({text})", "c").settings == {"value": value}
    assert node(f"v={text}\nc=Constant( v)", "c").settings == {"value": value}


@pytest.mark.parametrize("text", ["1.2.3", "1e", "--1", "1e400", "1-2"])
def test_what_looks_like_a_number_has_to_be_one(text: str) -> None:
    message = "a number is written like 12, -0.5 or 1e-3 and fits in 64 bits, got"
    assert problem(f"v = {text}") == f"1:5-{5 + len(text)} lexical: {message} `{text}`"


def test_e_is_a_name() -> None:
    assert network("e = Input(3)\nE1 = Sigmoid(E)").endswith("E1 = sigmoid(e)")


@pytest.mark.parametrize("digits", ["٣", "1_000"])
def test_numbers_have_ascii_digits_only(digits: str) -> None:
    assert "parse: " in problem(f"x = Input({digits})")


@pytest.mark.parametrize(
    "text",
    [
        "y=Plus(|x|x)",
        "y=Plus(;x;x)",
        "FeatureNodes=(!x!x)",
        "M(a) {;b=Tanh(a);M=Tanh(b)}",
        "M(a) [|b=Tanh(a)|M=Tanh(b)]",
    ],
)
def test_a_mark_after_an_opening_bracket_separates_inside_it(text: str) -> None:
    network(X + text)


def test_the_mark_of_an_inner_bracket_does_not_reach_outside() -> None:
    assert "parse: " in problem(f"{X}y=Plus(Plus(|x|x)|x)")


def test_brackets_around_all_of_the_text_are_peeled() -> None:
    assert network("\n[\nx=Input(3)\ny=Tanh(x)\n]\n") == "x = input() rows=3\ny = tanh(x)"
    assert network("{x=Input(3)}") == "x = input() rows=3"


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert network("\ufeffx = Input(3)") == "x = input() rows=3"


def test_option_values_may_be_quoted() -> None:
    assert node('w=Parameter(2, init="gaussian", tag="output")', "w").settings["init"] == "gaussian"


def test_paths_need_no_quotes() -> None:
    path = "../data/w-0.txt"
    settings = node(f"w=Parameter(2, init=fromFile, initFromFilePath={path})", "w").settings
    assert settings["init_from_file_path"] == path


def test_a_nul_byte_is_reported_once() -> None:
    assert problem("x=Input(3)\ny=\0\0\0") == "2:3-4 lexical: text is required, got a NUL byte"


@pytest.mark.parametrize("code", [0x01, 0x0B, 0x7F, 0xA0, 0x200B, 0x2028, 0xD800])
def test_characters_that_cannot_be_printed_are_reported_by_number(code: int) -> None:
    found = problems(f"x=Input(3)\ny=Tanh({chr(code)}x)")
    message = f"lexical: a printable character is required, got U+{code:04X}"
    assert f"2:8-9 {message}" in found


def test_operators_are_told_what_to_write() -> None:
    message = "NDL has no operators, write `Plus(a, b)` or `Times(a, b)`"
    assert problem(f"{X}y = x + x").endswith(message)
    assert problem(f"{X}y = x*x").endswith(message)


def test_an_overlong_name_or_number_is_refused() -> None:
    assert "limit: a name has at most 256 characters, got 257" in problem("a" * 257 + " = 1")
    assert "limit: a number has at most 64 characters, got 65" in problem("a = " + "1" * 65)


def test_a_place_counts_lines_and_columns_from_one() -> None:
    assert problem("x = Input(3)\r\n\r\n  y = Tanh(z)").startswith("3:12-13 undefined-name")
