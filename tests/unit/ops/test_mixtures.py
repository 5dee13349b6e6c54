"""GMMLogLikelihood: against densities written out one by one, and known integrals."""

from __future__ import annotations

import math

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


def nodes(components: int, size: int, given: str, columns: str = "*") -> dict[str, str]:
    """A mixture over a feature of `size` rows; `given`: columns of its three descriptions."""

    def leaf(rows: int, cols: str) -> str:
        kind = "input" if cols == "*" else "parameter"
        return f"node.{kind} {{rows = {rows}{'' if cols == '*' else f', cols = {cols}'}}}"

    return {
        "p": leaf(components, given),
        "m": leaf(components * size, given),
        "s": leaf(components, given),
        "x": leaf(size, columns),
        "v": "node.gmm_log_likelihood %p, %m, %s, %x",
    }


def values(components: int, size: int, given: int, columns: int, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        "p": rng.normal(size=(components, given)),
        "m": rng.normal(size=(components * size, given)),
        "s": 0.3 * rng.normal(size=(components, given)),
        "x": rng.normal(size=(size, columns)),
    }


def density(x: Array, mean: Array, deviation: float) -> float:
    """Of an isotropic Gaussian, as a product over dimensions."""
    return math.prod(
        math.exp(-((a - b) ** 2) / (2 * deviation**2)) / (deviation * math.sqrt(2 * math.pi))
        for a, b in zip(x, mean, strict=True)
    )


CASES = [
    (1, 1, "1", "*", 1),
    (1, 3, "1", "*", 5),
    (3, 2, "1", "*", 7),
    (3, 2, "*", "*", 7),
    (4, 1, "*", "*", 1),
    (3, 2, "1", "4", 4),
    (3, 2, "4", "4", 4),
    (2, 3, "1", "1", 1),
]


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize(("components", "size", "given", "columns", "samples"), CASES)
def test_it_is_the_logarithm_of_the_weighted_densities(
    components: int, size: int, given: str, columns: str, samples: int, dtype: DType
) -> None:
    leaves = values(components, size, samples if given in ("*", "4") else 1, samples)
    net = network(nodes(components, size, given, columns))
    expected: list[float] = []
    for t in range(samples):
        c = t if leaves["p"].shape[1] > 1 else 0
        prior = np.exp(leaves["p"][:, c]) / np.exp(leaves["p"][:, c]).sum()
        means = leaves["m"][:, c].reshape(components, size)
        parts = [
            prior[i] * density(leaves["x"][:, t], means[i], math.exp(leaves["s"][i, c]))
            for i in range(components)
        ]
        expected.append(math.log(sum(parts)))
    found = computed(net, "v", leaves, samples, dtype)
    tolerance = 2e-5 if dtype is DType.F32 else 1e-12
    np.testing.assert_allclose(found, [expected], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(judged(net, "v", leaves), [expected], rtol=1e-12)


@pytest.mark.parametrize(("given", "columns"), [("1", "*"), ("*", "*"), ("4", "4")])
def test_gradients_are_what_central_differences_say(given: str, columns: str) -> None:
    net = network({**nodes(2, 3, given, columns), "j": "node.sum_elements %v"})
    leaves = values(2, 3, 1 if given == "1" else 4, 4, seed=2)
    found = gradients(net, "j", leaves, 4, list(leaves))
    for name in leaves:
        expected = difference_quotients(net, "j", leaves, name)
        np.testing.assert_allclose(found[name], expected, rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("size", [1, 2])
def test_densities_integrate_to_one(size: int) -> None:
    """Which they would not, were the constant that of the number of components."""
    grid = np.arange(-8.0, 8.0, 0.1 if size == 1 else 0.25)
    points = np.array(np.meshgrid(*[grid] * size)).reshape(size, -1)
    net = network(nodes(3, size, "1", str(points.shape[1])))
    leaves = {**values(3, size, 1, 1, seed=4), "x": points}
    found = np.exp(computed(net, "v", leaves, 1))
    assert np.sum(found) * (grid[1] - grid[0]) ** size == pytest.approx(1, abs=1e-4)


def test_one_standard_component_at_its_mean_is_the_normal_constant() -> None:
    net = network(nodes(1, 3, "1"))
    leaves = {n: np.zeros((r, 1)) for n, r in (("p", 1), ("m", 3), ("s", 1), ("x", 3))}
    np.testing.assert_allclose(computed(net, "v", leaves, 1), [[-1.5 * np.log(2 * np.pi)]])


def test_far_from_all_means_it_does_not_underflow() -> None:
    net = network(nodes(2, 1, "1"))
    leaves = {
        "p": np.zeros((2, 1)),
        "m": np.array([[0.0], [1.0]]),
        "s": np.zeros((2, 1)),
        "x": np.array([[1000.0]]),
    }
    expected = -0.5 * 999.0**2 - 0.5 * np.log(2 * np.pi) - np.log(2)
    np.testing.assert_allclose(computed(net, "v", leaves, 1), [[expected]], rtol=1e-12)


def test_where_every_density_is_zero_it_is_minus_infinity_and_not_nan() -> None:
    net = network(nodes(2, 1, "1"))
    leaves = {name: np.zeros((2, 1)) for name in ("p", "m", "s")}
    leaves["x"] = np.array([[0.0, 1e200, np.inf]])
    found = computed(net, "v", leaves, 3)
    assert np.isfinite(found[0, 0])
    assert np.isneginf(found[0, 1:]).all()


def test_over_no_samples_it_has_no_columns() -> None:
    net = network(nodes(2, 3, "1"))
    assert computed(net, "v", values(2, 3, 1, 0), 0).shape == (1, 0)


def test_sizes_of_parameters_come_from_the_others() -> None:
    open_size = "node.parameter {rows = 0, cols = 0}"
    net = network({**nodes(4, 3, "1"), "m": open_size, "s": open_size})
    assert (str(net.type("m")), str(net.type("s"))) == ("matrix<12x1>", "matrix<4x1>")


P5 = "node.parameter {rows = 5}"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"p": P5}, "GMMLogLikelihood requires as many priors as log deviations, got matrix<5x1>"),
        ({"m": P5}, "requires means of 6 rows, 2 components of 3 numbers, got matrix<5x1>"),
        ({"p": "node.input {rows = 2}"}, "that all have one column or as many as the feature"),
        ({"s": "node.parameter {rows = 2, cols = 3}"}, "got matrix<2x1>, matrix<6x1>, matrix<2x3>"),
        ({n: f"node.parameter {{rows = {r}, cols = 2}}" for n, r in (("p", 2), ("m", 6), ("s", 2))},
         "got matrix<2x2>, matrix<6x2>, matrix<2x2>"),
    ],
)  # fmt: skip
def test_operands_that_do_not_fit_are_refused(changed: dict[str, str], message: str) -> None:
    found = complaint({**nodes(2, 3, "1"), **changed})
    assert found.startswith("shape-mismatch: ")
    assert message in found
