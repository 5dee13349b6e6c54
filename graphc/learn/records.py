"""What a training tells those who watch it: a record of each epoch, and what happens in between."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

from graphc.learn.epoch import Part
from graphc.support.arguments import function
from graphc.support.diagnostics import fail, suggestion


@dataclass(frozen=True)
class Validation:
    """What validation data said after an epoch: averages per sample."""

    samples: int
    criterion: float
    evaluations: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class EpochRecord:
    """One epoch: averages per sample of the criterion and of every evaluation node.

    epoch       from 1
    minibatch   units of an update: samples, or of sequences their number
    validation  of the parameters after the epoch
    undone      the epoch made things worse and the parameters are again those before it
    """

    epoch: int
    samples: int
    criterion: float
    evaluations: Mapping[str, float]
    learning_rate_per_sample: float
    seconds: float
    minibatch: int = 0
    validation: Validation | None = None
    undone: bool = False


def watched(
    record: EpochRecord, criterion: str, node: str | None, *, use_validation: bool
) -> float:
    """The value of a record that a rule looks at: of `node`, by default the criterion, which is the
    name of the trained one. It is among the nodes measured (`require_measured`)."""
    source = record.validation if use_validation and record.validation is not None else record
    if node is None or node.lower() == criterion.lower():
        return source.criterion
    found = (v for name, v in source.evaluations.items() if name.lower() == node.lower())
    return next(found, math.nan)  # of an epoch that came to nothing, nothing is known


def require_measured(node: str | None, names: Sequence[str]) -> None:
    """GraphcError `missing-node` unless a rule's node is one of those measured."""
    if node is not None and node.lower() not in [name.lower() for name in names]:
        near = suggestion(node, names)
        raise fail("missing-node", f"`{node}` is no criterion and no evaluation node{near}")


@dataclass(frozen=True)
class EpochStart:
    """What an epoch is trained with.

    epoch      from 1
    minibatch  units of an update
    numbers    what a whole minibatch is given, such as `learning_rate` (per sample) and `momentum`
    """

    epoch: int
    minibatch: int
    learning_rate_per_sample: float
    numbers: Mapping[str, float]


Kind = Literal[
    "rate-trial",
    "rate-found",
    "minibatch-trial",
    "minibatch-found",
    "undone",
    "rate-reduced",
    "rate-increased",
    "finished",
    "sums-beside",
    "sums-behind",
]


@dataclass(frozen=True)
class Event:
    """A decision of what controls rates and sizes, or a trial on the way to one; or of members.

    rate-trial       before epoch `epoch` the rate `value` reached `criterion`; `purpose` is one of
                     "base", "downwards", "ends", "left", "right" (`rate_search.py`)
    rate-found       the epoch's rate is `value`; it had to keep to `criterion`
    minibatch-trial  the minibatch `value` reached `criterion`
    minibatch-found  the epoch's minibatch is `value`
    undone           parameters are again those before the epoch
    rate-reduced, rate-increased  the rate of the next epoch is `value`
    finished         no more epochs: `purpose` says why
    sums-beside, sums-behind  from epoch `epoch` on members add gradients beside the backward pass,
                     or behind it, as is quicker where a byte is waited for `value` seconds

    epoch  from 1
    """

    kind: Kind
    epoch: int
    value: float = 0.0
    criterion: float = 0.0
    purpose: str = ""


def _nothing(_: object) -> None:
    """What is not looked at."""


@dataclass(frozen=True)
class Progress:
    """Called while training. `minibatch(done, total)` samples of the epoch, the total 0 where only
    reading tells it; `epoch(record)` at its end; `should_stop()` is asked after every minibatch and
    every epoch. `start(epoch_start)` comes before an epoch, `part(part)` with the numbers of single
    minibatches, `event(event)` with what controls rates and sizes decides.

    Where native code trains many minibatches in a call (`TrainingStep.run_epoch` says where), a
    tenth of a second of them counts as one.
    """

    minibatch: Callable[[int, int], None] = lambda done, total: None
    epoch: Callable[[EpochRecord], None] = _nothing
    should_stop: Callable[[], bool] = lambda: False
    start: Callable[[EpochStart], None] = _nothing
    part: Callable[[Part], None] = _nothing
    event: Callable[[Event], None] = _nothing

    def __post_init__(self) -> None:
        for each in fields(self):
            function(getattr(self, each.name), f"{each.name} of a Progress")
