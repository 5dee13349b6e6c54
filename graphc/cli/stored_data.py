"""Data sets that are no text, as the command line names them: `.npy`, `.npz`, Parquet and Arrow.

A `.npy` file holds one array, whose columns are named as those of a text are. In the others columns
have names: those of the inputs. One column for an input of several rows holds class
numbers, or texts with a label mapping.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import numpy as np

from graphc.cli.data_inputs import DataInputs
from graphc.cli.options import DataFile
from graphc.data.archives import map_npy, open_npz
from graphc.data.array_reader import from_arrays
from graphc.data.arrow import arrow
from graphc.data.labels import read_label_mapping
from graphc.data.order import Order
from graphc.data.reader import Reader
from graphc.data.uci import FeatureBlock, LabelBlock
from graphc.support.diagnostics import fail

ARRAY, ARCHIVE = ".npy", ".npz"
TABLES = (".parquet", ".arrow", ".feather")
NAMED = (ARCHIVE, *TABLES)


def read_array_columns(
    path: Path, blocks: Sequence[FeatureBlock | LabelBlock], order: Order, dtype: np.dtype
) -> Reader:
    """The columns of a `.npy` file, which is mapped: of the array (samples, columns)."""
    array = map_npy(path)
    if array.ndim != 2:
        message = f"an array (samples, columns) is required, {path} has shape {array.shape}"
        raise fail("bad-data", message)
    arrays: dict[str, np.ndarray] = {}
    classes: dict[str, int] = {}
    for block in blocks:
        first, last = block.columns.start, block.columns.start + block.columns.dim
        if last > array.shape[1]:
            got = f"the array in {path} has {array.shape[1]}"
            raise fail("bad-data", f"`{block.name}` is read up to column {last - 1}, {got}")
        arrays[block.name] = array[:, first:last]
        if isinstance(block, LabelBlock) and block.kind == "category":
            if block.mapping is not None:
                raise click.UsageError("--label-mapping is for texts; an array has class numbers")
            classes[block.name] = block.classes
    return from_arrays(arrays, classes=classes, order=order, dtype=dtype)


def read_named_columns(
    inputs: DataInputs, file: DataFile, order: Order, dtype: np.dtype, *, keep: bool
) -> Reader:
    """The columns of a file that have the names of the inputs."""
    if file.features or file.labels or file.classes is not None:
        raise click.UsageError(
            f"--features, --labels and --classes are for text and .npy: the columns of "
            f"{file.data} have the names of the {inputs.noun}'s inputs"
        )
    if file.data.suffix.lower() == ARCHIVE:
        return _archive(inputs, file, order, dtype)
    return _table(inputs, file, order, dtype, keep=keep)


def _archive(inputs: DataInputs, file: DataFile, order: Order, dtype: np.dtype) -> Reader:
    if file.label_mapping is not None:
        raise click.UsageError("--label-mapping is for texts; an .npz file has class numbers")
    found, rows = open_npz(file.data), inputs.widths
    arrays = {name: array for name, array in found.items() if name in rows}
    if not arrays:
        raise _no_input(rows, list(found), file.data)
    is_column = {n: math.prod(a.shape[1:]) == 1 for n, a in arrays.items()}
    classes = {name: rows[name] for name in arrays if is_column[name] and rows[name] > 1}
    return from_arrays(arrays, classes=classes, order=order, dtype=dtype)


def _table(
    inputs: DataInputs, file: DataFile, order: Order, dtype: np.dtype, *, keep: bool
) -> Reader:
    rows = inputs.widths
    columns = {name: name for name in rows}
    mappings: dict[str, tuple[str, ...]] = {}
    if file.label_mapping is not None:
        labels = [name for name in inputs.labels if name in rows]
        mappings = dict.fromkeys(labels, read_label_mapping(file.label_mapping))
    plain = arrow(file.data, columns, mappings=mappings, order=order, dtype=dtype, keep=keep)
    narrow = {n for n, column in plain.schema.items() if column.width == 1 and n not in mappings}
    classes = {name: rows[name] for name in narrow if rows[name] > 1}
    classes |= {name: rows[name] for name in mappings}
    return arrow(
        file.data,
        columns,
        classes=classes,
        mappings=mappings,
        order=order,
        dtype=dtype,
        keep=keep,
    )


def _no_input(rows: Mapping[str, int], found: Sequence[str], path: Path) -> Exception:
    wanted, got = (", ".join(f"`{name}`" for name in names) for names in (rows, found))
    message = f"arrays with the names of the inputs {wanted} are required"
    return fail("input", f"{message}, {path} has {got}")
