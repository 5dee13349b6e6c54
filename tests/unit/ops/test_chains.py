"""The conditional random field: against all paths written out, and the book's gradients."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from graphc.ir.core import Array
from graphc.ir.types import DType
from tests.support.nodes import (
    complaint,
    computed,
    difference_quotients,
    gradients,
    judged,
    network,
)

LABELS = 3
NODES = {
    "l": f"node.input {{rows = {LABELS}}}",
    "h": f"node.input {{rows = {LABELS}}}",
    "a": f"node.parameter {{rows = {LABELS}, cols = {LABELS}}}",
    "v": "node.crf %l, %h, %a",
}


def values(steps: int, seed: int = 0, scale: float = 1.0) -> dict[str, Array]:
    """A sequence of labels, one hot, scores and transition scores."""
    rng = np.random.default_rng(seed)
    return {
        "l": np.eye(LABELS)[rng.integers(0, LABELS, steps)].T.reshape(LABELS, steps),
        "h": scale * rng.normal(size=(LABELS, steps)),
        "a": scale * rng.normal(size=(LABELS, LABELS)),
    }


def score(path: tuple[int, ...], h: Array, a: Array) -> float:
    moves = sum(a[i, j] for i, j in itertools.pairwise(path))
    return float(sum(h[i, t] for t, i in enumerate(path)) + moves)


def posteriors(h: Array, a: Array) -> tuple[Array, Array]:
    """Of each label at each time, and of each pair of neighbours summed over time."""
    steps = h.shape[1]
    paths = list(itertools.product(range(LABELS), repeat=steps))
    weights = np.exp([score(p, h, a) for p in paths])
    single, pair = np.zeros((LABELS, steps)), np.zeros((LABELS, LABELS))
    for path, weight in zip(paths, weights / weights.sum(), strict=True):
        for t, i in enumerate(path):
            single[i, t] += weight
        for i, j in itertools.pairwise(path):
            pair[i, j] += weight
    return single, pair


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_it_is_minus_the_log_probability_among_all_paths(steps: int) -> None:
    given = values(steps)
    path = tuple(int(i) for i in given["l"].argmax(axis=0))
    all_paths = itertools.product(range(LABELS), repeat=steps)
    total = np.log(sum(np.exp(score(p, given["h"], given["a"])) for p in all_paths))
    expected = total - score(path, given["h"], given["a"])
    assert np.allclose(computed(network(NODES), "v", given, steps), expected, rtol=1e-12)


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 5, 8, 31, 32, 33, 64])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
def test_the_product_in_pairs_is_the_forward_algorithm(steps: int, dtype: DType) -> None:
    given, net = values(steps, steps), network(NODES)
    tolerance = 1e-5 if dtype is DType.F32 else 1e-12
    got = computed(net, "v", given, steps, dtype)
    assert np.allclose(got, judged(net, "v", given), rtol=tolerance, atol=tolerance * max(steps, 1))


def test_large_scores_do_not_overflow() -> None:
    given, net = values(9, scale=1e4), network(NODES)
    assert np.allclose(computed(net, "v", given, 9), judged(net, "v", given), rtol=1e-12)


def test_without_samples_it_is_zero() -> None:
    assert computed(network(NODES), "v", values(0), 0) == 0


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_gradients_are_the_posteriors_less_what_is_there(steps: int) -> None:
    """Book equations 2.152 and 2.153, of the criterion that is minimised."""
    given = values(steps, 7)
    single, pair = posteriors(given["h"], given["a"])
    seen = sum(
        (np.outer(given["l"][:, t - 1], given["l"][:, t]) for t in range(1, steps)),
        np.zeros((LABELS, LABELS)),
    )
    found = gradients(network(NODES), "v", given, steps, ["h", "a"])
    assert np.allclose(found["h"], single - given["l"], atol=1e-12)
    assert np.allclose(found["a"], pair - seen, atol=1e-12)


@pytest.mark.parametrize("leaf", ["l", "h", "a"])
def test_gradients_are_the_slopes_of_the_forward_algorithm(leaf: str) -> None:
    given, net = values(6, 3), network(NODES)
    found = gradients(net, "v", given, 6, [leaf])[leaf]
    assert np.allclose(found, difference_quotients(net, "v", given, leaf), atol=1e-5, rtol=1e-3)


def test_one_label_leaves_nothing_to_decide() -> None:
    nodes = {
        "l": "node.input {rows = 1}",
        "h": "node.input {rows = 1}",
        "a": "node.parameter {rows = 1, cols = 1}",
        "v": "node.crf %l, %h, %a",
    }
    given = {"l": np.ones((1, 4)), "h": np.arange(4.0)[None], "a": np.array([[2.0]])}
    assert np.allclose(computed(network(nodes), "v", given, 4), 0, atol=1e-12)


def test_a_matrix_that_is_no_minibatch_is_a_sequence_too() -> None:
    nodes = {
        "l": f"node.parameter {{rows = {LABELS}, cols = 5}}",
        "h": f"node.parameter {{rows = {LABELS}, cols = 5}}",
        "a": f"node.parameter {{rows = {LABELS}, cols = {LABELS}}}",
        "v": "node.crf %l, %h, %a",
    }
    given, net = values(5), network(nodes)
    assert np.allclose(computed(net, "v", given, 0), judged(net, "v", given))


def test_sizes_of_the_transition_score_are_inferred() -> None:
    net = network({**NODES, "a": "node.parameter {rows = 0, cols = 0}"})
    assert str(net.type("a")) == f"matrix<{LABELS}x{LABELS}>"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"a": "node.parameter {rows = 3, cols = 4}"}, "one row and one column per label"),
        ({"a": "node.parameter {rows = 2, cols = 2}"}, "3x3"),
        ({"a": "node.input {rows = 3}"}, "columns are not samples"),
        ({"l": "node.input {rows = 4}"}, "label and score"),
        ({"h": "node.parameter {rows = 3, cols = 2}"}, "label and score"),
    ],
)
def test_wrong_sizes_are_refused(changed: dict[str, str], message: str) -> None:
    assert message in complaint({**NODES, **changed})
