"""Update rules of learners, as functions that emit tensor operations.

A rule takes parameter, gradient and state to the new parameter and state. Gradients are of the
criterion's sum over the minibatch, rates are per sample (the toolkit's convention).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from graphc.ir.core import IRBuilder, Value
from graphc.ops.constant import full_like
from graphc.ops.elementwise import add, mul, sub
from graphc.ops.reduction import broadcast

UpdateRule = Callable[
    [IRBuilder, Value, Value, Sequence[Value], Mapping[str, Value]], tuple[Value, list[Value]]
]


@dataclass(frozen=True)
class Learner:
    """A rule's states (one tensor of the parameter's shape each, zero at start) and its
    hyperparameters.

    `update(b, parameter, gradient, states, hyperparameters)` returns the new parameter and states;
    the hyperparameters are tensors of one element with the parameter's rank, given at every call.

    lazy  where the gradient is a sum of lookups, the rule is for the rows that are looked up: the
          others keep their states too (the toolkit's rule of momentum with sparse gradients)
    """

    name: str
    summary: str
    states: tuple[str, ...]
    hyperparameters: tuple[str, ...]
    update: UpdateRule
    lazy: bool = False


def _sgd(
    b: IRBuilder,
    parameter: Value,
    gradient: Value,
    states: Sequence[Value],
    hyperparameters: Mapping[str, Value],
) -> tuple[Value, list[Value]]:
    """v ← (1 - μ) lr g + μ v;  w ← w - v: momentum of unit gain, the rate folded into v."""
    (velocity,) = states
    rate, momentum = hyperparameters["learning_rate"], hyperparameters["momentum"]
    dims = parameter.tensor.dims
    with b.at(b.location.within("learning_rate")):  # it is the same for all parameters
        step = mul(b, sub(b, full_like(b, 1.0, momentum), momentum), rate)
    new_velocity = add(
        b,
        mul(b, broadcast(b, step, dims), gradient),
        mul(b, broadcast(b, momentum, dims), velocity),
    )
    return sub(b, parameter, new_velocity), [new_velocity]


def _stepping(
    b: IRBuilder,
    parameter: Value,
    gradient: Value,
    states: Sequence[Value],
    hyperparameters: Mapping[str, Value],
) -> tuple[Value, list[Value]]:
    """g ← β grad + (1 - β) g;  w ← w - s g."""
    (direction,) = states
    size, beta = hyperparameters["learning_rate"], hyperparameters["beta"]
    dims = parameter.tensor.dims
    with b.at(b.location.within("beta")):
        rest = sub(b, full_like(b, 1.0, beta), beta)
    new_direction = add(
        b,
        mul(b, broadcast(b, beta, dims), gradient),
        mul(b, broadcast(b, rest, dims), direction),
    )
    step = mul(b, broadcast(b, size, dims), new_direction)
    return sub(b, parameter, step), [new_direction]


SGD = Learner(
    name="sgd",
    summary="stochastic gradient descent with unit-gain momentum",
    states=("velocity",),
    hyperparameters=("learning_rate", "momentum"),
    update=_sgd,
    lazy=True,
)

STEPPING_HEURISTIC = Learner(
    name="stepping-heuristic",
    summary="steps along a moving average of gradients, their size chosen from the losses",
    states=("direction",),
    hyperparameters=("learning_rate", "beta"),
    update=_stepping,
)

LEARNERS: dict[str, Learner] = {learner.name: learner for learner in (SGD, STEPPING_HEURISTIC)}
