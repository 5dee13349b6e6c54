"""What the update of each learner costs: a training step with it over one of SGD.

    python -m bench.learners [--hidden 512] [--minibatch 32] [--rounds 9] [--json FILE]

A classifier of 784 inputs and 10 classes with one hidden layer, in f32 on one thread; epochs in
native code, all learners taken in turn in every round. Where PyTorch is there, its optimisers make
steps on the same network in the same rounds, and their results after the first epoch are compared:
the ratio in the last column is theirs over ours.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import graphc as gc
from graphc.learn.learner import Learner

Array = np.ndarray
INPUTS, CLASSES = 784, 10


def own_momentum(g: Any, w: Any, state: Any, settings: Any) -> tuple[Any, dict[str, Any]]:
    velocity = 0.9 * state["velocity"] + 0.1 * settings["learning_rate"] * g
    return w - velocity, {"velocity": velocity}


LEARNERS: Mapping[str, Learner] = {
    "SGD with momentum": gc.SGD(0.01, 0.9),
    "a function of one's own": gc.learner(own_momentum, states=["velocity"], learning_rate=0.01),
    "AdaGrad": gc.AdaGrad(0.01),
    "AdaGrad, not normalised": gc.AdaGrad(0.01, normalise=False),
    "RmsProp": gc.RmsProp(0.01),
    "Adam": gc.Adam(0.001),
    "AdamW": gc.AdamW(0.001),
    "SGD, elements clipped": gc.SGD(0.01, 0.9, clip=gc.ClipElements(1.0)),
    "SGD, norms clipped": gc.SGD(0.01, 0.9, clip=gc.ClipNorm(1.0)),
    "SGD, global norm clipped": gc.SGD(0.01, 0.9, clip=gc.ClipGlobalNorm(1.0)),
    "SGD, L1 and L2": gc.SGD(0.01, 0.9, l1=1e-5, l2=1e-5),
    "SGD with noise": gc.SGD(0.01, 0.9, noise=1e-4),
}
TORCH: Mapping[str, Callable[[Any, Any], Any]] = {
    # the same rules: ours has the rate in its velocity, which changes nothing at one rate
    "SGD with momentum": lambda t, p: t.optim.SGD(p, lr=0.001, momentum=0.9),
    "Adam": lambda t, p: t.optim.Adam(p, lr=0.001, fused=True),
    "AdamW": lambda t, p: t.optim.AdamW(p, lr=0.001, fused=True),
}


@dataclass
class Entry:
    """Something that goes through an epoch; seconds of each."""

    name: str
    epoch: Callable[[], object]
    seconds: list[float] = field(default_factory=list)

    def run(self) -> None:
        start = time.perf_counter()
        self.epoch()
        self.seconds.append(time.perf_counter() - start)


def network(hidden: int) -> str:
    return f"""
        x = Input({INPUTS})
        y = Input({CLASSES})
        W = Parameter({hidden}, {INPUTS})
        b = Parameter({hidden}, 1)
        V = Parameter({CLASSES}, {hidden})
        h = Sigmoid(Plus(Times(W, x), b))
        e = CrossEntropyWithSoftmax(y, Times(V, h), tag=criteria)
    """


def data(samples: int) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    labels = np.eye(CLASSES, dtype=np.float32)[rng.integers(0, CLASSES, samples)]
    return {"x": rng.random((samples, INPUTS), dtype=np.float32), "y": labels}


def ours(
    text: str, learner: Learner, given: Mapping[str, Array], size: int
) -> tuple[Callable[[], object], Mapping[str, Array]]:
    net = gc.loads(text, seed=1)
    step = gc.compile_training(net, learner=learner, batch=size, threads=1)
    return (lambda: step.run_epoch(given, minibatch=size)), net.parameters


def theirs(
    text: str, make: Callable[[Any, Any], Any], given: Mapping[str, Array], size: int
) -> tuple[Callable[[], object], Mapping[str, Any]]:
    import torch

    torch.set_num_threads(1)
    start = gc.loads(text, seed=1).parameters
    p = {n: torch.tensor(v.astype(np.float32), requires_grad=True) for n, v in start.items()}
    optimiser = make(torch, list(p.values()))
    x, y = (torch.tensor(given[n]) for n in ("x", "y"))

    def epoch() -> None:
        for first in range(0, len(x), size):
            part = slice(first, first + size)
            optimiser.zero_grad()
            z = torch.sigmoid(x[part] @ p["W"].T + p["b"].T) @ p["V"].T
            torch.nn.functional.cross_entropy(z, y[part]).backward()
            optimiser.step()

    return epoch, p


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--minibatch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    size, steps = options.minibatch, 100
    text, given = network(options.hidden), data(size * steps)
    made = {name: ours(text, learner, given, size) for name, learner in LEARNERS.items()}
    entries = [Entry(name, epoch) for name, (epoch, _) in made.items()]
    rivals: dict[str, Entry] = {}
    if importlib.util.find_spec("torch") is not None:
        for name, make in TORCH.items():
            epoch, found = theirs(text, make, given, size)
            rivals[name] = Entry(f"torch: {name}", epoch)
            made[name][0]()
            epoch()
            for parameter, value in found.items():
                wanted = made[name][1][parameter]
                np.testing.assert_allclose(value.detach().numpy(), wanted, rtol=0.05, atol=2e-3)
    for _ in range(options.rounds + 1):
        for entry in [*entries, *rivals.values()]:
            entry.run()
    record = report(entries, rivals, steps)
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def report(entries: list[Entry], rivals: Mapping[str, Entry], steps: int) -> dict[str, object]:
    """Print the table; its record. The first round, which compiles and touches memory, is left
    out."""

    def median(entry: Entry) -> float:
        return statistics.median(entry.seconds[1:]) / steps * 1e6

    def least(entry: Entry) -> float:
        return min(entry.seconds[1:]) / steps * 1e6

    print(
        f"{platform.machine()}, numpy {np.__version__}; us of a step, in SGD's, PyTorch's in ours"
    )
    columns = ("median", "of SGD", "least", "of SGD", "torch")
    print(f"{'learner':<28}" + "".join(f"{c:>9}" for c in columns))
    rows: list[dict[str, object]] = []
    for entry in entries:
        middle, short = median(entry), least(entry)
        ratios = middle / median(entries[0]), short / least(entries[0])
        rival = median(rivals[entry.name]) / middle if entry.name in rivals else None
        shown = f"{rival:9.2f}" if rival is not None else ""
        print(f"{entry.name:<28}{middle:9.1f}{ratios[0]:9.2f}{short:9.1f}{ratios[1]:9.2f}{shown}")
        rows.append({"learner": entry.name, "us": middle, "of_sgd": ratios, "torch": rival})
    return {"machine": platform.machine(), "numpy": np.__version__, "rows": rows}


if __name__ == "__main__":
    main()
