"""Arrays as a reader: in memory, or files that are mapped and never held as a whole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from graphc.data.archives import open_npz
from graphc.data.order import Order, check_order
from graphc.data.reader import Column
from graphc.data.table_reader import BLOCK_BYTES, TableReader
from graphc.data.tables import ArrayTable
from graphc.support.arguments import table, whole
from graphc.support.diagnostics import fail, suggestion


def from_arrays(
    arrays: Mapping[str, np.ndarray],
    *,
    classes: Mapping[str, int] | None = None,
    order: Order | None = None,
    dtype: npt.DTypeLike = np.float32,
    block_bytes: int = BLOCK_BYTES,
) -> TableReader:
    """A reader of arrays (samples, width), which may be `numpy.memmap`; nothing is copied but the
    samples of a block, and in the order of the data not even those.

    classes  of arrays of class numbers, from 0: how many classes there are. They become one-hot
             rows of `dtype`; other arrays keep their type

    More dimensions than two are joined in C order, one dimension is a column of width 1.
    GraphcError `argument-type` and `input` for what is no such array.
    """
    given = {name: _rows(name, value) for name, value in table(arrays, "data", "arrays").items()}
    if not given:
        raise fail("input", "at least one array is required, got none")
    counts = {name: len(array) for name, array in given.items()}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{count} of `{name}`" for name, count in counts.items())
        raise fail("input", f"arrays of equally many samples are required, got {found}")
    numbers = _checked_classes(classes or {}, given)
    schema = {n: Column(numbers.get(n) or array.shape[1]) for n, array in given.items()}
    chosen = Order() if order is None else check_order(order)
    return TableReader(
        ArrayTable(given),
        schema,
        chosen,
        numbers,
        np.dtype(dtype),
        block_bytes,
        partial(str, f"{next(iter(counts.values()))} samples"),
    )


def npz(
    path: str | Path,
    columns: Mapping[str, str] | None = None,
    *,
    classes: Mapping[str, int] | None = None,
    order: Order | None = None,
    dtype: npt.DTypeLike = np.float32,
) -> TableReader:
    """A reader of the arrays in a `.npz` file, which are mapped unless they are compressed.

    columns  the array of each input, by the input's name; by default all arrays by their names

    GraphcError as `open_npz` and `from_arrays`; `undefined-name` for an array that is not there.
    """
    found = open_npz(Path(path))
    if columns is not None:
        for name in columns.values():
            if name not in found:
                known = ", ".join(found)
                near = suggestion(name, found) or f"; there are {known}"
                raise fail("undefined-name", f"{path} has no array `{name}`{near}")
        found = {column: found[name] for column, name in columns.items()}
    return from_arrays(found, classes=classes, order=order, dtype=dtype)


def _checked_classes(
    classes: Mapping[str, int], arrays: Mapping[str, np.ndarray]
) -> dict[str, int]:
    for name, count in classes.items():
        if name not in arrays:
            near = suggestion(name, arrays)
            raise fail("undefined-name", f"there is no array `{name}` of class numbers{near}")
        if arrays[name].shape[1] != 1 or arrays[name].dtype.kind not in "iuf":
            got = f"{arrays[name].dtype} of shape {arrays[name].shape}"
            raise fail("input", f"`{name}` requires one class number for each sample, got {got}")
        if whole(count, f"classes of `{name}`") < 1:
            raise fail("bad-value", f"`{name}` requires at least 1 class, got {count}")
    return dict(classes)


def _rows(name: str, value: object) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        raise fail("argument-type", f"`{name}` requires an array, got {type(value).__name__}")
    if value.dtype.kind not in "fiub" or value.ndim == 0:
        got = f"{value.dtype} of shape {value.shape}"
        raise fail("input", f"`{name}` requires an array (samples, width) of numbers, got {got}")
    return value.reshape(len(value), math.prod(value.shape[1:]))
