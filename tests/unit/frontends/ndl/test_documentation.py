"""The reference in docs/ndl.md: its programs load, and its table is the table of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphc_frontends.ndl.functions import FUNCTIONS, Function
from tests.support.ndl import network

PAGE = Path(__file__).parents[4] / "docs" / "ndl.md"
TEXT = PAGE.read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```ndl\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def table_row(function: Function) -> str:
    options = ", ".join(
        f"`{o.name}`" + ("" if o.default == "" else f" {str(o.default).lower()}")
        for o in function.options
    )
    names = ", ".join(f"`{name}`" for name in function.names)
    supported = "yes" if function.op else "not yet"
    book = "yes" if function.in_book else ""
    return f"| {names} | `{function.arguments}` | {options} | {book} | {supported} |"


def table() -> str:
    head = "| function | arguments | options and defaults | in the book | supported |"
    return "\n".join([head, "| --- | --- | --- | --- | --- |", *map(table_row, FUNCTIONS)])


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_of_the_reference_loads_without_a_message(program: str) -> None:
    assert network(program)


def test_the_reference_has_an_example_for_each_form() -> None:
    assert len(PROGRAMS) >= 14


def test_the_table_of_functions_is_current() -> None:
    found = re.search(r"<!-- functions: .*? -->\n(.*?)\n?<!-- end", TEXT, re.DOTALL)
    assert found is not None
    assert found[1].strip() == table(), f"put this into {PAGE.name}:\n{table()}"


def test_the_grammar_is_that_of_the_parser() -> None:
    from graphc_frontends.ndl import parser

    for line in (parser.__doc__ or "").splitlines():
        if line.startswith("    "):
            assert line in TEXT
