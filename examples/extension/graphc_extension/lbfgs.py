"""L-BFGS: a training algorithm with a loop of its own, over `gc.gradients`.

    end = minimise(gc.gradients(net, precision="f64"), {"features": x, "labels": t})

The direction is the two-loop recursion over the last moves and changes of the gradient (Nocedal and
Wright, Numerical Optimization, algorithms 7.4 and 7.5); along it steps are halved until the value
falls enough (Armijo). The minibatch is all of the data: a value that changes from call to call, as
with Dropout, has no line to search along.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.learn.gradients import Gradients

ENOUGH = 1e-4
"""The share of what the slope promises that a step has to bring."""
HALVINGS = 40
CURVED = 1e-10
"""A move is kept if the gradient grew along it by at least this, relative to both lengths."""


@dataclass(frozen=True)
class Minimum:
    """Where a search ended: the network's parameters are there.

    values     the objective at the start and after every step
    converged  whether the gradient got as small as asked for; if not, no step brought anything any
               more, or there were too many
    """

    point: np.ndarray
    values: tuple[float, ...]
    slope: float
    converged: bool


@dataclass(frozen=True)
class _Move:
    """A step, and by how much the gradient changed in it."""

    step: np.ndarray
    change: np.ndarray

    @property
    def curvature(self) -> float:
        return float(self.step @ self.change)


def minimise(
    slopes: Gradients,
    data: Mapping[str, object],
    *,
    steps: int = 100,
    memory: int = 10,
    tolerance: float = 1e-6,
    l2: float = 0.0,
) -> Minimum:
    """Move the network's parameters to a minimum of its criterion's sum over `data`.

    steps      at most so many
    memory     moves that the direction is computed of
    tolerance  the largest element of the gradient at the end
    l2         l2/2 times the sum of all squared parameters is added
    """

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = slopes.at(point, **data)
        return value + 0.5 * l2 * float(point @ point), gradient + l2 * point

    point = slopes.point
    value, gradient = objective(point)
    values = [value]
    moves: deque[_Move] = deque(maxlen=memory)
    while len(values) <= steps and _size(gradient) > tolerance:
        direction = -_inverse_curvature(moves, gradient)
        size = 1.0 if moves else 1 / max(1.0, float(np.linalg.norm(gradient)))
        for _ in range(HALVINGS):
            there = point + size * direction
            new_value, new_gradient = objective(there)
            if new_value <= value + ENOUGH * size * float(gradient @ direction):
                break
            size /= 2
        else:
            break
        move = _Move(there - point, new_gradient - gradient)
        if move.curvature > CURVED * np.linalg.norm(move.step) * np.linalg.norm(move.change):
            moves.append(move)
        point, value, gradient = there, new_value, new_gradient
        values.append(value)
    slopes.point = point
    return Minimum(point, tuple(values), _size(gradient), _size(gradient) <= tolerance)


def _size(gradient: np.ndarray) -> float:
    return float(np.max(np.abs(gradient), initial=0.0))


def _inverse_curvature(moves: Sequence[_Move], gradient: np.ndarray) -> np.ndarray:
    """The gradient times an inverse of the second derivatives, as far as the moves tell it."""
    result = gradient.copy()
    shares: list[float] = []
    for move in reversed(moves):
        share = float(move.step @ result) / move.curvature
        result -= share * move.change
        shares.append(share)
    if moves:
        last = moves[-1]
        result *= last.curvature / float(last.change @ last.change)
    for move, share in zip(moves, reversed(shares), strict=True):
        result += move.step * (share - float(move.change @ result) / move.curvature)
    return result
