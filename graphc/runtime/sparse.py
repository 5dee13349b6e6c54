"""Sparse data: rows of which only the numbers that are not zero are kept.

`SparseRows` is what every accepted form becomes: a CSR matrix (of scipy, or anything with its
attributes), a tuple (indices, offsets) or (indices, offsets, values), an array, or the class
numbers of one-hot rows. A call takes the indices and values of its samples as arrays [N, K], K the
most entries that one of them has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from graphc.runtime.class_numbers import are_class_numbers, check_classes
from graphc.support.diagnostics import fail

Array = np.ndarray

NO_INDEX = -1
"""Fills up short rows: an index that reads nothing and adds nothing."""
_CSR = ("indptr", "indices", "data", "shape")
_ARRAYS = ("indices", "offsets", "values")
FORMS = (
    "a CSR matrix, a tuple (indices, offsets) or (indices, offsets, values), an array (N, {}), or "
    "class numbers (N,)"
)


@dataclass(frozen=True, slots=True)
class SparseRows:
    """Rows of `width` numbers: in row n stands values[e] at indices[e], for the entries e from
    offsets[n] to offsets[n + 1]. Values at one place are added. Made and checked by `sparse_rows`.
    """

    indices: Array
    offsets: Array
    values: Array
    width: int

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.offsets) - 1

    def __getitem__(self, rows: slice | Array) -> SparseRows:
        return self.take(rows)

    def take(self, rows: slice | Array) -> SparseRows:
        """Some rows, by a slice or by their numbers, in that order."""
        if isinstance(rows, slice) and rows.step in (None, 1):
            start, stop, _ = rows.indices(len(self))
            stop = max(start, stop)
            first, last = self.offsets[start], self.offsets[stop]
            return SparseRows(
                self.indices[first:last],
                self.offsets[start : stop + 1] - first,
                self.values[first:last],
                self.width,
            )
        counts = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        moved = np.repeat(self.offsets[:-1][rows] - offsets[:-1], counts)
        entries = moved + np.arange(offsets[-1])
        return SparseRows(self.indices[entries], offsets, self.values[entries], self.width)

    @property
    def most_entries(self) -> int:
        """Entries of the fullest row."""
        return int(_lengths(self.offsets).max(initial=0))

    def padded(self, dtype: np.dtype) -> tuple[Array, Array]:
        """Indices i32[N, K] and values [N, K]; K is `most_entries`."""
        counts = _lengths(self.offsets)
        most = counts.max(initial=0)
        used = slice(self.offsets[0], self.offsets[-1])
        if (counts == most).all():
            shape = (len(counts), most)
            values = _converted(self.values[used], dtype)
            return self.indices[used].reshape(shape), values.reshape(shape)
        is_entry = np.arange(most) < counts[:, None]
        indices = np.full(is_entry.shape, NO_INDEX, np.int32)
        values = np.zeros(is_entry.shape, dtype)
        indices[is_entry] = self.indices[used]
        values[is_entry] = _converted(self.values[used], dtype)
        return indices, values


def _converted(values: Array, dtype: np.dtype) -> Array:
    """A copy in that type."""
    if values.dtype == dtype:
        return values.copy()
    with np.errstate(over="ignore"):  # a number too large for f32 is infinite
        return values.astype(dtype)


def _lengths(offsets: Array) -> Array:
    return offsets[1:] - offsets[:-1]


def sample_count(value: object) -> int:
    """The samples in a value of a data set, as far as it can be told without checking it."""
    if isinstance(value, SparseRows):
        return len(value)
    if isinstance(value, tuple) and len(value) in (2, 3):
        return max(math.prod(_shape(value[1])) - 1, 0)
    shape = _shape(value)
    return shape[0] if shape else 0


def _shape(value: Any) -> tuple[int, ...]:
    """Of an array, of lists, or of a matrix of scipy, which has no length; () for other values."""
    try:
        return tuple(value.shape) if hasattr(value, "shape") else np.shape(value)
    except ValueError:  # lists of several lengths, which the checks of the input complain of
        return ()


def sparse_rows(name: str, value: object, width: int) -> SparseRows:
    """`value` as rows of `width` numbers. `name` is the input's, for messages.

    GraphcError `input` for what is none of the forms, for indices outside of 0 to width - 1, for
    offsets that do not rise from 0 to the number of entries.
    """
    if isinstance(value, SparseRows):
        _require_width(name, value.width, width)
        return value
    if hasattr(value, "tocsr"):
        value = _to_csr(value)
    if _is_csr(value):
        shape, offsets, indices, values = _csr_parts(value)
        if len(shape) != 2:
            _wrong(name, width, f"shape {shape}")
        _require_width(name, shape[1], width)
        rows = _checked(name, indices, offsets, values, width)
        if len(rows) != shape[0]:
            _wrong(name, width, f"{len(rows)} rows of a matrix of {shape[0]}")
        return rows
    if isinstance(value, tuple):
        if len(value) not in (2, 3):
            _wrong(name, width, f"a tuple of {len(value)}")
        indices, offsets, *values = value
        return _checked(name, indices, offsets, values[0] if values else None, width)
    return _from_dense(name, value, width)


def _is_csr(value: object) -> bool:
    return all(hasattr(value, attribute) for attribute in _CSR)


def _to_csr(value: Any) -> object:
    """Any format of scipy."""
    return value.tocsr()


def _csr_parts(value: Any) -> tuple[tuple[int, ...], object, object, object]:
    """Of an object whose type nobody here knows."""
    return tuple(value.shape), value.indptr, value.indices, value.data


def _from_dense(name: str, value: object, width: int) -> SparseRows:
    """Of an array; class numbers stand for rows with a 1 there."""
    array = _as_array(name, value, width)
    if are_class_numbers(array):
        check_classes(name, array, width)
        ones = np.ones(len(array), np.float32)
        return SparseRows(array.astype(np.int32), np.arange(len(array) + 1), ones, width)
    if array.ndim != 2 or array.shape[1] != width:
        _wrong(name, width, f"shape {array.shape}")
    _require_numbers(name, array)
    rows, indices = np.nonzero(array)
    offsets = np.searchsorted(rows, np.arange(len(array) + 1))
    return SparseRows(indices.astype(np.int32), offsets, array[rows, indices], width)


def _as_array(name: str, value: object, width: int) -> Array:
    try:
        return np.asarray(value)
    except (ValueError, TypeError) as problem:
        _wrong(name, width, f"no array: {problem}")


def _checked(name: str, indices: object, offsets: object, values: object, width: int) -> SparseRows:
    """Rows out of three arrays that may be anything; without values every entry is 1."""
    index, starts = (_as_array(name, value, width) for value in (indices, offsets))
    data = np.ones(index.shape, np.float32) if values is None else _as_array(name, values, width)
    for what, array in zip(_ARRAYS, (index, starts, data), strict=True):
        kinds = "fiub" if what == "values" else "iu"
        if array.ndim != 1 or (array.dtype.kind not in kinds and array.size):
            numbers = "numbers" if what == "values" else "whole numbers"
            raise fail(
                "input",
                f"input {name} requires {what} in one dimension of {numbers}, got "
                f"{array.dtype} of shape {array.shape}",
            )
    if len(data) != len(index):
        message = f"input {name} requires a value for each of {len(index)} indices, got {len(data)}"
        raise fail("input", message)
    starts = starts.astype(np.int64)
    _check_offsets(name, starts, len(index))
    _check_range(name, index, starts, width)
    return SparseRows(index.astype(np.int32), starts, data, width)


def _check_offsets(name: str, offsets: Array, entries: int) -> None:
    falls = _lengths(offsets) < 0
    if falls.any():
        row = int(falls.argmax())
        found = f"{offsets[row + 1]} after {offsets[row]} for sample {row}"
    elif not len(offsets) or offsets[0] != 0 or offsets[-1] != entries:
        found = f"{offsets[0]} to {offsets[-1]}" if len(offsets) else "none"
    else:
        return
    raise fail(
        "input",
        f"input {name} requires offsets that rise from 0 to the number of entries, {entries}, "
        f"one more than there are samples; got {found}",
    )


def _check_range(name: str, indices: Array, offsets: Array, width: int) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= width):
        outside = (indices < 0) | (indices >= width)
        entry = int(outside.argmax())
        row = int(np.searchsorted(offsets, entry, side="right")) - 1
        raise fail(
            "input",
            f"input {name} requires indices from 0 to {width - 1}, got {indices[entry]} at entry "
            f"{entry - offsets[row]} of sample {row}",
        )


def _require_numbers(name: str, array: Array) -> None:
    if array.dtype.kind not in "fiub":
        raise fail("input", f"input {name} requires numbers, got elements of {array.dtype}")


def _require_width(name: str, found: int, width: int) -> None:
    if found != width:
        raise fail("input", f"input {name} requires {width} columns, got {found}")


def _wrong(name: str, width: int, got: str) -> NoReturn:
    raise fail("input", f"input {name} requires {FORMS.format(width)}; got {got}")
