"""W1 to W3: networks of fully connected layers with softmax cross entropy."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from bench.workloads.record import BYTES, Cost, Values, Workload, generator, normal, size, weights

Activation = Literal["sigmoid", "relu"]
EPOCH_STEPS = 400


@dataclass(frozen=True)
class Mlp:
    """widths      of input, hidden layers and output
    activation  of the hidden layers; the output has none
    normalised  inputs are (x - mean) * scale first
    """

    widths: tuple[int, ...]
    activation: Activation
    normalised: bool = False

    @property
    def layers(self) -> int:
        return len(self.widths) - 1


def mlp(
    name: str,
    title: str,
    spec: Mlp,
    batch: int,
    *,
    trains: bool = True,
    epoch_steps: int = 0,
    targets: tuple[float, float] = (1.0, 1.0),
) -> Workload:
    """epoch_steps  one call goes over so many minibatches of the data, in the order of `order`"""
    rng = generator(name)
    samples = batch * max(1, epoch_steps)
    inputs: Values = {"x": normal(rng, samples, spec.widths[0])}
    constants: Values = {}
    if spec.normalised:
        inputs["x"] = inputs["x"] * np.float32(3) + np.float32(1)
        constants["mean"] = inputs["x"].mean(axis=0, dtype=np.float64).astype(np.float32)
        constants["scale"] = (1 / inputs["x"].std(axis=0, dtype=np.float64)).astype(np.float32)
    if trains:
        inputs["y"] = rng.integers(0, spec.widths[-1], samples)
    if epoch_steps:
        inputs["order"] = rng.permutation(samples).reshape(epoch_steps, batch)
    parameters: Values = {}
    for i, (before, after) in enumerate(pairwise(spec.widths)):
        parameters[f"W{i}"] = weights(rng, after, before)
        parameters[f"B{i}"] = normal(rng, after) * np.float32(0.1)
    return Workload(
        name,
        title,
        spec,
        inputs,
        parameters,
        _cost(spec, batch, size(parameters), trains),
        trains,
        batch,
        constants,
        steps=max(1, epoch_steps),
        targets=targets,
    )


def _cost(spec: Mlp, batch: int, parameters: int, trains: bool) -> Cost:
    products = [2.0 * batch * a * b for a, b in pairwise(spec.widths)]
    data = BYTES * batch * spec.widths[0]
    kept = BYTES * batch * sum(spec.widths)
    if not trains:
        touched = BYTES * parameters + data
        return Cost(sum(products), touched, BYTES * parameters + kept)
    flops = 3 * sum(products) - products[0]  # no gradient by the input
    return Cost(flops, 4 * BYTES * parameters + data, 2 * BYTES * parameters + 2 * kept)
