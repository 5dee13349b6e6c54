"""Adding numbers that are far apart: an LSTM on a task with a known exact answer.

    python examples/adding/train.py              # the network of adding.ndl
    python examples/adding/train.py --python     # the same one built in Python

Each sequence has numbers between 0 and 1, two of them marked; the answer is the sum of the two. Who
always says 1, the mean, has a mean square error of 1/6 = 0.1667; the exact answer has 0.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from built import built

import graphc as gc
from graphc.builder import GraphBuilder

HERE = Path(__file__).parent
Sequences = dict[str, list[np.ndarray]]


def sample(rng: np.random.Generator, count: int, shortest: int, longest: int) -> Sequences:
    """`count` sequences of `shortest` to `longest` steps: the network's inputs."""
    data: Sequences = {"features": [], "last": [], "sum": []}
    for steps in rng.integers(shortest, longest + 1, count):
        features = np.zeros((steps, 2))
        features[:, 0] = rng.random(steps)
        features[rng.choice(steps, 2, replace=False), 1] = 1
        last = np.zeros((steps, 1))
        last[-1] = 1
        data["features"].append(features)
        data["last"].append(last)
        data["sum"].append(last * np.sum(features[:, 0] * features[:, 1]))
    return data


def loaded() -> GraphBuilder:
    """The network of adding.ndl."""
    return gc.load(HERE / "adding.ndl", macros=HERE.parent / "lstm.ndl", seed=1)


class Errors:
    """The network, compiled to say what it gives at the end of sequences, less their sums."""

    def __init__(self, network: GraphBuilder) -> None:
        self._z = gc.compile(network, outputs=["z"], time=64, sequences=512)

    def __call__(self, data: Sequences) -> np.ndarray:
        given: Sequence[np.ndarray] = self._z(features=data["features"])["z"]
        ends = zip(given, data["sum"], strict=True)
        return np.array([float(z[-1, 0] - total[-1, 0]) for z, total in ends])


def main(count: int = 4000, epochs: int = 30, network: GraphBuilder | None = None) -> int:
    rng = np.random.default_rng(0)
    seen, unseen = sample(rng, count, 10, 20), sample(rng, 500, 10, 20)
    longer = sample(rng, 500, 30, 30)
    network = network or loaded()
    errors = Errors(network)
    print("always 1:    mean square error 0.1667")
    print(f"before:      mean square error {np.mean(errors(unseen) ** 2):.4f}", flush=True)

    def report(record: gc.EpochRecord) -> None:
        now = np.mean(errors(unseen) ** 2)
        print(
            f"epoch {record.epoch:2}:    mean square error {now:.4f}, {record.seconds:.2f} s",
            flush=True,
        )

    gc.train(
        network,
        seen,
        epochs=epochs,
        minibatch=20,
        learning_rate_per_sample="0.025*10:0.01*10:0.003",
        momentum=0.9,
        seed=1,
        progress=gc.Progress(epoch=report),
    )
    print(f"30 steps:    mean square error {np.mean(errors(longer) ** 2):.4f}")
    found = errors(unseen)
    print(f"mean square error {np.mean(found**2):.4f}, at worst {np.abs(found).max():.4f} off")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--python", action="store_true", help="the network built in Python")
    sys.exit(main(network=built() if parser.parse_args().python else None))
