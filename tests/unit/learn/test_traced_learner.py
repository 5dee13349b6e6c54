"""Learners of one's own: a function of arrays, compiled into the step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.driver.cache import Cache
from graphc.learn.learner import Learner
from tests.support.networks import classes, classifier

Array = np.ndarray
BACKENDS = ["reference", "numpy", "llvm"]
State = dict[str, Any]


def momentum(g: Any, w: Any, state: State, settings: State) -> tuple[Any, State]:
    mu, rate = settings["momentum"], settings["learning_rate"]
    velocity = (1 - mu) * rate * g + mu * state["velocity"]
    return w - velocity, {"velocity": velocity}


def adagrad(g: Any, w: Any, state: State, settings: State) -> tuple[Any, State]:
    squares = state["squares"] + g * g
    root = gc.sqrt(squares + 1e-16)
    rate = settings["learning_rate"] / gc.mean(1 / root)
    return w - rate * (g / root), {"squares": squares}


def adam(g: Any, w: Any, state: State, settings: State) -> tuple[Any, State]:
    average, t = g / settings["samples"], settings["update"]
    m = 0.9 * state["m"] + 0.1 * average
    v = 0.999 * state["v"] + 0.001 * average * average
    step = (m / (1 - 0.9**t)) / (gc.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return w - settings["rate"] * step, {"v": v, "m": m}


OWN_MOMENTUM = gc.learner(
    momentum, states=["velocity"], settings={"momentum": 0.5}, learning_rate=0.4
)
OWN_ADAGRAD = gc.learner(adagrad, states=["squares"], learning_rate=0.4, l2=0.1)
OWN_ADAM = gc.learner(adam, states=["m", "v"], settings={"rate": 0.01}, learning_rate=1.0)


def trained(learner: Learner, samples: int, **options: object) -> dict[str, Array]:
    net = classifier()
    gc.train(net, classes(samples), epochs=3, minibatch=8, learner=learner, **options)  # type: ignore[arg-type]
    return dict(net.parameters)


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("own", "built_in", "samples"),
    [
        # its momentum is that of any minibatch, so all have the same size
        (OWN_MOMENTUM, gc.SGD(0.4, 0.5), 40),
        (OWN_ADAGRAD, gc.AdaGrad(0.4, l2=0.1), 43),
    ],
    ids=["momentum", "adagrad"],
)
def test_the_rule_of_a_built_in_learner_gives_its_numbers_bit_for_bit(
    own: Learner, built_in: Learner, samples: int, backend: str, precision: str
) -> None:
    one = trained(own, samples, backend=backend, precision=precision)
    other = trained(built_in, samples, backend=backend, precision=precision)
    for name, value in one.items():
        assert value.tobytes() == other[name].tobytes()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_rule_sees_the_samples_and_the_number_of_the_update(backend: str) -> None:
    one = trained(OWN_ADAM, 43, backend=backend, precision="f64")
    other = trained(gc.Adam(0.01), 43, backend=backend, precision="f64")
    for name, value in one.items():
        np.testing.assert_allclose(value, other[name], rtol=1e-9, atol=1e-12)


def test_a_native_epoch_is_the_single_calls_bit_for_bit() -> None:
    nets = [classifier(), classifier()]
    whole, single = (gc.compile_training(n, learner=OWN_ADAM, batch=8) for n in nets)
    data = {n: a.astype(np.float32) for n, a in classes(21).items()}
    whole.run_epoch(data)
    for start in range(0, 21, 8):
        single(**{n: a[start : start + 8] for n, a in data.items()})
    for name, value in nets[0].parameters.items():
        assert value.tobytes() == nets[1].parameters[name].tobytes()


def test_settings_may_be_lists_over_epochs_and_curves() -> None:
    learner = gc.learner(
        momentum,
        states=["velocity"],
        settings={"momentum": "0.5:0.25", "other": gc.Cosine(1.0, 10)},
        learning_rate="0.4*3:0.2",
    )
    assert learner.changes() == [0, 1, 3]
    numbers = learner.at(1).hyperparameters(8, 8, 5)
    assert numbers["setting.momentum"] == 0.25
    assert numbers["setting.other"] == pytest.approx(0.5)
    assert learner.at(3).hyperparameters(4, 8) == {
        "learning_rate": 0.025,
        "setting.samples": 4,
        "setting.update": 1,
        "setting.momentum": 0.25,
        "setting.other": 1.0,
    }


@pytest.mark.parametrize("name", ["step", "dropout_rate", "l2_weight", "features", "W0", "ce"])
def test_settings_may_be_called_as_anything_else_is(name: str) -> None:
    def move(g: Any, w: Any, state: State, settings: State) -> tuple[Any, State]:
        return w + settings[name], {}

    net = classifier()
    learner = gc.learner(move, settings={name: 0.5}, learning_rate=0.1)
    step = gc.compile_training(net, learner=learner, backend="numpy", precision="f64")
    before = net.parameters["W0"].copy()
    step(**classes(4))
    np.testing.assert_array_equal(net.parameters["W0"], before + 0.5)


def test_a_step_takes_the_same_function_with_other_numbers() -> None:
    step = gc.compile_training(classifier(), learner=OWN_MOMENTUM, backend="numpy")
    step.learner = OWN_MOMENTUM.with_rate_per_sample(0.1)
    with pytest.raises(gc.GraphcError, match="was compiled for momentum, got adagrad"):
        step.learner = OWN_ADAGRAD


def test_minimize_takes_it_too() -> None:
    found = gc.minimize(
        lambda x: gc.sum((x - 2.0) ** 2), np.zeros((2, 1, 2)), learner=OWN_MOMENTUM, steps=200
    )
    np.testing.assert_allclose(found.x, 2.0, atol=1e-6)


TABLE = """
    words = SparseInput(9)
    t = Input(2)
    D = Parameter(2, 9)
    e = SquareError(t, Times(D, words), tag=criteria)
