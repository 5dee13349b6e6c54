"""The stepping heuristic: its rules on made-up losses, against Algorithm 1 written out, in use."""

from __future__ import annotations

import math
from collections import deque
from fractions import Fraction

import numpy as np
import pytest

import graphc as gc
from graphc.learn.learner import Learner
from graphc.learn.sgd import SGD
from graphc.learn.stepping import SteppingHeuristic
from graphc.support.diagnostics import GraphcError
from tests.support.networks import classes, classifier

C1 = (Fraction(-1, 3), Fraction(3, 2), -3, Fraction(11, 6))
C2 = (-1, 4, -5, 2)


def algorithm_1(losses: list[float], size: float, m: int) -> list[float]:
    """The step sizes of the paper's pseudocode, lines 1 to 27, in exact arithmetic."""
    r, l_t = True, deque([Fraction(losses[0])])
    means = deque([Fraction(losses[0])] * 4)
    sizes: list[float] = []
    for loss in losses:
        l_t.append(Fraction(loss))
        if len(l_t) > m:
            l_t.popleft()
        means.append(sum(l_t, Fraction()) / len(l_t))
        means.popleft()
        slope = sum(c * mean for c, mean in zip(C1, means, strict=True))
        curvature = sum(c * mean for c, mean in zip(C2, means, strict=True))
        if slope > 0 and curvature > 0:
            size *= 0.99
            r = False
        elif r and slope < 0:
            size *= 1.02
        sizes.append(size)
    return sizes


def sizes_of(learner: SteppingHeuristic, losses: list[float]) -> list[float]:
    found: list[float] = []
    for loss in losses:
        learner.observe(loss)
        found.append(learner.step_size)
    return found


@pytest.mark.parametrize("history", [1, 2, 5, 20])
@pytest.mark.parametrize("seed", range(5))
def test_step_sizes_are_those_of_algorithm_1(seed: int, history: int) -> None:
    rng = np.random.default_rng(seed)
    losses = list(map(float, 3 * 0.97 ** np.arange(60) + rng.normal(0, 0.05, 60)))
    found = sizes_of(SteppingHeuristic(0.01, history=history), losses)
    assert found == pytest.approx(algorithm_1(losses, 0.01, history), rel=1e-12)


def test_it_grows_by_two_percent_while_the_loss_falls() -> None:
    learner = SteppingHeuristic(1.0, history=1)
    assert sizes_of(learner, [8.0, 7.0, 6.0, 5.0])[1:] == pytest.approx([1.02, 1.02**2, 1.02**3])


def test_it_shrinks_where_the_loss_rises_ever_faster_and_never_grows_again() -> None:
    learner = SteppingHeuristic(1.0, history=1)
    sizes = sizes_of(learner, [1.0, 1.0, 1.0, 1.5, 3.0])
    assert sizes[-1] < 1.0
    assert not learner.stepping.may_grow
    lowest = learner.step_size
    sizes_of(learner, [2.0, 1.0, 0.5, 0.25, 0.1, 0.01])
    assert learner.step_size <= lowest


@pytest.mark.parametrize("loss", [0.0, 0.1, -3.7, 1e300])
def test_losses_that_do_not_change_leave_the_size_alone(loss: float) -> None:
    assert sizes_of(SteppingHeuristic(0.5, history=7), [loss] * 30) == [0.5] * 30


def test_a_loss_that_is_no_number_leaves_the_size_alone() -> None:
    assert sizes_of(SteppingHeuristic(0.5), [1.0, math.nan, math.nan]) == [0.5] * 3


def test_what_it_remembers_can_be_kept_and_set_again() -> None:
    losses = [float(x) for x in np.random.default_rng(0).normal(0, 1, 40)]
    whole, first = SteppingHeuristic(0.1), SteppingHeuristic(0.1)
    wanted = sizes_of(whole, losses)
    sizes_of(first, losses[:17])
    second = SteppingHeuristic(0.1)
    second.stepping = first.stepping
    assert sizes_of(second, losses[17:]) == wanted[17:]


