"""Dropout and BatchNormalization as users have them: build, train, measure, save, load, emit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from tests.support.commands import COLUMNS, NETWORK, graphc, write_data, write_network

Array = np.ndarray


def network(hidden: int = 24) -> gc.Network:
    """Two classes on rings; features far from mean 0 and variance 1."""
    net = gc.Network()
    x = net.input("x", 2, tag="feature")
    y = net.input("y", 2, tag="label")
    w = net.parameter("W", hidden, 2, init_value_scale=20)
    columns = {
        name: net.parameter(name, 0, init="fixedValue", value=value, need_gradient=trained)
        for name, value, trained in (
            ("scale", 1.0, True),
            ("bias", 0.0, True),
            ("mean", 0.0, False),
            ("inverse", 1.0, False),
        )
    }
    n = net.batch_normalization(w @ x, *columns.values(), normalization_time_constant=200, name="n")
    h = net.rectified_linear(n)
    d = net.dropout(h, name="d")
    u = net.parameter("U", 2, hidden, init_value_scale=10)
    z = net.plus(u @ d, net.parameter("c", 2, init="fixedValue"), name="z", tag="output")
    net.cross_entropy_with_softmax(y, z, name="ce", tag="criterion")
    net.error_prediction(y, z, name="err", tag="evaluation")
    return net


def rings(samples: int, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    angle, far = rng.uniform(0, 2 * np.pi, samples), rng.random(samples) < 0.5
    radius = np.where(far, 2.0, 0.7) + rng.normal(0, 0.1, samples)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return {"x": points * 50 + 300, "y": np.eye(2)[far.astype(int)]}


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_a_network_with_both_learns_and_keeps_its_running_values(
    tmp_path: Path, backend: str
) -> None:
    net = network()
    records = gc.train(
        net,
        rings(400, 0),
        epochs=25,
        minibatch=20,
        learning_rate="2*15:0.5",
        momentum=0.9,
        dropout="0.2*15:0.1",
        backend=backend,
    )
    assert records[-1].criterion < records[0].criterion
    test = rings(300, 1)
    error = gc.evaluate(net, test, backend=backend)["err"]
    assert error < 0.06
    net.save(tmp_path / "net.safetensors")
    loaded = gc.load(tmp_path / "net.safetensors")
    np.testing.assert_array_equal(loaded.parameters["mean"], net.parameters["mean"])
    assert np.all(np.abs(loaded.parameters["mean"]) > 0)
    again = gc.evaluate(loaded, test, backend=backend)["err"]
    assert again == pytest.approx(error)


def test_one_sample_is_judged_by_the_running_values_alone() -> None:
    net = network()
    gc.train(net, rings(100, 0), epochs=2, minibatch=20, learning_rate=1.0, backend="numpy")
    exe = gc.compile(net, "z", backend="numpy")
    x = rings(7, 2)["x"]
    single = np.concatenate([exe(x=row[None])["z"] for row in x])
    np.testing.assert_allclose(single, exe(x=x)["z"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm"])
def test_a_row_that_is_constant_in_the_minibatch_trains_to_numbers(backend: str) -> None:
    net, data = network(), rings(16, 0)
    data["x"][:] = 5.0
    step = gc.compile_training(net, learner=gc.SGD(learning_rate=1.0), backend=backend)
    for _ in range(3):
        step(**data)
    assert all(np.all(np.isfinite(v)) for v in net.parameters.values())


NORMALISED = """
scale = Parameter(0, init=fixedValue, value=1)
bias = Parameter(0, init=fixedValue, value=0)
mean = Parameter(0, init=fixedValue, value=0, needGradient=false)
inverse = Parameter(0, init=fixedValue, value=1, needGradient=false)
n = BatchNormalization(features, scale, bias, mean, inverse, expAvgFactor=0.2)
d = Dropout(n)
"""


def test_a_model_of_the_command_line_is_measured_by_its_running_values(tmp_path: Path) -> None:
    text = NETWORK.replace("Times(W, features)", "Times(W, d)") + NORMALISED
    data, model = write_data(tmp_path), tmp_path / "net.safetensors"
    trained = graphc(
        *("train", write_network(tmp_path, text), "--data", data, *COLUMNS, "--epochs", "6"),
        *("--minibatch", "10", "--learning-rate", "0.5", "--dropout", "0.3*3:0", "-o", model),
    )
    measured = graphc("eval", model, "--data", data, *COLUMNS, "--json")
    assert (trained.code, measured.code) == (0, 0)
    found = json.loads(measured.out)["averages"]
    assert found["Err"] < 0.1
    p = gc.load(model).parameters
    rows = np.loadtxt(data)
    normal = (rows[:, :2] - p["mean"].T) * p["inverse"].T * p["scale"].T + p["bias"].T
    scores = normal @ p["W"].T + p["b"].T
    own = scores[np.arange(len(rows)), rows[:, 2].astype(int)]
    expected = np.mean(np.log(np.exp(scores).sum(axis=1)) - own)
    assert found["CE"] == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(p["inverse"][:, 0], 1 / rows[:, :2].std(axis=0), rtol=0.2)
