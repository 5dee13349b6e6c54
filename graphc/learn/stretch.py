"""Training a stretch of an epoch, with what each part of it leaves finished.

A part may end inside of a minibatch, where sequences are cut (truncated backpropagation through
time). Who goes on there needs the number of its calls that are through, and the values that the
next one goes on from (`TrainingStep.state`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from graphc.learn.dataset import Minibatch, Sequences
from graphc.learn.epoch import Part
from graphc.learn.shuffle import minibatches
from graphc.learn.source import Stretch
from graphc.learn.step import TrainingStep

_ONE = np.zeros(1, np.int64)


@dataclass(frozen=True)
class Trained:
    """A part of an epoch that has been trained.

    units  that it finished; 0 inside of sequences that are cut
    calls  of the minibatch it is in, where that is not finished
    """

    part: Part
    units: int
    calls: int


def train_stretch(
    step: TrainingStep, stretch: Stretch, size: int, calls: int = 0
) -> Iterator[Trained]:
    """Updates over the units of a stretch, `size` in each, of which a member takes its share; the
    first minibatch without its first `calls`, from which `step.state` goes on."""
    dataset, order, share = stretch.dataset, stretch.order, step.share
    if not isinstance(dataset, Sequences):
        for part in step.parts(dataset, order, size, share):
            yield Trained(part, part.samples, 0)
        return
    for chosen in minibatches(len(order), size):
        numbers = order[chosen]
        last = dataset.call_count(numbers)
        for part in step.parts(Minibatch(dataset, numbers, calls), _ONE, 1, share):
            calls += 1
            yield Trained(part, len(numbers), 0) if calls == last else Trained(part, 0, calls)
        calls = 0
