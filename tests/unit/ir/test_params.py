"""Params: printing of values, decoding of given ones, and what is refused."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphc.ir.lexer import unquote
from graphc.ir.params import (
    NoParams,
    Params,
    ParamsError,
    make_params,
    print_params,
    print_value,
    quote,
    resolve_sizes,
)
from graphc.ir.types import DType, Symbol, TensorType

N = Symbol("N", 8)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Everything(Params):
    count: int
    scale: float = 0.0
    flag: bool = False
    name: str = ""
    dtype: DType = DType.F32
    colour: Colour = Colour.RED
    kind: Literal["up", "down"] = "up"
    limit: int | None = None
    axes: tuple[int, ...] = ()
    dims: tuple[int | Symbol, ...] = ()
    type: TensorType | None = None
    numbers: tuple[bool | int | float, ...] = ()


def test_defaults_are_left_out_and_the_rest_stands_in_field_order() -> None:
    params = Everything(3, axes=(0, 1), flag=True, colour=Colour.BLUE, limit=0)
    assert (
        print_params(params)
        == ' {count = 3, flag = true, colour = "blue", limit = 0, axes = [0, 1]}'
    )


def test_params_all_at_their_defaults_print_as_nothing() -> None:
    assert print_params(NoParams()) == ""


def test_minus_zero_is_not_the_default_zero() -> None:
    assert print_params(Everything(1, scale=-0.0)) == " {count = 1, scale = -0.0}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (None, "none"),
        (1, "1"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (1e-45, "1e-45"),
        (1e300, "1e+300"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (math.nan, "nan"),
        (0.1, "0.1"),
        ('a"b\\c\nd\re\tf', '"a\\"b\\\\c\\nd\\re\\tf"'),
        ("\x00\u202e", '"\\u{0}\\u{202e}"'),
        ("größe", '"größe"'),
        (DType.I64, "i64"),
        (Colour.RED, '"red"'),
        (N, "N"),
        (TensorType((N, 1), DType.F32), "tensor<Nx1xf32>"),
        ((1, (2, 3)), "[1, [2, 3]]"),
        ((), "[]"),
    ],
)
def test_values_print_in_the_literals_of_the_text_form(value: object, text: str) -> None:
    assert print_value(value) == text


@given(st.text())
def test_every_string_survives_quoting(text: str) -> None:
    quoted = quote(text)
    assert "\n" not in quoted
    assert unquote(quoted) == text


@pytest.mark.parametrize("bad", [r'"\x"', r'"\u{110000}"', r'"\u{}"', r'"\u{1234567}"', r'"\u41"'])
def test_an_escape_that_does_not_exist_has_no_content(bad: str) -> None:
    assert unquote(bad) is None


def test_given_values_become_the_fields_types() -> None:
    made = make_params(
        Everything,
        {
            "count": 2,
            "scale": 3,
            "colour": "blue",
            "axes": [1, 0],
            "dims": [N, 4],
            "dtype": DType.F64,
        },
    )
    assert made == Everything(
        2, scale=3.0, colour=Colour.BLUE, axes=(1, 0), dims=(N, 4), dtype=DType.F64
    )
    assert isinstance(made, Everything)
    assert isinstance(made.scale, float)


def test_a_mixed_list_keeps_the_kinds_of_its_items() -> None:
    made = make_params(Everything, {"count": 1, "numbers": [1, 1.5, True]})
    assert isinstance(made, Everything)
    assert [type(v) for v in made.numbers] == [int, float, bool]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"count": "many"}, 'parameter `count` requires an integer, got "many"'),
        ({"count": True}, "parameter `count` requires an integer, got true"),
        ({"count": 1.0}, "parameter `count` requires an integer, got 1.0"),
        ({"count": 1, "flag": 1}, "parameter `flag` requires true or false, got 1"),
        ({"count": 1, "scale": True}, "parameter `scale` requires a number, got true"),
        ({"count": 1, "kind": "left"}, 'requires "up" or "down", got "left"'),
        ({"count": 1, "colour": "green"}, 'requires "red" or "blue", got "green"'),
        ({"count": 1, "limit": "x"}, 'requires an integer or none, got "x"'),
        ({"count": 1, "axes": 3}, "requires a list of an integer, got 3"),
        ({"count": 1, "axes": ["a"]}, 'parameter `axes` requires an integer, got "a"'),
        ({"count": 1, "dtype": "f32"}, 'requires an element type, got "f32"'),
        ({}, "parameter `count` is required"),
        ({"count": 1, "hight": 2}, "no parameter `hight`; the parameters are: count, scale,"),
    ],
)
def test_what_does_not_fit_is_named_with_what_is_required(
    given: dict[str, object], message: str
) -> None:
    with pytest.raises(ParamsError) as caught:
        make_params(Everything, given)
    assert message in str(caught.value)


def test_an_integer_beyond_every_float_is_no_number() -> None:
    with pytest.raises(ParamsError, match="`scale` requires a number"):
        make_params(Everything, {"count": 1, "scale": 10**400})


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(ParamsError) as caught:
        make_params(Everything, {"count": "x" * 10_000})
    assert len(str(caught.value)) < 200


def test_any_object_at_all_can_be_refused() -> None:
    with pytest.raises(ParamsError, match="requires an integer, got <object"):
        make_params(Everything, {"count": object()})


def test_a_params_class_without_fields_says_so() -> None:
    with pytest.raises(ParamsError, match="the parameters are: none"):
        make_params(NoParams, {"a": 1})


def test_sizes_replace_the_symbols_wherever_they_stand() -> None:
    params = Everything(1, dims=(N, 2), type=TensorType((N, 3), DType.F32))
    assert resolve_sizes(params, {"N": 5}) == Everything(
        1, dims=(5, 2), type=TensorType((5, 3), DType.F32)
    )


def test_params_without_symbols_stay_the_same_object() -> None:
    params = Everything(1, dims=(1, 2))
    assert resolve_sizes(params, {"N": 5}) is params
