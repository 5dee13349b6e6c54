"""Readers by kind: UCIFastReader's settings, and kinds of other distributions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.data.order import Order
from graphc.data.reader import Column, EpochRequest
from graphc.data.reader_options import ReaderOptions
from graphc.data.reader_types import READERS, make
from graphc.data.settings import PythonSettings
from graphc.data.table_reader import TableReader
from graphc.data.uci import Columns, FeatureBlock, LabelBlock
from graphc.data.uci_settings import read_uci_settings
from graphc.support.diagnostics import GraphcError

FEATURES = {"dim": 2, "start": 1}
LABELS = {"labelDim": 3, "start": "0", "labelMappingFile": "map.txt"}


def settings(**changed: Any) -> dict[str, object]:
    """Of a reader of two blocks; those that are None are left out."""
    given = {"file": "data.txt", "features": FEATURES, "labels": LABELS, **changed}
    return {key: value for key, value in given.items() if value is not None}


def order_of(options: ReaderOptions | None = None, **changed: Any) -> Order:
    given = PythonSettings(settings(**changed))
    return read_uci_settings(given, options or ReaderOptions()).order


def test_the_blocks_of_the_toolkits_reader_become_columns() -> None:
    found = read_uci_settings(
        PythonSettings(settings(Randomize="None", MINIBATCHMODE="full")), ReaderOptions(seed=4)
    )
    assert found.files == (Path("data.txt"),)
    assert found.blocks == (
        FeatureBlock("features", Columns(1, 2)),
        LabelBlock("labels", Columns(0, 1), 3),
    )
    assert found.mappings == {"labels": Path("map.txt")}
    assert found.order == Order(None, 4, "full")


def test_what_a_block_lacks_is_looked_for_around_it() -> None:
    given = settings(
        file=None,
        labelMappingFile="outer.txt",
        features={"dim": 2, "FILE": ["a.txt", "b.txt"]},
        labels={"labelDim": 3, "file": ["a.txt", "b.txt"]},
    )
    found = read_uci_settings(PythonSettings(given), ReaderOptions())
    assert found.files == (Path("a.txt"), Path("b.txt"))
    assert found.mappings == {"labels": Path("outer.txt")}
    assert found.blocks[0] == FeatureBlock("features", Columns(0, 2))


def test_labels_may_be_numbers_or_nothing() -> None:
    given = settings(
        labels={"labelType": "Regression", "start": 3, "dim": 2}, y={"labelType": "none"}
    )
    found = read_uci_settings(PythonSettings(given), ReaderOptions())
    assert found.blocks[1:] == (LabelBlock("labels", Columns(3, 2), 0, kind="regression"),)


def test_a_block_of_columns_may_be_said_to_be_labels_and_others_are_left_alone() -> None:
    given = settings(labels={"sectionType": "labels", "labelDim": 2}, cache={"writerType": "x"})
    found = read_uci_settings(PythonSettings(given), ReaderOptions())
    assert found.blocks[1:] == (LabelBlock("labels", Columns(0, 1), 2),)


@pytest.mark.parametrize(
    ("randomize", "wanted"),
    [("Auto", "auto"), ("none", None), ("4096", 4096), (7, 7), (None, "auto"), ("True", "auto")],
)
def test_both_forms_of_randomize(randomize: object, wanted: object) -> None:
    assert order_of(randomize=randomize).randomize == wanted
    assert order_of(ReaderOptions(in_order=True), randomize=randomize).randomize is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"file": None}, "features requires `file`"),
        ({"features": {}, "labels": {}}, "requires a block with `dim` for features.* features"),
        ({"features": {"dim": 0}}, "`dim` requires at least 1, got 0"),
        ({"features": {"dim": "x"}}, "`dim` of features: requires a whole number, got 'x'"),
        ({"features": {"dim": 2, "start": -1}}, "`start` requires at least 0, got -1"),
        ({"features": {"dim": 2, "file": "other"}}, "to have the same `file`, `features` and"),
        ({"labels": {"labelMappingFile": "m"}}, "labels requires `labelDim`"),
        ({"labels": {"labelType": "Other"}}, "`labelType` requires one of category, regression"),
        ({"randomize": "often"}, "requires Auto, None or a number of samples, got `often`"),
        ({"randomize": "0"}, "requires Auto, None or a number of samples, got `0`"),
        ({"minibatchMode": "half"}, "`minibatchMode` requires one of partial, full, got `half`"),
        ({"file": []}, "paths are required"),
        ({"file": 3.5}, "requires a list of texts, got 3.5"),
        ({"labels": {"labelDim": 3, "dim": 2}}, "labels that are texts take one column"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphcError, match=message):
        make("UCIFastReader", settings(**changed))


def test_a_reader_by_its_kind_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    reader = make("ucifastreader", settings(), ReaderOptions(np.dtype(np.float64), in_order=True))
    assert reader.schema == {"features": Column(2), "labels": Column(3)}
    # Made before the files are there: a command before may write them.
    Path("data.txt").write_text("b 1 2\nc 3 4\n", encoding="utf-8")
    with pytest.raises(GraphcError, match=r"map\.txt"):
        next(reader.blocks(EpochRequest()))
    Path("map.txt").write_text("a\nb\nc\n", encoding="utf-8")
    (block,) = reader.blocks(EpochRequest())
    np.testing.assert_array_equal(np.asarray(block["features"]), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(np.asarray(block["labels"]), [[0, 1, 0], [0, 0, 1]])
    assert np.asarray(block["labels"]).dtype == np.float64


def test_backslashes_stand_between_folders_too() -> None:
    found = read_uci_settings(PythonSettings(settings(file="a\\b.txt")), ReaderOptions())
    assert found.files == (Path("a/b.txt"),)


MODULE = """
import graphc.data.array_reader
import numpy as np

