"""W4 to W6: recurrent networks on words, trained through time or asked for their scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bench.workloads.record import BYTES, Array, Cost, Values, Workload, generator, normal, weights

Cell = Literal["sigmoid", "lstm", "peepholes"]
RATE_PER_SAMPLE = 0.01
GATES = "ifgo"
"""In the order in which parameters have them stacked: input, forget, new content, output."""


@dataclass(frozen=True)
class Recurrent:
    """A table of words, a recurrent layer, and a softmax over all outputs or by classes.

    window    words of each step; their rows of the table are summed
    embedding rows of the table; the sigmoid cell adds them as they are, so there it is `hidden`
    classes   0: softmax over all outputs, which have biases in a tagger; otherwise the outputs are
              words in so many classes of the same size
    """

    cell: Cell
    words: int
    window: int
    embedding: int
    hidden: int
    outputs: int
    biased: bool
    classes: int
    time: int
    sequences: int

    @property
    def class_size(self) -> int:
        return self.outputs // self.classes

    @property
    def gates(self) -> int:
        return 1 if self.cell == "sigmoid" else len(GATES)


def recurrent(
    name: str,
    title: str,
    spec: Recurrent,
    *,
    trains: bool = True,
    targets: tuple[float, float] = (1.0, 1.0),
) -> Workload:
    rng = generator(name)
    steps = (spec.time, spec.sequences)
    part = spec.words // spec.window
    places = rng.integers(0, part, (*steps, spec.window)) + part * np.arange(spec.window)
    inputs: Values = {"words": places}
    if trains:
        inputs["y"] = rng.integers(0, spec.outputs, steps).reshape(-1)
    samples = spec.time * spec.sequences
    return Workload(
        name,
        title,
        spec,
        inputs,
        _parameters(rng, spec),
        _cost(spec, inputs, trains),
        trains,
        samples,
        {},
        learning_rate=RATE_PER_SAMPLE * samples,
        targets=targets,
    )


def _parameters(rng: np.random.Generator, spec: Recurrent) -> Values:
    h = spec.hidden
    made: Values = {"E": normal(rng, spec.words, spec.embedding) * np.float32(0.3)}
    if spec.cell != "sigmoid":
        made["Wx"] = weights(rng, spec.gates * h, spec.embedding)
    made["R"] = weights(rng, spec.gates * h, h)
    made["b"] = normal(rng, spec.gates * h) * np.float32(0.1)
    if spec.cell == "peepholes":
        made |= {f"d{gate}": normal(rng, h) * np.float32(0.1) for gate in "ifo"}
    if spec.classes:
        return {**made, "W": weights(rng, spec.outputs, h), "C": weights(rng, spec.classes, h)}
    made["V"] = weights(rng, spec.outputs, h)
    return {**made, "a": normal(rng, spec.outputs) * np.float32(0.1)} if spec.biased else made


def _cost(spec: Recurrent, inputs: Values, trains: bool) -> Cost:
    """Of tables, the rows that this minibatch uses."""
    n, h = spec.time * spec.sequences, spec.hidden
    used = np.unique(inputs["words"]).size * spec.embedding
    projected = spec.gates * h * spec.embedding if spec.cell != "sigmoid" else 0
    columns = spec.class_size + spec.classes if spec.classes else spec.outputs
    flops = 2.0 * n * (projected + spec.gates * h * h + h * columns)
    if spec.classes:
        used += (_classes_used(spec, inputs["y"]) * spec.class_size + spec.classes) * h
    else:
        used += h * spec.outputs
    held = used + projected + spec.gates * h * h
    kept = n * ((spec.gates + 2) * h + columns)
    if not trains:
        return Cost(flops, BYTES * held, BYTES * (held + kept))
    return Cost(3 * flops, 4 * BYTES * held, BYTES * (2 * held + 2 * kept))


def _classes_used(spec: Recurrent, y: Array) -> int:
    return np.unique(y // spec.class_size).size
