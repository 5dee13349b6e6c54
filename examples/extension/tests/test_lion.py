"""Lion: judged by the paper's lines in numpy, made directly and by its name."""

from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc_extension.lion import lion

NETWORK = """
net = [
    x = Input(3, tag=feature)
    t = Input(2, tag=label)
    W = Parameter(2, 3, initValueScale=10)
    c = SquareError(t, Times(W, x), tag=criterion)
]
run = net
"""


def by_the_paper(
    w: np.ndarray, x: np.ndarray, t: np.ndarray, steps: int, rate: float, decay: float
) -> np.ndarray:
    m = np.zeros_like(w)
    for _ in range(steps):
        g = (x @ w.T - t).T @ x / len(x)
        w = w - rate * (np.sign(0.9 * m + 0.1 * g) + decay * w)
        m = 0.99 * m + 0.01 * g
    return w


@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm"])
@pytest.mark.parametrize(
    "learner",
    [lion(0.03, decay=0.1), gc.named_learner("Lion", learning_rate=0.03, decay=0.1)],
    ids=["made", "named"],
)
def test_steps_are_those_of_the_paper(backend: str, learner: Any) -> None:
    rng = np.random.default_rng(5)
    x, t = rng.standard_normal((8, 3)), rng.standard_normal((8, 2))
    net = gc.loads(NETWORK, seed=4)
    step = gc.compile_training(net, learner=learner, batch=8, backend=backend, precision="f64")
    start = np.array(net.parameters["W"], np.float64)
    for _ in range(7):
        step(x=x, t=t)
    wanted = by_the_paper(start, x, t, 7, 0.03, 0.1)
    np.testing.assert_allclose(net.parameters["W"], wanted, rtol=1e-10)
