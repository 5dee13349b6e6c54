"""Every predefined network learns, and its gradients are those of difference quotients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gc

Array = np.ndarray
CLASSES = {
    "training_criterion": "ClassCrossEntropyWithSoftmax",
    "eval_criterion": "ClassCrossEntropyWithSoftmax",
    "nbr_class": 2,
}
NETWORKS: dict[str, dict[str, Any]] = {
    "SIMPLENET": {"layer_sizes": [4, 5, 3], "layer_types": "Tanh"},
    "normalised": {
        "layer_sizes": [4, 5, 3], "apply_mean_var_norm": True, "need_prior": True,
        "add_dropout_nodes": True,
    },
    "SIMPLERNN": {"layer_sizes": [4, 5, 4, 3], "rnn_type": "SIMPLERNN", "recurrent_layer": [1, 2]},
    "CLASSLM": {"layer_sizes": [6, 4, 6], "rnn_type": "CLASSLM", "recurrent_layer": [1], **CLASSES},
    "LSTM": {"layer_sizes": [4, 5, 3], "rnn_type": "LSTM", "direct_connect": [0, 1]},
    "looked up": {
        "layer_sizes": [4, 3, 6, 6, 3], "rnn_type": "LSTM", "lookup_table_order": 2,
        "recurrent_layer": [3], "input_gate_init_val": 1.0, "output_gate_init_val": 1.0,
    },
    "CLASSLSTM": {
        "layer_sizes": [6, 3, 4, 6], "rnn_type": "CLASSLSTM", "lookup_table_order": 1, **CLASSES,
    },
    "LBLM": {"layer_sizes": [4, 5, 3], "rnn_type": "LBLM", "ma_order": 2, "recurrent_layer": [1]},
}  # fmt: skip


def data(options: dict[str, Any]) -> dict[str, list[Array]]:
    """Twelve short sequences whose label depends on the features."""
    rng = np.random.default_rng(5)
    rows, classes = options["layer_sizes"][0], options["layer_sizes"][-1]
    features: list[Array] = []
    labels: list[Array] = []
    for length in rng.integers(3, 7, 12):
        if "nbr_class" in options:
            words = rng.integers(0, rows, length)
            features.append(np.eye(rows)[words])
            following = (words + 1) % rows
            first = following // 3 * 3
            labels.append(np.stack([following, following // 3, first, first + 3], axis=1) * 1.0)
        else:
            x = rng.standard_normal((length, rows))
            features.append(x)
            labels.append(np.eye(classes)[np.argmax(x[:, :classes], axis=1)])
    return {"features": features, "labels": labels}


def is_sequential(options: dict[str, Any]) -> bool:
    return "rnn_type" in options


def made(options: dict[str, Any]) -> tuple[gc.Network, dict[str, Any]]:
    """The network, with large weights, and its data; statistics are computed."""
    network = gc.simple_network(**options, init_value_scale=8, seed=2)
    given: dict[str, Any] = {**data(options)}
    if not is_sequential(options):
        given = {name: np.concatenate(arrays) for name, arrays in given.items()}
    network.precompute(**given)
    return network, given


@pytest.mark.parametrize("name", NETWORKS)
def test_the_loss_falls(name: str) -> None:
    network, given = made(NETWORKS[name])
    rate = 0.01 if name == "LBLM" else 0.1  # linear all the way, it overshoots soon
    records = gc.train(network, given, epochs=80, minibatch=4, learning_rate_per_sample=rate)
    losses = [record.criterion for record in records]
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.97 * losses[0]
    for value in network.parameters.values():
        assert np.isfinite(value).all()


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_difference_quotients(name: str) -> None:
    network, given = made(NETWORKS[name])
    criterion = next(node.name for node in network.nodes if "criterion" in node.tags)
    learned = [node.name for node in network.nodes if node.op == "parameter"]
    with_gradients = gc.compile(
        network, criterion, gradients=learned, precision="f64", backend="reference"
    )
    plain = gc.compile(network, criterion, precision="f64", backend="reference")
    found = with_gradients(**given)
    rng = np.random.default_rng(3)
    for parameter in learned:
        kept = network.parameters[parameter].astype(np.float64)
        direction = rng.standard_normal(kept.shape)
        ends: list[float] = []
        for sign in (1e-5, -1e-5):
            # Of what is assigned, functions in f64 take all digits.
            network.parameters[parameter] = kept + sign * direction
            ends.append(float(plain(**given)[criterion]))
        network.parameters[parameter] = kept
        slope = float(np.sum(found[f"gradient.{parameter}"] * direction))
        assert abs((ends[0] - ends[1]) / 2e-5 - slope) <= 1e-6 * (1 + abs(slope)), parameter


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("backend", ["numpy", "llvm", "c"])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_backend_computes_it_for_no_sample_one_and_many(
    name: str, backend: str, precision: str
) -> None:
    network, given = made(NETWORKS[name])
    wanted = [n.name for n in network.nodes if set(n.tags) & {"output", "criterion", "evaluation"}]
    judge = gc.compile(network, wanted, backend="reference", precision="f64")
    time = 4 if is_sequential(NETWORKS[name]) else 0
    exe = gc.compile(network, wanted, backend=backend, precision=precision, batch=2, time=time)
    tolerance = 1e-9 if precision == "f64" else 2e-4
    for count in (1, 12) if time else (0, 1, 12):  # of sequences one at least is required
        some = {input_name: values[:count] for input_name, values in given.items()}
        expected, got = judge(**some), exe(**some)
        for result in wanted:
            assert_close(got[result], expected[result], tolerance)


def assert_close(got: Any, expected: Any, tolerance: float) -> None:
    """Arrays, or lists of them."""
    pairs = [(got, expected)]
    if isinstance(expected, list):
        assert len(got) == len(expected)
        pairs = [*zip(got, expected, strict=True)]
    for one, other in pairs:
        assert np.shape(one) == np.shape(other)
        assert np.allclose(one, other, rtol=tolerance, atol=tolerance)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm"])
def test_an_lstm_layer_is_that_of_the_formulas(backend: str, precision: str) -> None:
    """i = σ(Wx x + Wh h' + p∘c' + b), f alike, c = f∘c' + i∘tanh(…), o = σ(… + p∘c), h = o∘tanh(c).

    Columns of each matrix: bias, input, last output, peephole. c starts at 0.1 and h at 0.
    """
    network = gc.simple_network([3, 4, 2], rnn_type="LSTM", init_value_scale=10, seed=5)
    got = gc.compile(network, "LSTM0", backend=backend, precision=precision)
    x = np.random.default_rng(1).standard_normal((6, 3))
    w = {name: value.astype(np.float64) for name, value in network.parameters.items()}
    h, c = np.zeros(4), np.full(4, 0.1)
    expected: list[Array] = []
    for step in x:
        seen = np.concatenate([[1.0], step, h])
        i = sigmoid(w["WINPUTGATE0"] @ np.concatenate([seen, [0]]) + w["WINPUTGATE0"][:, -1] * c)
        f = sigmoid(w["WFORGETGATE0"] @ np.concatenate([seen, [0]]) + w["WFORGETGATE0"][:, -1] * c)
        c = f * c + i * np.tanh(w["WMEMORYCELLWEIGHT0"] @ seen)
        o = sigmoid(w["WOUTPUTGATE0"] @ np.concatenate([seen, [0]]) + w["WOUTPUTGATE0"][:, -1] * c)
        h = o * np.tanh(c)
        expected.append(h)
    (found,) = got(features=[x])["LSTM0"]
    tolerance = 1e-12 if precision == "f64" else 1e-6
    assert np.allclose(found, expected, rtol=0, atol=tolerance)
