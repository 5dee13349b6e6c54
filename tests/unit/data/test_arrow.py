"""Parquet and Arrow tables; skipped where pyarrow is not installed."""

from __future__ import annotations

import importlib.util
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.data.arrow import ParquetWriter, arrow
from graphc.data.order import IN_ORDER, Order
from graphc.data.reader import Column, EpochRequest
from graphc.support.diagnostics import GraphcError

needs_pyarrow = pytest.mark.skipif(
    importlib.util.find_spec("pyarrow") is None, reason="pyarrow is not installed"
)
ROWS = 20_000
IN_ALL = EpochRequest(minibatch=10)


def made() -> Any:
    """A table of every kind of column."""
    pa: Any = import_module("pyarrow")
    numbers = np.arange(ROWS)
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2.0 * ROWS)), 2)
    return pa.table(
        {
            "i": pa.array(numbers, pa.int16()),
            "f": pa.array(numbers / 4, pa.float64()),
            "b": pa.array(numbers % 2 == 0),
            "pair": fixed,
            "list": pa.array([[1.0, 2.0, 3.0]] * ROWS),
            "name": pa.array([("a", "bb", "c")[i % 3] for i in range(ROWS)]),
            "dict": pa.array([("c", "a")[i % 2] for i in range(ROWS)]).dictionary_encode(),
            "hole": pa.array([None if i == 12_345 else 1.0 for i in range(ROWS)]),
            "ragged": pa.array([[1.0] * (1 + (i == 7)) for i in range(ROWS)]),
            "when": pa.array(numbers).cast(pa.timestamp("s")),
        }
    )


def stored(table: Any, path: Path, form: str) -> object:
    pa: Any = import_module("pyarrow")
    pq: Any = import_module("pyarrow.parquet")
    if form == "table":
        return table
    if form == "parquet":
        pq.write_table(table, path, row_group_size=3000)
    else:
        with pa.ipc.new_file(str(path), table.schema) as target:
            target.write_table(table, max_chunksize=3000)
    return path


@needs_pyarrow
@pytest.mark.parametrize("form", ["table", "parquet", "ipc"])
@pytest.mark.parametrize(("order", "keep"), [(IN_ORDER, False), (IN_ORDER, True), (Order(), True)])
def test_columns_of_a_table_make_inputs(
    tmp_path: Path, form: str, order: Order, keep: bool
) -> None:
    reader = arrow(
        stored(made(), tmp_path / "data", form),
        {"x": ["f", "pair", "b"], "l": "list", "n": "i", "t": "name", "d": ["dict"]},
        mappings={"t": ["c", "a", "bb"], "d": ["a", "b", "c"]},
        order=order,
        dtype=np.float64,
        keep=keep,
    )
    wanted = {"x": Column(4), "l": Column(3), "n": Column(1), "t": Column(3), "d": Column(3)}
    assert reader.schema == wanted
    blocks = list(reader.blocks(IN_ALL))
    found = {n: np.concatenate([np.asarray(block[n]) for block in blocks]) for n in wanted}
    numbers = found["n"][:, 0].astype(int)
    assert sorted(numbers) == list(range(ROWS))
    assert (list(numbers) == list(range(ROWS))) == (order is IN_ORDER)
    parts = [numbers / 4, 2 * numbers, 2 * numbers + 1, numbers % 2 == 0]
    np.testing.assert_array_equal(found["x"], np.stack(parts, axis=1))
    np.testing.assert_array_equal(found["l"], np.tile([1, 2, 3], (ROWS, 1)))
    np.testing.assert_array_equal(found["t"].argmax(axis=1), np.array([1, 2, 0])[numbers % 3])
    np.testing.assert_array_equal(found["d"].argmax(axis=1), np.array([2, 0])[numbers % 2])
    assert {array.dtype for array in found.values()} == {np.dtype(np.float64)}


@needs_pyarrow
@pytest.mark.parametrize("form", ["table", "parquet", "ipc"])
@pytest.mark.parametrize(
    ("columns", "settings", "message"),
    [
        ({"x": "pairs"}, {}, "has no column `pairs`.*did you mean `pair`"),
        ({"x": "hole"}, {}, r"column `hole` has none in row 12345 \(from 0\)"),
        ({"x": "ragged"}, {}, "column `ragged` has 1 and in row 7 2"),
        ({"x": "when"}, {}, "column `when` holds timestamp"),
        ({"x": "name"}, {}, "column `name` holds string"),
        ({"x": "i"}, {"mappings": {"x": ["a"]}}, "texts are required, column `i` holds int16"),
        ({"x": "name"}, {"mappings": {"x": ["a"]}}, "got `bb` in row 1"),
        ({"x": ["i", "f"]}, {"classes": {"x": 3}}, "classes are those of one column"),
        ({"x": "i"}, {"classes": {"y": 3}}, "classes are those of one column"),
        ({"x": "i"}, {"classes": {"x": 100}}, "from 0 to 99 are required, `x` has 100"),
        ({}, {}, "at least one input is required"),
    ],
)
def test_columns_that_cannot_be_used_are_named(
    tmp_path: Path, form: str, columns: dict[str, Any], settings: dict[str, Any], message: str
) -> None:
    source = stored(made(), tmp_path / "data", form)
    with pytest.raises(GraphcError, match=message):
        list(arrow(source, columns, order=IN_ORDER, **settings).blocks(IN_ALL))


@needs_pyarrow
@pytest.mark.parametrize("content", [b"", b"PAR1", b"no table", b"ARROW1\0\0", b"PAR1" * 30])
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data").write_bytes(content)
    with pytest.raises(GraphcError, match="cannot be read as a table"):
        arrow(tmp_path / "data", {"x": "i"})
    with pytest.raises(GraphcError, match="cannot read"):
        arrow(tmp_path / "absent", {"x": "i"})


@needs_pyarrow
def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(GraphcError, match="at least one row is required"):
        arrow(made().slice(0, 0), {"x": "i"})
    with pytest.raises(GraphcError, match=r"a path or a pyarrow\.Table is required, got int"):
        arrow(3, {"x": "i"})


@needs_pyarrow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_written_as_parquet_is_read_again(tmp_path: Path, dtype: type[np.floating]) -> None:
    x = np.random.default_rng(0).standard_normal((50, 3)).astype(dtype)
    with ParquetWriter(tmp_path / "out.parquet", np.dtype(dtype)).open({"x": 3, "y": 1}) as sink:
        for part in np.array_split(x, 4):
            sink.write({"x": part, "y": part[:, :1]})
    reader = arrow(tmp_path / "out.parquet", {"x": "x", "y": "y"}, order=IN_ORDER, dtype=dtype)
    (block,) = reader.blocks(EpochRequest())
    np.testing.assert_array_equal(np.asarray(block["x"]), x)
    np.testing.assert_array_equal(np.asarray(block["y"]), x[:, :1])


def test_without_pyarrow_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(GraphcError, match=r"pip install 'graphc\[arrow\]'"):
        arrow(tmp_path / "data", {"x": "i"})
    with (
        pytest.raises(GraphcError, match=r"pip install 'graphc\[arrow\]'"),
        ParquetWriter(tmp_path / "out").open({"x": 1}),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
