"""Adam, AdamW, AdaGrad and clipping of all gradients against PyTorch, with random numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.learn.rated import RatedLearner

torch = pytest.importorskip("torch")

Array = np.ndarray
NETWORK = """
    x = Input(4)
    y = Input(3)
    W = Parameter(5, 4)
    b = Parameter(5, 1)
    V = Parameter(3, 5)
    e = SquareError(y, Times(V, Tanh(Plus(Times(W, x), b))), tag=criteria)
"""
SEEDS = range(8)


def pairs(rng: np.random.Generator) -> dict[str, tuple[RatedLearner, Callable[[Any], Any]]]:
    """Learners of both, with the same numbers."""
    rate, beta1, beta2 = rng.uniform(0.01, 0.2), rng.uniform(0, 0.95), rng.uniform(0, 0.999)
    epsilon, decay = 10 ** rng.uniform(-8, -2), rng.uniform(0, 0.3)
    common: dict[str, Any] = {"lr": rate, "betas": (beta1, beta2), "eps": epsilon}
    given = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon}
    return {
        "adam": (gc.Adam(rate, **given), lambda p: torch.optim.Adam(p, **common)),
        "adam with l2": (
            gc.Adam(rate, l2=decay, **given),
            lambda p: torch.optim.Adam(p, weight_decay=decay, **common),
        ),
        "adamw": (
            gc.AdamW(rate, decay=decay, **given),
            lambda p: torch.optim.AdamW(p, weight_decay=decay, **common),
        ),
        "adagrad": (  # its step is as long for any scale of gradients
            gc.AdaGrad(learning_rate_per_sample=rate, normalise=False),
            lambda p: torch.optim.Adagrad(p, lr=rate, eps=0.0),
        ),
        "sgd": (gc.SGD(rate), lambda p: torch.optim.SGD(p, lr=rate)),
    }


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["adam", "adam with l2", "adamw", "adagrad", "sgd"])
def test_ten_updates_are_those_of_pytorch(name: str, seed: int, clip: bool) -> None:
    rng = np.random.default_rng(seed)
    learner, make = pairs(rng)[name]
    threshold = rng.uniform(0.05, 0.5)
    if clip:
        learner = replace(learner, clip=gc.ClipGlobalNorm(threshold))
    net = gc.loads(NETWORK, seed=seed)
    step = gc.compile_training(net, learner=learner, batch=8, precision="f64")
    theirs = {n: torch.tensor(v.copy(), requires_grad=True) for n, v in net.parameters.items()}
    optimiser = make(list(theirs.values()))
    for _ in range(10):
        x, y = rng.standard_normal((8, 4)), rng.standard_normal((8, 3))
        step(x=x, y=y)
        optimiser.zero_grad()
        hidden = torch.tanh(torch.tensor(x) @ theirs["W"].T + theirs["b"].T)
        loss = 0.5 * ((hidden @ theirs["V"].T - torch.tensor(y)) ** 2).sum() / 8
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(list(theirs.values()), threshold)
        optimiser.step()
    close = 1e-4 if clip else 1e-9  # PyTorch adds 1e-6 to the norm
    for n, value in net.parameters.items():
        np.testing.assert_allclose(value, theirs[n].detach().numpy(), rtol=close, atol=close)
