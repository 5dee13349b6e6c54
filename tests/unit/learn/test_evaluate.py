"""Averages over a data set, and the inputs that they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import graphc as gc
from graphc.driver.options import CompileOptions
from graphc.learn.evaluate import evaluate_dataset, measured_nodes
from graphc.support.diagnostics import GraphcError

NETWORK = """
x = Input(2, tag=feature)
t = Input(2, tag=label)
E = SquareError(t, x, tag=criteria)
F = ErrorPrediction(t, x, tag=eval)
"""

PLAIN = CompileOptions(backend="reference", batch=4)


def data(samples: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(samples)
    return {name: random.normal(size=(samples, 2)).astype(np.float32) for name in ("x", "t")}


@pytest.mark.parametrize("samples", [1, 3, 4, 5, 11])
def test_averages_do_not_depend_on_how_samples_fall_into_calls(samples: int) -> None:
    given = data(samples)
    found = evaluate_dataset(gc.loads(NETWORK).model, given, PLAIN)
    error = 0.5 * np.sum((given["x"] - given["t"]) ** 2) / samples
    wrong = np.mean(given["x"].argmax(axis=1) != given["t"].argmax(axis=1))
    assert found.samples == samples
    assert found.averages == pytest.approx({"E": error, "F": wrong}, rel=1e-5)


def test_inputs_that_are_not_needed_do_not_matter() -> None:
    given = data(3) | {"other": np.zeros((7, 1))}
    assert evaluate_dataset(gc.loads(NETWORK).model, given, PLAIN).samples == 3


def test_different_numbers_of_samples_are_refused() -> None:
    given = data(3) | {"t": np.zeros((4, 2), np.float32)}
    with pytest.raises(GraphcError, match="N is 3 in another input"):
        evaluate_dataset(gc.loads(NETWORK).model, given, PLAIN)


def test_no_sample_is_refused() -> None:
    with pytest.raises(GraphcError, match="at least one sample"):
        evaluate_dataset(gc.loads(NETWORK).model, data(0), PLAIN)


def test_a_missing_input_is_named() -> None:
    with pytest.raises(GraphcError, match="t"):
        evaluate_dataset(gc.loads(NETWORK).model, {"x": data(3)["x"]}, PLAIN)


def test_criteria_come_before_evaluation_nodes() -> None:
    assert measured_nodes(gc.loads(NETWORK).model) == ["E", "F"]


# --- members -------------------------------------------------------------------------------------


def by_members(count: int, given: Callable[[int], object]) -> list[Mapping[str, float]]:
    """What members measure who are given these data; the first error is raised."""

    def measured(member: gc.comm.Communicator) -> Mapping[str, float]:
        return gc.evaluate(
            gc.loads(NETWORK),
            given(member.rank),  # type: ignore[arg-type]
            backend="reference",
            batch=2,
            comm=member,
        )

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(measured, gc.comm.threads(count, 20.0)))


@pytest.mark.parametrize("samples", [1, 11])
@pytest.mark.parametrize("members", [1, 3])
def test_members_share_the_samples_and_find_the_bits_of_one(members: int, samples: int) -> None:
    given = data(samples)
    for source in (lambda: given, lambda: gc.readers.from_arrays(given)):
        expected = gc.evaluate(gc.loads(NETWORK), source(), backend="reference", batch=2)
        assert by_members(members, lambda _, s=source: s()) == [expected] * members


def test_members_with_other_samples_are_refused() -> None:
    with pytest.raises(
        GraphcError,
        match="the same measurement, other than on member 0 are: the data",
    ):
        by_members(2, lambda rank: data(5 + rank))
