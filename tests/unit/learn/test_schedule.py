"""Schedules: the text form, values by epoch, and messages that point into the text."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphc.learn.schedule import Schedule
from graphc.support.diagnostics import GraphcError

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def values(text: str, epochs: int) -> list[float]:
    schedule = Schedule.parse(text)
    return [schedule.at(epoch) for epoch in range(epochs)]


def error_of(text: str, *, minimum: float | None = None, whole: bool = False) -> GraphcError:
    with pytest.raises(GraphcError) as error:
        Schedule.parse(text, option="--learning-rate", minimum=minimum, whole=whole)
    return error.value


def test_one_value_holds_for_ever() -> None:
    assert Schedule.parse("0.5") == Schedule(((0.5, 1),))
    assert Schedule.parse("0.5").at(10**12) == 0.5


def test_values_follow_each_other_and_the_last_one_holds() -> None:
    assert values("0.5:0.2:0.1", 5) == [0.5, 0.2, 0.1, 0.1, 0.1]


def test_a_star_repeats_a_value() -> None:
    assert values("0.8*3:3.2", 5) == [0.8, 0.8, 0.8, 3.2, 3.2]


def test_the_last_value_holds_also_when_it_is_repeated() -> None:
    assert values("1:2*2", 6) == [1, 2, 2, 2, 2, 2]


def test_the_example_of_the_module_holds() -> None:
    assert values("0.5:0.2*20:0.1", 23) == [0.5, *[0.2] * 20, 0.1, 0.1]


@pytest.mark.parametrize("text", ["1:2:", "1 : 2", " 1:2 ", "1*1:2", "+1:2e0", "1.:.2e1:"])
def test_these_all_mean_one_then_two(text: str) -> None:
    assert values(text, 3) == [1, 2, 2]


def test_a_number_is_a_schedule() -> None:
    assert Schedule.parse(256) == Schedule(((256.0, 1),))
    assert Schedule.parse(0.25) == Schedule(((0.25, 1),))
    assert Schedule.parse(np.float32(0.25)) == Schedule(((0.25, 1),))  # type: ignore[arg-type]


def test_a_sequence_has_one_value_for_each_epoch() -> None:
    assert Schedule.parse([0.5, 0.25]) == Schedule.parse("0.5:0.25")
    assert Schedule.parse(np.array([0.5, 0.25])) == Schedule.parse("0.5:0.25")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "printed"),
    [("256", "256"), ("0.5:0.2*20:0.1:", "0.5:0.2*20:0.1"), ("1e-7*2", "1e-07*2"), ("1E3", "1000")],
)
def test_prints_the_text_form(text: str, printed: str) -> None:
    assert str(Schedule.parse(text)) == printed


@given(st.lists(st.tuples(NUMBERS, st.integers(1, 2**31)), min_size=1))
def test_what_is_printed_is_read_as_the_same_schedule(runs: list[tuple[float, int]]) -> None:
    schedule = Schedule(tuple(runs))
    again = Schedule.parse(str(schedule))
    assert again == schedule
    assert [math.copysign(1, v) for v, _ in again.values] == [math.copysign(1, v) for v, _ in runs]


@pytest.mark.parametrize(
    ("text", "slug", "column", "end_column", "part"),
    [
        ("", "parse", 1, 2, "a number is required, got nothing"),
        (":", "parse", 1, 2, "got nothing"),
        ("0.5::0.1", "parse", 5, 6, "got nothing"),
        ("0.5:0.1::", "parse", 9, 10, "got nothing"),
        ("0.5:fast:0.1", "parse", 5, 9, "got `fast`"),
        ("0.5: 0,1 :1", "parse", 6, 9, "got `0,1`"),
        ("1_000", "parse", 1, 6, "got `1_000`"),
        ("١٢", "parse", 1, 3, "got `١٢`"),
        ("nan", "parse", 1, 4, "got `nan`"),
        ("0x10", "parse", 1, 5, "got `0x10`"),
        ("0.5*x", "parse", 5, 6, "a number of epochs is required after `*`, got `x`"),
        ("0.5*", "parse", 5, 6, "got nothing"),
        ("0.5*1.5:1", "parse", 5, 8, "got `1.5`"),
        ("0.5*2*3", "parse", 5, 8, "got `2*3`"),
        ("1:2*0", "bad-value", 5, 6, "from 1 to 2147483648 is required, got 0"),
        ("1*99999999999", "bad-value", 3, 14, "got 99999999999"),
        ("1:1e400", "bad-value", 3, 8, "a finite number is required"),
        ("1" * 65, "parse", 1, 66, "got `1111"),
    ],
)
def test_a_mistake_is_shown_at_its_place(
    text: str, slug: str, column: int, end_column: int, part: str
) -> None:
    (diagnostic,) = error_of(text).diagnostics
    assert diagnostic.slug == slug
    assert part in diagnostic.message
    assert diagnostic.span is not None
    assert (diagnostic.span.column, diagnostic.span.end_column) == (column, end_column)


def test_the_message_shows_the_option_and_the_caret() -> None:
    assert str(error_of("0.5:fast")).splitlines()[1:] == [
        "  --> --learning-rate:1:5",
        "  |",
        "1 | 0.5:fast",
        "  |     ^^^^",
    ]


def test_a_value_below_the_minimum_is_refused() -> None:
    assert Schedule.parse("0:1", minimum=0).at(0) == 0
    error = error_of("1:-0.5", minimum=0)
    assert "a value of at least 0 is required, got -0.5" in str(error)
    assert "--learning-rate:1:3" in str(error)


def test_whole_numbers_can_be_required() -> None:
    assert Schedule.parse("256*5:1024", whole=True).at(5) == 1024
    assert "a whole number is required, got 0.5" in str(error_of("256:0.5", whole=True))


@pytest.mark.parametrize("given", [-1.0, [1.0, -1.0], math.nan, [math.inf], []])
def test_numbers_are_judged_like_text(given: float | list[float]) -> None:
    with pytest.raises(GraphcError, match="rate: ") as error:
        Schedule.parse(given, option="rate", minimum=0)
    assert error.value.diagnostics[0].slug == "bad-value"


@pytest.mark.parametrize(
    "given", [None, ["1"], [1.0, None], {}, [[1.0]], [1.0, [2.0]], 10**400, 1j]
)
def test_what_is_no_number_is_refused(given: float) -> None:
    with pytest.raises(GraphcError, match="rate: a number, one number per epoch, or text is req"):
        Schedule.parse(given, option="rate")


@pytest.mark.parametrize("runs", [(), ((1.0, 0),), ((math.nan, 1),)])
def test_a_schedule_made_by_hand_is_checked(runs: tuple[tuple[float, int], ...]) -> None:
    with pytest.raises(ValueError, match="value"):
        Schedule(runs)


def test_epochs_count_from_zero() -> None:
    with pytest.raises(ValueError, match="count from 0"):
        Schedule.parse("1").at(-1)
