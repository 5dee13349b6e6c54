"""Networks whose nodes compute something else in training: the step, the loop, all backends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.builder import GraphBuilder
from graphc.learn.step import TrainingStep
from graphc.support.diagnostics import GraphcError
from tests.support.networks import classes, classifier

Array = np.ndarray
BACKENDS = ("reference", "numpy", "llvm")

NETWORK = """
    features = Input(6)
    labels   = Input(3)
    W = Parameter(8, 6, initValueScale=20)
    a = Times(W, features)
    scale = Parameter(0, init=fixedValue, value=1)
    bias  = Parameter(0, init=fixedValue, value=0)
    mean    = Parameter(0, init=fixedValue, value=0, needGradient=false)
    inverse = Parameter(0, init=fixedValue, value=1)
    n = BatchNormalization(a, scale, bias, mean, inverse, normalizationTimeConstant=40)
    h = RectifiedLinear(n)
    d = Dropout(h)
    U = Parameter(3, 8, initValueScale=20)
    z = Times(U, d)
    ce  = CrossEntropyWithSoftmax(labels, z, tag=criteria)
    err = ErrorPrediction(labels, z, tag=eval)
    OutputNodes = (z)
"""


def network() -> gc.Network:
    made = gc.loads(NETWORK)
    assert isinstance(made, gc.Network)
    return made


def steps_of(step: TrainingStep, count: int, first: int = 0) -> list[float]:
    """The criterion of calls on minibatches of changing size."""
    return [float(step(**classes(12 + k % 5, seed=k))["ce"]) for k in range(first, first + count)]


LEARNER = gc.SGD(learning_rate=0.5, momentum=0.5, l2=0.001)


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_every_backend_trains_alike(backend: str) -> None:
    found: list[tuple[list[float], dict[str, Array]]] = []
    for each in ("reference", backend):
        net = network()
        step = gc.compile_training(
            net, learner=LEARNER, batch=16, backend=each, precision="f64", dropout=0.4
        )
        found.append((steps_of(step, 12), dict(net.parameters)))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-9)
    for name, value in found[0][1].items():
        np.testing.assert_allclose(value, found[1][1][name], rtol=1e-8, atol=1e-9)


IMAGES = """
    features = ImageInput(6, 5, 2)
    labels = Input(3)
    W = Parameter(4, 0, initValueScale=10)
    c = Convolution(W, features, 3, 3, 4, 1, 1)
    scale = Parameter(0, init=fixedValue, value=1)
    bias  = Parameter(0, init=fixedValue, value=0)
    mean    = Parameter(0, init=fixedValue, value=0)
    inverse = Parameter(0, init=fixedValue, value=1)
    n = BatchNormalization(c, scale, bias, mean, inverse, spatial=true, expAvgFactor=0.1)
    h = RectifiedLinear(n)
    d = Dropout(h)
    U = Parameter(3, 0)
    z = Times(U, d)
    ce = CrossEntropyWithSoftmax(labels, z, tag=criteria)
