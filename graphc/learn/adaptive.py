"""Learners whose steps follow from the size of the gradients before: AdaGrad, RmsProp, Adam, AdamW.

The formulas are in `ops/learners.py`; AdaGrad and RmsProp are those of the toolkit, Adam is that of
its paper, with the gradient of the mean over a minibatch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from graphc.learn.numbers import POSITIVE, RATE, SHARE, Number, Range, Update, along, first
from graphc.learn.rated import RatedLearner
from graphc.learn.schedule import Rates
from graphc.ops import learners
from graphc.ops.learners import Rule
from graphc.support.arguments import truth


@dataclass(frozen=True)
class AdaGrad(RatedLearner):
    """Each element's rate falls with the sum of its squared gradients (Duchi et al., 2011).

    normalise  the multipliers of a parameter are divided by their mean (the toolkit's
               normWithAveMultiplier): its step is then about as long as that of SGD
    """

    normalise: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        truth(self.normalise, "normalise")

    @property
    def rule(self) -> Rule:
        return learners.NORMALISED_ADAGRAD if self.normalise else learners.ADAGRAD

    def numbers(
        self, rate: Number, samples: int, nominal: int, update: Update
    ) -> dict[str, Number]:
        return {"learning_rate": rate}


@dataclass(frozen=True)
class RmsProp(RatedLearner):
    """Gradients over their root mean square, times a size for each element, which grows while the
    gradient keeps its sign and shrinks when it turns (the toolkit's RmsProp).

    gamma            weight of the mean of squares that there is, in [0, 1)
    grow, shrink     what a size is taken times
    least, most      the sizes' limits
    normalise        as in `AdaGrad`
    """

    gamma: Rates = field(default=0.99, kw_only=True)
    grow: Rates = field(default=1.2, kw_only=True)
    shrink: Rates = field(default=0.75, kw_only=True)
    least: Rates = field(default=0.1, kw_only=True)
    most: Rates = field(default=10.0, kw_only=True)
    normalise: bool = field(default=True, kw_only=True)

    ranges: ClassVar[Mapping[str, Range]] = {
        "gamma": SHARE,
        "grow": POSITIVE,
        "shrink": POSITIVE,
        "least": POSITIVE,
        "most": POSITIVE,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        truth(self.normalise, "normalise")

    @property
    def rule(self) -> Rule:
        return learners.NORMALISED_RMSPROP if self.normalise else learners.RMSPROP

    def numbers(
        self, rate: Number, samples: int, nominal: int, update: Update
    ) -> dict[str, Number]:
        return {"learning_rate": rate, **{name: first(getattr(self, name)) for name in self.ranges}}


@dataclass(frozen=True)
class Adam(RatedLearner):
    """Averages of gradients over roots of averages of their squares (Kingma and Ba, 2015).

    Gradients are of the mean over a minibatch. `learning_rate` is what any update takes, whatever
    its number of samples; with `learning_rate_per_sample` an update of N samples takes N times as
    much.

    beta1, beta2  weights of the averages that there are, in [0, 1)
    epsilon       added to the root
    lazy          of a table that is only looked up in, the rows that are looked up are updated and
                  no others; without it the averages of all rows fall, and move them
    """

    beta1: Rates = field(default=0.9, kw_only=True)
    beta2: Rates = field(default=0.999, kw_only=True)
    epsilon: Rates = field(default=1e-8, kw_only=True)
    lazy: bool = field(default=False, kw_only=True)

    ranges: ClassVar[Mapping[str, Range]] = {"beta1": SHARE, "beta2": SHARE, "epsilon": POSITIVE}

    def __post_init__(self) -> None:
        super().__post_init__()
        truth(self.lazy, "lazy")

    @property
    def rule(self) -> Rule:
        return learners.LAZY_ADAM if self.lazy else learners.ADAM

    @property
    def follows_updates(self) -> bool:
        """The averages begin at 0, which is corrected by the number of updates."""
        return True

    def numbers(
        self, rate: Number, samples: int, nominal: int, update: Update
    ) -> dict[str, Number]:
        beta1, beta2 = first(self.beta1), first(self.beta2)
        of = nominal if self.learning_rate is not None else samples
        return {
            "learning_rate": rate * of,
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": first(self.epsilon),
            "share": 1 / max(samples, 1),
            "correction1": along(lambda u: 1 / (1 - beta1 ** (u + 1)), update),
            "correction2": along(lambda u: 1 / (1 - beta2 ** (u + 1)), update),
        }


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled decay (Loshchilov and Hutter, 2019): w ← (1 - rate·decay) w, and then
    Adam's step, whose averages know nothing of it."""

    decay: Rates = field(default=0.01, kw_only=True)

    ranges: ClassVar[Mapping[str, Range]] = {**Adam.ranges, "decay": RATE}

    @property
    def rule(self) -> Rule:
        return learners.LAZY_ADAMW if self.lazy else learners.ADAMW

    def numbers(
        self, rate: Number, samples: int, nominal: int, update: Update
    ) -> dict[str, Number]:
        return super().numbers(rate, samples, nominal, update) | {"decay": first(self.decay)}
