"""Clipping of gradients: three records, for a learner's `clip`.

Thresholds are of the gradient of the criterion's mean over the samples; the gradients themselves
are of sums, so that a call with N samples compares with N times the threshold (the toolkit's
`clippingThresholdPerSample`). A gradient is clipped before anything else is done with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from graphc.learn.numbers import POSITIVE, first, read_number
from graphc.learn.schedule import Rates, Schedule
from graphc.ops.learner_terms import Clipping


@dataclass(frozen=True)
class Clip:
    """What the three have in common; the threshold may be a list over epochs."""

    threshold: Rates

    kind: ClassVar[Clipping] = "none"

    def __post_init__(self) -> None:
        number = read_number(self.threshold, f"{type(self).__name__}: the threshold", POSITIVE)
        object.__setattr__(self, "threshold", number)

    def at(self, epoch: int) -> Self:
        """The record of an epoch, counted from 0."""
        if isinstance(self.threshold, Schedule):
            return replace(self, threshold=self.threshold.at(epoch))
        return self

    def changes(self) -> list[int]:
        """The epochs that another threshold begins in."""
        return self.threshold.changes() if isinstance(self.threshold, Schedule) else [0]

    def of(self, samples: int) -> float:
        """What the gradient of a sum over so many samples is held to."""
        return first(self.threshold) * samples


@dataclass(frozen=True)
class ClipElements(Clip):
    """Each element of a gradient is cut off at the threshold, on both sides."""

    kind: ClassVar[Clipping] = "elements"


@dataclass(frozen=True)
class ClipNorm(Clip):
    """The gradient of each parameter is scaled so that its Euclidean norm is no larger."""

    kind: ClassVar[Clipping] = "norm"


@dataclass(frozen=True)
class ClipGlobalNorm(Clip):
    """The gradients of all parameters are scaled by one number, so that the Euclidean norm of all
    of them together is no larger (Pascanu et al., On the difficulty of training recurrent neural
    networks, 2013)."""

    kind: ClassVar[Clipping] = "global-norm"
