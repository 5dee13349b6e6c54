"""The UCI reader on files that are well formed, and what it does about blocks and bad lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphc.data import text_lines, uci
from graphc.data.uci import Columns, FeatureBlock, LabelBlock, parse_columns, read_uci
from graphc.support.diagnostics import DiagnosticSink, GraphcError, Severity

FEATURES = FeatureBlock("features", Columns(0, 2))
LABELS = LabelBlock("labels", Columns(2, 1), 3, ("a", "b", "long label".replace(" ", "_")))


def write(tmp_path: Path, content: bytes | str) -> Path:
    path = tmp_path / "data.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_features_and_labels_come_as_rows(tmp_path: Path) -> None:
    data = read_uci(write(tmp_path, "0.5 -2 b\n1e3 +.25 long_label\n"), [FEATURES, LABELS])
    assert list(data) == ["features", "labels"]
    np.testing.assert_array_equal(data["features"], [[0.5, -2], [1000, 0.25]])
    np.testing.assert_array_equal(data["labels"], [[0, 1, 0], [0, 0, 1]])
    assert all(a.dtype == np.float32 and a.flags.c_contiguous for a in data.values())


def test_labels_may_come_first(tmp_path: Path) -> None:
    blocks = [LabelBlock("y", Columns(0, 1), 10), FeatureBlock("x", Columns(1, 3))]
    data = read_uci(write(tmp_path, "7 1 2 3\n"), blocks)
    assert data["y"].argmax() == 7
    np.testing.assert_array_equal(data["x"], [[1, 2, 3]])


def test_labels_without_a_mapping_are_class_numbers(tmp_path: Path) -> None:
    data = read_uci(write(tmp_path, "0\n2\n11\n"), [LabelBlock("y", Columns(0, 1), 12)])
    np.testing.assert_array_equal(data["y"].argmax(axis=1), [0, 2, 11])
    np.testing.assert_array_equal(data["y"].sum(axis=1), [1, 1, 1])


def test_labels_are_compared_as_texts(tmp_path: Path) -> None:
    block = LabelBlock("y", Columns(0, 1), 3, ("1", "1.0", "01"))
    data = read_uci(write(tmp_path, "1.0\n01\n1\n"), [block])
    np.testing.assert_array_equal(data["y"].argmax(axis=1), [1, 2, 0])


def test_a_label_of_eight_bytes_is_not_the_start_of_a_longer_one(tmp_path: Path) -> None:
    block = LabelBlock("y", Columns(0, 1), 2, ("abcdefgh", "abcdefghij"))
    data = read_uci(write(tmp_path, "abcdefghij\nabcdefgh\n"), [block])
    np.testing.assert_array_equal(data["y"].argmax(axis=1), [1, 0])
    alone = LabelBlock("y", Columns(0, 1), 2, ("abcdefgh",))
    with pytest.raises(GraphcError, match="got `abcdefghi`"):
        read_uci(write(tmp_path, "abcdefghi\n"), [alone])


def test_a_mapping_may_be_shorter_than_the_classes(tmp_path: Path) -> None:
    data = read_uci(write(tmp_path, "b\n"), [LabelBlock("y", Columns(0, 1), 4, ("a", "b"))])
    np.testing.assert_array_equal(data["y"], [[0, 1, 0, 0]])


def test_labels_for_regression_are_raw_columns(tmp_path: Path) -> None:
    block = LabelBlock("y", Columns(1, 2), 0, kind="regression")
    data = read_uci(write(tmp_path, "9 0.1 -3\n"), [block], dtype=np.float64)
    np.testing.assert_array_equal(data["y"], [[0.1, -3.0]])


def test_blocks_may_share_columns_and_leave_others_out(tmp_path: Path) -> None:
    blocks = [FeatureBlock("x", Columns(1, 2)), FeatureBlock("again", Columns(2, 1))]
    data = read_uci(write(tmp_path, "no_number 1 2 é\n"), blocks)
    np.testing.assert_array_equal(data["x"], [[1, 2]])
    np.testing.assert_array_equal(data["again"], [[2]])


@pytest.mark.parametrize(
    "content",
    [
        b"1 2 a\r\n3 4 b\r\n",
        b"\xef\xbb\xbf1 2 a\n3 4 b\n",
        b"\xef\xbb\xbf1 2 a\r\n3 4 b",
        b"1 2 a\n3 4 b",
        b"1\t2\ta\n3\t4\tb\n",
        b"  1   2 \t a \n\t3 4 b\t\t\n",
        b"\n1 2 a\n \t \n\r\n3 4 b\n\n",
        b"1.0 2e0 a\n+3 0.4E+1 b\n",
    ],
)
def test_other_spellings_give_the_same_bits(tmp_path: Path, content: bytes) -> None:
    expected = read_uci(write(tmp_path, b"1 2 a\n3 4 b\n"), [FEATURES, LABELS])
    data = read_uci(write(tmp_path, content), [FEATURES, LABELS])
    for name, array in expected.items():
        assert data[name].shape == array.shape
        assert data[name].tobytes() == array.tobytes()


def test_nan_and_infinity_are_numbers_when_spelled_out(tmp_path: Path) -> None:
    path = write(tmp_path, "nan -inf\nNaN +Infinity\n-nan INF\n")
    values = read_uci(path, [FEATURES])["features"]
    assert np.isnan(values[:, 0]).all()
    np.testing.assert_array_equal(values[:, 1], [-np.inf, np.inf, np.inf])


def test_a_number_below_the_smallest_becomes_zero_with_its_sign(tmp_path: Path) -> None:
    values = read_uci(write(tmp_path, "1e-400 -1e-60\n"), [FEATURES])["features"]
    np.testing.assert_array_equal(values, [[0, 0]])
    np.testing.assert_array_equal(np.signbit(values), [[False, True]])


def test_the_largest_float32_is_read_and_the_next_step_is_refused(tmp_path: Path) -> None:
    assert read_uci(write(tmp_path, "3.4028235e38 0\n"), [FEATURES])["features"][0, 0] > 3e38
    path = write(tmp_path, "3.4028236e38 0\n")
    with pytest.raises(GraphcError, match="range of the element type"):
        read_uci(path, [FEATURES])
    assert read_uci(path, [FEATURES], dtype=np.float64)["features"][0, 0] == 3.4028236e38


finite = st.floats(allow_nan=False, allow_infinity=False)
formats = st.sampled_from(["%r", "%.17g", "%.9g", "%.4f", "%.0f", "%.18e", "%g"])
cells = st.tuples(formats, finite).map(lambda t: t[0] % t[1]).filter(lambda c: len(c) < 1000)


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=20))
def test_every_finite_cell_is_what_float_reads(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("uci") / "data.txt"
    path.write_text("".join(f"{a} {b}\n" for a, b in rows))
    expected = np.array([[float(a), float(b)] for a, b in rows])
    read = read_uci(path, [FEATURES], dtype=np.float64)["features"]
    assert read.tobytes() == expected.tobytes()


@given(st.lists(st.floats(-1e30, 1e30, width=64), min_size=2, max_size=40))
def test_float32_is_the_float64_rounded(
    tmp_path_factory: pytest.TempPathFactory, values: list[float]
) -> None:
    path = tmp_path_factory.mktemp("uci") / "data.txt"
    path.write_text("".join(f"{v!r}\n" for v in values))
    read = read_uci(path, [FeatureBlock("x", Columns(0, 1))])["x"]
    assert read.tobytes() == np.array(values, np.float64).astype(np.float32).tobytes()


@pytest.mark.parametrize("piece", [4, 7, 64, 1000])
def test_the_size_of_pieces_makes_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    rng = np.random.default_rng(3)
    lines = [f"{a:.3f} {b:.9g} {c}" for a, b, c in rng.normal(size=(200, 3))]
    path = write(tmp_path, "\ufeff" + "\r\n".join(lines))
    block = FeatureBlock("x", Columns(0, 3))
    expected = read_uci(path, [block], dtype=np.float64)["x"]
    monkeypatch.setattr(uci, "PIECE_BYTES", piece)
    read = read_uci(path, [block], dtype=np.float64)["x"]
    assert read.tobytes() == expected.tobytes()
    assert len(read) == 200


def test_line_numbers_go_on_from_piece_to_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uci, "PIECE_BYTES", 16)
    path = write(tmp_path, "1 2\n" * 99 + "\n1 x\n")
    with pytest.raises(GraphcError, match=r"data\.txt:101:3"):
        read_uci(path, [FEATURES])


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_lines, "MAX_LINE_BYTES", 1 << 20)
    path = write(tmp_path, b"1 2\n" + b"1" * (1 << 22))
    with pytest.raises(GraphcError, match=r"at most 1048576 bytes[\s\S]*data\.txt:2:1"):
        read_uci(path, [FEATURES])


def test_bad_lines_are_left_out_up_to_the_number_allowed(tmp_path: Path) -> None:
    sink = DiagnosticSink()
    path = write(tmp_path, "1 2 a\nx 2 y\n1 2\n3 4 b\n5 6 q\n7 8 a\n")
    data = read_uci(path, [FEATURES, LABELS], max_errors=3, sink=sink)
    np.testing.assert_array_equal(data["features"], [[1, 2], [3, 4], [7, 8]])
    np.testing.assert_array_equal(data["labels"], [[1, 0, 0], [0, 1, 0], [1, 0, 0]])
    (warning,) = sink.diagnostics
    assert warning.severity is Severity.WARNING
    assert "3 bad lines were left out" in warning.message
    assert "3 were used" in warning.message


def test_a_label_of_a_line_left_out_does_not_stay_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uci, "PIECE_BYTES", 12)  # two lines
    path = write(tmp_path, "1 2 b\nx 2 a\n" * 50)
    labels = read_uci(path, [FEATURES, LABELS], max_errors=50)["labels"]
    np.testing.assert_array_equal(labels, [[0, 1, 0]] * 50)


def test_one_bad_line_more_than_allowed_refuses_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "1 2\nx 2\n1 y\n")
    with pytest.raises(GraphcError, match="at most 1 bad lines are allowed") as caught:
        read_uci(path, [FEATURES], max_errors=1)
    assert len(caught.value.diagnostics) == 2


def test_no_warning_is_given_for_a_file_without_mistakes(tmp_path: Path) -> None:
    sink = DiagnosticSink()
    read_uci(write(tmp_path, "1 2\n"), [FEATURES], max_errors=5, sink=sink)
    assert sink.diagnostics == []


def test_only_bad_lines_are_no_data(tmp_path: Path) -> None:
    with pytest.raises(GraphcError, match="at least one line with data"):
        read_uci(write(tmp_path, "x y\n"), [FEATURES], max_errors=5)


def test_no_more_than_twenty_errors_are_collected(tmp_path: Path) -> None:
    with pytest.raises(GraphcError) as caught:
        read_uci(write(tmp_path, "x y\n" * 1000), [FEATURES])
    assert len(caught.value.diagnostics) == 20


@pytest.mark.parametrize(
    ("text", "columns"),
    [("0:64", Columns(0, 64)), ("3:1", Columns(3, 1)), ("007:2", Columns(7, 2))],
)
def test_columns_are_written_start_and_dim(text: str, columns: Columns) -> None:
    assert parse_columns(text) == columns


@pytest.mark.parametrize(
    "text",
    ["", ":", "1", "1:", ":1", "-1:2", "0:0", "1:2:3", "a:b", "1.0:2", "\u0661:2", "0:999999999"],
)
def test_other_text_for_columns_is_refused(text: str) -> None:
    with pytest.raises(GraphcError) as caught:
        parse_columns(text)
    assert [d.slug for d in caught.value.diagnostics] == ["bad-value"]


@pytest.mark.parametrize(
    ("blocks", "slug"),
    [
        ([], "bad-value"),
        ([FEATURES, FEATURES], "duplicate-name"),
        ([FeatureBlock("x", Columns(-1, 1))], "bad-value"),
        ([FeatureBlock("x", Columns(0, 0))], "bad-value"),
        ([LabelBlock("y", Columns(0, 2), 3)], "bad-value"),
        ([LabelBlock("y", Columns(0, 1), 0)], "bad-value"),
        ([LabelBlock("y", Columns(0, 1), 1 << 30)], "bad-value"),
        ([LabelBlock("y", Columns(0, 1), 1, ("a", "b"))], "bad-value"),
    ],
)
def test_blocks_that_make_no_sense_are_refused(
    tmp_path: Path, blocks: list[FeatureBlock | LabelBlock], slug: str
) -> None:
    path = write(tmp_path, "1 2 a\n")
    with pytest.raises(GraphcError) as caught:
        read_uci(path, blocks)
    assert [d.slug for d in caught.value.diagnostics] == [slug]


def test_other_element_types_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphcError, match="float32 or float64"):
        read_uci(write(tmp_path, "1 2\n"), [FEATURES], dtype=np.int32)


def test_labels_that_no_memory_could_hold_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "1\n" * (1 << 18))
    with pytest.raises(GraphcError) as caught:
        read_uci(path, [LabelBlock("y", Columns(0, 1), 1 << 17)], dtype=np.float64)
    assert [d.slug for d in caught.value.diagnostics] == ["limit"]
