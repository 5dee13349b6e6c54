"""Trainings whose numbers are none any more: what is said of them, with the likely cause."""

from __future__ import annotations

import numpy as np

from graphc.learn.dataset import Dataset, place_of_non_finite
from graphc.learn.source import MemorySource
from graphc.learn.training import Training
from graphc.support.diagnostics import GraphcError, fail


class NotANumber(Exception):
    """An epoch that came to numbers that are none; `error` is what users see."""

    def __init__(self, error: GraphcError) -> None:
        super().__init__()
        self.error = error


def require_finite(training: Training, epoch: int) -> None:
    """The last update of an epoch is seen by no criterion any more, so look at its outcome."""

    updated = {r.updates for r in training.step.signature.results}
    for name, value in training.trainee.values.items():
        if name in updated and not np.isfinite(value).all():
            source = training.source
            dataset = source.dataset if isinstance(source, MemorySource) else None
            raise NotANumber(not_a_number(f"the parameter `{name}`", dataset, epoch))


def not_a_number(
    what: str, dataset: Dataset | None, epoch: int, *, learnt: bool = True
) -> GraphcError:
    """The error, with its likely cause: the data, or where something was `learnt` the rate."""
    when, advice = "for the first minibatch", "look for huge numbers in the data"
    if learnt:
        when = f"in epoch {epoch + 1}; the parameters are those after epoch {epoch}"
        advice = "a smaller learning rate may help"
    if dataset is not None and (place := place_of_non_finite(dataset)):
        advice = f"in the data {place}"
    return fail("not-a-number", f"{what} is not a finite number {when}; {advice}")
