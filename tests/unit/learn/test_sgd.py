"""SGD: what a user may give, and the numbers that a call gets."""

from __future__ import annotations

import math

import pytest

from graphc.learn.sgd import SGD
from graphc.support.diagnostics import GraphcError


def test_a_rate_per_minibatch_is_divided_by_the_nominal_size_not_by_the_samples() -> None:
    learner = SGD(learning_rate=0.8)
    assert learner.hyperparameters(32, 32)["learning_rate"] == 0.025
    assert learner.hyperparameters(7, 32)["learning_rate"] == 0.025


def test_a_rate_per_sample_is_used_as_it_is() -> None:
    assert SGD(learning_rate_per_sample=0.3).hyperparameters(7, 32)["learning_rate"] == 0.3


def test_a_momentum_per_minibatch_is_taken_to_the_share_of_the_samples() -> None:
    learner = SGD(learning_rate=1, momentum=0.9)
    assert learner.hyperparameters(32, 32)["momentum"] == 0.9
    assert learner.hyperparameters(8, 32)["momentum"] == pytest.approx(0.9**0.25, rel=1e-15)
    assert learner.hyperparameters(64, 32)["momentum"] == pytest.approx(0.81, rel=1e-15)


def test_a_momentum_per_sample_is_taken_to_the_number_of_samples() -> None:
    learner = SGD(learning_rate=1, momentum_per_sample=0.99)
    assert learner.hyperparameters(20, 32)["momentum"] == pytest.approx(0.99**20, rel=1e-15)


@pytest.mark.parametrize("learner", [SGD(learning_rate=1), SGD(learning_rate=1, momentum=0.0)])
def test_without_momentum_it_is_zero(learner: SGD) -> None:
    assert learner.hyperparameters(5, 32)["momentum"] == 0.0


def test_a_call_without_samples_leaves_the_momentum_at_one() -> None:
    """μ^0: the velocity stays, so that an empty minibatch is like none for it."""
    assert SGD(learning_rate=1, momentum=0.9).hyperparameters(0, 32)["momentum"] == 1.0
    assert SGD(learning_rate=1, momentum_per_sample=0.9).hyperparameters(0, 32)["momentum"] == 1.0


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"momentum": 0.9},
        {"learning_rate": 0.1, "learning_rate_per_sample": 0.1},
        {"learning_rate": 0.1, "momentum": 0.9, "momentum_per_sample": 0.9},
        {"learning_rate": -0.1},
        {"learning_rate": math.nan},
        {"learning_rate": math.inf},
        {"learning_rate_per_sample": -1e-9},
        {"learning_rate": 0.1, "momentum": 1.0},
        {"learning_rate": 0.1, "momentum": -0.1},
        {"learning_rate": 0.1, "momentum": math.nan},
        {"learning_rate": 0.1, "momentum_per_sample": 1.5},
        {"learning_rate": 0.1, "l2": -1.0},
        {"learning_rate": 0.1, "l2": math.inf},
        {"learning_rate": "0.1"},
        {"learning_rate": 0.1, "momentum": "0.9"},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(given: dict[str, float]) -> None:
    with pytest.raises(GraphcError) as raised:
        SGD(**given)
    assert [d.slug for d in raised.value.diagnostics] == ["bad-value"]


def test_the_ends_of_the_ranges_are_allowed() -> None:
    SGD(learning_rate=0.0, momentum=0.0, l2=0.0)
