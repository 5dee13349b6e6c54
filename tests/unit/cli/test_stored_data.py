"""`graphc train` and `eval` on data that are no text, or too large to be held: the same numbers."""

from __future__ import annotations

import importlib.util
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc
from tests.support.commands import COLUMNS, Done, graphc, write_data, write_network

RATES = ("--learning-rate", "0.5", "--epochs", "3", "--minibatch", "7", "--seed", "3")
BACKEND = ("--backend", "reference")
FORMS = ["text", "npy", "npz", "compressed", "parquet"]
HAS_PYARROW = importlib.util.find_spec("pyarrow") is not None


def stored(folder: Path, form: str) -> tuple[str | Path, ...]:
    """Options for the data in this form."""
    data = write_data(folder)
    table = np.loadtxt(data, dtype=np.float32)
    if form == "text":
        return ("--data", data, *COLUMNS)
    if form == "npy":
        np.save(folder / "data.npy", table)
        return ("--data", folder / "data.npy", *COLUMNS)
    columns: dict[str, Any] = {"features": table[:, :2], "labels": table[:, 2].astype(np.int8)}
    if form == "parquet":
        if not HAS_PYARROW:
            pytest.skip("pyarrow is not installed")
        pa: Any = import_module("pyarrow")
        pair = pa.FixedSizeListArray.from_arrays(pa.array(table[:, :2].ravel()), 2)
        made = pa.table({"features": pair, "labels": columns["labels"], "more": columns["labels"]})
        import_module("pyarrow.parquet").write_table(made, folder / "data.parquet")
        return ("--data", folder / "data.parquet")
    (np.savez if form == "npz" else np.savez_compressed)(folder / "data.npz", **columns, more=table)
    return ("--data", folder / "data.npz")


def run_both(folder: Path, data: tuple[str | Path, ...], *more: str) -> tuple[Done, Done]:
    """Training, and measuring what was trained."""
    model = folder / "net.safetensors"
    options = (*data, *BACKEND, "--json")
    trained = graphc("train", write_network(folder), *options, *RATES, *more, "-o", model)
    return trained, graphc("eval", model, *options)


def numbers(trained: Done, measured: Done) -> list[float]:
    assert (trained.code, measured.code) == (0, 0), trained.err + measured.err
    epochs = [epoch["criterion"] for epoch in json.loads(trained.out)["epochs"]]
    return [*epochs, *json.loads(measured.out)["averages"].values()]


@pytest.mark.parametrize("more", [(), ("--no-shuffle",)])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("in_memory", [True, False])
def test_every_form_of_the_same_samples_gives_the_same_model(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    more: tuple[str, ...],
    in_memory: bool,
) -> None:
    wanted = numbers(*run_both(tmp_path, stored(tmp_path, "text"), *more))
    weights = gc.load(tmp_path / "net.safetensors").parameters["W"]
    if not in_memory:
        monkeypatch.setattr("graphc.cli.network.IN_MEMORY_BYTES", 0)
    found = numbers(*run_both(tmp_path, stored(tmp_path, form), *more))
    assert found == pytest.approx(wanted, rel=1e-6)
    np.testing.assert_array_equal(gc.load(tmp_path / "net.safetensors").parameters["W"], weights)


@pytest.mark.parametrize(
    ("form", "more", "message"),
    [
        ("text", (), "Missing option '--features'"),
        ("npy", (), "Missing option '--features'"),
        ("npy", ("--features", "2:2"), "`features` is read up to column 3, the array"),
        ("npz", COLUMNS, "have the names of the network's inputs"),
        ("npz", ("--classes", "2"), "have the names of the network's inputs"),
        ("npz", ("--label-mapping", "LABELS"), "--label-mapping is for texts"),
        ("npy", (*COLUMNS, "--label-mapping", "LABELS"), "--label-mapping is for texts"),
    ],
)
def test_options_that_do_not_fit_the_form_are_refused(
    tmp_path: Path, form: str, more: tuple[str, ...], message: str
) -> None:
    data = stored(tmp_path, form)[:2]
    (tmp_path / "labels.txt").write_text("0\n1\n")
    options = [str(tmp_path / "labels.txt") if each == "LABELS" else each for each in more]
    done = graphc("eval", write_network(tmp_path), *data, *options)
    assert done.code != 0
    assert message in " ".join(done.err.split())


def test_arrays_without_the_names_of_the_inputs_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.zeros((2, 2)), y=np.zeros(2))
    done = graphc("eval", write_network(tmp_path), "--data", tmp_path / "data.npz")
    assert done.code != 0
    assert "names of the inputs `features`, `labels` are required" in done.err
    assert "has `x`, `y`" in done.err
    np.savez(tmp_path / "data.npz", features=np.zeros((2, 2)))
    done = graphc("eval", write_network(tmp_path), "--data", tmp_path / "data.npz")
    assert done.code != 0
    assert "labels" in done.err


@pytest.mark.parametrize("labels", [np.zeros(0, int), np.zeros((0, 2))])
def test_arrays_without_samples_are_told_so(labels: np.ndarray, tmp_path: Path) -> None:
    """Features were taken for class numbers: they have as many elements as samples, none."""
    np.savez(tmp_path / "data.npz", features=np.zeros((0, 2)), labels=labels)
    done = graphc("eval", write_network(tmp_path), "--data", tmp_path / "data.npz")
    assert done.code != 0
    assert "at least one sample is required, the data have none" in done.err


def test_an_npy_file_of_images_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", np.zeros((2, 2, 2)))
    network = write_network(tmp_path)
    done = graphc("eval", network, "--data", tmp_path / "data.npy", *COLUMNS)
    assert "(samples, columns) is required" in done.err
    assert done.code != 0


@pytest.mark.skipif(not HAS_PYARROW, reason="pyarrow is not installed")
def test_labels_of_a_table_may_be_texts(tmp_path: Path) -> None:
    wanted = numbers(*run_both(tmp_path, stored(tmp_path, "text")))
    data = stored(tmp_path, "parquet")
    parquet: Any = import_module("pyarrow.parquet")
    table = parquet.read_table(data[1])
    texts = [("no", "yes")[label] for label in table["labels"].to_pylist()]
    named = table.set_column(1, "labels", [texts])
    parquet.write_table(named, data[1])
    (tmp_path / "labels.txt").write_text("no\nyes\n")
    options = (*data, "--label-mapping", tmp_path / "labels.txt")
    assert numbers(*run_both(tmp_path, options)) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.skipif(HAS_PYARROW, reason="pyarrow is installed")
def test_without_pyarrow_a_table_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "data.parquet").write_bytes(b"PAR1")
    done = graphc("eval", write_network(tmp_path), "--data", tmp_path / "data.parquet")
    assert done.code != 0
    assert "pip install 'graphc[arrow]'" in " ".join(done.err.split())
