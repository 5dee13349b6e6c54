"""What a training is warned of: rates that are next to nothing, and a criterion that grows.

Both can be meant, so nothing is stopped. A criterion that is no finite number is an error, and
`loop.py`'s matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from graphc.learn.dataset import Dataset, Sequences
from graphc.learn.learner import Learner
from graphc.support.diagnostics import Severity, make, warn

GROWING_EPOCHS = 3
GROWN = 0.1


def warn_of_scaled_rates(learner: Learner, dataset: Dataset, minibatch: int) -> None:
    """Warn where a minibatch is larger than the data and its size changes what an update does.

    What is given for a minibatch is spread over its nominal size, so it shrinks with what is
    missing. Rates per sample do not: with them a minibatch of any size says "all data".
    """
    units, samples = dataset.units, dataset.samples
    if minibatch <= units:
        return
    asked = learner.hyperparameters(samples, dataset.nominal(minibatch))
    whole = learner.hyperparameters(samples, dataset.nominal(units))
    changed = [
        f"{name} {asked[name]:.3g} in place of {whole[name]:.3g}"
        for name in asked
        if asked[name] != whole[name]
    ]
    if changed:
        what = "sequences" if isinstance(dataset, Sequences) else "samples"
        _warn(
            f"minibatch requires at most the {units} {what} of the data, got {minibatch}: what is "
            f"given for a minibatch is spread over that many, so an update is made with "
            f"{', '.join(changed)}; give {units}, or rates per sample"
        )


def is_growing(criteria: Sequence[float]) -> bool:
    """Whether the criterion has grown in each of the last epochs, and is above that of the first.

    Above means by a tenth of it: where nothing is learnt, noise grows over some epochs too.
    """
    if len(criteria) <= GROWING_EPOCHS:
        return False
    last = criteria[-GROWING_EPOCHS - 1 :]
    grew = all(a < b for a, b in pairwise(last))
    return grew and criteria[-1] > criteria[0] + GROWN * abs(criteria[0])


def warn_of_growth(name: str, criteria: Sequence[float]) -> None:
    """Warn of a criterion that is growing."""
    _warn(
        f"the criterion `{name}` has grown in each of the last {GROWING_EPOCHS} epochs, from "
        f"{criteria[0]:.5g} in the first to {criteria[-1]:.5g} in epoch {len(criteria)}; a smaller "
        "learning rate may help"
    )


def _warn(message: str) -> None:
    warn([make(Severity.WARNING, "training", message, None, "", ())])
