"""The values that options take, and what a wrong one says."""

from __future__ import annotations

import click
import pytest

from graphc.cli.values import Block, BlockType, DefineType, FileValueType, number_or_text


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("0:64", Block(None, 0, 64)),
        ("64", Block(None, 64, None)),
        ("features=2:3", Block("features", 2, 3)),
        ("L1.x=7", Block("L1.x", 7, None)),
    ],
)
def test_a_block_is_a_start_with_an_optional_name_and_width(text: str, block: Block) -> None:
    assert BlockType().convert(text, None, None) == block


@pytest.mark.parametrize("text", ["", "a", "0:0", "-1:3", "1:", ":2", "x=", "=1", "1:2:3", "1.5"])
def test_anything_else_is_no_block(text: str) -> None:
    with pytest.raises(click.BadParameter, match="START:DIM"):
        BlockType().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("64", 64),
        ("-3", -3),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1e-3", 1e-3),
        ("fixedValue", "fixedValue"),
        ("1_000", "1_000"),
        ("nan", "nan"),
        ("0x10", "0x10"),
        ("", ""),
    ],
)
def test_a_define_is_a_number_where_it_reads_as_one(text: str, value: object) -> None:
    assert number_or_text(text) == value
    assert type(number_or_text(text)) is type(value)
    assert DefineType().convert(f"HDim={text}", None, None) == ("HDim", value)


@pytest.mark.parametrize("text", ["HDim", "=3", "1x=3", "a b=3", ""])
def test_a_define_without_a_name_or_sign_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="name=value"):
        DefineType().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-", (None, "-")),
        ("in.npy", (None, "in.npy")),
        ("features=in.npy", ("features", "in.npy")),
        ("./a=b.npy", (None, "./a=b.npy")),
    ],
)
def test_a_file_may_be_given_for_a_named_input(text: str, value: tuple[str | None, str]) -> None:
    assert FileValueType().convert(text, None, None) == value
