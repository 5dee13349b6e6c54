"""SGD: what a user may give, and the numbers that a call gets."""

from __future__ import annotations

import math

import pytest

from graphc.learn.schedule import Schedule
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
        {"learning_rate": None, "momentum": None},
        {"learning_rate": {}},
        {"learning_rate": "0.1:-0.1"},
        {"learning_rate": []},
        {"learning_rate": 0.1, "momentum": "0.9:1"},
        {"learning_rate": 0.1, "momentum": [0.5, 1.5]},
        {"learning_rate": 0.1, "l2": None},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(given: dict[str, float]) -> None:
    with pytest.raises(GraphcError) as raised:
        SGD(**given)
    assert [d.slug for d in raised.value.diagnostics] == ["bad-value"]


def test_numbers_may_be_lists_over_epochs() -> None:
    learner = SGD("0.5:0.2*20:0.1", [0.0, 0.9])
    assert learner.changes() == [0, 1, 21]
    assert [learner.at(e) for e in (0, 1, 20, 21, 99)] == [
        SGD(0.5, 0.0),
        SGD(0.2, 0.9),
        SGD(0.2, 0.9),
        SGD(0.1, 0.9),
        SGD(0.1, 0.9),
    ]
    assert learner.hyperparameters(8, 8) == learner.at(0).hyperparameters(8, 8)


def test_a_list_of_one_number_is_the_number() -> None:
    assert SGD("0.5", [0.25]) == SGD(0.5, 0.25) == SGD(Schedule.parse("0.5"), 0.25)


def test_a_bad_number_of_a_text_is_shown_in_its_place() -> None:
    with pytest.raises(GraphcError) as raised:
        SGD("0.5:half")
    assert [d.slug for d in raised.value.diagnostics] == ["parse"]
    assert "learning_rate:1:5" in str(raised.value)


def test_the_rate_of_a_sample_can_be_read_and_replaced() -> None:
    learner = SGD("0.8:0.4", 0.9)
    assert learner.rate_per_sample(32) == 0.025
    assert learner.at(1).rate_per_sample(32) == 0.0125
    other = learner.with_rate_per_sample(0.003)
    assert other == SGD(learning_rate_per_sample=0.003, momentum=0.9)
    assert other.hyperparameters(7, 32)["learning_rate"] == other.rate_per_sample(32) == 0.003


def test_the_ends_of_the_ranges_are_allowed() -> None:
    SGD(learning_rate=0.0, momentum=0.0, l2=0.0)
