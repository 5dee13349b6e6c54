"""Parquet and Arrow tables as a reader, and outputs as Parquet, through pyarrow: `graphc[arrow]`.

An input is made of columns of the table: of numbers, one each or lists of one length, or a column
of class numbers or texts, which becomes one-hot rows. pyarrow is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphc.data.order import Order, check_order
from graphc.data.reader import Column
from graphc.data.table_reader import TableReader
from graphc.data.tables import Arrays, Spool, Stream
from graphc.data.writer import checked_outputs, checked_rows
from graphc.support.arguments import kind_of, table, texts, truth
from graphc.support.diagnostics import GraphcError, fail, suggestion
from graphc.support.files import move_into_place, temporary_folder

ROWS_AT_ONCE = 1 << 13
IPC_MAGIC = b"ARROW1"

# What pyarrow gives has no types that could be checked here.
Package = Any
Batch = Any


def arrow(
    source: object,
    columns: Mapping[str, str | Sequence[str]],
    *,
    classes: Mapping[str, int] | None = None,
    mappings: Mapping[str, Sequence[str]] | None = None,
    order: Order | None = None,
    dtype: npt.DTypeLike = np.float32,
    keep: bool = True,
) -> TableReader:
    """A reader of a Parquet file, an Arrow file or a `pyarrow.Table`.

    columns   the columns of the table that make each input, in this order; of one input numbers
              and lists of numbers may follow one another
    classes   of inputs that are one column of class numbers: how many classes there are
    mappings  of inputs that are one column of texts: the text of each class
    keep      samples are kept in a temporary file, as numbers, once they have been read

    GraphcError `not-supported` without pyarrow and for columns of other kinds, `undefined-name` for
    a column that is not there, `bad-data` for a damaged file, for missing values and for lists of
    several lengths, `label` for a text that no class has.
    """
    pyarrow = import_pyarrow()
    wanted = {name: texts(given, f"`{name}`") for name, given in _named(columns).items()}
    labels = {name: tuple(given) for name, given in (mappings or {}).items()}
    numbers = {**{name: len(given) for name, given in labels.items()}, **(classes or {})}
    for name in numbers:
        if len(wanted.get(name, ())) != 1:
            raise fail("bad-value", f"classes are those of one column, `{name}` has none or more")
    batches = _batches(
        pyarrow, source, list(dict.fromkeys(c for cs in wanted.values() for c in cs))
    )
    element = np.dtype(dtype)

    def pieces() -> Iterator[Arrays]:
        row = 0
        for batch in batches():
            if batch.num_rows:
                yield {
                    name: _joined(pyarrow, batch, names, labels.get(name), element, row)
                    for name, names in wanted.items()
                }
            row += batch.num_rows

    first = next(pieces(), None)
    if first is None:
        raise fail("bad-data", "at least one row is required, the table has none")
    return TableReader(
        Spool(pieces) if truth(keep, "keep") else Stream(pieces),
        {name: Column(numbers.get(name) or array.shape[1]) for name, array in first.items()},
        Order() if order is None else check_order(order),
        numbers,
        element,
    )


def import_pyarrow() -> Package:
    """The package. GraphcError `not-supported` without it, which says what to install."""
    try:
        return import_module("pyarrow")
    except ImportError as error:
        message = "Parquet and Arrow tables are read and written through pyarrow"
        install = "pip install 'graphc[arrow]' installs it"
        raise fail("not-supported", f"{message}, which is missing here: {install}") from error


def _named(columns: object) -> Mapping[str, object]:
    given = table(columns, "columns", "names of columns")
    if not given:
        raise fail("bad-value", "at least one input is required, got none")
    return given


def _batches(
    pyarrow: Package, source: object, names: Sequence[str]
) -> Callable[[], Iterator[Batch]]:
    """Goes through the rows of these columns, once for each call."""
    if isinstance(source, str | Path):
        path = Path(source)
        with _mistakes(pyarrow, path):
            with path.open("rb") as stream:
                is_ipc = stream.read(len(IPC_MAGIC)) == IPC_MAGIC
            opened = _open_ipc if is_ipc else _open_parquet
            _check_names(opened(path).schema_names, names, str(path))

        def read() -> Iterator[Batch]:
            with _mistakes(pyarrow, path):
                yield from opened(path).batches(names)

        return read
    if not isinstance(source, pyarrow.Table):
        raise fail("argument-type", f"a path or a pyarrow.Table is required, got {kind_of(source)}")
    held: Package = source
    _check_names(held.schema.names, names, "the table")
    return lambda: iter(held.select(names).to_batches(max_chunksize=ROWS_AT_ONCE))


@dataclass(frozen=True, slots=True)
class _Opened:
    """A file: its columns, and its rows in batches."""

    schema_names: list[str]
    batches: Callable[[Sequence[str]], Iterator[Batch]]


def _open_parquet(path: Path) -> _Opened:
    file: Package = import_module("pyarrow.parquet").ParquetFile(path)

    def batches(names: Sequence[str]) -> Iterator[Batch]:
        return file.iter_batches(batch_size=ROWS_AT_ONCE, columns=list(names))

    return _Opened(list(file.schema_arrow.names), batches)


def _open_ipc(path: Path) -> _Opened:
    file: Package = import_module("pyarrow.ipc").open_file(str(path))

    def batches(names: Sequence[str]) -> Iterator[Batch]:
        for number in range(file.num_record_batches):
            yield file.get_batch(number).select(list(names))

    return _Opened(list(file.schema.names), batches)


def _check_names(known: Sequence[str], names: Sequence[str], where: str) -> None:
    for name in names:
        if name not in known:
            near = suggestion(name, known) or f"; there are {', '.join(known) or 'none'}"
            raise fail("undefined-name", f"{where} has no column `{name}`{near}")


@contextmanager
def _mistakes(pyarrow: Package, path: Path) -> Generator[None]:
    """Errors of reading a file as GraphcErrors."""
    try:
        yield
    except GraphcError:
        raise
    except (pyarrow.ArrowException, ValueError) as error:
        raise fail("bad-data", f"{path} cannot be read as a table: {error}") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise fail("file", f"cannot read {path}: {reason}") from error


def _joined(
    pyarrow: Package,
    batch: Batch,
    names: Sequence[str],
    labels: Sequence[str] | None,
    dtype: np.dtype,
    first: int,
) -> np.ndarray:
    """The rows of one input; `first` is the number of the first one in the table."""
    parts: list[np.ndarray] = []
    for name in names:
        column = batch.column(name)
        if column.null_count:
            row = first + column.is_null().to_pylist().index(True)
            message = "a value is required in every row"
            raise fail("bad-data", f"{message}, column `{name}` has none in row {row} (from 0)")
        if labels is not None:
            parts.append(_class_numbers(pyarrow, column, name, labels, first))
        else:
            parts.append(_numbers(pyarrow, column, name, first).astype(dtype, copy=False))
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def _numbers(pyarrow: Package, column: Package, name: str, first: int) -> np.ndarray:
    """The numbers of a column, (rows, width)."""
    kind, types, rows = column.type, pyarrow.types, len(column)
    if types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind):
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        odd = np.flatnonzero(lengths != lengths[0])
        if len(odd):
            got = f"{lengths[0]} and in row {first + odd[0]} {lengths[odd[0]]}"
            message = f"lists of one length are required, column `{name}` has {got}"
            raise fail("bad-data", message)
        values = column.flatten()
        if values.null_count:
            raise fail("bad-data", f"column `{name}` has lists with missing values")
        return _numbers(pyarrow, values, name, first).reshape(rows, int(lengths[0]))
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        wanted = "numbers or lists of them are required"
        raise fail("not-supported", f"{wanted}, column `{name}` holds {kind}")
    return np.asarray(column.to_numpy(zero_copy_only=False)).reshape(rows, -1)


def _class_numbers(
    pyarrow: Package, column: Package, name: str, labels: Sequence[str], first: int
) -> np.ndarray:
    """The numbers of texts, (rows, 1)."""
    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    known = pyarrow.array(list(labels), pyarrow.string())
    compute: Package = import_module("pyarrow.compute")
    if not (pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type)):
        raise fail("not-supported", f"texts are required, column `{name}` holds {column.type}")
    found = compute.index_in(column.cast(pyarrow.string()), value_set=known)
    if found.null_count:
        row = found.is_null().to_pylist().index(True)
        wanted = f"one of the {len(labels)} labels of the mapping is required in column `{name}`"
        got = f"got `{column[row].as_py()}` in row {first + row} (from 0)"
        raise fail("label", f"{wanted}, {got}")
    return np.asarray(found.to_numpy(zero_copy_only=False)).reshape(-1, 1).astype(np.int32)


@dataclass(frozen=True)
class ParquetWriter:
    """Writes all outputs into the one Parquet file `path`: a column of lists for each, of numbers
    where an output has one."""

    path: Path
    dtype: np.dtype = field(default_factory=lambda: np.dtype(np.float32))

    @contextmanager
    def open(self, outputs: Mapping[str, int]) -> Generator[ParquetSink]:
        widths = checked_outputs(outputs)
        pyarrow = import_pyarrow()
        element = pyarrow.from_numpy_dtype(self.dtype)
        kinds = {n: pyarrow.list_(element, w) if w != 1 else element for n, w in widths.items()}
        schema = pyarrow.schema(list(kinds.items()))
        with temporary_folder(self.path) as folder:
            target = folder / "all.parquet"
            parquet: Package = import_module("pyarrow.parquet")
            with parquet.ParquetWriter(target, schema) as writer:
                yield ParquetSink(widths, self.dtype, writer, schema)
            move_into_place(target, self.path)


@dataclass(frozen=True)
class ParquetSink:
    """Rows into groups of rows of a file."""

    widths: Mapping[str, int]
    dtype: np.dtype
    writer: Package
    schema: Package

    def write(self, rows: Mapping[str, object]) -> None:
        pyarrow = import_pyarrow()
        arrays: list[Package] = []
        for name, array in checked_rows(rows, self.widths).items():
            flat = pyarrow.array(np.ascontiguousarray(array, self.dtype).reshape(-1))
            width = self.widths[name]
            is_list = width != 1
            arrays.append(pyarrow.FixedSizeListArray.from_arrays(flat, width) if is_list else flat)
        self.writer.write_batch(pyarrow.record_batch(arrays, schema=self.schema))
