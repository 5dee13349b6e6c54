"""W8: element-wise work on a large matrix, softmax and normalisation of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench.workloads.record import BYTES, Cost, Workload, generator, normal

RowFunction = Literal["chain", "softmax", "norm"]
EPSILON = 1e-5
OPERATIONS = {"chain": 8, "softmax": 5, "norm": 7}


@dataclass(frozen=True)
class Rows:
    """chain    tanh(x * a + b) * sigmoid(x - c) + x * x, with rows a, b and c
    softmax  of every row
    norm     (x - mean) / sqrt(variance + EPSILON) of every row
    """

    function: RowFunction
    columns: int


def rows(
    name: str,
    title: str,
    function: RowFunction,
    shape: tuple[int, int],
    targets: tuple[float, float],
) -> Workload:
    rng = generator(name)
    inputs = {"x": normal(rng, *shape)}
    if function == "chain":
        inputs |= {row: normal(rng, shape[1]) for row in "abc"}
    elements = shape[0] * shape[1]
    moved = 2.0 * BYTES * elements
    cost = Cost(OPERATIONS[function] * elements, moved, moved)
    return Workload(
        name,
        title,
        Rows(function, shape[1]),
        inputs,
        {},
        cost,
        False,
        shape[0],
        {},
        targets=targets,
    )
