"""The digits example trained on every backend: they agree, and they learn."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.driver.options import CompileOptions
from graphc.ir.types import DType
from graphc.learn.evaluate import evaluate_dataset

Array = np.ndarray
EXAMPLE = Path(__file__).parents[2] / "examples" / "digits"
BACKENDS = ("reference", "numpy", "llvm")


@cache
def digits(file: str) -> dict[str, Array]:
    """Pixels 0 to 16 and one-hot digits, f64."""
    cells = np.loadtxt(EXAMPLE / file, dtype=np.float64)
    return {"features": cells[:, :64], "labels": np.eye(10)[cells[:, 64].astype(int)]}


@cache
def trained(backend: str) -> tuple[list[float], dict[str, Array]]:
    """Criterion per epoch and the parameters after ten epochs in f64."""
    net = gc.load(EXAMPLE / "digits.ndl", seed=1)
    records = gc.train(
        net,
        digits("train.txt"),
        epochs=10,
        minibatch=32,
        learning_rate=1.0,
        momentum=0.9,
        seed=1,
        backend=backend,
        precision="f64",
    )
    return [r.criterion for r in records], dict(net.parameters)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_backends_train_alike(backend: str) -> None:
    criteria, parameters = trained(backend)
    wanted_criteria, wanted = trained("reference")
    np.testing.assert_allclose(criteria, wanted_criteria, rtol=1e-9)
    assert parameters.keys() == wanted.keys()
    for name, value in parameters.items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_the_criterion_falls_from_epoch_to_epoch() -> None:
    criteria, _ = trained("numpy")
    assert len(criteria) == 10
    assert all(later < earlier for earlier, later in pairwise(criteria))
    assert criteria[-1] < 0.5 * criteria[0]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_eight_epochs_in_f32_read_95_of_100_digits_not_seen(backend: str) -> None:
    net = gc.load(EXAMPLE / "digits.ndl", seed=1)
    gc.train(
        net,
        digits("train.txt"),
        epochs=8,
        minibatch=32,
        learning_rate=1.0,
        momentum=0.9,
        seed=1,
        backend=backend,
    )
    options = CompileOptions(backend, DType.F32)
    assert isinstance(net, gc.Network)
    measured = evaluate_dataset(net.model, digits("test.txt"), options, ["Err"])
    assert measured.samples == 360
    assert 1 - measured.averages["Err"] >= 0.95


def test_eight_epochs_in_bf16_lose_as_much_as_those_in_f32() -> None:
    data = {name: array.astype(np.float32) for name, array in digits("train.txt").items()}
    found: dict[str, tuple[float, float]] = {}
    for precision in ("f32", "bf16"):
        net = gc.load(EXAMPLE / "digits.ndl", seed=1)
        options = {"minibatch": 32, "learning_rate": 1.0, "momentum": 0.9, "seed": 1}
        records = gc.train(net, data, epochs=8, precision=precision, **options)  # type: ignore[arg-type]
        assert all(value.dtype == np.float32 for value in net.parameters.values())
        measured = gc.evaluate(net, digits("test.txt"), precision=precision)
        found[precision] = records[-1].criterion, measured["Err"]
    assert found["bf16"] != found["f32"]
    assert found["bf16"][0] == pytest.approx(found["f32"][0], rel=0.01)
    assert found["bf16"][1] <= found["f32"][1] + 0.01
