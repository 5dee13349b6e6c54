"""Arrays as a reader: in memory, or files that are mapped and never held as a whole."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from graphc.data.order import Order, check_order
from graphc.data.reader import Column
from graphc.data.table_reader import BLOCK_BYTES, TableReader
from graphc.data.tables import ArrayTable
from graphc.support.arguments import table
from graphc.support.diagnostics import fail


def from_arrays(
    arrays: Mapping[str, np.ndarray], *, order: Order | None = None, block_bytes: int = BLOCK_BYTES
) -> TableReader:
    """A reader of arrays (samples, width), which may be `numpy.memmap`; nothing is copied but the
    samples of a block, and in the order of the data not even those.

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
    chosen = Order() if order is None else check_order(order)
    schema = {name: Column(array.shape[1]) for name, array in given.items()}
    return TableReader(ArrayTable(given), schema, chosen, block_bytes=block_bytes)


def _rows(name: str, value: object) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        raise fail("argument-type", f"`{name}` requires an array, got {type(value).__name__}")
    if value.dtype.kind not in "fiub" or value.ndim == 0:
        got = f"{value.dtype} of shape {value.shape}"
        raise fail("input", f"`{name}` requires an array (samples, width) of numbers, got {got}")
    return value.reshape(len(value), math.prod(value.shape[1:]))
