"""Members that train by themselves, and average what they have learnt now and then.

Gradients stay where they are; all that members send, besides a few numbers after every minibatch,
is parameters after every block of samples. Block momentum (K. Chen and Q. Huo, Scalable training
of deep learning machines by incremental block training …, ICASSP 2016) treats the way from the
beginning of a block to the average at its end as a gradient of its own:

    Δ = η Δ + ζ (average - beginning)
    the next block begins at beginning + Δ, or with Nesterov's at beginning + ζ (…) + η Δ
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from graphc.learn.learner import Learner
from graphc.learn.sgd import SGD
from graphc.runtime.communicators.communicator import Communicator
from graphc.support.arguments import kind_error
from graphc.support.diagnostics import fail

Array = np.ndarray
STATE = "block."
"""Before the names of parameters: what of them goes on from block to block."""


@dataclass(frozen=True)
class ModelAveraging:
    """Parameters become the members' average.

    period  samples that each member trains between two averages; the end of an epoch is one too
    """

    period: int = 40_000

    def __post_init__(self) -> None:
        _require("period", self.period, self.period >= 1, "1 sample or more")


@dataclass(frozen=True)
class BlockMomentum:
    """Parameters go on from the members' average with a momentum over blocks.

    period         samples that each member trains in a block; the end of an epoch ends one too
    momentum       η; None: 1 - 1/members
    learning_rate  ζ
    nesterov       blocks begin where the momentum alone would lead
    reset          velocities of SGD are zero at the beginning of a block. What other learners have,
                   and those of SGD without it, is averaged
    """

    period: int = 120_000
    momentum: float | None = None
    learning_rate: float = 1.0
    nesterov: bool = True
    reset: bool = True

    def __post_init__(self) -> None:
        _require("period", self.period, self.period >= 1, "1 sample or more")
        momentum, rate = self.momentum, self.learning_rate
        is_momentum = momentum is None or 0 <= momentum < 1
        _require("momentum", momentum, is_momentum, "from 0 to below 1")
        _require("learning_rate", rate, rate > 0, "above 0")


Averaging = ModelAveraging | BlockMomentum


def checked_averaging(averaging: object) -> Averaging:
    """For callers without a type checker: GraphcError `argument-type` unless it is one."""
    if isinstance(averaging, ModelAveraging | BlockMomentum):
        return averaging
    raise kind_error("averaging", "a gc.BlockMomentum or gc.ModelAveraging", averaging)


def _require(name: str, value: object, is_met: bool, required: str) -> None:
    if not is_met:
        raise fail("bad-value", f"averaging requires a {name} of {required}, got {value!r}")


@dataclass
class Blocks:
    """The blocks of a training.

    values   the parameters of this member, live, of which `names` are trained
    learner  the learner's arrays, live; zeros at the beginning of a block if it `resets`
    state    what goes on from block to block
    """

    averaging: Averaging
    communicator: Communicator
    names: Sequence[str]
    values: Callable[[], Mapping[str, Array]]
    learner: Callable[[], Mapping[str, Array]]
    resets: bool
    state: dict[str, Array] = field(default_factory=dict[str, Array])
    _beginning: dict[str, Array] = field(default_factory=dict[str, Array])
    _samples: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.averaging, BlockMomentum):
            values = self.values()
            self.state = {STATE + name: np.zeros_like(values[name]) for name in self.names}

    @property
    def is_between(self) -> bool:
        """Whether all members have the same parameters."""
        return self._samples == 0

    def begin(self) -> None:
        """From the parameters as they are, which are those of all members."""
        self._samples = 0

    def before_update(self) -> None:
        """To be called before each update of this member."""
        if self.is_between and self.state:
            values = self.values()
            self._beginning = {name: values[name].copy() for name in self.names}

    def after_update(self, samples: int) -> None:
        """After one of so many samples of all members."""
        self._samples += samples
        if self._samples >= self.averaging.period * self.communicator.size:
            self.end()

    def end(self) -> None:
        """Make the parameters those of all members, unless they are."""
        if self.is_between:
            return
        values, learner = self.values(), self.learner()
        arrays = [values[name] for name in self.names] + list(learner.values())
        averages = _averages(self.communicator, arrays)
        for name, average in zip(self.names, averages, strict=False):
            values[name][...] = self._next(name, average)
        for state, average in zip(learner.values(), averages[len(self.names) :], strict=True):
            state[...] = 0 if self.resets else average
        self._samples = 0

    def _next(self, name: str, average: Array) -> Array:
        """Where the next block begins."""
        averaging = self.averaging
        if isinstance(averaging, ModelAveraging):
            return average
        beginning, delta = self._beginning[name], self.state[STATE + name]
        number = average.dtype.type
        momentum = averaging.momentum
        eta = number(1 - 1 / self.communicator.size if momentum is None else momentum)
        way = number(averaging.learning_rate) * (average - beginning)
        delta *= eta
        delta += way
        return beginning + way + eta * delta if averaging.nesterov else beginning + delta


def resets(averaging: Averaging, learner: Learner) -> bool:
    """Whether the learner's arrays are zeros at the beginning of a block."""
    return isinstance(averaging, BlockMomentum) and averaging.reset and isinstance(learner, SGD)


def _averages(communicator: Communicator, arrays: Sequence[Array]) -> list[Array]:
    """Of each array over all members."""
    flat = np.concatenate([array.reshape(-1) for array in arrays])
    communicator.all_reduce(flat)
    flat /= communicator.size
    ends = np.cumsum([array.size for array in arrays])
    parts = np.split(flat, ends[:-1])
    return [part.reshape(array.shape) for part, array in zip(parts, arrays, strict=True)]
