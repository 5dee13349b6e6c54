"""What a workload is: its network, the arrays of a call, start values, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
Values = dict[str, Array]

MOMENTUM = 0.9
"""Of a minibatch. Everyone trains by v = μ v + g, w = w - (1 - μ) r/N v, with g the gradient of the
criterion's sum over the N samples: graphc's rule, up to a factor of v."""
BYTES = 4
"""Of an f32, in which everyone computes."""


@dataclass(frozen=True)
class Cost:
    """What no implementation can save, for the bound.

    flops        of all products; element-wise work is left out
    bytes        that are read and written at least once
    working_set  bytes in use at a time; decides which cache bounds the bandwidth
    """

    flops: float
    bytes: float
    working_set: float


@dataclass(frozen=True, eq=False)
class Workload:
    """One network, or function, with one minibatch.

    spec        the kind of network and its sizes; peers choose by its type
    inputs      the arrays of a call
    parameters  start values in PyTorch's layouts: [out, in], [out, in, height, width]; those of a
                training workload change
    constants   arrays that never change, such as statistics
    trains      a call is forward, backward and update, and gives the loss (a sum); otherwise it
                gives outputs
    samples     of a minibatch
    learning_rate  r, of a minibatch
    steps       in one call; times are those of one step
    bf16        factors of products are rounded to bf16
    targets     how many times as fast as the best peer graphc wants to be, by the number of threads
    """

    name: str
    title: str
    spec: Any
    inputs: Values
    parameters: Values
    cost: Cost
    trains: bool
    samples: int
    constants: Values
    learning_rate: float = 0.05
    steps: int = 1
    bf16: bool = False
    targets: tuple[float, float] = (1.0, 1.0)

    @property
    def rate(self) -> float:
        """What the gradient of the sum is multiplied with, for v without unit gain."""
        return (1 - MOMENTUM) * self.learning_rate / self.samples


def generator(name: str) -> np.random.Generator:
    """Random numbers of this workload: the same in every process."""
    return np.random.default_rng(list(name.encode()))


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape, np.float32)


def weights(rng: np.random.Generator, *shape: int, inputs: int = 0) -> Array:
    """Start values of a size that keeps activations of size one."""
    return normal(rng, *shape) / np.float32(np.sqrt(inputs or shape[-1]))


def size(values: Values) -> int:
    return sum(v.size for v in values.values())
