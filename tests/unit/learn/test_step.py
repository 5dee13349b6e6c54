"""The compiled training step against plain numpy: updates, what is trained, what is left alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import graphc as gc
from graphc.ops.learner_terms import Terms
from graphc.ops.learners import SGD
from tests.support.networks import PlainClassifier, classes, classifier

Array = np.ndarray
NOMINAL = 16


def short_minibatches(steps: int) -> Iterator[dict[str, Array]]:
    """Minibatches of the nominal size; every fifth is shorter, down to one sample."""
    for step in range(steps):
        samples = NOMINAL if step % 5 else 1 + step % 7
        yield classes(samples, seed=step)


SETTINGS: dict[str, tuple[gc.SGD, float, float, float]] = {
    # learner, rate per sample, momentum per sample, l2
    "rate per minibatch": (gc.SGD(learning_rate=0.8), 0.05, 0.0, 0.0),
    "rate per sample": (gc.SGD(learning_rate_per_sample=0.05), 0.05, 0.0, 0.0),
    "momentum per minibatch": (
        gc.SGD(learning_rate=0.8, momentum=0.9),
        0.05,
        0.9 ** (1 / NOMINAL),
        0.0,
    ),
    "momentum per sample": (
        gc.SGD(learning_rate_per_sample=0.05, momentum_per_sample=0.99),
        0.05,
        0.99,
        0.0,
    ),
    "l2": (
        gc.SGD(learning_rate=0.8, momentum=0.5, l2=0.01),
        0.05,
        0.5 ** (1 / NOMINAL),
        0.01,
    ),
}


@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm"])
@pytest.mark.parametrize("name", SETTINGS)
def test_fifty_steps_are_those_of_plain_numpy(name: str, backend: str) -> None:
    learner, rate, momentum, l2 = SETTINGS[name]
    net = classifier()
    step = gc.compile_training(
        net, learner=learner, batch=NOMINAL, backend=backend, precision="f64"
    )
    plain = PlainClassifier(dict(net.parameters))
    for data in short_minibatches(50):
        samples = len(data["features"])
        mu = momentum**samples if momentum else 0.0
        wanted = plain.step(**data, rate=rate, momentum=mu, l2=l2)
        assert step(**data)["ce"] == pytest.approx(wanted, rel=1e-12)
    for parameter, value in net.parameters.items():
        np.testing.assert_allclose(value, plain.parameters[parameter], rtol=1e-12, atol=1e-12)
        velocity = step.learner_state[f"velocity.{parameter}"]
        np.testing.assert_allclose(velocity, plain.velocity[parameter], rtol=1e-12, atol=1e-12)


def test_in_f32_the_steps_stay_near() -> None:
    learner, rate, momentum, l2 = SETTINGS["l2"]
    net = classifier()
    step = gc.compile_training(net, learner=learner, batch=NOMINAL)
    plain = PlainClassifier(dict(net.parameters))
    for data in short_minibatches(50):
        step(**data)
        plain.step(**data, rate=rate, momentum=momentum ** len(data["features"]), l2=l2)
    for name, value in net.parameters.items():
        assert value.dtype == np.float32
        np.testing.assert_allclose(value, plain.parameters[name], rtol=1e-4, atol=1e-5)


def test_the_learner_can_be_replaced_between_calls() -> None:
    net = classifier()
    step = gc.compile_training(
        net, learner=gc.SGD(learning_rate=1), batch=8, backend="numpy", precision="f64"
    )
    plain = PlainClassifier(dict(net.parameters))
    data = classes(8)
    for rate in (1.0, 0.25):
        step.learner = gc.SGD(learning_rate=rate)
        step(**data)
        plain.step(**data, rate=rate / 8, momentum=0.0)
    np.testing.assert_allclose(net.parameters["W0"], plain.parameters["W0"], rtol=1e-13)


# --- what is trained -----------------------------------------------------------------------------

TWO_CRITERIA = """
    x = Input(4)
    y = Input(2)
    W = Parameter(2, 4)
    F = Parameter(2, 4, needGradient=false)
    U = Parameter(2, 4)
    G = Parameter(3, 3)
    a = Times(W, x)
    b = Times(F, x)
    c = Times(U, x)
    s = Plus(a, b)
    first = SquareError(y, s)
    second = SquareError(y, c)
    seen = SumElements(s)
    CriteriaNodes = (first, second)
    EvalNodes = (seen)
