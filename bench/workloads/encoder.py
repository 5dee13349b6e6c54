"""W9: one block of a transformer's encoder."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.workloads.record import BYTES, Cost, Values, Workload, generator, normal, size, weights

EPSILON = 1e-5


@dataclass(frozen=True)
class Encoder:
    """Attention of `heads`, then two layers with ReLU between them of four times the width; each
    is added to its input and normalised (as in nn.TransformerEncoderLayer)."""

    width: int
    heads: int
    length: int

    @property
    def inner(self) -> int:
        return 4 * self.width

    @property
    def head(self) -> int:
        return self.width // self.heads


def encoder(
    name: str, title: str, spec: Encoder, batch: int, targets: tuple[float, float]
) -> Workload:
    rng = generator(name)
    d = spec.width
    parameters: Values = {}
    for layer, (rows, columns) in {
        "q": (d, d),
        "k": (d, d),
        "v": (d, d),
        "o": (d, d),
        "up": (spec.inner, d),
        "down": (d, spec.inner),
    }.items():
        parameters[f"W{layer}"] = weights(rng, rows, columns)
        parameters[f"B{layer}"] = normal(rng, rows) * np.float32(0.1)
    for norm in ("first", "second"):
        parameters[f"scale_{norm}"] = 1 + normal(rng, d) * np.float32(0.1)
        parameters[f"shift_{norm}"] = normal(rng, d) * np.float32(0.1)
    inputs = {"x": normal(rng, batch, spec.length, d)}
    rows = batch * spec.length
    flops = 2.0 * rows * (4 * d * d + 2 * d * spec.inner + 2 * d * spec.length)
    moved = BYTES * (size(parameters) + 2 * size(inputs))
    kept = moved + BYTES * rows * (4 * d + spec.inner + spec.heads * spec.length)
    cost = Cost(flops, moved, kept)
    return Workload(name, title, spec, inputs, parameters, cost, False, batch, {}, targets=targets)
