"""What learners with a rate have in common: numbers that may change from epoch to epoch, rates that
may change from update to update, and the terms that go with any rule.

Whoever trains asks for the learner `at` an epoch. The update rule never sees a schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import ClassVar, Self

from graphc.learn.clipping import Clip
from graphc.learn.curves import Curve, Rate, rate_at
from graphc.learn.numbers import (
    RATE,
    Number,
    Range,
    Update,
    along,
    first,
    is_used,
    read_number,
)
from graphc.learn.schedule import Rates, Schedule
from graphc.ops.learner_terms import (
    CLIP_THRESHOLD,
    L1_THRESHOLD,
    L2_WEIGHT,
    NOISE_DEVIATION,
    Terms,
)
from graphc.ops.learners import Rule
from graphc.support.arguments import kind_of
from graphc.support.diagnostics import fail

RATES = ("learning_rate", "learning_rate_per_sample")
COMMON: Mapping[str, Range] = dict.fromkeys((*RATES, "l2", "l1", "noise"), RATE)


@dataclass(frozen=True)
class RatedLearner:
    """A learner with one of two forms of a rate, and the terms that go with any rule.

    learning_rate             per minibatch of the nominal size
    learning_rate_per_sample  per sample
    clip    `ClipElements`, `ClipNorm` or `ClipGlobalNorm`: done to the gradient first
    l2      per sample: l2·N·w is added to the gradient of N samples
    noise   standard deviation of normal noise, added to the parameter after its step
    l1      per sample: after that the parameter goes towards 0 by rate·l1·N, no further than 0

    Numbers may be lists over epochs (`Rates`), rates also curves over updates (`Curve`).
    GraphcError `bad-value` for what is out of range.
    """

    learning_rate: Rate | None = None
    learning_rate_per_sample: Rate | None = field(default=None, kw_only=True)
    clip: Clip | None = field(default=None, kw_only=True)
    l2: Rates = field(default=0.0, kw_only=True)
    noise: Rates = field(default=0.0, kw_only=True)
    l1: Rates = field(default=0.0, kw_only=True)

    follows_losses: ClassVar[bool] = False
    ranges: ClassVar[Mapping[str, Range]] = {}
    """The further numbers of a learner, and what is allowed."""

    def __post_init__(self) -> None:
        if (self.learning_rate is None) == (self.learning_rate_per_sample is None):
            message = f"{type(self).__name__} requires one of {' and '.join(RATES)}"
            raise fail("bad-value", message)
        if not isinstance(self.clip, Clip | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            got = kind_of(self.clip)
            message = f"clip requires ClipElements, ClipNorm or ClipGlobalNorm, got {got}"
            raise fail("argument-type", message)
        optional = {f.name for f in fields(self) if f.default is None}
        for name, allowed in {**COMMON, **self.ranges}.items():
            given = getattr(self, name)
            if given is None and name in optional:
                continue
            if not (name in RATES and isinstance(given, Curve)):
                object.__setattr__(self, name, read_number(given, name, allowed))

    @property
    def rule(self) -> Rule:
        """The update rule; compiled in."""
        raise NotImplementedError

    @property
    def terms(self) -> Terms:
        """Which terms there are in any epoch; compiled in."""
        clip = self.clip.kind if self.clip is not None else "none"
        return Terms(clip, is_used(self.l2), is_used(self.noise), is_used(self.l1))

    @property
    def follows_updates(self) -> bool:
        """Whether the numbers of a call depend on how many there were before."""
        return isinstance(self.learning_rate, Curve) or isinstance(
            self.learning_rate_per_sample, Curve
        )

    def hyperparameters(self, samples: int, nominal: int, update: int = 0) -> dict[str, float]:
        """What the call with `samples` samples is given that comes after `update` others, at a
        nominal minibatch of `nominal`."""
        return {n: float(v) for n, v in self.tables(samples, nominal, update).items()}

    def tables(self, samples: int, nominal: int, update: Update) -> dict[str, Number]:
        """The same, also for several calls: then arrays of what changes among them."""
        rate = self._rate(nominal, update)
        numbers = self.numbers(rate, samples, nominal, update)
        if self.clip is not None:
            numbers[CLIP_THRESHOLD] = self.clip.of(samples)
        if self.l2:
            numbers[L2_WEIGHT] = first(self.l2) * samples
        if self.noise:
            numbers[NOISE_DEVIATION] = first(self.noise)
        if self.l1:
            numbers[L1_THRESHOLD] = rate * first(self.l1) * samples
        return numbers

    def numbers(
        self, rate: Number, samples: int, nominal: int, update: Update
    ) -> dict[str, Number]:
        """Those of the rule; `rate` is that per sample."""
        raise NotImplementedError

    def at(self, epoch: int) -> Self:
        """The learner of an epoch, counted from 0: numbers in place of lists over epochs."""
        found: dict[str, object] = {n: s.at(epoch) for n, s in self._schedules().items()}
        if self.clip is not None:
            found["clip"] = self.clip.at(epoch)
        return replace(self, **found) if found else self

    def changes(self) -> list[int]:
        """The epochs that another number begins in."""
        starts = {0, *(e for s in self._schedules().values() for e in s.changes())}
        return sorted(starts | set(self.clip.changes() if self.clip is not None else ()))

    def rate_per_sample(self, nominal: int, update: int = 0) -> float:
        """What the gradient of one sample is taken times in an update, counted from 0, at a nominal
        minibatch of `nominal`."""
        return float(self._rate(nominal, update))

    def _rate(self, nominal: int, update: Update) -> Number:
        if self.learning_rate is not None:
            return number_along(self.learning_rate, update) / nominal
        assert self.learning_rate_per_sample is not None
        return number_along(self.learning_rate_per_sample, update)

    def with_rate_per_sample(self, rate: float) -> Self:
        """The learner with this rate in place of its own."""
        return replace(self, learning_rate=None, learning_rate_per_sample=rate)

    def observe(self, loss: float) -> None:
        """The losses change nothing."""

    def _schedules(self) -> dict[str, Schedule]:
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in found.items() if isinstance(value, Schedule)}


def number_along(rate: Rate, update: Update) -> Number:
    """A number, that of a first epoch, or those of a curve."""
    if isinstance(rate, float):  # most are, and to ask for a protocol takes long
        return rate
    if isinstance(rate, Curve):
        return along(partial(rate_at, rate), update)
    return first(rate)