"""
DATA = {
    "x": np.random.default_rng(0).standard_normal((5, 4)),
    "y": np.random.default_rng(1).standard_normal((5, 2)),
}


@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm"])
def test_only_parameters_of_the_criterion_with_gradient_change(backend: str) -> None:
    net = gc.loads(TWO_CRITERIA)
    before = {n: v.tobytes() for n, v in net.parameters.items()}
    step = gc.compile_training(net, learner=gc.SGD(learning_rate=1, l2=0.1), backend=backend)
    r = step(**DATA)
    changed = {n for n, v in net.parameters.items() if v.tobytes() != before[n]}
    assert changed == {"W"}
    assert list(step.learner_state) == ["velocity.W"]
    assert set(r) == {"first", "second", "seen"}


def test_another_criterion_can_be_named() -> None:
    net = gc.loads(TWO_CRITERIA)
    before = {n: v.tobytes() for n, v in net.parameters.items()}
    learner = gc.SGD(learning_rate=1)
    step = gc.compile_training(net, learner=learner, criterion="Second", backend="numpy")
    step(**DATA)
    assert step.criterion == "second"
    assert {n for n, v in net.parameters.items() if v.tobytes() != before[n]} == {"U"}


def test_the_results_are_those_before_the_update() -> None:
    net = gc.loads(TWO_CRITERIA)
    before = gc.compile(net, ["first", "seen"], backend="numpy")(**DATA)
    step = gc.compile_training(net, learner=gc.SGD(learning_rate=1), backend="numpy")
    after = step(**DATA)
    np.testing.assert_allclose(after["first"], before["first"], rtol=1e-6)
    np.testing.assert_allclose(after["seen"], before["seen"], rtol=1e-5)


@pytest.mark.parametrize(
    ("text", "slug", "message"),
    [
        ("x = Input(2)\nW = Parameter(1,2)\nt = Times(W,x)", "missing-node", "no criterion nodes"),
        (
            "x = Input(2)\ns = SumElements(x, tag=criteria)",
            "missing-node",
            "the criterion `s` depends on no trainable parameter",
        ),
        (
            "x = Input(2)\nW = Parameter(1,2,needGradient=f)\nt = Times(W,x)\n"
            "s = SumElements(t, tag=criteria)",
            "missing-node",
            "the criterion `s` depends on no trainable parameter",
        ),
    ],
)
def test_a_network_that_cannot_be_trained_says_why(text: str, slug: str, message: str) -> None:
    with pytest.raises(gc.GraphcError) as raised:
        gc.compile_training(gc.loads(text), learner=gc.SGD(learning_rate=1), backend="numpy")
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.slug == slug
    assert message in diagnostic.message


class Unlike:
    """Has some of what a learner has."""

    rule, terms = SGD, Terms()


def test_a_learner_has_to_be_one() -> None:
    with pytest.raises(gc.GraphcError, match="a learner is required, got float"):
        gc.compile_training(classifier(), learner=0.1)  # type: ignore[arg-type]
    step = gc.compile_training(classifier(), learner=gc.SGD(learning_rate=1), backend="numpy")
    with pytest.raises(
        gc.GraphcError, match="got Unlike without `hyperparameters`, `observe`, `at`"
    ):
        step.learner = Unlike()  # type: ignore[assignment]
    with pytest.raises(gc.GraphcError, match="got the class SGD"):
        step.learner = gc.SGD  # type: ignore[assignment]  # that is the mistake


def test_a_step_says_when_its_network_was_compiled_for_another_precision() -> None:
    net = classifier()
    learner = gc.SGD(learning_rate=1)
    step = gc.compile_training(net, learner=learner, backend="numpy")
    gc.compile_training(net, learner=learner, backend="numpy", precision="f64")
    with pytest.raises(gc.GraphcError, match="has to be compiled again"):
        step(**classes(4))