def make_reader(settings, options):
    rows = settings.find("rows").integer()
    return graphc.data.array_reader.from_arrays({"x": np.zeros((rows, 2), options.dtype)})

def no_reader(settings, options):
    return 3

number = 5
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = (
        "[graphc.readers]\nZeros = zero_rows:make_reader\nThree = zero_rows:no_reader\n"
        "Five = zero_rows:number\nAbsent = zero_rows:nothing\n"
        "HTKMLFReader = zero_rows:make_reader\n"
    )
    for name, text in (("zero-rows", entries), ("other", "[graphc.readers]\nTwice = a:b\n")):
        info = tmp_path / f"{name.replace('-', '_')}-1.5.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n"
        (info / "METADATA").write_text(metadata, encoding="utf-8")
        twice = "twice = c:d\n" if name == "zero-rows" else ""
        (info / "entry_points.txt").write_text(text + twice, encoding="utf-8")
    (tmp_path / "zero_rows.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("installed")
def test_a_reader_of_another_distribution_is_made_by_its_name() -> None:
    reader = make("zeros", {"rows": 3}, ReaderOptions(np.dtype(np.float64)))
    assert isinstance(reader, TableReader)
    assert reader.samples == 3
    assert READERS.names()[0] == "UCIFastReader"
    assert "Zeros" in READERS.names()
    assert make("HTKMLFReader", {"rows": 2}).samples == 2


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("Three", r"`Three` of zero-rows 1\.5 .* requires an object with schema.* got int"),
        ("Five", r"`Five` of zero-rows 1\.5 .* requires a function .* got int"),
        ("Absent", r"`Absent` of zero-rows 1\.5 .* cannot be loaded: AttributeError"),
        ("TWICE", r"is required to have a name of its own, .* other 1\.5 .* and zero-rows 1\.5"),
        ("Zeroes", "there is no reader `Zeroes`.*did you mean `Zeros`"),
    ],
)
def test_a_broken_plug_in_is_named_with_its_distribution(kind: str, message: str) -> None:
    with pytest.raises(GraphcError, match=message):
        make(kind, {})


@pytest.mark.parametrize("kind", ["HTKMLFReader", "lmsequencereader", "LUSequenceReader"])
def test_readers_of_the_toolkit_that_are_not_there_yet_say_so(kind: str) -> None:
    with pytest.raises(GraphcError) as raised:
        make(kind, {})
    assert raised.value.diagnostics[0].slug == "not-supported"
