"""The data of examples/digits: what its README says about them is so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphc.data.labels import read_label_mapping
from graphc.data.uci import Columns, FeatureBlock, LabelBlock, read_uci

FOLDER = Path(__file__).parents[3] / "examples" / "digits"


def read(name: str) -> dict[str, np.ndarray]:
    mapping = read_label_mapping(FOLDER / "labels.txt")
    labels = LabelBlock("labels", Columns(64, 1), 10, mapping)
    return dict(read_uci(FOLDER / name, [FeatureBlock("features", Columns(0, 64)), labels]))


def test_the_label_mapping_is_the_ten_digits() -> None:
    assert read_label_mapping(FOLDER / "labels.txt") == tuple("0123456789")


@pytest.mark.parametrize(("name", "samples"), [("train.txt", 1437), ("test.txt", 360)])
def test_the_files_have_the_samples_stated(name: str, samples: int) -> None:
    data = read(name)
    assert data["features"].shape == (samples, 64)
    assert data["labels"].shape == (samples, 10)
    assert set(np.unique(data["features"])) <= set(range(17))


def test_36_of_each_digit_are_held_out() -> None:
    np.testing.assert_array_equal(read("test.txt")["labels"].sum(axis=0), [36] * 10)


def test_no_sample_is_in_both_files() -> None:
    train = set((FOLDER / "train.txt").read_text(encoding="ascii").splitlines())
    test = set((FOLDER / "test.txt").read_text(encoding="ascii").splitlines())
    assert train & test == set()
    assert len(train) + len(test) == 1797


def test_the_same_pixels_are_empty_in_both_files() -> None:
    empty = [
        np.flatnonzero(read(n)["features"].max(axis=0) == 0) for n in ("train.txt", "test.txt")
    ]
    assert empty[0].tolist() == [0, 32, 39]
    assert set(empty[0]) <= set(empty[1])
