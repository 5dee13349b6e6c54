"""The reader, made by its name as a configuration makes it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.data.reader import EpochRequest
from graphc.data.reader_types import make

COLUMNS = {"features": {"dim": 2}, "labels": {"dim": 1}}
COUNT = 2500


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Samples that tell which they are."""
    lines = [json.dumps({"features": [n, -n], "labels": [2 * n], "id": "x"}) for n in range(COUNT)]
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def visited(settings: dict[str, Any], **request: int) -> Iterator[np.ndarray]:
    for block in make("jsonlinesreader", settings).blocks(EpochRequest(**request)):
        features, labels = np.asarray(block["features"]), np.asarray(block["labels"])
        np.testing.assert_array_equal(features[:, :1], -features[:, 1:])
        np.testing.assert_array_equal(2 * features[:, :1], labels)
        yield features[:, 0]


def test_all_samples_in_the_order_of_the_file(file: Path) -> None:
    settings = {"file": file, "randomize": "none", **COLUMNS}
    found = np.concatenate([*visited(settings, minibatch=32)])
    np.testing.assert_array_equal(found, np.arange(COUNT))


def test_epochs_are_windows_and_orders_are_graphcs_own(file: Path) -> None:
    settings = {"file": file, "randomize": "auto", **COLUMNS}
    first = np.concatenate([*visited(settings, size=1000, epoch=0)])
    rest = np.concatenate([*visited(settings, size=1500, epoch=1)])
    assert not np.array_equal(first, np.arange(1000))
    assert len({*first.tolist()}) == 1000
    assert len(rest) == 1500


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"samples.jsonl:1: requires an object with 2 numbers as `features`"),
        ('{"labels": [1]}', r":1: .* \(KeyError"),
        ('{"features": [1, 2, 3], "labels": [1]}', r":1: requires 2 numbers .* got shape \(3,\)"),
        ('{"features": ["a", 2], "labels": [1]}', r":1: .* \(ValueError"),
    ],
)
def test_a_malformed_line_is_an_error_with_its_place(file: Path, line: str, message: str) -> None:
    file.write_text(line, encoding="utf-8")
    with pytest.raises(gc.GraphcError, match=message):
        list(visited({"file": file, **COLUMNS}))


def test_settings_are_checked_before_any_file_is_looked_at() -> None:
    with pytest.raises(gc.GraphcError, match="requires `file`"):
        make("JsonLinesReader", COLUMNS)
    with pytest.raises(gc.GraphcError, match="requires a block with `dim`"):
        make("JsonLinesReader", {"file": "absent.jsonl"})
    reader = make("JsonLinesReader", {"file": "absent.jsonl", **COLUMNS})
    with pytest.raises(gc.GraphcError, match=r"cannot read absent.jsonl"):
        list(reader.blocks(EpochRequest()))
