"""What every learner is: a rule compiled into the step, and the numbers that each call is given.

A learner needs no network: `hyperparameters` and `observe` are all that a loop over any compiled
update has to call, in turn.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from graphc.support.diagnostics import fail


@runtime_checkable
class Learner(Protocol):
    """`SGD`, `SteppingHeuristic`.

    One whose hyperparameters follow from `samples` and `nominal` alone, whatever it observes, says
    so by an attribute `follows_losses = False`: many minibatches are then trained in one native
    call, and it is not told their losses.
    """

    @property
    def rule(self) -> str:
        """The update rule's name in `ops/learners.py`; compiled in."""
        ...

    @property
    def l2(self) -> float:
        """L2 regularisation per sample: l2·N·w is added to the gradient; compiled in."""
        ...

    def hyperparameters(self, samples: int, nominal: int) -> dict[str, float]:
        """The rule's hyperparameters for `samples` samples; `nominal` is a whole minibatch.

        One of them is `learning_rate`, what the gradient of the sum over the samples is taken
        times.
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

    def rate_per_sample(self, nominal: int) -> float:
        """What the gradient of one sample is taken times in a whole minibatch of `nominal`."""
        ...

    def with_rate_per_sample(self, rate: float) -> Learner:
        """The learner with this rate per sample in place of its own, as one that controls rates
        asks for. GraphcError `bad-option` for one that chooses its rate by itself."""
        ...


def follows_losses(learner: Learner) -> bool:
    """Whether it has to be told each loss before it says the hyperparameters of the next call."""
    return bool(getattr(learner, "follows_losses", True))


_MEMBERS = (
    "rule",
    "l2",
    "hyperparameters",
    "observe",
    "at",
    "changes",
    "rate_per_sample",
    "with_rate_per_sample",
)


def require_learner(learner: object) -> None:
    """GraphcError `argument-type` for anything else, such as a class of learners."""
    if isinstance(learner, type):
        name = learner.__name__
        raise fail("argument-type", f"a learner is required, got the class {name}: write {name}(…)")
    if not isinstance(learner, Learner):
        missing = [m for m in _MEMBERS if not hasattr(learner, m)]
        what = f" without `{'`, `'.join(missing)}`" if len(missing) < len(_MEMBERS) else ""
        raise fail("argument-type", f"a learner is required, got {type(learner).__name__}{what}")


def is_number(value: object, least: float, below: float) -> bool:
    """Whether it is a number (Python's or numpy's), least <= value < below."""
    if not isinstance(value, int | float | np.integer | np.floating):
        return False
    return bool(least <= value < below)