def test_the_step_size_is_that_of_a_whole_minibatch() -> None:
    assert SteppingHeuristic(0.8, beta=0.25).hyperparameters(3, 16) == {
        "learning_rate": 0.05,
        "beta": 0.25,
    }


@pytest.mark.parametrize(
    "given",
    [
        {"step_size": -1.0},
        {"step_size": math.inf},
        {"step_size": math.nan},
        {"beta": 0.0},
        {"beta": 1.1},
        {"beta": math.nan},
        {"history": 0},
        {"history": 2.5},
        {"history": math.inf},
        {"history": "3"},
        {"step_size": "0.1"},
        {"beta": None},
        {"l2": -1.0},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(given: dict[str, float]) -> None:
    with pytest.raises(GraphcError) as raised:
        SteppingHeuristic(**given)  # type: ignore[arg-type]
    assert [d.slug for d in raised.value.diagnostics] == ["bad-value"]


@pytest.mark.parametrize("learner", [SGD(learning_rate=1), SteppingHeuristic()])
def test_learners_are_learners(learner: Learner) -> None:
    assert isinstance(learner, Learner)
    assert "learning_rate" in learner.hyperparameters(4, 8)


# --- compiled ------------------------------------------------------------------------------------

NOMINAL = 8


@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm"])
def test_steps_are_those_of_plain_numpy(backend: str) -> None:
    """g ← β grad + (1 - β) g and x ← x - s g, s from the losses of the calls before."""
    net = classifier()
    learner = gc.SteppingHeuristic(0.5, beta=0.3, history=2, l2=0.01)
    step = gc.compile_training(
        net, learner=learner, batch=NOMINAL, backend=backend, precision="f64"
    )
    slopes = gc.compile(
        net, "ce", gradients=list(net.parameters), backend="reference", precision="f64"
    )
    mirror = gc.SteppingHeuristic(0.5, history=2)
    plain = {name: value.copy() for name, value in net.parameters.items()}
    direction = {name: np.zeros_like(value) for name, value in plain.items()}
    for k in range(12):
        data = classes(NOMINAL if k % 3 else 5, seed=k)
        samples = len(data["features"])
        found = slopes(**data)
        for name, value in plain.items():
            gradient = found.gradients[name] + 0.01 * samples * value
            direction[name] = 0.3 * gradient + 0.7 * direction[name]
            plain[name] = value - mirror.step_size / NOMINAL * direction[name]
        assert step(**data)["ce"] == pytest.approx(found["ce"], rel=1e-12)
        mirror.observe(float(found["ce"]) / samples)
        assert learner.step_size == pytest.approx(mirror.step_size, rel=1e-12)
        for name, value in net.parameters.items():
            np.testing.assert_allclose(value, plain[name], rtol=1e-10, atol=1e-12)
    assert learner.step_size != 0.5
    np.testing.assert_allclose(step.learner_state["direction.W0"], direction["W0"], rtol=1e-9)


def test_a_network_trains_with_it() -> None:
    net, learner = classifier(), gc.SteppingHeuristic(0.5)
    records = gc.train(net, classes(64), epochs=30, minibatch=16, learner=learner, backend="numpy")
    assert records[-1].criterion < 0.7 * records[0].criterion
    assert records[-1].learning_rate_per_sample == learner.step_size / 16


def test_a_learner_is_given_in_place_of_rates() -> None:
    with pytest.raises(GraphcError, match="rates, momentum and l2 are those of the learner"):
        gc.train(
            classifier(),
            classes(8),
            learner=gc.SteppingHeuristic(),
            learning_rate=1.0,
            backend="numpy",
        )


def test_a_step_keeps_its_rule() -> None:
    step = gc.compile_training(classifier(), learner=gc.SGD(learning_rate=1), backend="numpy")
    with pytest.raises(GraphcError, match="compiled for sgd, got stepping-heuristic"):
        step.learner = gc.SteppingHeuristic()


def test_train_says_what_a_learner_is() -> None:
    with pytest.raises(GraphcError, match="a learner is required, got float"):
        gc.train(classifier(), classes(8), learner=0.5, backend="numpy")  # type: ignore[arg-type]
