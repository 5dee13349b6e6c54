"""Labels as class numbers: whole numbers [samples] where one-hot rows [samples, classes] are read.

What is compiled reads one-hot rows. A data set gets them once (`one_hot`). Calls that follow each
other share memory for them (`OneHotRows`), in which a call moves its ones: as little to do as
looking at rows that a caller made. Few and short rows are taken out of a table of all.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from graphc.support.diagnostics import fail

Array = np.ndarray

TABLE_ELEMENTS = 1 << 14
"""Of the rows of a call, and of the table of all classes, up to which rows are copied out of it."""


def are_class_numbers(value: Any) -> TypeGuard[Array]:
    """Whether it is an array of whole numbers in one dimension."""
    is_array = isinstance(value, np.ndarray)
    return is_array and value.ndim == 1 and value.dtype.kind in "iu"


def check_classes(name: str, numbers: Array, classes: int) -> None:
    """GraphcError `input` unless all are numbers of classes; `name` is the input's."""
    outside = (numbers < 0) | (numbers >= classes)
    if outside.any():
        row = int(outside.argmax())
        wanted = f"class numbers from 0 to {classes - 1}"
        raise fail("input", f"input {name} requires {wanted}, got {numbers[row]} for sample {row}")


def one_hot(name: str, numbers: Array, classes: int, dtype: np.dtype) -> Array:
    """[samples, classes]: a row with a 1 at its class for each sample."""
    check_classes(name, numbers, classes)
    rows = np.zeros((len(numbers), classes), dtype)
    rows[np.arange(len(numbers)), numbers] = 1
    return rows


class OneHotRows:
    """One-hot rows of the class numbers of the last call, in memory that the next one uses too."""

    __slots__ = (
        "_classes",
        "_dtype",
        "_flat",
        "_is_outside",
        "_limit",
        "_ones",
        "_starts",
        "_table",
        "_unsigned",
        "rows",
    )

    def __init__(self, numbers: Array, rows: Array, starts: Array | None = None) -> None:
        """`rows` [.., classes], C-contiguous, are those of `numbers`, whose element type those of
        other calls have too, and else 0.

        starts  where the row of each begins in the memory of all; by default one after the other
        """
        self.rows = rows
        self._flat = rows.reshape(-1)
        self._classes = rows.shape[-1]
        self._dtype = numbers.dtype
        self._unsigned = np.dtype(f"u{numbers.dtype.itemsize}")  # those below 0 are large
        self._starts = np.arange(len(numbers)) * self._classes if starts is None else starts
        self._ones = self._starts + numbers.astype(np.int64)
        self._is_outside = np.zeros(numbers.shape, np.bool_)
        is_reached = self._classes <= np.iinfo(self._unsigned).max
        # An array of the same type is compared with in half of the time of a number.
        self._limit = np.array(self._classes, self._unsigned) if is_reached else self._classes
        self._table: Array | None = None
        is_small = max(rows.size, self._classes**2) <= TABLE_ELEMENTS
        if is_small and starts is None and rows.ndim == 2 and np.can_cast(self._dtype, np.intp):
            self._table = np.eye(self._classes, dtype=rows.dtype)

    def take(self, numbers: Any) -> bool:
        """Let `rows` be those of other numbers; False, and nothing done, where these do not fit."""
        if type(numbers) is not np.ndarray or numbers.dtype != self._dtype:
            return False
        starts, ones = self._starts, self._ones
        if numbers.shape != starts.shape:
            return False
        np.greater_equal(numbers.view(self._unsigned), self._limit, self._is_outside)
        if np.count_nonzero(self._is_outside):
            return False
        if self._table is not None:
            self._table.take(numbers, 0, self.rows, "clip")  # without a copy, as "raise" makes one
            return True
        self._flat[ones] = 0
        np.add(starts, numbers, ones, casting="unsafe")  # i64 and u64 meet in f64, which has both
        self._flat[ones] = 1
        return True
