"""Native reading of text tables: the numbers of `float`, the errors of the numpy reader."""

from __future__ import annotations

import ctypes
import io
from collections.abc import Sequence
from functools import cache
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphc.backends.llvm import BACKEND
from graphc.data import plain_rows, uci
from graphc.data.decimal_text import PADDING
from graphc.data.plain_rows import NativeRows, ReadRows
from graphc.data.uci import Columns, FeatureBlock, LabelBlock, read_uci_stream
from graphc.support.diagnostics import DiagnosticSink, GraphcError
from tests.support.guarded_memory import GuardedMemory

MAPPINGS = [("a", "b", "Iris setosa"), ("a", "b", "c", "Iris-set"), ("", "b", "a")]
FEATURES = FeatureBlock("x", Columns(0, 2))
LABELS = LabelBlock("t", Columns(3, 1), 3, ("a", "b", "ab"))


@cache
def native_code() -> ReadRows:
    halves = BACKEND.table_rows
    assert halves is not None
    return halves.load(halves.make())


class Spy:
    """Native code that says how often it was called, how often it refused and what was odd."""

    def __init__(self) -> None:
        self.calls = self.refused = self.odd = 0

    def __call__(self, job: int) -> int:
        status = native_code()(job)
        words = (ctypes.c_int64 * plain_rows.JOB_WORDS).from_address(job)
        self.calls += 1
        self.refused += status
        self.odd += words[plain_rows.ODD_COUNT]
        return status


def read(
    content: bytes,
    blocks: Sequence[uci.Block],
    native: ReadRows | None,
    *,
    is_pipe: bool = False,
    dtype: type = np.float64,
    max_errors: int = 0,
    sink: DiagnosticSink | None = None,
) -> dict[str, np.ndarray]:
    return dict(
        read_uci_stream(
            io.BytesIO(content),
            None if is_pipe else len(content),
            "data.txt",
            blocks,
            dtype=dtype,
            max_errors=max_errors,
            sink=sink,
            native=None if native is None else NativeRows(lambda: native, 0),
        )
    )