"""
WORDS = {"words": ([1, 4, 4], [0, 1, 2, 3]), "t": np.ones((3, 2))}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("lazy", [True, False])
def test_a_lazy_rule_gets_what_is_looked_up(lazy: bool, backend: str) -> None:
    def count(g: Any, w: Any, state: State, settings: State) -> tuple[Any, State]:
        return w - settings["learning_rate"] * g, {"calls": state["calls"] + 1.0}

    learner = gc.learner(count, states=["calls"], learning_rate=0.1, lazy=lazy)
    net, other = gc.loads(TABLE), gc.loads(TABLE)
    step = gc.compile_training(net, learner=learner, batch=3, backend=backend)
    sgd = gc.compile_training(other, learner=gc.SGD(0.1), batch=3, backend=backend)
    for _ in range(2):
        step(**WORDS)
        sgd(**WORDS)
    np.testing.assert_allclose(net.parameters["D"], other.parameters["D"], rtol=1e-6)
    wanted = np.zeros((2, 9)) if lazy else np.full((2, 9), 2.0)
    wanted[:, [1, 4]] = 2.0
    np.testing.assert_array_equal(step.learner_state["calls.D"], wanted)


def test_a_lazy_rule_has_to_be_element_by_element() -> None:
    learner = gc.learner(adagrad, states=["squares"], learning_rate=0.1, lazy=True)
    with pytest.raises(gc.GraphcError, match="a lazy rule has to be element by element"):
        gc.compile_training(gc.loads(TABLE), learner=learner)


def test_a_rule_that_leaves_the_parameter_alone_is_one() -> None:
    def keep(g: Any, w: Any, state: State, settings: State) -> tuple[Any, State]:
        return w, {"last": g, "before": state["last"], "zero": state["zero"]}

    learner = gc.learner(keep, states=["last", "before", "zero"], learning_rate=0.1)
    for backend in BACKENDS:
        net = classifier()
        before = {n: v.copy() for n, v in net.parameters.items()}
        step = gc.compile_training(net, learner=learner, batch=8, backend=backend)
        first = {n: v.copy() for n, v in _gradients(step).items()}
        assert _gradients(step) != {}
        for name, value in net.parameters.items():
            np.testing.assert_array_equal(value, before[name].astype(np.float32))
            np.testing.assert_array_equal(step.learner_state[f"before.{name}"], first[name])
            assert not step.learner_state[f"zero.{name}"].any()
            assert first[name].any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_values_may_be_returned_twice_and_states_exchanged(backend: str) -> None:
    def turn(g: Any, w: Any, state: State, settings: State) -> tuple[Any, State]:
        new = w - settings["learning_rate"] * g
        return new, {"a": state["b"], "b": state["a"], "one": new, "two": new, "old": w}

    net = classifier()
    states = ["a", "b", "one", "two", "old"]
    learner = gc.learner(turn, states=states, learning_rate=0.1)
    step = gc.compile_training(net, learner=learner, batch=8, backend=backend)
    kept = step.learner_state
    for name in net.parameters:
        kept[f"a.{name}"][...] = 1.0
    for call in range(3):
        before = {n: v.copy() for n, v in net.parameters.items()}
        step(**classes(8))
        for name, value in net.parameters.items():
            assert not np.array_equal(value, before[name])
            np.testing.assert_array_equal(kept[f"one.{name}"], value)
            np.testing.assert_array_equal(kept[f"two.{name}"], value)
            np.testing.assert_array_equal(kept[f"old.{name}"], before[name])
            assert (kept[f"a.{name}"] == call % 2).all()
            assert (kept[f"b.{name}"] == 1 - call % 2).all()


def _gradients(step: Any) -> dict[str, Array]:
    step(**classes(8))
    found = step.learner_state
    return {n.removeprefix("last."): v for n, v in found.items() if n.startswith("last.")}


def test_compiled_code_is_kept_by_what_the_function_does(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("cache", numbered=True)
    folder.chmod(0o700)
    monkeypatch.setenv("GRAPHC_CACHE", "on")
    monkeypatch.setenv("GRAPHC_CACHE_DIR", str(folder))
    cache = Cache(folder)

    def rule(factor: float) -> Callable[..., tuple[Any, State]]:
        return lambda g, w, state, settings: (w - factor * g, {})

    def keys(factor: float) -> set[str]:
        learner = gc.learner(rule(factor), learning_rate=0.1)
        gc.compile_training(gc.loads(TABLE), learner=learner, backend="llvm")
        return {entry.name for entry in cache.entries()}

    first = keys(0.5)
    assert len(first) == 1
    assert keys(0.5) == first  # another function that does the same
    assert len(keys(0.25)) == 2


# --- what does not fit ---


@dataclass(frozen=True)
class Bad:
    rule: Callable[..., Any]
    message: str


BAD = {
    "no pair": Bad(lambda g, w, state, s: w, r"requires \(parameter, state\) as its result"),
    "no dict": Bad(lambda g, w, state, s: (w, [g]), r"requires \(parameter, state\)"),
    "no state": Bad(lambda g, w, state, s: (w, {}), "requires the states v, got none"),
    "other state": Bad(lambda g, w, state, s: (w, {"u": g}), "requires the states v, got u"),
    "a number": Bad(lambda g, w, state, s: (w, {"v": 0.0}), "for `v`, got tensor<f32>"),
    "a sum": Bad(lambda g, w, state, s: (gc.sum(w), {"v": g}), "for `parameter`, got"),
    "a text": Bad(lambda g, w, state, s: (w, {"v": "g"}), "the new state `v` requires an array"),
    "a large array": Bad(
        lambda g, w, state, s: (w + gc.sum(np.arange(1000, dtype=w.dtype) * gc.sum(w)), {"v": g}),
        "at most 64 elements",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_function_that_does_not_fit_is_one_error_at_its_line(name: str) -> None:
    learner = gc.learner(BAD[name].rule, states=["v"], learning_rate=0.1)
    with pytest.raises(gc.GraphcError, match=BAD[name].message) as raised:
        gc.compile_training(classifier(), learner=learner)
    assert len(raised.value.diagnostics) == 1
    span = raised.value.diagnostics[0].span
    assert span is not None
    assert span.file == __file__


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"function": 3}, "function requires a function"),
        ({"states": [3]}, "each of states requires a text"),
        ({"states": ["a b"]}, "a name of letters"),
        ({"states": ["v", "v"]}, "names of their own"),
        ({"settings": {"samples": 3}}, "names of their own"),
        ({"settings": 3}, "settings requires"),
        ({"settings": {"a": "much"}}, "a number is required"),
        ({"settings": {"a": float("nan")}}, "a requires a finite number"),
        ({"learning_rate": None}, "requires one of learning_rate"),
        ({"lazy": "no"}, "lazy requires True or False"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, object], message: str) -> None:
    arguments: dict[str, Any] = {"function": momentum, "learning_rate": 0.1} | given
    with pytest.raises(gc.GraphcError, match=message):
        gc.learner(**arguments)
