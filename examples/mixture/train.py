"""A mixture of normal distributions fitted to data of a known one, next to the exact answer.

    python examples/mixture/train.py

The exact answer is the likelihood of held-out data under the mixture that they were drawn from.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import graphc as gc
from graphc.builder import GraphBuilder

HERE = Path(__file__).parent

WEIGHTS = np.array([0.5, 0.3, 0.2])
MEANS = np.array([[-2.0, 0.0], [2.0, 1.0], [0.5, -3.0]])
DEVIATIONS = np.array([0.6, 1.0, 0.4])


def sample(rng: np.random.Generator, count: int) -> np.ndarray:
    """(count, 2): points of the mixture."""
    component = rng.choice(len(WEIGHTS), count, p=WEIGHTS)
    noise = rng.normal(size=(count, MEANS.shape[1]))
    return MEANS[component] + DEVIATIONS[component, None] * noise


def main(samples: int = 4000, epochs: int = 60) -> int:
    rng = np.random.default_rng(0)
    seen, unseen = sample(rng, samples), sample(rng, samples)

    exact = gc.load(HERE / "mixture.ndl")
    exact.parameters["Prior"] = np.log(WEIGHTS)[:, None]
    exact.parameters["Means"] = MEANS.reshape(-1, 1)
    exact.parameters["LogDev"] = np.log(DEVIATIONS)[:, None]
    best = average_loss(exact, unseen)
    print(f"the mixture that was drawn from: {best:.4f} nats a point")

    network = gc.load(HERE / "mixture.ndl", seed=3)
    print(f"before training                  {average_loss(network, unseen):.4f}")
    for rate in (0.02, 0.005, 0.001):
        gc.train(
            network,
            {"features": seen},
            epochs=epochs // 3,
            minibatch=50,
            learning_rate_per_sample=rate,
            precision="f64",
        )
        print(f"trained at a rate of {rate:<12}{average_loss(network, unseen):.4f}", flush=True)
    show(network)
    print(f"{average_loss(network, unseen) - best:.4f} nats a point above the exact answer")
    return 0


def average_loss(network: GraphBuilder, points: np.ndarray) -> float:
    """Minus the log likelihood of a point, averaged."""
    return gc.evaluate(network, {"features": points}, precision="f64")["NLL"]


def show(network: GraphBuilder) -> None:
    """Each component next to the nearest of the true ones."""
    found = {name: np.asarray(network.parameters[name]) for name in ("Prior", "Means", "LogDev")}
    weights = np.exp(found["Prior"][:, 0])
    weights /= weights.sum()
    for weight, mean, deviation in zip(
        weights,
        found["Means"].reshape(-1, MEANS.shape[1]),
        np.exp(found["LogDev"][:, 0]),
        strict=True,
    ):
        true = int(np.argmin(np.sum((MEANS - mean) ** 2, axis=1)))
        print(
            f"  weight {weight:.3f} ({WEIGHTS[true]}), "
            f"mean ({mean[0]:6.3f}, {mean[1]:6.3f}) {tuple(float(v) for v in MEANS[true])}, "
            f"deviation {deviation:.3f} ({DEVIATIONS[true]})"
        )


if __name__ == "__main__":
    sys.exit(main())
