"""Where a training stands between two minibatches: numbers that a checkpoint holds as text.

The arrays that belong to it are in a `Snapshot`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from graphc.learn.epoch import Part
from graphc.learn.learner import Learner, follows_losses
from graphc.learn.rate_control import RateState
from graphc.learn.rate_search import SearchState
from graphc.learn.step import TrainingStep
from graphc.learn.stopping import Patience
from graphc.support.diagnostics import fail

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a training stands.

    epoch      the one that is to be trained or finished, counted from 0
    units      of it that are through, `calls` of the minibatch after them, `samples` in all
    seconds    that it took so far
    totals     sums over its samples, by result
    minibatch  units of an update in it; between epochs, of the one before
    rate       its rate per sample, and where the rule that adjusts rates stands
    search     what the search for rates knows
    patience   of `EarlyStopping`; `lowest`: of `KeepBest`
    finished   why no other epoch is to be trained; '' while some are
    """

    epoch: int = 0
    units: int = 0
    calls: int = 0
    samples: int = 0
    seconds: float = 0.0
    totals: Mapping[str, float] = field(default_factory=dict[str, float])
    minibatch: int = 0
    rate: RateState = field(default_factory=lambda: RateState(math.nan))
    search: SearchState = field(default_factory=SearchState)
    patience: Patience = field(default_factory=Patience)
    lowest: Patience = field(default_factory=Patience)
    finished: str = ""

    @property
    def is_inside(self) -> bool:
        """Whether the epoch has begun."""
        return self.samples > 0


@dataclass(slots=True)
class Tally:
    """What of a `Standing` changes with every minibatch, added up in place."""

    units: int
    calls: int
    samples: int
    totals: dict[str, float]

    @staticmethod
    def of(standing: Standing) -> Tally:
        return Tally(standing.units, standing.calls, standing.samples, dict(standing.totals))

    def add(self, part: Part, units: int, calls: int) -> None:
        """A part that has been trained, the units that it finished and the calls behind them."""
        self.units += units
        self.calls = calls
        self.samples += part.samples
        totals = self.totals
        for name, values in part.values.items():
            total = totals.get(name, 0.0)
            for value in values.tolist():  # in order: the same however minibatches lie in calls
                total += value
            totals[name] = total

    def added_to(self, standing: Standing, seconds: float) -> Standing:
        """The standing with these numbers, after so long."""
        return replace(
            standing,
            units=self.units,
            calls=self.calls,
            samples=self.samples,
            totals=dict(self.totals),
            seconds=seconds,
        )


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Parameters, the learner's arrays, what it remembers besides, and the calls of the step."""

    values: Mapping[str, Array]
    learner: Mapping[str, Array]
    memory: Mapping[str, object]
    steps: int

    @staticmethod
    def of(
        values: Mapping[str, Array], step: TrainingStep, *, with_learner: bool = True
    ) -> Snapshot:
        """As they are now, of these live parameters; the learner's arrays are left out where
        nobody will want them."""
        state = step.learner_state if with_learner else {}
        memory = memory_of(step.learner)
        return Snapshot(_copies(values), _copies(state), memory, step.steps)

    def put_back(self, values: Mapping[str, Array], step: TrainingStep) -> None:
        """Make everything as it was, in place in these live parameters."""
        for name, value in self.values.items():
            values[name][...] = value
        for name, value in self.learner.items():
            step.learner_state[name][...] = value
        if self.memory:
            remember(step.learner, self.memory)
        step.steps = self.steps
        if step.blocks is not None:
            step.blocks.begin()


def _copies(arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {name: array.copy() for name, array in arrays.items()}


def memory_of(learner: Learner) -> Mapping[str, object]:
    """What a learner remembers besides its arrays, as its attribute `memory` says it: numbers,
    texts, and lists and tables of them."""
    memory = getattr(learner, "memory", {})
    return dict(memory) if isinstance(memory, Mapping) else {}


def remember(learner: Learner, memory: Mapping[str, object]) -> None:
    """Make a learner remember what `memory_of` said."""
    learner.memory = memory  # type: ignore[attr-defined]  # one that has a memory can be told it


def require_memory(learner: Learner) -> None:
    """GraphcError `bad-option` for a learner that remembers losses, but cannot say what."""
    if follows_losses(learner) and not hasattr(learner, "memory"):
        name = type(learner).__name__
        raise fail(
            "bad-option",
            f"to go on from a checkpoint, {name} requires an attribute `memory`: what it "
            "remembers, as a table of numbers that can be set again (or `follows_losses = False`)",
        )
