"""How long members take for their sums: lines of the log that `syncPerfStats` asks for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from graphc.learn.averaging import Averaging
from graphc.learn.epoch import Part
from graphc.learn.records import EpochRecord, EpochStart, Progress
from graphc.runtime.communicators.communicator import (
    Communicator,
    PieceCommunicator,
    Wire,
    shards_of,
    wire_of,
)

Array = np.ndarray
T = TypeVar("T")


@dataclass
class TimedMember:
    """A member, with the seconds that it has spent in sums, waiting for the others among them."""

    member: Communicator
    seconds: float = 0.0

    @property
    def rank(self) -> int:
        return self.member.rank

    @property
    def size(self) -> int:
        return self.member.size

    @property
    def shards(self) -> int:
        return shards_of(self.member)

    @property
    def wire(self) -> Wire:
        return wire_of(self.member)

    def all_reduce(self, array: Array) -> None:
        """See `Communicator`."""
        self._timed(lambda: self.member.all_reduce(array))

    def exchange(self, rows: Array) -> Array:
        """See `PieceCommunicator`."""
        return self._timed(lambda: _pieces(self.member).exchange(rows))

    def collect(self, piece: Array) -> Array:
        """See `PieceCommunicator`."""
        return self._timed(lambda: _pieces(self.member).collect(piece))

    def _timed(self, call: Callable[[], T]) -> T:
        began = time.perf_counter()
        try:
            return call()
        finally:
            self.seconds += time.perf_counter() - began


def _pieces(member: Communicator) -> PieceCommunicator:
    assert isinstance(member, PieceCommunicator)  # others travel in full, as arrays
    return member


class SyncStats:
    """Counts sums of gradients, or averages of parameters, in an epoch.

    every  of so many of them one is said
    line   takes a line of the log
    """

    def __init__(
        self,
        member: TimedMember,
        averaging: Averaging | None,
        every: int,
        line: Callable[[str], None],
    ) -> None:
        self._member, self._averaging, self._every, self._line = member, averaging, every, line
        self.begin()

    def added_to(self, progress: Progress) -> Progress:
        """What shows these lines, too."""

        def start(epoch: EpochStart) -> None:
            self.begin()
            progress.start(epoch)

        def part(trained: Part) -> None:
            progress.part(trained)
            if self._member.seconds > self._begun:  # not of epochs that each trains alone
                self.part(trained)

        def epoch(record: EpochRecord) -> None:
            self.end()
            progress.epoch(record)

        return replace(progress, start=start, part=part, epoch=epoch)

    def begin(self) -> None:
        """An epoch."""
        self._count = self._in_block = self._samples = self._mine = 0
        self._since, self._seconds = time.perf_counter(), self._member.seconds
        self._begun = self._seconds

    def part(self, part: Part) -> None:
        """Minibatches that have been trained."""
        member, averaging = self._member, self._averaging
        self._samples += part.samples
        self._mine += -(-(part.samples - member.rank) // member.size)
        if averaging is None:
            before, count = self._count, len(next(iter(part.values.values())))
            self._count += count
            if self._count // self._every > before // self._every:
                # Of many in one native call each has taken as long as the others.
                seconds = (member.seconds - self._seconds) / count
                self._line(f"Actual gradient aggregation time: {seconds:.6g}")
            self._seconds = member.seconds
            return
        self._in_block += part.samples
        if self._in_block >= averaging.period * member.size:
            self._end_block()

    def end(self) -> None:
        """An epoch is over, with it a block."""
        if self._averaging is not None and self._in_block:
            self._end_block()

    def _end_block(self) -> None:
        self._count += 1
        self._in_block = 0
        if self._count % self._every == 0:
            for text in self._averages():
                self._line(text)
            self._samples = self._mine = 0
            self._since, self._seconds = time.perf_counter(), self._member.seconds

    def _averages(self) -> list[str]:
        seconds = time.perf_counter() - self._since
        waited = self._member.seconds - self._seconds
        size = self._member.size
        rate = self._samples / seconds / 1000 if seconds > 0 else 0.0
        head = f"\t\t(model aggregation stats) {self._count}-th sync: "
        return [
            f"{head}{seconds:8.2f} seconds since last report ({waited:.2f} seconds on comm.); "
            f"{self._samples} samples processed by {size} workers ({self._mine} by me);",
            f"{head}totalThroughput = {rate:.2f}k samplesPerSecond , "
            f"throughputPerWorker = {rate / size:.2f}k samplesPerSecond",
        ]
