"""What a training is asked for: how much, by which learner, controlled by what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from graphc.learn.dataset import check_truncate
from graphc.learn.learner import Learner
from graphc.learn.minibatch_search import AdaptiveMinibatch
from graphc.learn.rate_control import AdjustAfterEpoch
from graphc.learn.rate_search import LEAST_RATE, SearchBeforeEpoch
from graphc.learn.schedule import Schedule
from graphc.learn.step import checked_dropout
from graphc.learn.stopping import EarlyStopping, KeepBest
from graphc.support.arguments import number, truth, whole
from graphc.support.diagnostics import fail

DEFAULT_DROPOUT = 0.0

Control = AdjustAfterEpoch | SearchBeforeEpoch | AdaptiveMinibatch | EarlyStopping | KeepBest
CONTROLS = (AdjustAfterEpoch, SearchBeforeEpoch, AdaptiveMinibatch, EarlyStopping, KeepBest)


@dataclass(frozen=True)
class Controls:
    """What decides between epochs, at most one of each kind."""

    adjust: AdjustAfterEpoch | None = None
    search: SearchBeforeEpoch | None = None
    minibatch: AdaptiveMinibatch | None = None
    stopping: EarlyStopping | None = None
    best: KeepBest | None = None

    def __post_init__(self) -> None:
        if self.adjust is not None and self.search is not None:
            message = "one of AdjustAfterEpoch and SearchBeforeEpoch chooses the rates, got both"
            raise fail("bad-option", message)

    @property
    def nodes(self) -> list[str]:
        """The nodes that rules look at by name."""
        rules = (self.adjust, self.search, self.stopping, self.best)
        return [rule.node for rule in rules if rule is not None and rule.node is not None]

    @property
    def chooses_rates(self) -> bool:
        return self.adjust is not None or self.search is not None


def read_controls(given: Control | Sequence[Control]) -> Controls:
    """The records in a list, or one alone; GraphcError for anything else and for two of a kind."""
    items: object = [given] if isinstance(given, CONTROLS) else given
    if not isinstance(items, list | tuple):
        raise _no_control(items)
    found: dict[type, Control] = {}
    for item in cast("Sequence[object]", items):  # a list of anything, from callers without types
        if not isinstance(item, CONTROLS):
            raise _no_control(item)
        if type(item) in found:
            raise fail("bad-option", f"control takes one {type(item).__name__}, got two")
        found[type(item)] = item
    # The type of each is its key.
    return Controls(*(found.get(kind) for kind in CONTROLS))  # type: ignore[arg-type]


def _no_control(given: object) -> Exception:
    names = ", ".join(kind.__name__ for kind in CONTROLS)
    return fail("argument-type", f"control requires {names}, got {type(given).__name__}")


@dataclass(frozen=True)
class TrainingPlan:
    """What `graphc train` is asked for; sizes, and the learner's numbers, are per-epoch lists, the
    last value holds.

    learner    everything that concerns an update: rule, rates, regularisation
    minibatch  samples per update, the nominal size that per-minibatch rates refer to; of sequences
               their number side by side, and rates refer to the samples of an average update. By
               default 256 samples or 16 sequences, or all of the data in memory if there are fewer
    dropout    share of elements that Dropout nodes set to zero
    truncate   steps of sequences per update, which the next one goes on from (the gradient does not
               reach back); 0: an update sees whole sequences
    seed       of the shuffling and of Dropout; `shuffle=False` keeps the order of the data
    epoch_size samples of an epoch (of sequences their number), which begins where the one before
               ended in the data, repeated endlessly; 0: all of them
    control    what decides between epochs
    minimum_rate  per sample: training ends before an epoch with less; None: 1e-9 where something
               chooses rates, otherwise no bound
    """

    learner: Learner
    epochs: int = 1
    minibatch: Schedule | None = None
    dropout: Schedule = field(default_factory=lambda: Schedule.parse(DEFAULT_DROPOUT))
    seed: int = 0
    shuffle: bool = True
    criterion: str | None = None
    truncate: int = 0
    epoch_size: int = 0
    control: Controls = Controls()
    minimum_rate: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.epochs, int) or self.epochs < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            message = f"epochs requires a whole number of at least 0, got {self.epochs!r}"
            raise fail("bad-value", message)
        truth(self.shuffle, "shuffle")
        for rate, _ in self.dropout.values:
            checked_dropout(rate)
        check_truncate(self.truncate)
        whole(self.epoch_size, "epoch_size")
        if self.minimum_rate is not None and not number(self.minimum_rate, "minimum_rate") >= 0:
            message = f"minimum_rate requires a number of at least 0, got {self.minimum_rate}"
            raise fail("bad-value", message)
        if self.control.chooses_rates:
            self.learner.at(0).with_rate_per_sample(0.0)  # refused before any work

    def changes(self) -> list[int]:
        """The epochs that another rate or size begins in: however many epochs there are, few."""
        schedules = [s for s in (self.minibatch, self.dropout) if s is not None]
        starts = {*self.learner.changes(), *(e for s in schedules for e in s.changes())}
        return sorted(e for e in starts if e < self.epochs)

    def size(self, epoch: int, default: int) -> int:
        """The units of a minibatch: samples or sequences."""
        return int(self.minibatch.at(epoch)) if self.minibatch is not None else default

    def largest(self, default: int, units: int | None) -> int:
        """The units of the largest minibatch of any epoch, of data with so many."""
        sizes = [self.size(e, default) for e in self.changes()]
        return max([1, *(size if units is None else min(size, units) for size in sizes)])

    @property
    def listed_rates(self) -> int:
        """The epochs that have rates of their own, which nothing else chooses."""
        rule = self.control.adjust or self.control.search
        if rule is not None and rule.listed is not None:
            return rule.listed
        names = ("learning_rate", "learning_rate_per_sample")
        return max(_listed(getattr(self.learner, name, None)) for name in names)

    @property
    def listed_sizes(self) -> int:
        """The epochs that have minibatches of their own."""
        return _listed(self.minibatch)

    @property
    def least_rate(self) -> float:
        """Per sample: no epoch is trained with less."""
        if self.minimum_rate is not None:
            return self.minimum_rate
        return LEAST_RATE if self.control.chooses_rates else 0.0


def _listed(number: object) -> int:
    """How long a list over epochs is; 1 for a number, or for the default that stands for it."""
    return sum(n for _, n in number.values) if isinstance(number, Schedule) else 1
