"""Dropout and batch normalisation of programs: what training makes of them, and others do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc

Array = np.ndarray
BACKENDS = pytest.mark.parametrize("backend", ["numpy", "llvm", "c"])
SIZE = 200


def _masked(backend: str, **options: Any) -> tuple[gc.TrainingStep, gc.Program]:
    """The gradient of W for one sample of ones is the mask of that sample, divided by 1 - rate."""
    net = gc.program(
        lambda x, W: gc.dropout(x * W, 0.25),
        {"x": f"Nx{SIZE}"},
        parameters={"W": np.zeros(SIZE, np.float32)},
    )
    rate = gc.SGD(learning_rate_per_sample=1.0)
    total = gc.compile_training(
        net, loss=lambda y, labels: -gc.sum(y * labels), learner=rate, backend=backend, **options
    )
    return total, net


def _mask(step: gc.TrainingStep, net: gc.Program, samples: int = 1, row: int = 0) -> Array:
    before = net.parameters["W"].copy()
    labels = np.zeros((samples, SIZE), np.float32)
    labels[row] = 1
    step(x=np.ones((samples, SIZE), np.float32), labels=labels)
    return net.parameters["W"] - before


@BACKENDS
def test_dropout_follows_from_seed_step_and_place(backend: str) -> None:
    first = _mask(*_masked(backend))
    np.testing.assert_allclose(np.unique(first), [0, 1 / 0.75], rtol=1e-6)
    assert 0.1 < np.mean(first == 0) < 0.4
    np.testing.assert_array_equal(first, _mask(*_masked("numpy")))
    np.testing.assert_array_equal(first, _mask(*_masked(backend), samples=3))
    assert np.any(first != _mask(*_masked(backend), samples=3, row=2))
    assert np.any(first != _mask(*_masked(backend, seed=1)))
    step, net = _masked(backend)
    _mask(step, net)
    assert np.any(np.abs(first - _mask(step, net)) > 1e-3)
    assert step.steps == 2


def _rows(seed: int = 0) -> tuple[gc.Program, dict[str, Array]]:
    rng = np.random.default_rng(seed)

    def rule(x: Any, W: Any, mean: Any, variance: Any) -> Any:
        h = gc.batch_normalization(x @ W, 1.0, 0.0, mean, variance, momentum=0.5)
        return gc.dropout(h, 0.5)

    values = {
        "W": rng.standard_normal((4, 3), np.float32),
        "mean": np.zeros(3, np.float32),
        "variance": np.ones(3, np.float32),
    }
    given = {"x": rng.standard_normal((6, 4), np.float32), "labels": np.zeros((6, 3), np.float32)}
    return gc.program(rule, {"x": "Nx4"}, parameters=values), given


@BACKENDS
def test_a_step_moves_statistics_and_nothing_else_sees_training(backend: str) -> None:
    net, given = _rows()
    step = gc.compile_training(net, loss="squared_error", learner=gc.SGD(0.1), backend=backend)
    step(**given)
    seen = given["x"] @ _rows()[0].parameters["W"]
    np.testing.assert_allclose(net.parameters["mean"], seen.mean(0) / 2, 1e-4, 1e-6)
    np.testing.assert_allclose(net.parameters["variance"], (1 + seen.var(0)) / 2, 1e-5)
    p = net.parameters
    expected = (given["x"] @ p["W"] - p["mean"]) / np.sqrt(p["variance"] + 1e-5)
    got = gc.compile(net, backend=backend)(x=given["x"])["result"]
    np.testing.assert_allclose(got, expected, 1e-4, 1e-5)
    measured = gc.evaluate(net, given, loss="squared_error", backend=backend)["loss"]
    assert measured == pytest.approx(float(np.sum(expected**2)) / 12, rel=1e-4)


def test_as_inference_changes_weights_alone() -> None:
    net, given = _rows()
    gc.train(net, given, loss="squared_error", epochs=1, learning_rate=0.1, as_inference=True)
    np.testing.assert_array_equal(net.parameters["mean"], 0)
    np.testing.assert_array_equal(net.parameters["variance"], 1)
    assert np.any(net.parameters["W"] != _rows()[0].parameters["W"])


def test_epochs_go_on_from_a_checkpoint_with_the_same_bits(tmp_path: Path) -> None:
    whole, given = _rows()
    options = {"loss": "squared_error", "minibatch": 2, "learning_rate": 0.01}
    gc.train(whole, given, epochs=2, **options)
    halves, _ = _rows()
    kept = gc.Checkpoints(tmp_path / "at")
    gc.train(halves, given, epochs=1, checkpoints=kept, **options)
    again, _ = _rows(1)
    kept = gc.Checkpoints(tmp_path / "at", resume=True)
    gc.train(again, given, epochs=2, checkpoints=kept, **options)
    for name, value in whole.parameters.items():
        np.testing.assert_array_equal(again.parameters[name], value)


def test_what_cannot_be_trained_says_why() -> None:
    net = gc.program(
        lambda x, W: gc.scan(lambda c, r: (c + gc.dropout(r), c), W, x)[0],
        {"x": "5x3"},
        parameters={"W": np.ones(3, np.float32)},
    )
    asked: Any = {"loss": lambda y, t: gc.sum(y * t), "labels": "3", "learner": gc.SGD(0.1)}
    with pytest.raises(gc.GraphcError, match="`drop` in a step of a loop cannot be trained yet"):
        gc.compile_training(net, **asked)
    gc.compile_training(net, as_inference=True, **asked)
    constant = np.ones(3, np.float32)
    net = gc.program(
        lambda x, W: gc.batch_normalization(x * W, W, W, constant, constant),
        {"x": "Nx3"},
        parameters={"W": constant},
    )
    with pytest.raises(gc.GraphcError, match="moves a running value, which has to be a parameter"):
        gc.compile_training(net, loss="squared_error", learner=gc.SGD(0.1))
