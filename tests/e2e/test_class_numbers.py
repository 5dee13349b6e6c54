"""Labels as class numbers give, bit for bit, what their one-hot rows give, wherever labels go.

That one-hot rows are right is judged elsewhere; here numpy says what the criterion is, and in
`tests/torch/test_class_numbers.py` PyTorch what its gradient is.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.driver import compile as driver
from graphc.learn.dataset import Samples, read_dataset
from graphc.support.diagnostics import GraphcError
from graphc_frontends.network import Network
from tests.support.compiling import JUDGED

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
            columns = np.stack([t, t + CLASSES], axis=1)
            for numbers in (*(t.astype(dtype) for dtype in DTYPES), columns[:, 0]):
                for _ in range(3):  # a call, one alike, and one with all that followed from these
                    got = run(x=x[part], t=numbers)
                    assert (got["CE"], got["wrong"]) == (expected["CE"], expected["wrong"])
    assert run._calls.fast is not None
    assert len([*run._plans]) == (1 if kind == "sparse_input" else 2)  # each kind has its function
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
        (
            np.array([0.0, 1.0, 2.0]),
            "float32 or class numbers (integers) in one dimension, got shape (3,)",
        ),
        (
            np.array([True, False, True]),
            "or class numbers (integers) in one dimension, got shape (3,)",
        ),
        (
            np.array([[0], [1], [2]]),
            "or class numbers (integers) in one dimension, got shape (3, 1)",
        ),
        (
            np.array([0, 1]),
            "requires class numbers of shape (N), got shape (2,); N is 3 in another",
        ),
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


# --- one function for each kind of labels --------------------------------------------------------


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("backend", JUDGED)
def test_every_backend_takes_either_kind_at_any_call(backend: str, precision: str) -> None:
    """Beyond the bound, of no sample and of one, and in turns; then over an epoch."""
    options: dict[str, Any] = {"batch": 8, "backend": backend, "precision": precision}
    features = FEATURES.astype({"f32": np.float32, "f64": np.float64}[precision])
    made: list[tuple[list[Any], list[bytes]]] = []
    for in_turns in (True, False):
        net = network("input")
        step = gc.compile_training(net, learner=gc.SGD(0.1, momentum=0.5), **options)
        run = gc.compile(net, ["CE", "wrong"], **options)
        seen: list[Any] = []
        for call, part in enumerate([slice(4 * i, 4 * i + 4) for i in range(6)] + [slice(0, 40)]):
            labels = NUMBERS if in_turns and call not in (3, 4) else one_hot(NUMBERS)
            found = step(x=features[part], t=labels[part])
            seen += [found["CE"], found["wrong"]]
        for count in (0, 1, 8, 9):
            labels = NUMBERS if in_turns else one_hot(NUMBERS)
            seen += run(x=features[:count], t=labels[:count]).values()
        epoch = step.run_epoch({"x": features, "t": labels}, minibatch=9)
        made.append(([*seen, *epoch["CE"], *epoch["wrong"]], values_of(net)))
    assert made[0] == made[1]


WRONG = [("i8", -1), ("i8", 5), ("u8", 5), ("i8", 2**32 + 1), ("u8", 2**63 + 1), ("i1", -128)]


@pytest.mark.parametrize("backend", JUDGED)
def test_a_number_of_no_class_is_refused_before_anything_is_updated(backend: str) -> None:
    """At a first call, at one like the one before, and at one with all that followed from these."""
    net = network("input")
    step = gc.compile_training(net, learner=gc.SGD(0.1), batch=8, backend=backend)
    x, good = FEATURES[:8].astype(np.float32), NUMBERS[:8]
    for dtype, number in WRONG:
        wrong = good.astype(dtype)
        wrong[6] = number
        said = f"input t requires class numbers from 0 to 4, got {number} for sample 6"
        for _ in range(4):
            before = values_of(net)
            with pytest.raises(GraphcError, match=said):
                step(x=x, t=wrong)
            with pytest.raises(GraphcError, match=said):
                step.run_epoch({"x": x, "t": wrong}, minibatch=2)
            assert values_of(net) == before
            step(x=x, t=good.astype(dtype))
            assert values_of(net) != before


@pytest.mark.parametrize("backend", ["numpy", "llvm", "c"])
def test_a_wrong_step_of_a_sequence_is_refused_with_its_place(backend: str) -> None:
    net = network("input", recurrent=True)
    step = gc.compile_training(net, learner=gc.SGD(0.1), time=8, sequences=4, backend=backend)
    x, good = sequences(FEATURES.astype(np.float32)), sequences(NUMBERS)
    wrong = [numbers.copy() for numbers in good]
    wrong[2][4] = 5
    said = "input t requires class numbers from 0 to 4, got 5 for step 4 of sequence 2"
    for _ in range(4):
        before = values_of(net)
        with pytest.raises(GraphcError, match=said):
            step(x=x, t=wrong)
        assert values_of(net) == before
        step(x=x, t=good)


def test_data_that_change_while_they_are_gone_through_are_refused() -> None:
    net = network("input")
    step = gc.compile_training(net, learner=gc.SGD(0.1), batch=8)
    dataset = read_dataset(step.signature, {"x": FEATURES, "t": NUMBERS.copy()})
    assert isinstance(dataset, Samples)
    labels = dataset.arrays["t"]
    assert isinstance(labels, np.ndarray)
    labels[17] = -3
    with pytest.raises(GraphcError, match="got -3 for sample 17"):
        list(step.parts(dataset, np.arange(40), 8))
    assert step.steps <= 2


@pytest.mark.parametrize("recurrent", [False, True])
def test_what_is_gone_on_from_may_have_other_labels(recurrent: bool) -> None:
    """The state of sequences is the same for both kinds, and so is what is kept frozen."""
    made: list[list[Any]] = []
    for kinds in ((True, False, True, True, False), (False,) * 5):
        net = network("input", recurrent=recurrent)
        found: list[Any] = []
        run = gc.compile(net, ["CE", "z"], freeze=not recurrent, **_sizes(recurrent))
        for call, is_numbered in enumerate(kinds):
            part = slice(5 * call, 5 * call + 5)
            t = NUMBERS[part] if is_numbered else one_hot(NUMBERS[part])
            x = FEATURES[part].astype(np.float32)
            given: dict[str, Any] = {"x": [x], "t": [t], "carry": True}
            results = run(**given) if recurrent else run(x=x, t=t)
            found += [results["CE"], np.array(results["z"]).tobytes()]
        made.append(found)
    assert made[0] == made[1]


def _sizes(recurrent: bool) -> dict[str, Any]:
    return {"time": 2, "sequences": 1} if recurrent else {"batch": 2}


def test_one_sequence_in_an_array_and_several_by_flags() -> None:
    run = gc.compile(network("input", recurrent=True), ["CE"], time=8, sequences=2)
    x, t, flags = FEATURES[:8].astype(np.float32), NUMBERS[:8], [[1, 1], [0, 2], [0, 4], [2, 4]]
    given: dict[str, Any] = {"lengths": [4, 3]}
    for options in (given, {"flags": flags}, given):
        for _ in range(3):
            expected = run(x=x, t=one_hot(t), **options)["CE"]
            assert run(x=x, t=t, **options)["CE"] == expected


@pytest.mark.parametrize("name", ["t", "T"])
def test_what_takes_class_numbers_may_be_asked_for(name: str) -> None:
    """It is then compiled at once, and the other kind when it comes."""
    net = network("input")
    x = FEATURES[:8].astype(np.float32)
    run = gc.compile(net, ["CE"], class_numbers=name)
    step = gc.compile_training(net, learner=gc.SGD(0.1), class_numbers=name)
    assert run(x=x, t=NUMBERS[:8])["CE"] == step(x=x, t=NUMBERS[:8])["CE"]
    for made in (run._plans, step._executable._plans):
        assert len([*made]) == 1
    assert run(x=x, t=one_hot(NUMBERS[:8]))["CE"] == step(x=x, t=one_hot(NUMBERS[:8]))["CE"]


def test_data_of_class_numbers_are_trained_on_by_one_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[str, ...]] = []
    compile_kept = driver.compile_kept

    def noted(*given: Any) -> Any:
        made.append(given[-1].numbered)
        return compile_kept(*given)

    monkeypatch.setattr(driver, "compile_kept", noted)
    data = {"X": FEATURES, "T": NUMBERS}
    gc.train(network("input"), data, epochs=1, learning_rate=0.1, validation=data)
    assert made == [("t",), ("t",)]


@pytest.mark.parametrize("name", ["x", "z", "y"])
def test_only_labels_can_be_asked_for(name: str) -> None:
    net = network("input")
    net.input("y", 1, tag="label")
    said = f"class_numbers requires inputs of several rows with the tag `label`, got `{name}`"
    with pytest.raises(GraphcError, match=said):
        gc.compile(net, ["CE"], class_numbers=name)
    with pytest.raises(GraphcError, match=said):
        gc.compile_training(net, learner=gc.SGD(0.1), class_numbers=[name])


def test_a_class_that_is_never_may_have_the_lowest_score() -> None:
    """Scores of minus infinity elsewhere than at the label change neither value nor gradient."""
    net = Network()
    x, t = net.input("x", 3), net.input("t", 3, tag="label")
    net.cross_entropy_with_softmax(
        t, net.plus(x, net.parameter("b", 3)), name="CE", tag="criterion"
    )
    x = np.array([[-np.inf, 1.0, 2.0], [0.5, -np.inf, -np.inf]], np.float32)
    run = gc.compile(net, ["CE"], gradients=["b", "x"])
    for labels in ([2, 0], [1, 0], [0, 0]):
        numbers = np.array(labels)
        got = run(x=x, t=numbers)
        expected = run(x=x, t=np.eye(3, dtype=np.float32)[numbers])
        assert got["CE"] == expected["CE"]
        for name in ("b", "x"):
            np.testing.assert_array_equal(got.gradients[name], expected.gradients[name])


def test_members_may_give_labels_of_either_kind() -> None:
    """They add what they compute of them, which is the same."""
    made: list[list[bytes]] = []
    for kinds in ((True, True), (True, False), (False, False)):

        def work(
            place: int, member: gc.comm.Communicator, kinds: tuple[bool, ...] = kinds
        ) -> list[bytes]:
            net = network("input")
            step = gc.compile_training(net, learner=gc.SGD(0.1), batch=8, comm=member, threads=1)
            for call in range(3):
                part = slice(8 * call + 4 * place, 8 * call + 4 * place + 4)
                t = NUMBERS[part] if kinds[place] else one_hot(NUMBERS[part])
                step(x=FEATURES[part].astype(np.float32), t=t)
            return values_of(net)

        members = gc.comm.threads(2, 30.0)
        with ThreadPoolExecutor(2) as pool:
            made += [f.result() for f in [pool.submit(work, i, m) for i, m in enumerate(members)]]
    assert all(each == made[0] for each in made)
