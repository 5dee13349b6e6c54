"""Writers: what stands in their files, and that these are whole or not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.data.archives import map_npy, open_npz
from graphc.data.array_writer import NpyWriter
from graphc.data.binary_reader import read_binary
from graphc.data.binary_writer import BinaryWriter
from graphc.data.text_writer import TextWriter
from graphc.data.writer import Writer, WriterOptions
from graphc.data.writer_types import WRITERS, make
from graphc.support.diagnostics import GraphcError

NUMBERS = np.array([[0.1, -2.5], [1e10, 123456.789], [1 / 3, 1e-5]], np.float32)
ALL = {
    "text": lambda path: TextWriter(path),
    "npy": lambda path: NpyWriter(path),
    "npz": lambda path: NpyWriter(path.with_suffix(".npz")),
    "binary": lambda path: BinaryWriter(path),
}


def test_text_has_a_line_for_a_sample_as_the_streams_of_c_print_it(tmp_path: Path) -> None:
    with TextWriter(tmp_path / "out.txt").open({"L1.z": 2, "e": 1}) as sink:
        sink.write({"L1.z": NUMBERS[:1], "e": np.array([[np.inf]])})
        sink.write({"L1.z": NUMBERS[1:], "e": np.array([[-0.0], [7.0]])})
    z, e = ((tmp_path / f"out.txt.{name}").read_text() for name in ("L1.z", "e"))
    assert z == "0.1 -2.5 \n1e+10 123457 \n0.333333 1e-05 \n"
    assert e == "inf \n-0 \n7 \n"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [0, 1, 2500])
def test_arrays_are_read_again_bit_for_bit(
    tmp_path: Path, dtype: type[np.floating], rows: int
) -> None:
    x = np.random.default_rng(rows).standard_normal((rows, 3)).astype(dtype)
    for name in ("out.npz", "out"):
        with NpyWriter(tmp_path / name, np.dtype(dtype)).open({"x": 3, "y": 1}) as sink:
            for part in np.array_split(x, 3):
                sink.write({"x": part, "y": part[:, 1:2]})
    for found in (open_npz(tmp_path / "out.npz")["x"], map_npy(tmp_path / "out.x.npy")):
        np.testing.assert_array_equal(found, x)
        assert found.dtype == dtype
    np.testing.assert_array_equal(np.load(tmp_path / "out.y.npy"), x[:, 1:2])
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["x"], x)


@pytest.mark.parametrize("form", ALL)
def test_after_an_error_the_old_files_are_there_and_no_others(tmp_path: Path, form: str) -> None:
    writer: Writer = ALL[form](tmp_path / "out")
    with writer.open({"z": 2}) as sink:
        sink.write({"z": NUMBERS})
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert before
    with pytest.raises(RuntimeError), writer.open({"z": 2}) as sink:
        sink.write({"z": NUMBERS + 1})
        raise RuntimeError
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("form", ALL)
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"z": NUMBERS}, "rows of `z`, `e` are required, got `z`"),
        ({"z": NUMBERS, "e": NUMBERS}, r"`e` requires an array \(samples, 1\) of numbers"),
        ({"z": NUMBERS, "e": NUMBERS[:2, :1]}, "equally many rows .* got 3 of `z`, 2 of `e`"),
        ({"z": NUMBERS, "e": [[1.0]]}, "`e` requires an array, got list"),
        ({"z": NUMBERS, "e": np.full((3, 1), "a")}, "`e` requires an array"),
        (3, "what is written requires arrays by name, got int"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    tmp_path: Path, form: str, rows: Any, message: str
) -> None:
    with (
        pytest.raises(GraphcError, match=message),
        ALL[form](tmp_path / "out").open({"z": 2, "e": 1}) as sink,
    ):
        sink.write(rows)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ALL)
@pytest.mark.parametrize("outputs", [{}, {"a/b": 1}, {"": 1}, {"x": -1}])
def test_outputs_that_no_file_can_have_are_refused(
    tmp_path: Path, form: str, outputs: dict[str, int]
) -> None:
    with pytest.raises(GraphcError), ALL[form](tmp_path / "out").open(outputs):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ALL)
def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path, form: str) -> None:
    with (
        pytest.raises(GraphcError, match="cannot write"),
        ALL[form](tmp_path / "absent" / "out").open({"x": 1}),
    ):
        pass


def test_writers_by_their_kind(tmp_path: Path) -> None:
    (tmp_path / "map").write_text("a\nb\n", encoding="utf-8")
    labels = {"sectionType": "labels", "labelDim": 2, "labelMappingFile": tmp_path / "map"}
    kinds: dict[str, dict[str, object]] = {
        "TextWriter": {"outputPath": tmp_path / "out"},
        "numpywriter": {"file": tmp_path / "out.npz"},
        "BinaryWriter": {"wfile": tmp_path / "out.bin", "wrecords": 3, "t": labels},
    }
    options = WriterOptions(np.dtype(np.float64))
    for kind, settings in kinds.items():
        with make(kind, settings, options).open({"x": 2, "t": 2}) as sink:
            sink.write({"x": NUMBERS.astype(np.float64), "t": np.eye(2)[[0, 1, 1]]})
    assert (tmp_path / "out.t").read_text() == "1 0 \n0 1 \n0 1 \n"
    data = read_binary(tmp_path / "out.bin")
    assert data.mappings == {"t": ("a", "b")}
    assert data.arrays["x"].dtype == open_npz(tmp_path / "out.npz")["x"].dtype == np.float64
    assert WRITERS.names()[0] == "TextWriter"


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("TextWriter", {}, "the writer TextWriter requires `outputPath`, which is absent"),
        ("BinaryWriter", {"file": "x"}, "requires `wfile`, which is absent; did you mean `file`"),
        ("BinaryWriter", {"wfile": "x", "t": {"sectionType": "stats"}}, "`sectionType` requires"),
        ("BinaryWriter", {"wfile": "x", "t": {"sectionType": "labels"}}, "requires `labelDim`"),
        ("TxtWriter", {}, "there is no writer `TxtWriter`.*did you mean `TextWriter`"),
        ("LUSequenceWriter", {}, "`LUSequenceWriter` is not there yet"),
    ],
)
def test_settings_of_writers_that_make_no_sense_are_refused(
    kind: str, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(GraphcError, match=message):
        make(kind, settings)
