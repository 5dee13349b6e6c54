"""What a reader is: a source of samples by named columns, for training and measuring.

A reader gives an epoch's samples in blocks, so that data larger than memory need the memory of a
block alone. Within a block the training step runs many minibatches in one native call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from graphc.support.arguments import whole
from graphc.support.diagnostics import fail

Block = Mapping[str, object]
"""Samples by column, as `gc.train` takes data: arrays (samples, width), sparse rows, or lists of
sequences; of each column equally many."""


@dataclass(frozen=True, slots=True)
class Column:
    """What a reader gives for one input of a network.

    width  numbers of a sample (of sequences, of a step)
    """

    width: int
    kind: Literal["dense", "sparse"] = "dense"


@dataclass(frozen=True, slots=True)
class EpochRequest:
    """Which samples an epoch visits.

    epoch      counted from 0; epoch e begins at sample e · size of the data, which repeat
               endlessly (the toolkit's epochSize)
    size       samples of the epoch; 0: all of the data once
    minibatch  samples of an update: every block but an epoch's last holds a multiple of it
    skip       samples of the epoch that were visited before a restart

    GraphcError `bad-value` for a number below 0, or a minibatch of none.
    """

    epoch: int = 0
    size: int = 0
    minibatch: int = 1
    skip: int = 0

    def __post_init__(self) -> None:
        for name in ("epoch", "size", "minibatch", "skip"):
            whole(getattr(self, name), f"{name} of an epoch")
        if self.minibatch < 1:
            raise fail("bad-value", "minibatch of an epoch requires at least 1 sample, got 0")


@runtime_checkable
class Reader(Protocol):
    """Columns by name, and an epoch's samples. The order follows from the request and the reader's
    own settings alone, so that an epoch can be read again from its middle.

    It may also have a text `fingerprint` (`fingerprint_of`).
    """

    @property
    def schema(self) -> Mapping[str, Column]: ...

    @property
    def samples(self) -> int | None:
        """Of the data, once; None where only reading them tells."""
        ...

    def blocks(self, request: EpochRequest) -> Iterator[Block]: ...


def fingerprint_of(reader: Reader) -> str:
    """What a reader says of its samples and their order by an attribute `fingerprint`, which it may
    have; else nothing. Trainings that go on from a checkpoint compare it."""
    return str(getattr(reader, "fingerprint", ""))
