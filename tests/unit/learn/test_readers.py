"""Readers in the training loop: the same training as with the same samples in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.data.reader import Reader
from graphc.data.uci_reader import uci
from graphc.driver.native_rows import native_rows
from graphc.readers import Columns, FeatureBlock, LabelBlock, Order

TEXT = """
    x = Input(2, tag=feature)
    t = Input(3, tag=label)
    W = Parameter(3, 2)
    b = Parameter(3, init=fixedvalue, value=0)
    z = Plus(Times(W, x), b)
    c = CrossEntropyWithSoftmax(t, z, tag=criteria)
    e = ErrorPrediction(t, z, tag=eval)
"""
RNG = np.random.default_rng(5)
NUMBERS = RNG.integers(0, 3, 1003)
X = (RNG.integers(-8, 9, (1003, 2)) / 8 + NUMBERS[:, None]).astype(np.float32)
DATA = {"x": X, "t": np.eye(3, dtype=np.float32)[NUMBERS]}
SEED = 11


@pytest.fixture
def text(tmp_path: Path) -> Path:
    lines = [f"c{t} {a} {b}\n" for t, (a, b) in zip(NUMBERS, X.tolist(), strict=True)]
    (tmp_path / "data.txt").write_text("".join(lines), encoding="utf-8")
    np.savez(tmp_path / "data.npz", x=X, t=NUMBERS)
    return tmp_path / "data.txt"


BLOCKS = [LabelBlock("t", Columns(0, 1), 3, ("c0", "c1", "c2")), FeatureBlock("x", Columns(1, 2))]
ORDER = Order(seed=SEED)
READERS: dict[str, Callable[[Path], Reader]] = {
    "text": lambda path: gc.readers.uci(path, BLOCKS, order=ORDER),
    "text in blocks": lambda path: gc.readers.uci(path, BLOCKS, order=ORDER, block_bytes=2000),
    "arrays": lambda path: gc.readers.from_arrays(DATA, order=ORDER),
    "npz": lambda path: gc.readers.npz(path.with_suffix(".npz"), classes={"t": 3}, order=ORDER),
    "prefetch": lambda path: gc.readers.Prefetch(READERS["text in blocks"](path)),
}


def trained(data: Any, epoch_size: int) -> tuple[list[float], np.ndarray]:
    net = gc.loads(TEXT, seed=2)
    records = gc.train(
        net, data, epochs=3, minibatch=32, learning_rate=0.5, seed=SEED, epoch_size=epoch_size
    )
    return [record.criterion for record in records], net.model.values["W"].copy()


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("epoch_size", [0, 400])
def test_a_reader_trains_as_the_same_samples_in_memory_do(
    text: Path, kind: str, epoch_size: int
) -> None:
    criteria, weights = trained(DATA, epoch_size)
    found, read_weights = trained(READERS[kind](text), epoch_size)
    np.testing.assert_array_equal(read_weights, weights)
    np.testing.assert_allclose(found, criteria, rtol=1e-12)


def test_measuring_a_reader_gives_the_same_averages(text: Path) -> None:
    net = gc.loads(TEXT, seed=2)
    wanted = gc.evaluate(net, DATA)
    reader = gc.readers.uci(text, BLOCKS, order=Order(None), keep=False, block_bytes=3000)
    found = gc.evaluate(net, reader)
    assert reader.samples == 1003
    assert found == pytest.approx(wanted, rel=1e-6)


def test_native_code_reads_class_numbers_as_numpy_does(text: Path) -> None:
    eager = replace(native_rows(None), least_bytes=0)
    assert eager.load() is not None
    for dtype in (np.float32, np.float64):
        fast, slow = (
            uci(text, BLOCKS, order=Order(None), dtype=dtype, native=native)
            for native in (eager, None)
        )
        request = gc.readers.EpochRequest()
        for block, wanted in zip(fast.blocks(request), slow.blocks(request), strict=True):
            for name in ("x", "t"):
                np.testing.assert_array_equal(np.asarray(block[name]), np.asarray(wanted[name]))


MEAN = TEXT.replace("Times(W, x)", "Times(W, Minus(x, m))") + "m = Mean(x)\n"


@pytest.mark.parametrize("kind", READERS)
def test_a_training_of_a_reader_goes_on_from_its_checkpoint(
    text: Path, tmp_path: Path, kind: str
) -> None:
    def run(epochs: int, checkpoints: gc.Checkpoints | None) -> np.ndarray:
        net, reader = gc.loads(MEAN, seed=2), READERS[kind](text)
        gc.train(
            net, reader, epochs=epochs, minibatch=32, learning_rate=0.5, checkpoints=checkpoints
        )
        return net.model.values["W"].copy()

    run(1, gc.Checkpoints(tmp_path / "checkpoint"))
    found = run(3, gc.Checkpoints(tmp_path / "checkpoint", resume=True))
    np.testing.assert_array_equal(found, run(3, None))


def test_a_training_does_not_go_on_with_other_samples_or_in_another_order(
    text: Path, tmp_path: Path
) -> None:
    def run(reader: Reader, *, resume: bool) -> None:
        net, at = gc.loads(TEXT, seed=2), tmp_path / "checkpoint"
        checkpoints = gc.Checkpoints(at, resume=resume)
        gc.train(net, reader, minibatch=32, learning_rate=0.5, checkpoints=checkpoints)

    run(READERS["text"](text), resume=False)
    other = gc.readers.uci(text, BLOCKS, order=Order(100, seed=SEED))
    with pytest.raises(gc.GraphcError, match="randomize=100"):
        run(other, resume=True)
    text.write_text(text.read_text(encoding="utf-8") + "c0 1 1\n", encoding="utf-8")
    with pytest.raises(gc.GraphcError, match="bytes"):
        run(READERS["prefetch"](text), resume=True)
