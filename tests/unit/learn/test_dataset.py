"""Data sets as loops see them: samples and sequences, whole or in stretches."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.learn.dataset import (
    Samples,
    Sequences,
    check_truncate,
    extent_of,
    read_dataset,
)
from graphc.runtime.signature import Argument, Dimension, SequenceTables, Signature
from graphc.runtime.sparse import SparseRows
from graphc.support.diagnostics import GraphcError
from graphc.support.size_formula import SizeFormula

LENGTHS = (3, 5, 1)
LISTS = [np.arange(n, dtype=np.float32)[:, None] for n in LENGTHS]


def sequences(truncate: int = 0) -> Sequences:
    return Sequences({"x": LISTS}, np.array(LENGTHS), truncate)


def test_a_minibatch_of_samples_is_one_call() -> None:
    data = Samples({"x": np.arange(5)[:, None]}, 5)
    (call,) = data.calls(np.array([4, 0]))
    assert call.inputs["x"].tolist() == [[4], [0]]  # type: ignore[attr-defined]
    assert (call.samples, call.carry, data.units, data.nominal(2)) == (2, False, 5, 2)


def test_whole_sequences_are_one_call_that_starts_anew() -> None:
    (call,) = sequences().calls(np.array([2, 0]))
    assert [x.tolist() for x in call.given["x"]] == [[[0]], [[0], [1], [2]]]  # type: ignore[attr-defined]
    assert (call.samples, call.first) == (4, True)
    assert "carry" not in call.given


def test_stretches_go_on_until_the_longest_sequence_ends() -> None:
    calls = list(sequences(2).calls(np.array([0, 1])))
    lengths = [[len(x) for x in call.given["x"]] for call in calls]  # type: ignore[attr-defined]
    assert lengths == [[2, 2], [1, 2], [0, 1]]
    assert [call.samples for call in calls] == [4, 3, 1]
    assert [call.first for call in calls] == [True, False, False]
    assert all(call.given["carry"] is True for call in calls)


@pytest.mark.parametrize(("truncate", "nominal"), [(0, 6), (2, 3), (100, 6)])
def test_the_nominal_minibatch_is_that_of_average_length(truncate: int, nominal: int) -> None:
    """9 steps in 3 sequences, or in 6 stretches of at most 2."""
    assert sequences(truncate).nominal(2) == nominal


def test_measuring_takes_sequences_of_equal_length_together() -> None:
    assert sequences().in_order().tolist() == [2, 0, 1]
    assert sequences().samples == sum(LENGTHS)


def test_the_extent_of_a_data_set_counts_what_is_there() -> None:
    sparse = ([1, 2], [0, 1, 1, 2])
    rows = SparseRows(np.array([1]), np.array([0, 1]), np.array([1.0]), 3)
    assert extent_of({"x": LISTS}).longest == 5
    assert extent_of({"x": [sparse], "y": np.zeros((9, 9))}).longest == 3
    assert extent_of({"x": [rows] * 4}).sequences == 4
    assert extent_of({}).longest == 1


@pytest.mark.parametrize(
    ("least", "truncate", "time"), [(0, 0, 5), (8, 0, 8), (8, 2, 2), (0, 9, 5)]
)
def test_a_stretch_of_more_steps_than_there_are_takes_no_memory_for_them(
    least: int, truncate: int, time: int
) -> None:
    assert extent_of({"x": LISTS}).time(least, truncate) == time


def signature() -> Signature:
    tables = SequenceTables("b", "e")
    dims = (
        Dimension("T", 4),
        Dimension("S", 4),
        Dimension("N", 16, SizeFormula.product(("T", "S"))),
    )
    arguments = [Argument(n, "i32", ("T", "S"), "input") for n in ("b", "e")]
    arguments.append(Argument("x", "f32", ("T", "S", 1), "input"))
    return Signature("f", dims, tuple(arguments), (), 0, sequences=tables)


def test_the_signature_decides_what_data_have_to_be() -> None:
    found = read_dataset(signature(), {"X": LISTS, "more": 1})
    assert isinstance(found, Sequences)
    assert found.lengths.tolist() == list(LENGTHS)
    plain = Signature("f", (Dimension("N", 4),), (Argument("x", "f32", ("N", 1), "input"),), (), 0)
    assert read_dataset(plain, {"x": np.zeros((3, 1))}).units == 3


@pytest.mark.parametrize("x", [np.zeros((3, 1)), [np.zeros((0, 1))]])
def test_data_that_are_no_sequences_are_refused(x: object) -> None:
    with pytest.raises(GraphcError, match=r"requires a list of sequences|at least one step"):
        read_dataset(signature(), {"x": x})


@pytest.mark.parametrize("truncate", [-1, 1.5, "3", True])
def test_a_stretch_is_a_whole_number_of_steps(truncate: object) -> None:
    with pytest.raises(GraphcError, match="truncate requires a whole number"):
        check_truncate(truncate)
