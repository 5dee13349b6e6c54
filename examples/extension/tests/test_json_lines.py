"""The reader, made by its name as a configuration makes it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.readers import EpochRequest, make

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
    settings = {"file": file, "randomize": False, **COLUMNS}
    found = np.concatenate([*visited(settings, minibatch=32)])
    np.testing.assert_array_equal(found, np.arange(COUNT))


def test_epochs_are_windows_and_orders_are_graphcs_own(file: Path) -> None:
    settings = {"file": file, "randomize": True, **COLUMNS}
    first = np.concatenate([*visited(settings, size=1000, epoch=0)])
    rest = np.concatenate([*visited(settings, size=1500, epoch=1)])
    assert not np.array_equal(first, np.arange(1000))
    assert len({*first.tolist()}) == 1000
    assert len(rest) == 1500


def test_a_network_is_trained_on_it(file: Path) -> None:
    """labels = 2 n for features (n, -n): one weight each of 1 and -1, or any that do the same."""
    lines = [json.dumps({"features": [n, -n], "labels": [2 * n]}) for n in (-1.0, 0.5, 1.0)]
    file.write_text("\n".join(lines * 20), encoding="utf-8")
    net = gc.loads(
        "net = [\nfeatures = Input(2, tag=feature)\nlabels = Input(1, tag=label)\n"
        "W = Parameter(1, 2)\nc = SquareError(labels, Times(W, features), tag=criterion)\n]\n"
        "run = net"
    )
    reader = make("JsonLinesReader", {"file": file, "randomize": True, **COLUMNS})
    gc.train(net, reader, epochs=20, minibatch=6, learning_rate=0.1)
    w = net.parameters["W"]
    assert w[0, 0] - w[0, 1] == pytest.approx(2, abs=1e-3)


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
