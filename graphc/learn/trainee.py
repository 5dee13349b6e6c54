"""What the training loop needs of what it trains: a network (`network_training.py`), or a program
with a loss (`program_training.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from graphc.driver.options import CompileOptions
from graphc.learn.adaptation import Adaptation
from graphc.learn.checkpoint import Checkpoint
from graphc.learn.evaluate import Evaluator
from graphc.learn.plan import TrainingPlan
from graphc.learn.source import Data
from graphc.learn.step import TrainingStep
from graphc.runtime.communicators.communicator import Communicator

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Held:
    """What a checkpoint holds of a trainee.

    text, seed, kind  as in its model file; `kind` is "" for a network
    values            of its parameters and statistics, live
    exact             those held with fewer digits than known
    """

    text: str
    seed: int
    values: Mapping[str, Array]
    exact: Mapping[str, Array] = field(default_factory=dict[str, Array])
    kind: str = ""


class Trainee(Protocol):
    """What is trained. The methods are called in their order here, each but the first one once."""

    @property
    def values(self) -> Mapping[str, Array]:
        """The arrays that training changes, and others, live, by name."""
        ...

    def outputs(self, criterion: str | None) -> Sequence[str]:
        """What a step gives, the criterion first. GraphcError where there is none."""
        ...

    def identity(self) -> str:
        """A digest of all of it that decides the numbers of a training, but the values."""
        ...

    def made_ready(
        self,
        data: Data,
        plan: TrainingPlan,
        options: CompileOptions,
        adaptation: Adaptation | None,
        found: Checkpoint | None,
        communicator: Communicator | None,
    ) -> Data:
        """Give values to all that has none, or those of a checkpoint; the data to train on. Members
        share what they compute over all data."""
        ...

    def fitted(
        self, data: Data, plan: TrainingPlan, options: CompileOptions
    ) -> tuple[CompileOptions, int]:
        """Options with bounds for all epochs, no larger than the data; the default minibatch."""
        ...

    def step(
        self,
        plan: TrainingPlan,
        options: CompileOptions,
        communicator: Communicator | None,
        split: Sequence[str] = (),
        sync_batchnorm: bool = False,
    ) -> TrainingStep:
        """The compiled training step; `split` are parameters whose outputs members split, and
        `sync_batchnorm` says that BatchNormalization is by the samples of all."""
        ...

    def evaluator(
        self, data: Data, names: Sequence[str], plan: TrainingPlan, options: CompileOptions
    ) -> Evaluator:
        """What measures these results of a step on other data."""
        ...

    def held(self) -> Held:
        """What a checkpoint holds of it."""
        ...
