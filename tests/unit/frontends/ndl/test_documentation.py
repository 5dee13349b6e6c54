"""The reference in docs/ndl.md: its programs load, and its grammar is the parser's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.ndl import network

PAGE = Path(__file__).parents[4] / "docs" / "ndl.md"
TEXT = PAGE.read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```ndl\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_of_the_reference_loads_without_a_message(program: str) -> None:
    assert network(program)


def test_the_reference_has_an_example_for_each_form() -> None:
    assert len(PROGRAMS) >= 14


def test_the_grammar_is_that_of_the_parser() -> None:
    from graphc_frontends.ndl import parser

    for line in (parser.__doc__ or "").splitlines():
        if line.startswith("    "):
            assert line in TEXT
