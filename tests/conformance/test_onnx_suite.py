"""The suite of node and model tests of the `onnx` package, against the list of those that pass.

Strict both ways: one that passes has to be in the list, which `python -m tests.support.onnx_suite
--write` writes.
"""

from __future__ import annotations

import pytest

pytest.importorskip("onnx", reason="requires the package onnx (graphc[onnx])")

from tests.support.onnx_suite import LIST, problem_of, suite

CHUNKS = 8


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_those_pass_that_the_list_says(chunk: int) -> None:
    listed = set(LIST.read_text().split())
    cases = [*suite().items()][chunk::CHUNKS]
    found = {name: problem_of(case, "numpy") for name, case in cases}
    failing = {name: problem for name, problem in found.items() if problem and name in listed}
    passing = [name for name, problem in found.items() if not problem and name not in listed]
    assert (failing, passing) == ({}, [])


def test_the_list_names_tests_of_the_suite() -> None:
    assert not set(LIST.read_text().split()) - suite().keys()
