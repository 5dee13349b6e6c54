"""CosDistanceWithNegativeSamples: which columns are compared, and how."""

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

X = "node.input {rows = 3}"


def nodes(shift: int, negatives: int, leaf: str = X) -> dict[str, str]:
    settings = f"{{shift = {shift}, negatives = {negatives}}}"
    node = f"node.cos_distance_with_negative_samples %x, %y {settings}"
    return {"x": leaf, "y": leaf, "v": node}


def values(samples: int, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=(3, samples)) for name in "xy"}


def cosines(x: Array, y: Array) -> Array:
    """Between every column of x and every column of y."""
    return (x.T @ y) / np.outer(np.linalg.norm(x, axis=0), np.linalg.norm(y, axis=0))


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("samples", [1, 2, 5, 11])
@pytest.mark.parametrize(("shift", "negatives"), [(1, 1), (1, 4), (3, 2), (0, 2), (7, 5), (40, 1)])
def test_each_column_meets_itself_and_those_after_the_shift(
    shift: int, negatives: int, samples: int, dtype: DType
) -> None:
    net = network(nodes(shift, negatives))
    leaves = values(samples)
    table = cosines(leaves["x"], leaves["y"])
    expected = [[table[j, j] for j in range(samples)]]
    for i in range(negatives):
        expected.append([table[j, (j + shift + i) % samples] for j in range(samples)])
    found = computed(net, "v", leaves, samples, dtype)
    tolerance = 1e-6 if dtype is DType.F32 else 1e-14
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(judged(net, "v", leaves), expected, rtol=1e-13)


def test_the_samples_of_the_call_count_and_not_its_bound() -> None:
    net = network(nodes(1, 1))  # compiled for 64
    leaves = values(2)
    found = computed(net, "v", leaves, 2)
    table = cosines(leaves["x"], leaves["y"])
    np.testing.assert_allclose(found[1], [table[0, 1], table[1, 0]])


def test_columns_that_are_no_samples_are_compared_alike() -> None:
    net = network(nodes(2, 3, "node.parameter {rows = 3, cols = 5}"))
    leaves = values(5)
    found = computed(net, "v", leaves, 1)
    np.testing.assert_allclose(found, judged(net, "v", leaves))
    assert found.shape == (4, 5)


def test_a_zero_column_is_like_no_other_and_has_no_slope() -> None:
    net = network({**nodes(1, 1), "j": "node.sum_elements %v"})
    leaves = values(3)
    leaves["x"][:, 1] = 0
    assert computed(net, "v", leaves, 3)[:, 1].tolist() == [0, 0]
    slopes = gradients(net, "j", leaves, 3, ["x", "y"])
    assert slopes["x"][:, 1].tolist() == [0, 0, 0]
    assert np.isfinite(slopes["y"]).all()


@pytest.mark.parametrize(("shift", "negatives", "samples"), [(1, 2, 4), (2, 6, 3), (0, 1, 1)])
def test_gradients_are_what_central_differences_say(
    shift: int, negatives: int, samples: int
) -> None:
    net = network(
        {
            **nodes(shift, negatives),
            "u": "node.element_times %v, %v",
            "j": "node.sum_elements %u",
        }
    )
    leaves = values(samples, seed=1)
    found = gradients(net, "j", leaves, samples, ["x", "y"])
    for name in "xy":
        expected = difference_quotients(net, "j", leaves, name)
        np.testing.assert_allclose(found[name], expected, rtol=1e-6, atol=1e-7, err_msg=name)


def test_over_no_samples_it_has_no_columns() -> None:
    assert computed(network(nodes(1, 2)), "v", values(0), 0).shape == (3, 0)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (nodes(-1, 2), "requires a shift of at least 0 and at least 1 negative sample, got -1"),
        (nodes(1, 0), "requires a shift of at least 0 and at least 1 negative sample, got 1 and 0"),
        (nodes(2**40, 1), "requires a shift of at least 0"),
        ({**nodes(1, 1), "y": "node.input {rows = 4}"}, "requires operands of one size, got"),
        ({**nodes(1, 1), "y": "node.parameter {rows = 3, cols = 2}"}, "got matrix<3x*> and matrix"),
    ],
)
def test_a_wrong_setting_or_operand_is_refused(made: dict[str, str], message: str) -> None:
    assert message in complaint(made)
