"""Labels as class numbers: whole numbers [samples] where one-hot rows [samples, classes] are read.

A function takes an input of labels in one of two kinds, rows or i64 numbers, and calls may give
either (`plans.py` finds a function of that kind). Where there is none, numbers become rows here.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from graphc.runtime.device_arrays import DeviceArray
from graphc.support.diagnostics import fail

Array = np.ndarray

NUMBER = np.dtype(np.int64)
"""What functions take: a number of any other type is outside of all classes after a conversion if
it was before."""


class NoSuchClass(Exception):
    """A function got a number that is none of a class, and has done nothing."""


def are_class_numbers(value: Any) -> TypeGuard[Array]:
    """Whether it is an array of whole numbers in one dimension."""
    return isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iu"


def is_numbered(value: object, *, of_sequences: bool) -> bool | None:
    """Whether labels are given as class numbers, of sequences each of a list; None for an empty
    list, which may be either."""
    if of_sequences and isinstance(value, list | tuple):
        return all(map(_read_as_numbers, value)) if value else None
    return _read_as_numbers(value)


def _read_as_numbers(value: object) -> bool:
    if are_class_numbers(value):
        return True
    if isinstance(value, np.ndarray):
        return False
    if isinstance(value, DeviceArray) or hasattr(value, "tocsr"):
        return False
    try:
        return are_class_numbers(np.asarray(value))
    except (ValueError, TypeError):  # no array: whoever reads it complains
        return False


def are_inside(numbers: Array, classes: int) -> bool:
    """Whether all of these whole numbers are those of classes."""
    found = numbers.view(f"u{numbers.itemsize}")  # those below 0 are large
    # `argmax` takes less than a reduction, and so does what runs after it.
    return not found.size or found.item(found.argmax()) < classes


def check_classes(name: str, numbers: Array, classes: int, sequence: int | None = None) -> Array:
    """The numbers as i64; GraphcError `input` unless all are those of classes.

    name      the input's
    sequence  they are the steps of the one with this number, not samples
    """
    found = numbers.astype(NUMBER, copy=False)
    if not are_inside(found, classes):
        row = int(((found < 0) | (found >= classes)).argmax())
        place = f"sample {row}" if sequence is None else f"step {row} of sequence {sequence}"
        wanted = f"class numbers from 0 to {classes - 1}"
        raise fail("input", f"input {name} requires {wanted}, got {numbers[row]} for {place}")
    return found


def require_classes(name: str, numbers: Array, classes: int) -> None:
    """GraphcError `input` unless all whole numbers of an input, of any shape, are from 0 to
    `classes` - 1."""
    if numbers.dtype.kind not in "iu" or are_inside(numbers, classes):
        return
    outside = np.argwhere((numbers < 0) | (numbers >= classes))[0].tolist()
    place = f"sample {outside[0]}" if len(outside) == 1 else f"place {outside}"
    got = numbers[tuple(outside)]
    wanted = f"class numbers from 0 to {classes - 1}"
    raise fail("input", f"input {name} requires {wanted}, got {got} for {place}")


def one_hot(
    name: str, numbers: Array, classes: int, dtype: np.dtype, sequence: int | None = None
) -> Array:
    """[samples, classes]: a row with a 1 at its class for each sample; see `check_classes`."""
    check_classes(name, numbers, classes, sequence)
    rows = np.zeros((len(numbers), classes), dtype)
    rows[np.arange(len(numbers)), numbers] = 1
    return rows
