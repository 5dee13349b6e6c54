"""Labels as class numbers give, bit for bit, what their one-hot rows give, wherever labels go.

That one-hot rows are right is judged elsewhere; here numpy says what the criterion is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.support.diagnostics import GraphcError
from graphc_frontends.network import Network

Array = np.ndarray

CLASSES = 5
KINDS = ("input", "sparse_input")
DTYPES = (np.int64, np.int32, np.uint8, np.uint64)
RNG = np.random.default_rng(5)
FEATURES = RNG.standard_normal((40, 4))
NUMBERS = RNG.integers(0, CLASSES, 40)
LENGTHS = (4, 1, 6, 3)


def network(kind: str, *, recurrent: bool = False) -> Network:
    net = Network()
    x = net.input("x", 4, tag="feature")
    t = getattr(net, kind)("t", CLASSES, tag="label")
    before = net.past_value(CLASSES) if recurrent else None
    z = net.parameter("W", CLASSES, 4) @ x + net.parameter("b", CLASSES)
    z = before.bind(net.tanh(z + before)) if before is not None else z
    net.rename(z, "z")
    net.cross_entropy_with_softmax(t, z, name="CE", tag="criterion")
    net.error_prediction(t, z, name="wrong", tag="evaluation")
    return net


def one_hot(numbers: Array) -> Array:
    return np.eye(CLASSES, dtype=np.float32)[numbers.astype(int)]


def values_of(net: Network) -> list[bytes]:
    return [net.parameters[name].tobytes() for name in ("W", "b")]


def sequences(rows: Array) -> list[Array]:
    return np.split(rows[: sum(LENGTHS)], np.cumsum(LENGTHS)[:-1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_criterion_is_what_numpy_says(kind: str) -> None:
    net = network(kind)
    found = gc.compile(net, ["CE", "wrong"], precision="f64")(x=FEATURES, t=NUMBERS)
    scores = FEATURES @ net.parameters["W"].T + net.parameters["b"].T
    right = scores[np.arange(40), NUMBERS]
    loss = np.sum(np.log(np.sum(np.exp(scores), axis=1)) - right)
    assert found["CE"] == pytest.approx(loss, rel=1e-12)
    assert found["wrong"] == np.sum(np.argmax(scores, axis=1) != NUMBERS)


@pytest.mark.parametrize("kind", KINDS)
def test_calls_of_any_number_of_samples_see_their_own_classes(kind: str) -> None:
    """Calls alike in a row go a shorter way, which has rows of its own."""
    run = gc.compile(network(kind), ["CE", "wrong"], batch=16)
    rows = gc.compile(network(kind), ["CE", "wrong"], batch=16)
    x = FEATURES.astype(np.float32)
    for first, last in ((0, 8), (8, 16), (16, 24), (3, 4), (4, 5), (5, 6), (7, 7), (0, 40), (1, 9)):
        part = slice(first, last)
        for t in (NUMBERS[part], (NUMBERS[part] + 1) % CLASSES, NUMBERS[part]):
            expected = rows(x=x[part], t=one_hot(t))
            for dtype in DTYPES:
                for _ in range(3):  # a call, one alike, and one with all that followed from these
                    got = run(x=x[part], t=t.astype(dtype))
                    assert (got["CE"], got["wrong"]) == (expected["CE"], expected["wrong"])
    assert run._calls.fast is not None
    assert run(x=x[:8], t=one_hot(NUMBERS[:8]))["CE"] == run(x=x[:8], t=NUMBERS[:8])["CE"]
    assert run(x=x[:3], t=NUMBERS[:3].tolist())["CE"] == run(x=x[:3], t=NUMBERS[:3])["CE"]


@pytest.mark.parametrize("kind", KINDS)
def test_training_and_measuring_are_the_same_bit_for_bit(kind: str) -> None:
    made: list[tuple[list[bytes], float]] = []
    for labels in (NUMBERS, one_hot(NUMBERS)):
        net = network(kind)
        data = {"x": FEATURES, "t": labels}
        gc.train(net, data, epochs=2, minibatch=8, learning_rate=0.5)
        made.append((values_of(net), gc.evaluate(net, data)["CE"]))
        step = gc.compile_training(net, learner=gc.SGD(0.1), batch=10)
        for start in (0, 10, 20, 30):
            part = slice(start, start + 10)
            step(x=FEATURES[part].astype(np.float32), t=labels[part])
        step.run_epoch({"x": FEATURES, "t": labels}, minibatch=10)
        made[-1][0].extend(values_of(net))
    assert made[0] == made[1]


@pytest.mark.parametrize("kind", KINDS)
def test_sequences_are_lists_of_class_numbers(kind: str) -> None:
    x, t = sequences(FEATURES.astype(np.float32)), sequences(NUMBERS)
    rows = sequences(one_hot(NUMBERS))
    run = gc.compile(network(kind, recurrent=True), ["CE", "wrong"], time=8, sequences=4)
    for moved in (0, 0, 1, 2):  # twice alike: the third call goes the shorter way
        numbers = [(each + moved) % CLASSES for each in t]
        expected = run(x=x, t=[one_hot(each) for each in numbers])
        for _ in range(3):
            assert run(x=x, t=numbers)["CE"] == expected["CE"]
    assert run(x=x[2], t=t[2])["CE"] == run(x=x[2], t=rows[2])["CE"]  # one, as an array
    made: list[list[bytes]] = []
    for labels in (t, rows):
        net = network(kind, recurrent=True)
        gc.train(net, {"x": x, "t": labels}, epochs=2, minibatch=2, learning_rate=0.1)
        assert gc.evaluate(net, {"x": x, "t": labels})["wrong"] <= 1
        made.append(values_of(net))
    assert made[0] == made[1]


@pytest.mark.parametrize("labels", [NUMBERS, sequences(NUMBERS)], ids=["samples", "sequences"])
def test_a_prior_is_the_mean_of_class_numbers(labels: Any) -> None:
    net = network("input")
    t = net.find("t")
    assert t is not None
    net.mean(t, name="prior")
    net.precompute(t=labels)
    numbers = np.concatenate(labels) if isinstance(labels, list) else labels
    expected = np.bincount(numbers, minlength=CLASSES) / len(numbers)
    np.testing.assert_allclose(net.parameters["prior"][:, 0], expected, rtol=1e-7)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (np.array([0, 5, 1]), "input t requires class numbers from 0 to 4, got 5 for sample 1"),
        (np.array([0, 1, -1]), "input t requires class numbers from 0 to 4, got -1 for sample 2"),
        (np.array([0.0, 1.0, 2.0]), "float32 or class numbers in one dimension, got shape (3,)"),
        (np.array([True, False, True]), "or class numbers in one dimension, got shape (3,)"),
        (np.array([[0], [1], [2]]), "or class numbers in one dimension, got shape (3, 1)"),
        (np.array([0, 1]), "requires class numbers of shape (N), got shape (2,); N is 3 in another"),
    ],
)
def test_what_are_no_class_numbers_is_refused(labels: Array, said: str) -> None:
    run = gc.compile(network("input"), ["CE"], backend="numpy")
    x = FEATURES[:3].astype(np.float32)
    for before in ((), (NUMBERS[:3],), (NUMBERS[:3],) * 3):  # the shorter ways refuse it too
        for numbers in before:
            run(x=x, t=numbers)
        with pytest.raises(GraphcError) as caught:
            run(x=x, t=labels)
        assert said in str(caught.value)


def test_only_labels_of_several_rows_and_sparse_inputs_are_class_numbers() -> None:
    net = Network()
    x, y = net.input("x", 3), net.input("y", 1, tag="label")
    net.sum_elements(net.plus(x, y), name="s", tag="output")
    run = gc.compile(net, backend="numpy")
    rows, numbers = np.ones((3, 3)), np.arange(3)
    for given in ({"x": numbers, "y": rows[:, :1]}, {"x": rows, "y": numbers}):
        with pytest.raises(GraphcError, match="requires shape"):
            run(**given)
