"""L-BFGS: against scipy on a convex problem, and on one with valleys."""

import numpy as np
import pytest
from scipy import optimize

import graphc as gc
from graphc_extension.lbfgs import minimise

LOGISTIC = """
net = [
    features = Input(4, tag=feature)
    labels = Input(3, tag=label)
    W = Parameter(3, 4)
    b = Parameter(3, 1)
    c = CrossEntropyWithSoftmax(labels, Plus(Times(W, features), b), tag=criterion)
]
run = net
"""


def data(count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(11)
    x = rng.standard_normal((count, 4)) * [1, 5, 0.2, 2]
    score = x @ rng.standard_normal((4, 3)) + rng.standard_normal((count, 3))
    return {"features": x, "labels": np.eye(3)[score.argmax(axis=1)]}


def objective(w: np.ndarray, given: dict[str, np.ndarray]) -> tuple[float, np.ndarray]:
    """Regularised logistic regression in numpy: the judge knows nothing of graphc."""
    x, t = given["features"], given["labels"]
    z = x @ w[:12].reshape(3, 4).T + w[12:]
    log = z - np.logaddexp.reduce(z, axis=1, keepdims=True)
    d = np.exp(log) - t
    gradient = np.concatenate([(d.T @ x).ravel(), d.sum(axis=0)])
    return float(0.5 * w @ w - np.sum(t * log)), gradient + w


def test_a_convex_problem_ends_where_scipys_does() -> None:
    given = data(300)
    slopes = gc.gradients(gc.loads(LOGISTIC, seed=2), batch=300, precision="f64")
    found = minimise(slopes, given, l2=1.0, tolerance=1e-6)
    judge = optimize.minimize(
        lambda w: objective(w, given), np.zeros(15), jac=True, method="BFGS", tol=1e-10
    )
    assert found.converged
    assert len(found.values) < 100
    assert found.values[-1] == pytest.approx(judge.fun, rel=1e-12)
    np.testing.assert_allclose(found.point, judge.x, atol=1e-6)
    np.testing.assert_array_equal(slopes.point, found.point)
    assert all(
        after <= before for before, after in zip(found.values, found.values[1:], strict=False)
    )


def test_a_network_with_valleys_gets_lower_than_where_it_began() -> None:
    """The exclusive or: no plane separates it, and its parameters have no best place."""
    net = gc.loads(
        "net = [\nx = Input(2, tag=feature)\nt = Input(1, tag=label)\nW = Parameter(6, 2)\n"
        "b = Parameter(6, 1)\nV = Parameter(1, 6)\nz = Times(V, Tanh(Plus(Times(W, x), b)))\n"
        "c = SquareError(t, z, tag=criterion)\n]\nrun = net",
        seed=1,
    )
    points = np.array([[-1.0, -1], [-1, 1], [1, -1], [1, 1]])
    labels = np.array([[-1.0], [1], [1], [-1]])
    found = minimise(gc.gradients(net, precision="f64"), {"x": points, "t": labels}, steps=200)
    assert found.values[-1] < 1e-6 * found.values[0]


def test_no_steps_leave_the_network_as_it_was() -> None:
    slopes = gc.gradients(gc.loads(LOGISTIC), precision="f64")
    before = slopes.point
    found = minimise(slopes, data(5), steps=0)
    assert not found.converged
    np.testing.assert_array_equal(slopes.point, before)
