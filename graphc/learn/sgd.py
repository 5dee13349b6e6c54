"""Stochastic gradient descent: what the user chooses, and the numbers that one call needs.

The toolkit's conventions (book 3.3): gradients are of the criterion's sum over the minibatch; a
rate per minibatch is divided by the nominal minibatch size; a momentum per minibatch m of nominal
size B becomes m^(1/B) per sample, and a call with N samples uses its N-th power. The velocity
holds rate times gradient, with unit gain:  v ← (1 - μ) r g + μ v,  w ← w - v.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from graphc.learn.learner import is_number
from graphc.support.diagnostics import fail


@dataclass(frozen=True)
class SGD:
    """Give each of rate and momentum either per minibatch or per sample.

    learning_rate             per minibatch of the nominal size
    learning_rate_per_sample  per sample
    momentum                  per minibatch, in [0, 1); default 0
    momentum_per_sample       per sample, in [0, 1)
    l2                        L2 regularisation per sample: l2·N·w is added to the gradient
    """

    learning_rate: float | None = None
    momentum: float | None = None
    learning_rate_per_sample: float | None = None
    momentum_per_sample: float | None = None
    l2: float = 0.0

    follows_losses: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if (self.learning_rate is None) == (self.learning_rate_per_sample is None):
            raise fail(
                "bad-value", "SGD requires one of learning_rate and learning_rate_per_sample"
            )
        if self.momentum is not None and self.momentum_per_sample is not None:
            raise fail("bad-value", "SGD takes one of momentum and momentum_per_sample")
        for name in ("learning_rate", "learning_rate_per_sample", "l2"):
            value = getattr(self, name)
            if value is not None and not is_number(value, 0, math.inf):
                raise fail(
                    "bad-value", f"{name} requires a finite number of at least 0, got {value}"
                )
        for name in ("momentum", "momentum_per_sample"):
            value = getattr(self, name)
            if value is not None and not is_number(value, 0, 1):
                raise fail("bad-value", f"{name} requires a number from 0 to below 1, got {value}")

    @property
    def rule(self) -> str:
        """The update rule's name in `ops/learners.py`."""
        return "sgd"

    def hyperparameters(self, samples: int, nominal: int) -> dict[str, float]:
        """What a call with `samples` samples is given, at a nominal minibatch of `nominal`."""
        if self.learning_rate is not None:
            rate = self.learning_rate / nominal
        else:
            assert self.learning_rate_per_sample is not None
            rate = self.learning_rate_per_sample
        if self.momentum_per_sample is not None:
            momentum = self.momentum_per_sample**samples
        else:
            momentum = (self.momentum or 0.0) ** (samples / nominal)
        return {"learning_rate": rate, "momentum": momentum}

    def observe(self, loss: float) -> None:
        """The losses change nothing."""
