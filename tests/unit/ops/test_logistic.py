"""Logistic: the cross entropy of yes and no."""

from __future__ import annotations

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

SIZES = [
    ((3, "*"), None),
    ((3, "*"), (1, "*")),
    ((3, "*"), (3, "*")),
    ((3, 4), (1, 4)),
    ((1, 1), (1, 1)),
]


def leaf(size: tuple[int, int | str]) -> str:
    rows, cols = size
    return (
        f"node.input {{rows = {rows}}}"
        if cols == "*"
        else f"node.parameter {{rows = {rows}, cols = {cols}}}"
    )


def nodes(size: tuple[int, int | str], weight: tuple[int, int | str] | None) -> dict[str, str]:
    made = {"y": leaf(size), "p": leaf(size), "v": "node.logistic %y, %p"}
    return made if weight is None else {**made, "w": leaf(weight), "v": "node.logistic %y, %p, %w"}


def values(size: tuple[int, int | str], weight: tuple[int, int | str] | None) -> dict[str, Array]:
    rng = np.random.default_rng(3)

    def uniform(low: float, high: float, of: tuple[int, int | str]) -> Array:
        rows, cols = of
        return rng.uniform(low, high, (rows, 5 if isinstance(cols, str) else cols))

    found = {"y": np.round(uniform(0, 1, size)), "p": uniform(0.1, 0.9, size)}
    return found if weight is None else {**found, "w": uniform(0.5, 2, weight)}


@pytest.mark.parametrize(("size", "weight"), SIZES)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
def test_it_is_the_weighted_sum_of_minus_the_logarithms(
    size: tuple[int, int | str], weight: tuple[int, int | str] | None, dtype: DType
) -> None:
    leaves = values(size, weight)
    right = np.where(leaves["y"] == 1, leaves["p"], 1 - leaves["p"])
    expected = -np.sum(np.log(right) * leaves.get("w", np.ones((1, 1))))
    found = computed(network(nodes(size, weight)), "v", leaves, 5, dtype)
    assert found.shape == (1, 1)
    np.testing.assert_allclose(found[0, 0], expected, rtol=1e-5 if dtype is DType.F32 else 1e-13)
    np.testing.assert_allclose(judged(network(nodes(size, weight)), "v", leaves), [[expected]])


@pytest.mark.parametrize(("size", "weight"), SIZES)
def test_gradients_are_what_central_differences_say(
    size: tuple[int, int | str], weight: tuple[int, int | str] | None
) -> None:
    net = network(nodes(size, weight))
    leaves = values(size, weight)
    found = gradients(net, "v", leaves, 5, list(leaves))
    for name in leaves:
        expected = difference_quotients(net, "v", leaves, name)
        np.testing.assert_allclose(found[name], expected, rtol=1e-6, atol=1e-8, err_msg=name)


def test_a_sure_prediction_costs_nothing_when_right_and_the_floor_when_wrong() -> None:
    net = network(nodes((1, "*"), None))
    leaves = {"y": np.array([[1.0, 0.0, 1.0, 0.0]]), "p": np.array([[1.0, 0.0, 0.0, 1.0]])}
    found = computed(net, "v", leaves, 4)
    np.testing.assert_allclose(found, [[-2 * np.log(1e-37)]])
    slopes = gradients(net, "v", leaves, 4, ["p"])["p"]
    assert slopes.tolist() == [[-1.0, 1.0, 0.0, 0.0]]


def test_over_no_samples_it_is_zero() -> None:
    empty = np.zeros((3, 0))
    net = network(nodes((3, "*"), None))
    assert computed(net, "v", {"y": empty, "p": empty}, 0).tolist() == [[0.0]]


def test_a_weight_of_open_size_is_a_row() -> None:
    net = network({**nodes((3, 4), (1, 4)), "w": "node.parameter {rows = 0, cols = 0}"})
    assert str(net.type("w")) == "matrix<1x4>"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"p": leaf((2, "*"))}, "Logistic requires label and probability of one size, got"),
        ({"p": leaf((3, 1))}, "got matrix<3x*> and matrix<3x1>"),
        ({"w": leaf((2, "*"))}, "requires a weight for each column or each element of matrix<3x*>"),
        ({"w": leaf((3, 1))}, "got matrix<3x1>"),
        ({"v": "node.logistic %y, %p, %w, %w"}, "requires at most one weight, got 2"),
    ],
)
def test_operands_that_do_not_fit_are_refused(changed: dict[str, str], message: str) -> None:
    assert message in complaint({**nodes((3, "*"), (1, "*")), **changed})
