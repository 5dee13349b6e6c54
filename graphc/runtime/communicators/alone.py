"""The only member of a training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphc.runtime.communicators.communicator import Communicator, checked_shards


@dataclass(frozen=True)
class LoneMember:
    """A member without others: its array is the sum."""

    shards: int = 0
    rank: int = 0
    size: int = 1

    def all_reduce(self, array: np.ndarray) -> None:
        """See `Communicator`."""


def alone(shards: int = 0) -> Communicator:
    """One member, for programs that are written for several.

    shards  parts that a minibatch is computed in, a power of two: the bits are then those of as
            many members; 0: the step is that of a training without a communicator
    """
    return LoneMember(checked_shards(shards, 1))
