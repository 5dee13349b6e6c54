"""What a training is warned of: minibatches larger than the data, criteria that grow."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import pytest

import graphc as gc
from graphc.learn.dataset import Samples, Sequences, place_of_non_finite
from graphc.learn.watch import is_growing
from graphc.runtime.sparse import SparseRows
from tests.support.networks import classes, classifier

SAMPLES = 50

RECURRENT = """
x = Input(1)
y = Input(1)
W = Parameter(1, 1)
R = Parameter(1, 1)
h = Plus(Times(W, x), Times(R, PastValue(1, 1, h)))
e = SquareError(y, h, tag=criteria)
"""


def warnings_of(**options: object) -> list[str]:
    """The messages of the warnings of a training on `SAMPLES` samples."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gc.train(classifier(), classes(SAMPLES), backend="numpy", **options)  # type: ignore[arg-type]
    assert all(w.category is gc.GraphcWarning for w in caught)
    return [str(w.message) for w in caught]


# --- minibatches larger than the data ---


def test_a_rate_that_a_large_minibatch_shrinks_is_told() -> None:
    (message,) = warnings_of(minibatch=100_000_000, learning_rate=0.5, momentum=0.9)
    assert "requires at most the 50 samples of the data, got 100000000" in message
    assert "learning_rate 5e-09 in place of 0.01" in message
    assert "momentum 1 in place of 0.9" in message


def test_a_rate_of_a_learner_is_looked_at_too() -> None:
    (message,) = warnings_of(minibatch=100, learner=gc.SteppingHeuristic(0.5))
    assert "learning_rate 0.005 in place of 0.01" in message


@pytest.mark.parametrize(
    "options",
    [
        {"minibatch": SAMPLES, "learning_rate": 0.5},
        {"learning_rate": 0.5},
        {"minibatch": 10**9, "learning_rate_per_sample": 0.01, "momentum_per_sample": 0.9},
        {"minibatch": 10**9, "learning_rate": 0},
    ],
)
def test_a_minibatch_that_changes_nothing_is_not_told(options: dict[str, object]) -> None:
    assert warnings_of(**options) == []


def test_each_size_of_a_schedule_is_told_once() -> None:
    messages = warnings_of(minibatch="100*3:10:60*2", learning_rate=0.01, epochs=7)
    assert [m.split("got ")[1].split(":")[0] for m in messages] == ["100", "60"]


def test_without_a_size_all_of_few_samples_are_a_minibatch() -> None:
    """The rate for a minibatch is then that for all data, and not a fifth of it."""
    one, other = classifier(), classifier()
    gc.train(one, classes(SAMPLES), learning_rate=0.5, epochs=2, backend="numpy")
    gc.train(
        other, classes(SAMPLES), learning_rate=0.5, epochs=2, minibatch=SAMPLES, backend="numpy"
    )
    for name, value in one.parameters.items():
        np.testing.assert_array_equal(value, other.parameters[name])


def sequences(*lengths: int) -> dict[str, list[np.ndarray]]:
    rng = np.random.default_rng(2)
    arrays = [rng.random((n, 1)) for n in lengths]
    return {"x": arrays, "y": [a / 2 for a in arrays]}


def test_sequences_are_counted_as_sequences() -> None:
    net = gc.loads(RECURRENT)
    with pytest.warns(gc.GraphcWarning, match="at most the 3 sequences of the data, got 300"):
        gc.train(net, sequences(4, 2, 3), minibatch=300, learning_rate=0.1, backend="numpy")


def test_without_a_size_few_sequences_are_a_minibatch() -> None:
    """`filterwarnings = error` would raise one; the rate is for 9 steps, not for 48."""
    (record,) = gc.train(
        gc.loads(RECURRENT), sequences(4, 2, 3), learning_rate=0.9, backend="numpy"
    )
    assert record.learning_rate_per_sample == pytest.approx(0.1)


# --- criteria that grow ---


@pytest.mark.parametrize(
    ("criteria", "expected"),
    [
        ([7e6, 1e7, 1e8, 3e9], True),
        ([7e6, 1e7, 1e8], False),
        ([1, 2, 3, 2.5], False),
        ([1, 1.02, 1.05, 1.09], False),
        ([10, 1, 2, 3, 4], False),
        ([1, 0.5, 0.8, 1.0, 1.2], True),
        ([-5, -4.8, -4.6, -4.4], True),
        ([-5, -4.99, -4.98, -4.97], False),
        ([0, 0, 0, 0], False),
        ([0, 1e-9, 2e-9, 3e-9], True),
        ([], False),
    ],
)
def test_growth_is_three_epochs_in_a_row_and_above_the_first(
    criteria: Sequence[float], expected: bool
) -> None:
    assert is_growing(criteria) is expected


def test_a_criterion_that_grows_is_told_once() -> None:
    net = gc.loads(
        "x = Input(1)\ny = Input(1)\nW = Parameter(1, 1, init=fixedValue, value=1)\n"
        "e = SquareError(y, Times(W, x), tag=criteria)"
    )
    data = {"x": np.full((4, 1), 1.0), "y": np.zeros((4, 1))}
    with pytest.warns(gc.GraphcWarning, match="`e` has grown in each of the last 3 epochs") as seen:
        records = gc.train(net, data, epochs=8, minibatch=4, learning_rate=3, backend="numpy")
    assert records[-1].criterion > 100 * records[0].criterion
    assert len(seen) == 1
    assert "in epoch 4; a smaller learning rate may help" in str(seen[0].message)


def test_a_training_that_learns_is_not_warned_of() -> None:
    assert warnings_of(minibatch=10, learning_rate=0.5, epochs=6) == []


# --- where the data are no numbers ---


def test_the_first_number_that_is_not_finite_is_found() -> None:
    dense = np.zeros((4, 3))
    fine = Samples({"x": dense}, 4)
    assert place_of_non_finite(fine) == ""
    dense[2, 1] = dense[3, 0] = np.nan
    assert place_of_non_finite(fine) == "`x` is nan in sample 2 (counted from 0)"


def test_it_is_found_among_sparse_rows_and_in_sequences() -> None:
    values = np.array([1.0, -np.inf, 1.0])
    rows = SparseRows(np.array([0, 1, 0]), np.array([0, 1, 1, 3]), values, 2)
    assert place_of_non_finite(Samples({"w": rows}, 3)).startswith("`w` is -inf in sample 2 ")
    lists = {"x": [np.zeros((2, 1)), np.array([[0.0], [np.inf]])], "e": [np.zeros((0, 1))] * 2}
    found = place_of_non_finite(Sequences(lists, np.array([2, 2])))
    assert found == "`x` is inf in sequence 1, step 1 (counted from 0)"
