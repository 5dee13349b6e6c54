"""Lion, an update rule: steps of one size by the sign of a moving average.

    c = β₁ m + (1 - β₁) g        w ← w - r (sign c + λ w)        m ← β₂ m + (1 - β₂) g

with the average gradient g of the minibatch, the rate r of a minibatch and the decay λ (Chen et
al., Symbolic Discovery of Optimization Algorithms, 2023). The rule is a function of arrays that is
compiled into the training step.
"""

from typing import Any

import graphc as gc
from graphc.learn.learner import Learner


def rule(
    gradient: Any, parameter: Any, state: dict[str, Any], settings: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """graphc's gradients are sums over the minibatch, and its rates are per sample."""
    average = gradient / settings["samples"]
    rate = settings["learning_rate"] * settings["samples"]
    beta1, beta2, moment = settings["beta1"], settings["beta2"], state["moment"]
    direction = beta1 * moment + (1 - beta1) * average
    sign = gc.where(direction > 0, 1.0, gc.where(direction < 0, -1.0, 0.0))
    moved = parameter - rate * (sign + settings["decay"] * parameter)
    return moved, {"moment": beta2 * moment + (1 - beta2) * average}


def lion(
    learning_rate: Any = None,
    *,
    beta1: float = 0.9,
    beta2: float = 0.99,
    decay: float = 0.0,
    **common: Any,
) -> Learner:
    """Lion with a rate per minibatch, and what every learner takes, such as `clip`."""
    settings = {"beta1": beta1, "beta2": beta2, "decay": decay}
    return gc.learner(
        rule, states=("moment",), settings=settings, learning_rate=learning_rate, **common
    )
