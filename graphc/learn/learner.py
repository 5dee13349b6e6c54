"""What every learner is: a rule compiled into the step, and the numbers that each call is given.

A learner needs no network: `hyperparameters` and `observe` are all that a loop over any compiled
update has to call, in turn.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from graphc.ops.learner_terms import Terms
from graphc.ops.learners import Rule
from graphc.support.diagnostics import fail


@runtime_checkable
class Learner(Protocol):
    """`SGD`, `Adam` and the others, what `gc.learner` makes, or a class of one's own.

    One whose hyperparameters follow from the arguments of `hyperparameters` alone, whatever it
    observes, says so by an attribute `follows_losses = False`: many minibatches are then trained in
    one native call, and it is not told their losses. If they depend on `update` too, it has an
    attribute `follows_updates = True`.
    """

    @property
    def rule(self) -> Rule:
        """The update rule; compiled in."""
        ...

    @property
    def terms(self) -> Terms:
        """Clipping, regularisation and noise: which of them there are is compiled in."""
        ...

    def hyperparameters(self, samples: int, nominal: int, update: int = 0) -> dict[str, float]:
        """The numbers of the rule and of the terms for `samples` samples; `nominal` is a whole
        minibatch. `update` calls came before.

        A term without a number changes nothing in this call.
        """
        ...

    def observe(self, loss: float) -> None:
        """The loss per sample that a call found, before its update."""
        ...

    def at(self, epoch: int) -> Learner:
        """The learner of an epoch, counted from 0: numbers in place of lists over epochs."""
        ...

    def changes(self) -> list[int]:
        """The epochs that another number begins in, 0 among them: however many epochs there are,
        few."""
        ...

    def rate_per_sample(self, nominal: int, update: int = 0) -> float:
        """What the gradient of one sample is taken times in a whole minibatch of `nominal`, after
        so many updates."""
        ...

    def with_rate_per_sample(self, rate: float) -> Learner:
        """The learner with this rate per sample in place of its own, as one that controls rates
        asks for. GraphcError `bad-option` for one that chooses its rate by itself."""
        ...


def follows_updates(learner: Learner) -> bool:
    """Whether the hyperparameters of a call depend on how many there were before."""
    return bool(getattr(learner, "follows_updates", False))


def number_tables_of(
    learner: Learner, samples: int, nominal: int, updates: range
) -> dict[str, float | np.ndarray]:
    """The hyperparameters of several calls with as many samples each: of each one number, or an
    array. A learner may have a quick way to them, `tables`."""
    tables = getattr(learner, "tables", None)
    if tables is not None:
        return tables(samples, nominal, updates)
    calls = [learner.hyperparameters(samples, nominal, u) for u in updates]
    return {name: np.array([numbers[name] for numbers in calls]) for name in calls[0]}


def follows_losses(learner: Learner) -> bool:
    """Whether it has to be told each loss before it says the hyperparameters of the next call."""
    return bool(getattr(learner, "follows_losses", True))


_MEMBERS = (
    "rule",
    "terms",
    "hyperparameters",
    "observe",
    "at",
    "changes",
    "rate_per_sample",
    "with_rate_per_sample",
)


def require_learner(learner: object) -> Learner:
    """The learner; GraphcError `argument-type` for anything else, such as a class of learners."""
    if isinstance(learner, type):
        name = learner.__name__
        raise fail("argument-type", f"a learner is required, got the class {name}: write {name}(…)")
    if isinstance(learner, Learner):
        return learner
    missing = [m for m in _MEMBERS if not hasattr(learner, m)]
    what = f" without `{'`, `'.join(missing)}`" if len(missing) < len(_MEMBERS) else ""
    raise fail("argument-type", f"a learner is required, got {type(learner).__name__}{what}")


def is_number(value: object, least: float, below: float) -> bool:
    """Whether it is a number (Python's or numpy's), least <= value < below."""
    if not isinstance(value, int | float | np.integer | np.floating):
        return False
    return bool(least <= value < below)
