"""Members that normalise by the samples of all, against PyTorch with the whole minibatch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gc
from tests.unit.learn.test_members_training import network, together

torch = pytest.importorskip("torch")
Array = np.ndarray

TEXT = """
    x = ImageInput(5, 4, 2)
    t = Input(3)
    K = Parameter(3, 18)
    c = Convolution(K, x, 3, 3, 3, 1, 1)
    s = Parameter(3, 1, init=fixedValue, value=1)
    o = Parameter(3, 1, init=fixedValue, value=0)
    m = Parameter(3, 1, needGradient=false)
    i = Parameter(3, 1, needGradient=false)
    n = BatchNormalization(c, s, o, m, i, spatial=true, expAvgFactor=0.25, epsilon=0.001)
    V = Parameter(3, 18)
    e = SquareError(t, Times(V, Tanh(n)), tag=criteria)
"""
RNG = np.random.default_rng(6)
X, T = RNG.standard_normal((3, 10, 40)), RNG.standard_normal((3, 10, 3))
START = {
    "K": RNG.standard_normal((3, 18)),
    "s": 1 + RNG.random((3, 1)),
    "o": RNG.standard_normal((3, 1)),
    "m": RNG.standard_normal((3, 1)),
    "V": RNG.standard_normal((3, 18)),
}
RATE, MOMENTUM = 0.05, 0.5


def by_pytorch() -> tuple[list[float], dict[str, Array]]:
    """Criteria of three updates, and the parameters in the end. An image is
    [width, height, channels] in a row."""
    p = {n: torch.tensor(a, requires_grad=n != "m") for n, a in START.items()}
    mean, variance = p["m"][:, 0], torch.ones(3, dtype=torch.float64)
    # The toolkit's momentum: the velocity takes the share that it does not keep.
    velocity = {n: torch.zeros_like(a) for n, a in p.items()}
    criteria: list[float] = []
    for x, t in zip(X, T, strict=True):
        image = torch.tensor(x).reshape(10, 5, 4, 2).permute(0, 3, 2, 1)
        kernel = p["K"].reshape(3, 2, 3, 3).permute(0, 1, 3, 2)
        made = torch.nn.functional.conv2d(image, kernel)
        made = torch.nn.functional.batch_norm(
            made, mean, variance, p["s"][:, 0], p["o"][:, 0], training=True, momentum=0.25, eps=1e-3
        )
        rows = torch.tanh(made.permute(0, 3, 2, 1).reshape(10, 18))
        error = ((torch.tensor(t) - rows @ p["V"].T) ** 2).sum() / 2
        criteria.append(error.item())
        names = [n for n in p if n != "m"]
        slopes = torch.autograd.grad(error, [p[n] for n in names])
        for name, slope in zip(names, slopes, strict=True):
            velocity[name] = MOMENTUM * velocity[name] + (1 - MOMENTUM) * RATE * slope / 10
            p[name] = (p[name] - velocity[name]).detach().requires_grad_()
    p["m"] = mean[:, None]
    return criteria, {n: a.detach().numpy() for n, a in p.items()}


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_three_updates_are_those_of_pytorch(backend: str) -> None:
    """Two members with 7 and 3 samples of each minibatch."""
    cuts = slice(0, 7), slice(7, 10)

    def run(rank: int, member: gc.comm.Communicator) -> tuple[list[float], dict[str, Array]]:
        net = network(TEXT)
        for name, array in START.items():
            net.parameters[name] = array
        step = gc.compile_training(
            net,
            learner=gc.SGD(RATE, momentum=MOMENTUM),
            batch=10,
            backend=backend,
            precision="f64",
            comm=member,
            sync_batchnorm=True,
        )
        step.nominal = 10
        some: Any = cuts[rank]
        criteria = [float(step(x=x[some], t=t[some])["e"]) for x, t in zip(X, T, strict=True)]
        return criteria, dict(net.parameters)

    criteria, parameters = by_pytorch()
    for found, its in together(2, run):
        np.testing.assert_allclose(found, criteria, 1e-11)
        for name, value in parameters.items():
            np.testing.assert_allclose(its[name], value, 1e-10, 1e-12)
