"""`gc.gradients`: judged by formulas in numpy and by differences, and used by scipy's methods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize

import graphc as gc
from graphc.builder import GraphBuilder
from tests.support.compiling import load_backend

LOGISTIC = """
features = Input(3, tag=feature)
labels = Input(2, tag=label)
W = Parameter(2, 3)
b = Parameter(2, 1)
F = Parameter(2, 1, needGradient=false)
z = Plus(Plus(Times(W, features), b), F)
CE = CrossEntropyWithSoftmax(labels, z, tag=criterion)
Err = ErrorPrediction(labels, z, tag=eval)
"""


def network(text: str = LOGISTIC) -> GraphBuilder:
    return gc.loads(f"net = [\n{text}\n]\nrun = net", seed=5)


def data(count: int) -> dict[str, Any]:
    rng = np.random.default_rng(count)
    x = rng.standard_normal((count, 3))
    noisy = x @ [1.0, -2.0, 0.5] + rng.standard_normal(count)
    return {"features": x, "labels": np.eye(2)[(noisy > 0).astype(int)]}


def expected(net: GraphBuilder, x: np.ndarray, t: np.ndarray) -> tuple[float, Any, Any]:
    """Sum of cross-entropies and its derivatives, by the formula: softmax less label."""
    w, b, f = (np.asarray(net.parameters[n], np.float64) for n in ("W", "b", "F"))
    z = x @ w.T + b.T + f.T
    log = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    d = np.exp(log) - t
    return -float(np.sum(t * log)), d.T @ x, d.sum(axis=0).reshape(2, 1)


@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm", "c"])
@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_value_and_gradients_are_those_of_the_formula(backend: str, precision: str) -> None:
    problem = load_backend(backend)
    if isinstance(problem, str):
        pytest.skip(problem)
    net = network()
    slopes = gc.gradients(net, batch=8, backend=backend, precision=precision)
    assert slopes.parameters == ("W", "b")
    before = slopes.point
    for count in (1, 8, 11):
        given = data(count)
        value, by_name = slopes(**given)
        loss, dw, db = expected(net, given["features"], given["labels"])
        tolerance = 1e-5 if precision == "f32" else 1e-12
        assert value == pytest.approx(loss, rel=tolerance)
        np.testing.assert_allclose(by_name["W"], dw, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(by_name["b"], db, rtol=tolerance, atol=tolerance)
        assert slopes.results["Err"] in range(count + 1)
    np.testing.assert_array_equal(slopes.point, before)


def test_a_point_is_all_trained_parameters_in_one_vector() -> None:
    net = network()
    slopes = gc.gradients(net, precision="f64")
    point = np.arange(8.0)
    value, gradient = slopes.at(point, **data(5))
    np.testing.assert_array_equal(net.parameters["W"], [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(net.parameters["b"], [[6], [7]])
    np.testing.assert_array_equal(slopes.point, point)
    again = slopes(**data(5))
    assert value == again.value
    np.testing.assert_array_equal(gradient[:6].reshape(2, 3), again.gradients["W"])
    np.testing.assert_array_equal(gradient[6:], again.gradients["b"].ravel())


def test_gradients_of_one_call_stay_when_another_is_made() -> None:
    slopes = gc.gradients(network(), precision="f64")
    first = slopes(**data(4)).gradients["W"]
    kept = first.copy()
    slopes(**data(9))
    np.testing.assert_array_equal(first, kept)


def test_an_optimiser_from_outside_finds_the_minimum() -> None:
    """Regularised logistic regression is convex: every method has to end at one point."""
    net, given = network(), data(40)
    slopes = gc.gradients(net, batch=40, precision="f64")

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = slopes.at(w, **given)
        return value + 0.5 * float(w @ w), gradient + w

    ends = [
        optimize.minimize(objective, slopes.point, jac=True, method=method, tol=1e-12).x
        for method in ("BFGS", "CG")
    ]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-5)
    _, dw, db = expected(net, given["features"], given["labels"])
    w = slopes.point
    np.testing.assert_allclose(np.concatenate([dw.ravel(), db.ravel()]) + w, 0, atol=1e-5)


def test_a_step_of_plain_descent_is_that_of_sgd() -> None:
    ours, theirs, given = network(), network(), data(6)
    slopes = gc.gradients(ours, batch=6, precision="f64")
    slopes.point = slopes.point - 0.3 / 6 * slopes.flat(slopes(**given).gradients)
    gc.compile_training(theirs, learner=gc.SGD(learning_rate=0.3), batch=6, precision="f64")(
        **given
    )
    for name in ("W", "b"):
        np.testing.assert_allclose(ours.parameters[name], theirs.parameters[name], rtol=1e-13)


DROPPED = """
features = Input(3, tag=feature)
W = Parameter(4, 3)
h = Dropout(Tanh(Times(W, features)))
c = SumElements(h, tag=criterion)
"""


def test_dropout_is_that_of_training_and_the_same_for_the_same_step() -> None:
    slopes = gc.gradients(network(DROPPED), precision="f64", dropout=0.5, seed=3)
    x = np.random.default_rng(2).standard_normal((20, 3))
    first = slopes(features=x)
    other = slopes(features=x)
    assert first.value != other.value
    slopes.steps = 0
    point = slopes.point
    gradient = slopes.flat(slopes(features=x).gradients)
    np.testing.assert_array_equal(gradient, slopes.flat(first.gradients))
    direction = np.random.default_rng(3).standard_normal(point.shape)
    sides: list[float] = []
    for sign in (1, -1):
        slopes.steps = 0
        sides.append(slopes.at(point + sign * 1e-6 * direction, features=x).value)
    assert (sides[0] - sides[1]) / 2e-6 == pytest.approx(float(gradient @ direction), rel=1e-6)


def test_a_recurrent_network_over_sequences() -> None:
    net = network(
        """
        features = Input(2, tag=feature)
        R = Parameter(2, 2)
        before = PastValue(2, 1, h)
        h = Tanh(Plus(features, Times(R, before)))
        c = SumElements(h, tag=criterion)
        """
    )
    slopes = gc.gradients(net, time=4, sequences=2, precision="f64")
    rng = np.random.default_rng(6)
    xs = [rng.standard_normal((steps, 2)) for steps in (4, 2)]
    point = slopes.point
    _, gradient = slopes.at(point, features=xs)
    for i in range(4):
        step = 1e-6 * np.eye(4)[i]
        sides = [slopes.at(point + sign * step, features=xs).value for sign in (1, -1)]
        assert (sides[0] - sides[1]) / 2e-6 == pytest.approx(gradient[i], rel=1e-6)


def test_running_means_move_and_are_no_part_of_the_point() -> None:
    net = network(
        """
        features = Input(2, tag=feature)
        s = Parameter(2, 1, init=fixedValue, value=1)
        o = Parameter(2, 1, init=fixedValue, value=0)
        m = Parameter(2, 1, init=fixedValue, value=0)
        d = Parameter(2, 1, init=fixedValue, value=1)
        n = BatchNormalization(features, s, o, m, d)
        c = SumElements(ElementTimes(n, n), tag=criterion)
        """
    )
    slopes = gc.gradients(net, precision="f64")
    assert slopes.parameters == ("s", "o")
    x = np.array([[1.0, 2], [3, 6]])
    slopes(features=x)
    np.testing.assert_allclose(net.parameters["m"], [[2], [4]])


@pytest.mark.parametrize("point", [np.zeros(7), np.zeros((8, 1)), "text", np.full(8, "x")])
def test_a_point_of_another_form_moves_nothing(point: object) -> None:
    slopes = gc.gradients(network())
    before = slopes.point
    with pytest.raises(gc.GraphcError, match="a point requires 8 numbers in one vector, got"):
        slopes.point = point
    with pytest.raises(gc.GraphcError, match="a point requires 8 numbers"):
        slopes.at(point, **data(2))
    np.testing.assert_array_equal(slopes.point, before)


def test_wrong_uses() -> None:
    slopes = gc.gradients(network())
    with pytest.raises(gc.GraphcError, match="at least one sample, got none"):
        slopes(**data(0))
    with pytest.raises(gc.GraphcError, match="shape"):
        slopes(features=np.ones((2, 4)), labels=np.ones((2, 2)))
    with pytest.raises(gc.GraphcError, match="the network has no node `CEE`"):
        gc.gradients(network(), criterion="CEE")
    with pytest.raises(gc.GraphcError, match="rate from 0 to below 1"):
        slopes.dropout_rate = 1.0
    with pytest.raises(gc.GraphcError, match="seed requires a whole number"):
        gc.gradients(network(), seed=-1)
