"""`gc.minimize`: steps on functions of arrays, against loops in plain numpy and known minima."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.learn.learner import Learner
from graphc.support.diagnostics import GraphcError

Array = np.ndarray
TARGET = np.array([[1.0, -2.0, 3.0], [0.5, 0.0, -1.0]])
BACKENDS = ("reference", "numpy", "llvm")


def bowl(x: Any) -> Any:
    return gc.sum((x - TARGET) ** 2)


def learner_of(kind: str) -> Learner:
    if kind == "sgd":
        return gc.SGD(learning_rate=0.1, momentum=0.5, l2=0.01)
    return gc.SteppingHeuristic(0.05, beta=0.4, history=3, l2=0.01)


def plain_steps(kind: str, count: int) -> Array:
    """The rules written out in numpy, the learner observing first."""
    x, memory, learner = np.zeros((2, 3)), np.zeros((2, 3)), learner_of(kind)
    for _ in range(count):
        gradient = 2 * (x - TARGET) + 0.01 * x
        learner.observe(float(np.sum((x - TARGET) ** 2)))
        numbers = learner.hyperparameters(1, 1)
        rate = numbers["learning_rate"]
        if kind == "sgd":
            memory = (1 - numbers["momentum"]) * rate * gradient + numbers["momentum"] * memory
            x = x - memory
        else:
            memory = numbers["beta"] * gradient + (1 - numbers["beta"]) * memory
            x = x - rate * memory
    return x


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["sgd", "stepping"])
def test_steps_are_those_of_plain_numpy(kind: str, backend: str) -> None:
    f = gc.function(bowl, backend=backend)
    found = gc.minimize(f, np.zeros((2, 3)), learner=learner_of(kind), steps=30)
    np.testing.assert_allclose(found.x, plain_steps(kind, 30), rtol=1e-12)
    assert found.steps == 30
    assert found.losses[0] == pytest.approx(np.sum(TARGET**2))
    assert found.loss == pytest.approx(np.sum((found.x - TARGET) ** 2))


def test_containers_of_arrays_and_floats_keep_their_structure() -> None:
    def f(x: Any) -> Any:
        return gc.sum((x["a"] - 2.0) ** 2) + (x["b"][0] + 1.0) ** 2

    start = {"a": np.zeros(3), "b": (0.0,)}
    found = gc.minimize(f, start, learner=gc.SGD(learning_rate=0.3), steps=60)
    np.testing.assert_allclose(found.x["a"], 2.0, rtol=1e-9)
    assert found.x["b"][0] == pytest.approx(-1.0)
    np.testing.assert_array_equal(start["a"], 0.0)


def test_an_array_of_f32_stays_one() -> None:
    def f(x: Any) -> Any:
        return gc.sum((x - 1.0) ** 2)

    found = gc.minimize(f, np.zeros(4, np.float32), learner=gc.SteppingHeuristic(0.1), steps=50)
    assert found.x.dtype == np.float32
    np.testing.assert_allclose(found.x, 1.0, atol=1e-3)


def test_further_arguments_are_handed_on() -> None:
    def f(x: Any, target: Any) -> Any:
        return gc.sum((x - target) ** 2)

    found = gc.minimize(
        f, np.zeros(2), learner=gc.SGD(learning_rate=0.4), steps=40, arguments=[np.array([3.0, 4])]
    )
    np.testing.assert_allclose(found.x, [3, 4], rtol=1e-9)


def test_it_ends_once_nothing_moves() -> None:
    learner = gc.SGD(learning_rate=0.25)
    found = gc.minimize(bowl, np.zeros((2, 3)), learner=learner, steps=1000, tolerance=1e-6)
    assert found.steps < 40
    np.testing.assert_allclose(found.x, TARGET, atol=3e-6)


def test_no_steps_are_the_start() -> None:
    start = np.ones((2, 3))
    found = gc.minimize(bowl, start, learner=gc.SGD(learning_rate=1), steps=0)
    np.testing.assert_array_equal(found.x, start)
    assert found.loss == pytest.approx(np.sum((1 - TARGET) ** 2))


def test_progress_is_told_each_step_and_its_loss() -> None:
    seen: list[tuple[int, float]] = []
    found = gc.minimize(
        bowl,
        np.zeros((2, 3)),
        learner=gc.SGD(learning_rate=0.1),
        steps=3,
        progress=lambda step, loss: seen.append((step, loss)),
    )
    assert seen == list(enumerate(found.losses))


def test_a_loss_that_is_no_number_ends_it() -> None:
    with pytest.raises(GraphcError, match=r"after [0-9]+ steps; a smaller rate") as raised:
        gc.minimize(bowl, np.zeros((2, 3)), learner=gc.SGD(learning_rate=1e3), steps=1000)
    assert [d.slug for d in raised.value.diagnostics] == ["not-a-number"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learner": 0.1}, "a learner is required, got float"),
        ({"learner": gc.SGD}, r"got the class SGD: write SGD\("),
        ({"steps": -1}, "steps requires a whole number"),
        ({"steps": 1.5}, "steps requires a whole number"),
        ({"tolerance": float("nan")}, "tolerance requires a finite number"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, object], message: str) -> None:
    options: dict[str, object] = {"learner": gc.SGD(learning_rate=1), **change}
    with pytest.raises(GraphcError, match=message):
        gc.minimize(bowl, np.zeros((2, 3)), **options)  # type: ignore[arg-type]


def test_a_function_of_several_numbers_is_refused() -> None:
    with pytest.raises(GraphcError, match="a gradient is of one floating-point number"):
        gc.minimize(lambda x: x * 2.0, np.zeros(3), learner=gc.SGD(learning_rate=1))


def test_what_the_mask_holds_back_stays_bit_by_bit() -> None:
    start = np.full((2, 3), 0.3)
    mask = np.array([True, False, True])  # one for both rows
    learner = gc.SGD(learning_rate=0.25, l2=0.1)
    found = gc.minimize(bowl, start, learner=learner, steps=60, mask=mask)
    np.testing.assert_array_equal(found.x[:, 1], 0.3)
    np.testing.assert_allclose(found.x[:, mask], TARGET[:, mask] / 1.05, rtol=1e-9)


def test_no_mask_for_one_of_several_arrays_lets_it_move() -> None:
    def f(x: Any) -> Any:
        return gc.sum((x["a"] - 1.0) ** 2) + gc.sum((x["b"] - 1.0) ** 2)

    start = {"a": np.zeros(2), "b": np.zeros(2)}
    mask = {"a": None, "b": np.zeros(2, bool)}
    found = gc.minimize(f, start, learner=gc.SGD(learning_rate=0.4), steps=40, mask=mask)
    np.testing.assert_allclose(found.x["a"], 1.0, rtol=1e-9)
    np.testing.assert_array_equal(found.x["b"], 0.0)


def test_a_masked_gradient_that_is_no_number_does_no_harm() -> None:
    def f(x: Any) -> Any:
        return gc.sum(gc.sqrt(x))

    start = np.array([0.0, 1.0])
    mask = np.array([False, True])
    found = gc.minimize(f, start, learner=gc.SGD(learning_rate=0.1), steps=1, mask=mask)
    np.testing.assert_allclose(found.x, [0.0, 0.95])


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.ones((2, 3)), "a mask requires truth values, got float64"),
        (np.ones((3, 2), bool), r"a mask of \(2, 3\) is required, got \(3, 2\)"),
        ((np.ones((2, 3), bool),), "a mask requires the structure of x0"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(mask: object, message: str) -> None:
    with pytest.raises(GraphcError, match=message):
        gc.minimize(bowl, np.zeros((2, 3)), learner=gc.SGD(learning_rate=0.1), mask=mask)


def test_each_step_has_its_batch_and_they_end_with_the_last() -> None:
    def f(x: Any, scale: Any, target: Any) -> Any:
        return scale * gc.sum((x - target) ** 2)

    targets = [np.full(2, float(t)) for t in (1, 2, 3)]
    found = gc.minimize(
        f,
        np.zeros(2),
        learner=gc.SGD(learning_rate=0.25),
        arguments=[2.0],
        batches=([t] for t in targets),
    )
    np.testing.assert_allclose(found.x, 3.0)  # such a step ends at its batch's target
    np.testing.assert_allclose(found.losses, [4.0, 4.0, 4.0])
    assert found.loss == pytest.approx(0.0)


def test_progress_ends_the_steps() -> None:
    found = gc.minimize(
        bowl,
        np.zeros((2, 3)),
        learner=gc.SGD(learning_rate=0.1),
        steps=100,
        progress=lambda step, loss: step == 4,
    )
    assert found.steps == 4
