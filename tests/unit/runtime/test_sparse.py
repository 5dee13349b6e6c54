"""Rows of which only what is not zero is kept: the accepted forms, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from graphc.runtime.sparse import SparseRows, sample_count, sparse_rows
from graphc.support.diagnostics import GraphcError

DENSE = np.array([[0, 2.0, 0, 3], [0, 0, 0, 0], [4, 0, 0, 0], [0, 0, 5, 6]])
INDICES, OFFSETS = np.array([1, 3, 0, 2, 3]), np.array([0, 2, 2, 3, 5])
VALUES = np.array([2.0, 3, 4, 5, 6])


@dataclass
class Csr:
    """As much of a CSR matrix as is asked for."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    shape: tuple[int, ...]


@dataclass
class Transposed:
    """A matrix of another format, which knows how it becomes CSR."""

    matrix: Csr
    shape: tuple[int, ...] = (4, 4)

    def tocsr(self) -> Csr:
        return self.matrix


CSR = Csr(OFFSETS, INDICES, VALUES, (4, 4))


def dense(rows: SparseRows) -> np.ndarray:
    """The matrix, entry by entry."""
    found = np.zeros((len(rows), rows.width))
    for n in range(len(rows)):
        for e in range(rows.offsets[n], rows.offsets[n + 1]):
            found[n, rows.indices[e]] += rows.values[e]
    return found


@pytest.mark.parametrize(
    "value",
    [CSR, Transposed(CSR), (INDICES, OFFSETS, VALUES), DENSE, DENSE.tolist()],
    ids=["csr", "another format", "tuple", "array", "lists"],
)
def test_every_form_gives_the_same_rows(value: object) -> None:
    rows = sparse_rows("x", value, 4)
    assert dense(rows).tolist() == DENSE.tolist()
    assert (len(rows), rows.most_entries, sample_count(value)) == (4, 2, 4)
    assert rows.indices.dtype == np.int32


def test_without_values_every_entry_is_one() -> None:
    rows = sparse_rows("x", (INDICES, OFFSETS), 4)
    assert dense(rows).tolist() == (DENSE != 0).tolist()


def test_rows_that_were_checked_are_taken_as_they_are() -> None:
    rows = sparse_rows("x", CSR, 4)
    assert sparse_rows("x", rows, 4) is rows


def test_values_at_one_place_stay_apart() -> None:
    rows = sparse_rows("x", ([2, 2], [0, 2], [1.0, 10.0]), 4)
    assert rows.padded(np.dtype(np.float32))[0].tolist() == [[2, 2]]
    assert dense(rows).tolist() == [[0, 0, 11, 0]]


def test_an_array_keeps_what_is_not_a_number() -> None:
    rows = sparse_rows("x", np.array([[0, np.nan, -0.0, np.inf]]), 4)
    assert rows.indices.tolist() == [1, 3]


def test_short_rows_are_filled_up_with_an_index_that_is_none() -> None:
    indices, values = sparse_rows("x", CSR, 4).padded(np.dtype(np.float64))
    assert indices.tolist() == [[1, 3], [-1, -1], [0, -1], [2, 3]]
    assert values.tolist() == [[2, 3], [0, 0], [4, 0], [5, 6]]
    assert (indices.dtype, values.dtype) == (np.int32, np.float64)


@pytest.mark.parametrize("count", [0, 3])
def test_rows_without_entries_have_arrays_without_columns(count: int) -> None:
    rows = sparse_rows("x", ([], [0] * (count + 1)), 4)
    indices, values = rows.padded(np.dtype(np.float32))
    assert indices.shape == values.shape == (count, 0)


def test_a_number_too_large_for_the_type_is_infinite() -> None:
    _, values = sparse_rows("x", ([0], [0, 1], [1e300]), 4).padded(np.dtype(np.float32))
    assert values.tolist() == [[np.inf]]


