"""Vectorised reading of decimals: every value that is not left over equals Python's `float`."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphc.data.decimal_text import PADDING, parse_decimals


def parse(cells: list[str]) -> tuple[list[float], set[int]]:
    """Values of the cells and the indices left over, all cells in one call."""
    text = " ".join(cells) + " " * PADDING
    lengths = np.array([len(cell) for cell in cells], np.intp)
    starts = np.cumsum(lengths + 1) - lengths - 1
    values, left_over = parse_decimals(
        np.frombuffer(text.encode(), np.uint8), starts, starts + lengths
    )
    return values.tolist(), set(left_over.tolist())


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


def plain_decimals(longest: int) -> st.SearchStrategy[str]:
    """Sign, digits and at most one point, `longest` characters of digits and point at most."""
    digits = st.text("0123456789", min_size=1, max_size=longest - 1)
    body = st.tuples(digits, st.integers(0, longest), st.booleans()).map(
        lambda t: t[0][: t[1]] + "." + t[0][t[1] :] if t[2] else t[0]
    )
    return st.tuples(st.sampled_from(["", "-", "+"]), body).map("".join)


@pytest.mark.parametrize("longest", [3, 7, 16])
def test_plain_decimals_are_correctly_rounded(longest: int) -> None:
    @given(st.lists(plain_decimals(longest), min_size=1, max_size=50))
    def check(cells: list[str]) -> None:
        values, left_over = parse(cells)
        for i, cell in enumerate(cells):
            if i not in left_over:
                assert bits(values[i]) == bits(float(cell)), cell
            else:
                assert int(cell.strip("+-").replace(".", "")) >= 2**53 or len(cell) > 16

    check()


@given(st.lists(st.text("0123456789.+-eEnaif_xX,:/*", min_size=1, max_size=20), min_size=1))
def test_no_value_is_given_for_what_is_no_number(cells: list[str]) -> None:
    values, left_over = parse(cells)
    for i, cell in enumerate(cells):
        if i not in left_over:
            assert bits(values[i]) == bits(float(cell)), cell
            assert "_" not in cell


@pytest.mark.parametrize("width", [1, 4, 8, 15, 16])
def test_every_byte_that_is_no_digit_is_noticed_at_every_place(width: int) -> None:
    cells = [
        "1" * at + chr(byte) + "1" * (width - at - 1)
        for byte in range(33, 127)
        if chr(byte) not in "0123456789"
        for at in range(width)
    ]
    values, left_over = parse(cells)
    for i, cell in enumerate(cells):
        if re.fullmatch(r"[+-]?(1+\.?1*|\.1+)", cell):
            assert i not in left_over
            assert values[i] == float(cell)
        elif i not in left_over:
            assert re.fullmatch(r"[+-]?1+[eE]1+", cell)
            assert values[i] == float(cell)


@pytest.mark.parametrize("cell", ["-0", "-0.0", "-.0", "-00000000.000"])
def test_the_sign_of_zero_is_kept(cell: str) -> None:
    values, left_over = parse([cell])
    assert not left_over
    assert bits(values[0]) == bits(-0.0)


@pytest.mark.parametrize(
    "cell", [".", "-", "+", "-.", "..", "1..2", "1.2.3", "1.23456789.1", "--1"]
)
def test_a_cell_without_digits_or_with_two_points_is_left_over(cell: str) -> None:
    assert parse([cell])[1] == {0}


def test_a_point_alone_is_left_over_among_long_cells_too() -> None:
    assert parse([".", "-.", "+.", "1234567890.5", "0.1234567890"])[1] == {0, 1, 2}


def test_integers_from_2_to_the_53_on_are_left_over() -> None:
    below, at = str(2**53 - 1), str(2**53)
    values, left_over = parse([below, at])
    assert left_over == {1}
    assert values[0] == 2**53 - 1


def test_short_and_long_cells_mix() -> None:
    cells = ["1", "-123456.75", "2", "3", "4", ".5", "99999999", "1e3", "12345678901234567"]
    values, left_over = parse(cells)
    assert left_over == {8}
    assert values[:8] == [float(cell) for cell in cells[:8]]


@given(st.lists(st.tuples(plain_decimals(16), st.sampled_from("eE"), st.text("+-0123456789"))))
def test_decimals_with_exponents_are_correctly_rounded(cells: list[tuple[str, str, str]]) -> None:
    joined = ["".join(cell) for cell in cells]
    values, left_over = parse(joined)
    for i, cell in enumerate(joined):
        if i not in left_over:
            assert bits(values[i]) == bits(float(cell)), cell


@pytest.mark.parametrize("cell", ["1e5", "-1.25E-07", "9007199254740991e22", "0e-005", "1.e+1"])
def test_exponents_within_the_exact_powers_of_ten_are_covered(cell: str) -> None:
    values, left_over = parse([cell])
    assert not left_over
    assert bits(values[0]) == bits(float(cell))


@pytest.mark.parametrize(
    "cell",
    ["1e", "e1", "1e+", "1e1.", "1e.1", "1ee1", "1e1e1", ".e1", "-e1", "1e23", "1e-23", "1e00001"],
)
def test_other_exponents_are_left_over(cell: str) -> None:
    assert parse([cell])[1] == {0}


def test_no_cells_give_no_values() -> None:
    none = np.empty(0, np.intp)
    values, left_over = parse_decimals(np.zeros(PADDING, np.uint8), none, none)
    assert len(values) == len(left_over) == 0
