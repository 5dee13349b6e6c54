"""CSV and its relatives: what separates columns, headers, quotes, empty cells; and pipes."""

from __future__ import annotations

import csv
import io
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphc.data import uci
from graphc.data.arrays import read_array
from graphc.data.table_lines import find_separator
from graphc.data.uci import Columns, FeatureBlock, LabelBlock, read_uci, read_uci_stream
from graphc.support.diagnostics import GraphcError

FEATURES = FeatureBlock("features", Columns(0, 2))
LABELS = LabelBlock("labels", Columns(2, 1), 3, ("a", "b", "Iris setosa"))


def read(text: str, blocks: Sequence[uci.Block] = (FEATURES, LABELS)) -> dict[str, np.ndarray]:
    """What the text holds, in f64."""
    content = text.encode()
    stream = io.BytesIO(content)
    return dict(read_uci_stream(stream, len(content), "data.csv", blocks, dtype=np.float64))


def problems(text: str) -> list[str]:
    """`line:column message` of every mistake."""
    with pytest.raises(GraphcError) as caught:
        read(text)
    return [
        f"{d.span.line}:{d.span.column} {d.message}" if d.span else d.message
        for d in caught.value.diagnostics
    ]


@pytest.mark.parametrize("separator", [",", ";", "\t", " ", ", ", " ;", " , "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_columns_may_be_separated_in_any_of_these_ways(separator: str, end: str) -> None:
    rows = [["0.5", "-2", "b"], ["1e3", "+.25", "a"]]
    data = read(end.join(separator.join(row) for row in rows))
    np.testing.assert_array_equal(data["features"], [[0.5, -2], [1000, 0.25]])
    np.testing.assert_array_equal(data["labels"].argmax(axis=1), [1, 0])


@pytest.mark.parametrize(
    ("line", "separator"),
    [
        ("1 2 3", None),
        ("1\t2", None),
        ("1", None),
        ("1,2", ","),
        ("1, 2", ","),
        ("1 ,2", ","),
        ("1;2", ";"),
        ("1,5;2,5", ";"),
        ("1,5 2,5", None),
        ("1,5 2 a", None),
        ("1 2 a,b", None),
        ("1 2 a;b", None),
        ("2020-01-01 00:00:00,5.1", ","),
        ("5.1,3.5,Iris setosa", ","),
        ("x,y", ","),
        ("nan inf a,b", None),
        ('"a;b",2', ","),
        ('"1,5";2', ";"),
    ],
)
def test_the_first_line_says_what_separates(line: str, separator: str | None) -> None:
    assert find_separator(line.encode()) == (None if separator is None else ord(separator))


cells = st.floats(allow_nan=False, width=32).map(repr) | st.integers(-999, 999).map(str)


@given(
    rows=st.lists(st.tuples(cells, cells, st.sampled_from(LABELS.mapping or ())), min_size=1),
    separator=st.sampled_from(",;"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    header=st.booleans(),
    piece=st.sampled_from([4, 64, 1 << 18]),
)
def test_what_python_writes_as_csv_is_read(
    rows: list[tuple[str, str, str]], separator: str, quoting: int, header: bool, piece: int
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, quoting=quoting)  # type: ignore[arg-type]
    writer.writerows([("x one", "x; two, three", "label")] * header)
    writer.writerows(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uci, "PIECE_BYTES", piece)
        data = read(text.getvalue())
    expected = np.array([[float(a), float(b)] for a, b, _ in rows])
    assert data["features"].tobytes() == expected.tobytes()
    assert LABELS.mapping is not None
    assert [LABELS.mapping[i] for i in data["labels"].argmax(axis=1)] == [c for *_, c in rows]


@pytest.mark.parametrize(
    "header",
    ["x,y,label", '"x","y","label"', ",y,label", "x,y", "x;y;label", "x\ty\tlabel", "\n\nx,y,z"],
)
def test_a_first_line_without_numbers_is_a_header(header: str) -> None:
    separator = next(c for c in ";\t," if c in header)
    data = read(f"{header}\n{separator.join('12a')}\n")
    np.testing.assert_array_equal(data["features"], [[1, 2]])


@pytest.mark.parametrize("first", ["x,2,a", "x,nan,a", "x;1,5;a"])
def test_a_first_line_with_a_number_is_data(first: str) -> None:
    assert problems(f"{first}\n")[0].startswith("1:1 a number is required")


def test_words_between_blanks_are_no_header() -> None:
    assert problems("x y a\n1 2 a\n")[0].startswith("1:1 a number is required")


def test_only_the_first_line_can_be_a_header() -> None:
    assert problems("x,y,label\nx,y,label\n1,2,a\n")[0].startswith("2:1 a number is required")


def test_a_header_alone_is_no_data() -> None:
    (problem,) = problems("x,y,label\n\n")
    assert "at least one line with data is required" in problem
    assert "a header does not count" in problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1,2,a\n1,,a\n", "2:3 a number is required in column 1 (`features`), got an empty cell"),
        ("1,2,a\n , 2,a\n", "2:2 a number is required in column 0 (`features`), got an empty cell"),
        ("1,2,a\n1,2,\n", "2:5 one of the 3 labels of the mapping is required in column 2"),
        ("1,2,a\n1,2\n", "2:3 3 columns are required as in the first line, got 2"),
        ("1,2,a\n1,2,a,\n", "2:7 3 columns are required as in the first line, got 4"),
        ("1,2,a\n1 2 a\n", "2:1 3 columns are required as in the first line, got 1"),
        ("1;2;a\n1,5;2;a\n", "2:1 a number with a decimal point, not a comma, is required"),
        ('1,2,a\n1,2,"a\n', '2:5 a cell that begins with `"` has to end with one'),
        ("1,2,a\n1,\x002,a\n", "2:3 text is required, got NUL"),
        ("1,2\n", "1:1 `labels` is read from columns 2 to 2, this line has 2 columns"),
    ],
)
def test_mistakes_are_reported_at_their_places(text: str, problem: str) -> None:
    assert problems(text)[0].startswith(problem)


def test_the_note_about_columns_says_what_separates_them() -> None:
    with pytest.raises(GraphcError, match="counted from 0 and separated by `;`"):
        read("1;2\n")


def test_columns_that_no_block_names_may_be_empty_or_text() -> None:
    data = read("2020-01-01 00:00:00,1,2,,a b\n,3,4,,\n", [FeatureBlock("x", Columns(1, 2))])
    np.testing.assert_array_equal(data["x"], [[1, 2], [3, 4]])


def test_a_line_of_empty_cells_is_no_empty_line() -> None:
    assert problems("1,2,a\n\n , ,\n")[0].startswith("3:2 a number is required")


def test_long_cells_of_digits_are_looked_at_in_time() -> None:
    assert find_separator(b"1" * (1 << 22) + b"x,1") == ord(",")
    assert len(read(f"{'1' * (1 << 20)}x,y,z\n1,2,a\n")["features"]) == 1


def test_a_table_with_commas_is_read_as_an_array(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("x,y\n1,2\n3,4\n")
    np.testing.assert_array_equal(read_array(path, stdin=io.BytesIO()), [[1, 2], [3, 4]])
    stdin = io.BytesIO(b"1;2\n3;4\n")
    np.testing.assert_array_equal(read_array("-", stdin=stdin), [[1, 2], [3, 4]])


# --- pipes ---


def through_pipe(tmp_path: Path, content: bytes) -> Path:
    """A FIFO that another thread writes the content into, in pieces."""
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb", buffering=0) as stream:
            for start in range(0, len(content), 1000):
                stream.write(content[start : start + 1000])

    threading.Thread(target=write, daemon=True).start()
    return path


@pytest.mark.parametrize("rows", [1, 1023, 1024, 1025, 5000])
def test_a_pipe_of_any_length_is_read(tmp_path: Path, rows: int) -> None:
    lines = [f"{i} {-i} {'ab'[i % 2]}\n" for i in range(rows)]
    path = through_pipe(tmp_path, "".join(lines).encode())
    data = read_uci(path, [FEATURES, LABELS], dtype=np.float64)
    expected = np.arange(rows)
    np.testing.assert_array_equal(data["features"], np.stack([expected, -expected], axis=1))
    assert data["labels"].shape == (rows, 3)
    np.testing.assert_array_equal(data["labels"].argmax(axis=1), expected % 2)
    np.testing.assert_array_equal(data["labels"].sum(axis=1), 1)


def test_mistakes_in_a_pipe_have_their_places(tmp_path: Path) -> None:
    path = through_pipe(tmp_path, b"1 2 a\n1 x a\n")
    with pytest.raises(GraphcError, match="pipe:2:3"):
        read_uci(path, [FEATURES, LABELS])


def test_an_empty_pipe_and_the_null_device_hold_no_data(tmp_path: Path) -> None:
    for path in (through_pipe(tmp_path, b""), Path(os.devnull)):
        with pytest.raises(GraphcError, match="at least one line with data is required"):
            read_uci(path, [FEATURES])
        if path.name == "pipe":
            path.unlink()
    with pytest.raises(GraphcError, match="at least one line with data is required"):
        read_array(os.devnull, stdin=io.BytesIO())


def test_a_device_that_never_ends_is_refused() -> None:
    with pytest.raises(GraphcError, match="a regular file is required, /dev/zero is a device"):
        read_uci(Path("/dev/zero"), [FEATURES])


def test_arrays_come_through_pipes(tmp_path: Path) -> None:
    array = np.arange(6.0).reshape(3, 2)
    for content in (b"0 1\n2 3\n4 5\n", _npy(array)):
        path = through_pipe(tmp_path, content)
        np.testing.assert_array_equal(read_array(path, stdin=io.BytesIO()), array)
        path.unlink()


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_the_memory_for_a_pipe_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uci, "MAX_TABLE_BYTES", 100_000)
    path = through_pipe(tmp_path, b"1 2 a\n" * 20_000)
    with pytest.raises(GraphcError, match="at most 100000 bytes can be read"):
        read_uci(path, [FEATURES, LABELS], dtype=np.float64)