@pytest.mark.parametrize(
    "chosen",
    [
        slice(0, 2),
        slice(1, 4),
        slice(3, 99),
        slice(2, 1),
        slice(None, None, -1),
        np.array([3, 0, 0, 2, 1]),
        np.array([], np.int64),
        np.array([-1]),
    ],
    ids=str,
)
def test_some_rows_are_those_of_the_matrix(chosen: slice | np.ndarray) -> None:
    rows = sparse_rows("x", CSR, 4)
    taken = rows[chosen]
    assert dense(taken).tolist() == DENSE[chosen].tolist()
    assert len(taken) == len(DENSE[chosen])
    _, values = taken.padded(np.dtype(np.float64))
    assert np.sum(values) == np.sum(DENSE[chosen])


def test_rows_of_rows_are_rows() -> None:
    rows = sparse_rows("x", CSR, 4)
    again = rows.take(slice(1, 4)).take(np.array([2, 1]))
    assert dense(again).tolist() == DENSE[[3, 2]].tolist()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ((INDICES, OFFSETS, VALUES[:-1]), "requires a value for each of 5 indices, got 4"),
        (([0, 4], [0, 1, 2]), "requires indices from 0 to 3, got 4 at entry 0 of sample 1"),
        (([0, -1], [0, 0, 2]), "requires indices from 0 to 3, got -1 at entry 1 of sample 1"),
        (([2**40], [0, 1]), "requires indices from 0 to 3, got 1099511627776"),
        (([0, 1], [0, 2, 1, 2]), "requires offsets that rise from 0 to the number of entries, 2"),
        (([0, 1], [0, 2, 1, 2]), "got 1 after 2 for sample 1"),
        (([0, 1], [1, 2]), "got 1 to 2"),
        (([0, 1], [0, 1]), "got 0 to 1"),
        (([], []), "one more than there are samples; got none"),
        (([0.5], [0, 1]), "requires indices in one dimension of whole numbers, got float64 of sh"),
        (([[0]], [0, 1]), "got int64 of shape (1, 1)"),
        (([0], [0.0, 1.0]), "requires offsets in one dimension of whole numbers, got float64"),
        (([0], [0, 1], ["a"]), "requires values in one dimension of numbers, got <U1 of shape (1,"),
        (([0], [0, 1], [1j]), "requires values in one dimension of numbers, got complex128"),
        (([0],), "requires a CSR matrix, a tuple (indices, offsets) or (indices, offsets, values)"),
        (([0],), "an array (N, 4), or class numbers (N,); got a tuple of 1"),
        (np.zeros((2, 3)), "an array (N, 4), or class numbers (N,); got shape (2, 3)"),
        (np.zeros(4), "got shape (4,)"),
        ([[1], [2, 3]], "got no array"),
        (([[1], [2, 3]], [0, 1]), "got no array"),
        (([1], [0, [1]]), "got no array"),
        (([1], [0, 1], [[1.0], [2, 3]]), "got no array"),
        (np.array([["a", "b", "c", "d"]]), "requires numbers, got elements of <U1"),
        (Csr(OFFSETS, INDICES, VALUES, (4, 5)), "requires 4 columns, got 5"),
        (Csr(OFFSETS, INDICES, VALUES, (3, 4)), "got 4 rows of a matrix of 3"),
        (Csr(OFFSETS, INDICES, VALUES, (4,)), "got shape (4,)"),
        (sparse_rows("y", np.zeros((1, 5)), 5), "requires 4 columns, got 5"),
        (None, "got shape ()"),
    ],
)
def test_what_is_none_of_the_forms_is_refused(value: object, message: str) -> None:
    with pytest.raises(GraphcError) as caught:
        sparse_rows("x", value, 4)
    (problem,) = caught.value.diagnostics
    assert problem.slug == "input"
    assert problem.message.startswith("input x requires ")
    assert message in problem.message


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (np.zeros((3, 2)), 3),
        (np.float32(1), 0),
        (2.0, 0),
        ([[1], [2, 3]], 0),
        (([], []), 0),
        (([], [0, [1]]), 0),
    ],
)
def test_samples_can_be_counted_before_anything_is_checked(value: object, count: int) -> None:
    assert sample_count(value) == count


def test_a_matrix_of_scipy_is_taken_in_any_format() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    for kind in (sparse.csr_matrix, sparse.csc_matrix, sparse.coo_array, sparse.csr_array):
        rows = sparse_rows("x", kind(DENSE), 4)
        assert dense(rows).tolist() == DENSE.tolist()
        assert sample_count(kind(DENSE)) == 4