def after_a_line(cells: Sequence[str]) -> bytes:
    """A table of one column. What comes after the first piece is read by native code."""
    lines = ["0"] * (uci.PIECE_BYTES // 2)
    return "\n".join([*lines, *cells, ""]).encode()


def assert_reads_as_float_does(cells: Sequence[str], most_odd: int) -> None:
    spy = Spy()
    block = FeatureBlock("x", Columns(0, 1))
    values = read(after_a_line(cells), [block], spy)["x"][-len(cells) :, 0]
    expected = np.array([float(cell) for cell in cells])
    assert values.tobytes() == expected.tobytes()
    assert spy.calls > 0
    assert spy.refused == 0
    assert spy.odd <= most_odd


def random_doubles(count: int) -> list[float]:
    """Of all exponents alike, none of them subnormal."""
    rng = np.random.default_rng(11)
    bits = rng.integers(0, 2**63, count, np.uint64) * 2 + rng.integers(0, 2, count, np.uint64)
    exponents = rng.integers(1, 2047, count, np.uint64) << np.uint64(52)
    bits = (bits & np.uint64(0x800FFFFFFFFFFFFF)) | exponents
    return bits.view(np.float64).tolist()


@pytest.mark.parametrize("form", ["%.17g", "%.18e", "%.9g", "%r", "%.16e", "%.0e"])
def test_random_doubles_of_all_exponents(form: str) -> None:
    cells = [form % value for value in random_doubles(100_000)]
    # `%.9g` and `%.0e` of the least and largest ones may leave the range of normal doubles.
    assert_reads_as_float_does([c for c in cells if abs(float(c)) != np.inf], most_odd=20)


@pytest.mark.parametrize(
    "form",
    [
        "%d",
        "%d.",
        ".%d",
        "0.%d",
        "-%d.5",
        "+%d",
        "%d.25e-3",
        "00%d",
        "0.0000000000000000%d",
        "00000000000000000000.0%d",
        "000000000000000000000%d.",
    ],
)
def test_short_numbers(form: str) -> None:
    rng = np.random.default_rng(5)
    numbers = [int(10 ** rng.uniform(0, 15)) for _ in range(20_000)]
    assert_reads_as_float_does([form % n for n in [0, *numbers]], most_odd=0)


def test_numbers_in_the_middle_between_two_doubles_and_beside_it() -> None:
    rng = np.random.default_rng(7)
    cells: list[str] = []
    for _ in range(5000):
        mantissa = int(rng.integers(2**53, 2**54)) | 1  # 54 bits: the last one is half a place
        power = int(rng.integers(0, 10))
        middle = mantissa << power
        cells += [str(n) for n in (middle - 1, middle, middle + 1) if n < 10**19]
        with_point = f"{mantissa}"
        cells += [f"{with_point[:-3]}.{with_point[-3:]}", f"{mantissa}e-{power}"]
    assert_reads_as_float_does(cells, most_odd=0)


def test_cells_that_are_left_to_python() -> None:
    cells = ["5e-324", "2.2250738585072011e-308", "1" * 40, "0." + "3" * 60, "1e-400", "1e00000300"]
    assert_reads_as_float_does(cells, most_odd=len(cells))


@given(
    st.lists(st.tuples(st.sampled_from(["%r", "%.17g", "%.9g"]), st.floats(width=32)), min_size=1)
)
def test_float32_is_the_float64_rounded(cells: list[tuple[str, float]]) -> None:
    texts = [form % value for form, value in cells if abs(float(form % value)) < 3.4e38]
    data = after_a_line(texts)
    values = read(data, [FeatureBlock("x", Columns(0, 1))], native_code(), dtype=np.float32)["x"]
    with np.errstate(under="ignore"):
        expected = np.array([float(cell) for cell in texts]).astype(np.float32)
    assert values[len(values) - len(texts) :, 0].tobytes() == expected.tobytes()


# --- the numpy reader is the judge of all else

numbers = st.one_of(
    st.integers(-1000, 1000).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-100, 100).map(lambda v: f"{v:.9g}"),
)
odd = st.sampled_from(
    ["nan", "-nan", "inf", "-Infinity", "", "x", "1_0", "0x10", "1e400", "1e39", "5e-324", "1" * 30,
     "1e5e", "e5", "1e", "1e+", "--1", "+-1", ".", "-", "1.2.3", '"1"', "1 2", "é", "\x01", "\x7f",
     "1\x0b", "\u0662", "1,5", "1;5", "1\t", " 1", "9" * 1101, "-0", "-.0e-0"]
)  # fmt: skip
labels = st.sampled_from(["a", "a", "b", "b", "Iris setosa", "c", "", '"a"', "Iris-setosa-long"])
separators = st.sampled_from([" ", ",", ";", "\t", "  ", ", ", " ;\t", " \t"])
ends = st.sampled_from(["\n", "\r\n", " \n", "\t\r\n", "\n\n", "\n \t\n"])


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """A table of two numbers, a column that is not read and a label; now and then with mistakes."""
    separator, end = draw(separators), draw(ends)
    faults = draw(st.integers(0, 3))
    blank = draw(st.sampled_from(["", "", " ", "\t "]))
    rows = [
        [draw(numbers), draw(numbers), draw(st.sampled_from(["-", "2020-01-01", "7"])), "a"]
        for _ in range(draw(st.integers(1, 12)))
    ]
    for _ in range(faults):
        row = rows[draw(st.integers(0, len(rows) - 1))]
        place = draw(st.integers(0, len(row) - 1)) if row else 0
        kind = draw(st.sampled_from(["odd", "label", "drop", "add"]))
        if kind == "add" or not row:
            row.append(draw(numbers))
        elif kind == "drop":
            row.pop()
        else:
            row[place] = draw(odd) if kind == "odd" else draw(labels)
    text = "".join(blank + separator.join(row) + end for row in rows)
    if draw(st.booleans()):
        text = text.rstrip("\r\n")
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()


def outcome(
    content: bytes,
    labels: LabelBlock,
    native: ReadRows | None,
    *,
    is_pipe: bool,
    dtype: type,
    max_errors: int,
) -> list[object]:
    """Everything that a caller can see."""
    sink = DiagnosticSink()
    try:
        tables = read(
            content,
            [FEATURES, labels],
            native,
            is_pipe=is_pipe,
            dtype=dtype,
            max_errors=max_errors,
            sink=sink,
        )
        seen: list[object] = [(name, t.shape, t.tobytes()) for name, t in tables.items()]
        found = list(sink.diagnostics)
    except GraphcError as error:
        seen, found = [], error.diagnostics
    for d in found:
        place = (d.span.line, d.span.column, d.span.end_column) if d.span else None
        shown = d.span.source.line_text(d.span.line) if d.span and d.span.source else None
        seen.append((d.severity, d.slug, d.message, place, shown, [n.message for n in d.notes]))
    return seen


