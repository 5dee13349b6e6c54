"""Stochastic gradient descent: what the user chooses, and the numbers that one call needs.

The toolkit's conventions (book 3.3): gradients are of the criterion's sum over the minibatch; a
rate per minibatch is divided by the nominal minibatch size; a momentum per minibatch m of nominal
size B becomes m^(1/B) per sample, and a call with N samples uses its N-th power. The velocity
holds rate times gradient, with unit gain:  v ← (1 - μ) r g + μ v,  w ← w - v.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from graphc.learn.curves import Rate
from graphc.learn.learner import Learner, require_learner
from graphc.learn.numbers import RATE, SHARE, Number, Range, Update, first, is_used, read_number
from graphc.learn.rated import RatedLearner
from graphc.learn.schedule import Rates
from graphc.ops import learners
from graphc.ops.learners import Rule
from graphc.support.diagnostics import fail


@dataclass(frozen=True)
class SGD(RatedLearner):
    """Stochastic gradient descent. Give each of rate and momentum either per minibatch or per
    sample; the other numbers are those of every learner (`RatedLearner`).

    momentum                  per minibatch, in [0, 1); default 0
    momentum_per_sample       per sample, in [0, 1)
    """

    momentum: Rates | None = None
    momentum_per_sample: Rates | None = field(default=None, kw_only=True)

    ranges: ClassVar[Mapping[str, Range]] = {
        "momentum": SHARE,
        "momentum_per_sample": SHARE,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.momentum is not None and self.momentum_per_sample is not None:
            raise fail("bad-value", "SGD takes one of momentum and momentum_per_sample")

    @property
    def rule(self) -> Rule:
        return learners.SGD

    def numbers(
        self, rate: Number, samples: int, nominal: int, update: Update
    ) -> dict[str, Number]:
        if self.momentum_per_sample is not None:
            momentum = first(self.momentum_per_sample) ** samples
        elif self.momentum is not None:
            momentum = first(self.momentum) ** (samples / nominal)
        else:
            momentum = 0.0 if samples else 1.0
        return {"learning_rate": rate, "momentum": momentum}


def learner_or_sgd(
    learner: Learner | None,
    *,
    learning_rate: Rate | None,
    learning_rate_per_sample: Rate | None,
    momentum: Rates | None,
    momentum_per_sample: Rates | None,
    l2: Rates,
) -> Learner:
    """The learner that is given, or else SGD with these numbers. GraphcError `bad-value` for
    both."""
    rates = (learning_rate, learning_rate_per_sample, momentum, momentum_per_sample)
    if learner is None:
        return SGD(
            learning_rate,
            momentum,
            learning_rate_per_sample=learning_rate_per_sample,
            momentum_per_sample=momentum_per_sample,
            l2=l2,
        )
    require_learner(learner)
    if is_used(read_number(l2, "l2", RATE)) or any(r is not None for r in rates):
        raise fail(
            "bad-value", "rates, momentum and l2 are those of the learner where one is given"
        )
    return learner