"""


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_every_backend_trains_images_by_channel_alike(backend: str) -> None:
    found: list[tuple[list[float], dict[str, Array]]] = []
    for each in ("reference", backend):
        net = gc.loads(IMAGES)
        assert isinstance(net, gc.Network)
        step = gc.compile_training(
            net, learner=LEARNER, batch=8, backend=each, precision="f64", dropout=0.3
        )
        losses = [float(step(**classes(8 - k, 60, seed=k))["ce"]) for k in range(5)]
        assert net.parameters["mean"].shape == (4, 1)
        found.append((losses, dict(net.parameters)))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-9)
    for name, value in found[0][1].items():
        np.testing.assert_allclose(value, found[1][1][name], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
def test_both_precisions_drop_the_same_elements(backend: str) -> None:
    """Another mask would change the first criterion by far more."""
    found: list[list[float]] = []
    for precision in ("f32", "f64"):
        step = gc.compile_training(
            network(), learner=LEARNER, backend=backend, precision=precision, dropout=0.3
        )
        found.append(steps_of(step, 3))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_training_moves_is_no_result_and_no_gradient_moves_it(backend: str) -> None:
    """Neither does L2, though `inverse` does not say needGradient=false."""
    net = network()
    learner = gc.SGD(learning_rate=0.0, l2=10.0)
    step = gc.compile_training(net, learner=learner, backend=backend, precision="f64")
    data = classes(16)
    result = step(**data)
    assert set(result) == {"ce", "err"}
    assert "velocity.inverse" not in step.learner_state
    a = data["features"] @ net.parameters["W"].T
    share = 1 - np.exp(-16 / 40)
    mean = share * a.mean(axis=0)
    inverse = 1 + share * (1 / np.sqrt(a.var(axis=0) + 1e-5) - 1)
    np.testing.assert_allclose(net.parameters["mean"][:, 0], mean, rtol=1e-10)
    np.testing.assert_allclose(net.parameters["inverse"][:, 0], inverse, rtol=1e-10)


@pytest.mark.parametrize("backend", BACKENDS)
def test_outside_training_dropout_is_off_and_running_values_count(backend: str) -> None:
    net, data = network(), classes(9)
    p = net.parameters
    p["mean"][:], p["inverse"][:] = 0.25, 3.0
    n = (data["features"] @ p["W"].T - 0.25) * 3.0
    z = gc.compile(net, "z", backend=backend)(features=data["features"])["z"]
    np.testing.assert_allclose(z, np.maximum(n, 0) @ p["U"].T, rtol=2e-5, atol=1e-5)


def test_the_gradient_of_a_dropout_node_can_be_asked_for() -> None:
    exe = gc.compile(network(), "ce", gradients=["d", "h"], backend="numpy")
    found = exe(**classes(4)).gradients
    np.testing.assert_allclose(found["h"], found["d"])
    assert np.any(found["d"])


# --- steps and rates -----------------------------------------------------------------------------


def dropping(**options: object) -> tuple[gc.Network, TrainingStep]:
    net = network()
    learner = gc.SGD(learning_rate=0.5)
    step = gc.compile_training(net, learner=learner, backend="numpy", dropout=0.5, **options)  # type: ignore[arg-type]
    return net, step


def test_calls_are_counted_and_a_refused_one_is_not() -> None:
    _, step = dropping()
    assert step.steps == 0
    steps_of(step, 3)
    with pytest.raises(GraphcError):
        step(features=np.zeros((2, 6)))
    assert step.steps == 3


def test_a_step_that_goes_on_where_another_stopped_does_the_same() -> None:
    """Without momentum the parameters and the count are all there is to go on from."""
    wanted = steps_of(dropping()[1], 8)
    old, first = dropping()
    before = steps_of(first, 5)
    new, second = dropping()
    for name, value in old.parameters.items():
        new.parameters[name][...] = value
    second.steps = first.steps
    assert before + steps_of(second, 3, first=5) == wanted


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["sgd", "stepping-heuristic"])
def test_a_saved_network_goes_on_exactly_where_its_training_stopped(
    kind: str, backend: str, tmp_path: Path
) -> None:
    """All that has to be kept besides the model file: state, count, what a learner remembers."""

    def started(net: GraphBuilder) -> tuple[TrainingStep, gc.SteppingHeuristic | gc.SGD]:
        if kind == "sgd":
            learner = gc.SGD(learning_rate=0.5, momentum=0.9, l2=0.001)
        else:
            learner = gc.SteppingHeuristic(0.3, history=3, l2=0.001)
        options = {"learner": learner, "backend": backend, "batch": 16, "dropout": 0.4}
        return gc.compile_training(net, **options), learner  # type: ignore[arg-type]

    wanted = steps_of(started(network())[0], 12)
    old = network()
    first, remembered = started(old)
    before = steps_of(first, 5)
    old.save(tmp_path / "net.safetensors")
    second, learner = started(gc.load(tmp_path / "net.safetensors"))
    for name, value in first.learner_state.items():
        second.learner_state[name][...] = value
    second.steps = first.steps
    if isinstance(learner, gc.SteppingHeuristic) and isinstance(remembered, gc.SteppingHeuristic):
        learner.stepping = remembered.stepping
    assert before + steps_of(second, 7, first=5) == wanted


def test_a_count_that_is_not_set_again_gives_other_masks() -> None:
    _, step = dropping()
    first = steps_of(step, 1)
    _, step = dropping()
    step.steps = 1
    assert steps_of(step, 1) != first


def test_the_seed_decides_the_masks() -> None:
    found = [steps_of(dropping(seed=seed)[1], 2) for seed in (1, 1, 2)]
    assert found[0] == found[1]
    assert found[0][0] != found[2][0]


def test_a_larger_call_compiles_again_with_the_same_masks() -> None:
    data = classes(40)
    small, large = dropping(batch=4)[1], dropping(batch=64)[1]
    large.nominal = small.nominal
    assert float(small(**data)["ce"]) == pytest.approx(float(large(**data)["ce"]), rel=1e-5)


def test_a_rate_can_be_changed_between_calls() -> None:
    _, step = dropping()
    step.dropout_rate = 0.0
    without = gc.compile_training(network(), learner=gc.SGD(learning_rate=0.5), backend="numpy")
    assert steps_of(step, 2) == steps_of(without, 2)


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, float("nan"), "0.5"])
def test_a_rate_is_from_zero_to_below_one(rate: float) -> None:
    _, step = dropping()
    with pytest.raises(GraphcError, match="dropout requires a rate from 0 to below 1"):
        step.dropout_rate = rate
    with pytest.raises(GraphcError, match="dropout"):
        gc.compile_training(network(), learner=LEARNER, backend="numpy", dropout=rate)


@pytest.mark.parametrize("steps", [-1, 2**32, 1.5])
def test_a_count_is_a_whole_number_from_zero_to_its_limit(steps: int) -> None:
    _, step = dropping()
    with pytest.raises(GraphcError, match="steps requires a whole number from 0"):
        step.steps = steps


def test_the_last_count_is_exact() -> None:
    _, step = dropping()
    step.steps = 2**32 - 2
    first = steps_of(step, 1)
    step_again = dropping()[1]
    step_again.steps = 2**32 - 1
    assert steps_of(step_again, 1) != first


def test_a_seed_out_of_range_is_refused() -> None:
    with pytest.raises(GraphcError, match="a seed requires a whole number from 0"):
        dropping(seed=-1)


def test_a_network_without_dropout_takes_no_such_settings() -> None:
    step = gc.compile_training(classifier(), learner=LEARNER, backend="numpy", dropout=0.5)
    hyperparameters = {a.name for a in step.signature.with_role("hyperparameter")}
    assert hyperparameters == {"learning_rate", "momentum", "l2_weight"}


def test_a_node_called_like_a_setting_is_an_error() -> None:
    text = NETWORK.replace("features", "step")
    with pytest.raises(GraphcError, match="`step` names both a node"):
        gc.compile_training(gc.loads(text), learner=LEARNER, backend="numpy")


# --- the loop ------------------------------------------------------------------------------------


def trained(**options: object) -> tuple[list[gc.EpochRecord], dict[str, Array]]:
    net = network()
    records = gc.train(
        net,
        classes(60),
        **{"epochs": 3, "minibatch": 16, "learning_rate": 0.5, "backend": "numpy", **options},  # type: ignore[arg-type]
    )
    return records, dict(net.parameters)


def test_rates_of_dropout_follow_their_schedule() -> None:
    """No dropout in the first epoch, so that is the one of a training without."""
    plain, _ = trained()
    scheduled, _ = trained(dropout="0:0.5*1:0")
    assert scheduled[0].criterion == plain[0].criterion
    assert scheduled[1].criterion > 1.1 * plain[1].criterion


def test_training_again_with_the_seed_is_the_same_training() -> None:
    found = [trained(dropout=0.5, seed=seed)[1]["W"].tobytes() for seed in (3, 3, 4)]
    assert found[0] == found[1]
    assert found[0] != found[2]


@pytest.mark.parametrize("rate", [1.0, "0.5:1", [-0.5]])
def test_a_schedule_of_dropout_stays_below_one(rate: object) -> None:
    with pytest.raises(GraphcError, match="dropout"):
        trained(dropout=rate)