@settings(max_examples=400)
@given(
    tables(),
    st.sampled_from(MAPPINGS),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([0, 1, 3]),
    st.booleans(),
    st.sampled_from([4, 30, 200]),
)
def test_native_code_and_numpy_give_the_same(
    content: bytes,
    mapping: tuple[str, ...],
    dtype: type,
    max_errors: int,
    is_pipe: bool,
    piece: int,
) -> None:
    labels = LabelBlock("t", Columns(3, 1), 4, mapping)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uci, "PIECE_BYTES", piece)
        spy = Spy()
        found, expected = (
            outcome(content, labels, native, is_pipe=is_pipe, dtype=dtype, max_errors=max_errors)
            for native in (spy, None)
        )
    assert found == expected


@pytest.mark.parametrize("separator", [" ", "  ", "\t", ",", " , ", ";"])
@pytest.mark.parametrize("end", ["\n", "\r\n", " \n", "\n\n"])
@pytest.mark.parametrize("is_pipe", [False, True])
def test_plain_tables_are_read_by_native_code_alone(
    monkeypatch: pytest.MonkeyPatch, separator: str, end: str, is_pipe: bool
) -> None:
    monkeypatch.setattr(uci, "PIECE_BYTES", 256)
    lines = [
        separator.join([str(i), f"{i / 7:.9g}", "2020-01-01", "ab"[i % 2]]) for i in range(200)
    ]
    spy = Spy()
    data = read("".join(line + end for line in lines).encode(), [FEATURES, LABELS], spy,
                is_pipe=is_pipe)  # fmt: skip
    assert spy.calls > 10
    assert (spy.refused, spy.odd) == (0, 0)
    np.testing.assert_array_equal(data["x"], [[i, float(f"{i / 7:.9g}")] for i in range(200)])
    np.testing.assert_array_equal(data["t"].argmax(1), np.arange(200) % 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("side", ["start", "end"])
@pytest.mark.parametrize(
    "text", ["1\n", "-1.5 2\n", "1.23456789e-12 1234567812345678\n3 4 \r\n", "x\n"]
)
def test_no_byte_beyond_the_buffers_is_touched(
    side: Literal["start", "end"], text: str, dtype: type
) -> None:
    content = text.encode()
    columns, rows = len(text.split("\n")[0].split()), text.count("\n")
    memory = GuardedMemory(side)
    try:
        source = memory.bytes(len(content) + PADDING, 1)
        source.array[:] = np.frombuffer(content + b"\n" * PADDING, np.uint8)
        _, table = memory.like(np.zeros((rows, columns), dtype))
        _, runs = memory.like(np.zeros((1, plain_rows.RUN_WORDS), np.int64))
        _, odd_cells = memory.like(np.zeros((1, plain_rows.ODD_WORDS), np.int64))
        _, job = memory.like(np.zeros(plain_rows.JOB_WORDS, np.int64))
        kind = plain_rows.DOUBLES if dtype is np.float64 else plain_rows.FLOATS
        runs[0] = kind, columns, table.ctypes.data, *table.strides, 0, 0
        job[:] = 0
        job[plain_rows.TEXT] = source.array.ctypes.data
        job[plain_rows.SIZE], job[plain_rows.SEPARATOR] = len(content), ord(" ")
        job[plain_rows.RUNS], job[plain_rows.RUN_COUNT] = runs.ctypes.data, 1
        job[plain_rows.ROOM] = rows
        job[plain_rows.ODD], job[plain_rows.ODD_ROOM] = odd_cells.ctypes.data, 1
        assert native_code()(job.ctypes.data) == 0
        assert job[plain_rows.ROWS] == rows
        assert not memory.problems()
        if text != "x\n":
            expected = [[dtype(float(c)) for c in line.split()] for line in text.splitlines()]
            np.testing.assert_array_equal(table, expected)
    finally:
        memory.close()


def test_more_odd_cells_than_there_is_room_for_are_left_to_numpy() -> None:
    cells = ["nan"] * (3 * plain_rows.MOST_ODD)
    spy = Spy()
    values = read(after_a_line(cells), [FeatureBlock("x", Columns(0, 1))], spy)["x"]
    assert np.isnan(values[-len(cells) :]).all()
    assert spy.refused > 0


def test_many_labels_are_found() -> None:
    words = [f"w{i:x}" for i in range(4000)]
    block = LabelBlock("t", Columns(0, 1), len(words), tuple(words))
    content = ("w0\n" * 10_000 + "".join(f"{w}\n" for w in words)).encode()
    spy = Spy()
    found = read(content, [block], spy, dtype=np.float32)["t"].argmax(1)
    assert found[-len(words) :].tolist() == list(range(len(words)))
    assert (spy.calls, spy.refused) == (1, 0)
