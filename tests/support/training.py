"""What tests of training share: a reader of arrays, and what of two trainings is compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

import graphc as gc
from graphc.data.reader import Block, Column, EpochRequest

Array = np.ndarray


def values(net: gc.Network) -> dict[str, bytes]:
    """The bits of every parameter."""
    return {name: value.tobytes() for name, value in net.parameters.items()}


def untimed(records: list[gc.EpochRecord]) -> list[gc.EpochRecord]:
    """The records without what the clock said."""
    return [replace(record, seconds=0.0) for record in records]


@dataclass
class Blocks:
    """A reader of arrays in memory, in blocks of so many minibatches, in the data's order."""

    data: Mapping[str, Array]
    per_block: int = 2
    knows: bool = True
    asked: list[EpochRequest] = field(default_factory=list[EpochRequest])

    @property
    def schema(self) -> Mapping[str, Column]:
        return {name: Column(array.shape[1]) for name, array in self.data.items()}

    @property
    def samples(self) -> int | None:
        return len(self.data["features"]) if self.knows else None

    def blocks(self, request: EpochRequest) -> Iterator[Block]:
        self.asked.append(request)
        total = len(self.data["features"])
        size = request.size or total
        numbers = np.arange(request.epoch * size, (request.epoch + 1) * size) % total
        numbers = numbers[request.skip :]
        step = self.per_block * request.minibatch
        for start in range(0, len(numbers), step):
            yield {n: a[numbers[start : start + step]] for n, a in self.data.items()}


@dataclass
class SequenceBlocks:
    """A reader of sequences in memory, in blocks of so many minibatches, in the data's order."""

    data: Mapping[str, list[Array]]
    per_block: int = 1

    @property
    def schema(self) -> Mapping[str, Column]:
        return {name: Column(items[0].shape[1]) for name, items in self.data.items()}

    @property
    def samples(self) -> int | None:
        return None

    def blocks(self, request: EpochRequest) -> Iterator[Block]:
        total = len(next(iter(self.data.values())))
        size = request.size or total
        numbers = [n % total for n in range(request.epoch * size, (request.epoch + 1) * size)]
        numbers = numbers[request.skip :]
        step = self.per_block * request.minibatch
        for start in range(0, len(numbers), step):
            chosen = numbers[start : start + step]
            yield {name: [items[n] for n in chosen] for name, items in self.data.items()}
