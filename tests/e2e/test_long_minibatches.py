"""One step over a whole data set: gradients and criterion are sums over all samples, and right."""

from __future__ import annotations

import math

import numpy as np
import pytest

import graphc as gc
from tests.conformance.check import BACKEND_NAMES

SAMPLES = 39_063
LAYER = """
features = Input(30, tag=feature)
labels = Input(20, tag=label)
W = Parameter(20, 30, init=fixedValue, value=0)
b = Parameter(20, 1, init=fixedValue, value=0)
z = Plus(Times(W, features), b)
loss = SquareError(labels, z, tag=criterion)
"""


def step(backend: str, precision: str, threads: int) -> tuple[float, dict[str, np.ndarray]]:
    """The criterion before, and the parameters after one step of rate 1."""
    network = gc.loads(LAYER)
    learner = gc.SGD(learning_rate_per_sample=1.0)
    compiled = gc.compile_training(
        network,
        learner=learner,
        batch=SAMPLES,
        backend=backend,
        precision=precision,
        threads=threads,
    )
    data = {"features": np.full((SAMPLES, 30), 0.5), "labels": np.full((SAMPLES, 20), 0.1)}
    loss = compiled(**{name: x.astype(np.float32) for name, x in data.items()})["loss"]
    return float(loss), dict(network.parameters)


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("backend", BACKEND_NAMES)
def test_gradients_and_criterion_do_not_drift(backend: str, precision: str) -> None:
    loss, after = step(backend, precision, 1)
    label = float(np.float32(0.1))
    near = 4e-6 if precision == "f32" else 1e-14  # 64 and 90 units, of sums of 39,063 and 781,260
    assert math.isclose(after["W"][0, 0], SAMPLES * 0.5 * label, rel_tol=near)
    assert math.isclose(after["b"][0, 0], SAMPLES * label, rel_tol=near)
    assert math.isclose(loss, SAMPLES * 20 * label**2 / 2, rel_tol=near)


@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_the_bits_are_the_same_for_any_number_of_threads(precision: str) -> None:
    loss, after = step("llvm", precision, 1)
    for threads in (2, 3):
        other_loss, other = step("llvm", precision, threads)
        assert other_loss == loss
        for name, value in after.items():
            np.testing.assert_array_equal(other[name], value)
