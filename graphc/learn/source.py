"""Where the samples of an epoch come from: data in memory, or a reader that gives them in blocks.

An epoch is a window of the data, which repeat endlessly: epoch e begins e · `epoch_size` units
after the beginning. Data in memory are shuffled once for each pass over them, so that windows of a
pass have no sample in common. A reader has an order of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol, TypeGuard

import numpy as np

from graphc.data.reader import EpochRequest, Reader, fingerprint_of
from graphc.learn.dataset import Columns, Dataset, Samples, Sequences, read_dataset
from graphc.learn.shuffle import permutation
from graphc.runtime.signature import Signature
from graphc.runtime.sparse import SparseRows, sample_count
from graphc.support.arguments import kind_of, table
from graphc.support.diagnostics import fail

Array = np.ndarray
Data = Mapping[str, object] | Reader
"""What trains or measures: arrays or lists of sequences by input, or a reader of them."""

FINGERPRINT_ROWS = 512


def is_reader(data: object) -> TypeGuard[Reader]:
    """Whether data are read in blocks."""
    return not isinstance(data, Mapping) and hasattr(data, "blocks") and hasattr(data, "schema")


def check_source(what: str, data: object) -> None:
    """GraphcError `argument-type` unless it is arrays by name, or a reader; `what` takes them."""
    if isinstance(data, Mapping):
        table(data, what, "arrays")
    elif not is_reader(data):
        required = "arrays by name, or a reader with schema, samples and blocks"
        raise fail("argument-type", f"{what} requires {required}, got {kind_of(data)}")


def blocks_of(data: Data, minibatch: int = 1) -> Iterator[Mapping[str, object]]:
    """All of the data once, in order of the source."""
    if is_reader(data):
        yield from data.blocks(EpochRequest(minibatch=minibatch))
    else:
        assert isinstance(data, Mapping)
        yield data


def samples_of(data: Data) -> int | None:
    """The samples of the data once; None where only reading tells."""
    if is_reader(data):
        return data.samples
    assert isinstance(data, Mapping)
    return max(map(sample_count, data.values()), default=1)


@dataclass(frozen=True, eq=False)
class Stretch:
    """Units of a data set to train in this order."""

    dataset: Dataset
    order: Array


class Source(Protocol):
    """What epochs are taken of. A unit is a sample, or a sequence."""

    @property
    def units(self) -> int | None:
        """Of the data once; None where only reading tells."""
        ...

    def nominal(self, size: int) -> int:
        """The samples of an average update with `size` units."""
        ...

    def stretches(self, request: EpochRequest) -> Iterator[Stretch]:
        """An epoch, in units: each stretch but the last is a multiple of the minibatch long."""
        ...

    def samples(self, request: EpochRequest) -> int:
        """Of an epoch, those it skips included; 0 where only reading tells."""
        ...

    def fingerprint(self) -> Mapping[str, str]:
        """What differs between different data, by what it is of."""
        ...


@dataclass(frozen=True)
class MemorySource:
    """Data in memory."""

    dataset: Dataset
    seed: int
    shuffle: bool

    @property
    def units(self) -> int:
        return self.dataset.units

    def nominal(self, size: int) -> int:
        return self.dataset.nominal(size)

    def stretches(self, request: EpochRequest) -> Iterator[Stretch]:
        order = self._window(request)
        yield Stretch(self.dataset, np.ascontiguousarray(order[request.skip :]))

    def samples(self, request: EpochRequest) -> int:
        if isinstance(self.dataset, Sequences):
            return int(self.dataset.lengths[self._window(request)].sum())
        return request.size or self.units

    def _window(self, request: EpochRequest) -> Array:
        return window(self.seed if self.shuffle else None, request.epoch, request.size, self.units)

    def fingerprint(self) -> Mapping[str, str]:
        return digests_of(self.dataset)


def window(seed: int | None, epoch: int, size: int, total: int) -> Array:
    """The numbers of the units of an epoch, i64[size]; size 0 stands for `total`.

    Pass p over the data has the order `permutation(seed, p, total)`, or that of the data without a
    seed; the passes follow each other without a gap.
    """
    size = size or total
    first, end = epoch * size, (epoch + 1) * size
    passes = range(first // total, -(-end // total))
    parts = [_pass(seed, p, total)[max(first - p * total, 0) : end - p * total] for p in passes]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@lru_cache(maxsize=2)
def _pass(seed: int | None, number: int, total: int) -> Array:
    order = np.arange(total) if seed is None else permutation(seed, number, total)
    order.setflags(write=False)
    return order


@dataclass(frozen=True)
class ReaderSource:
    """What a reader gives. Sizes are as it counts: samples, or sequences where its blocks hold
    those."""

    reader: Reader
    signature: Signature
    truncate: int
    _nominal: dict[int, int] = field(default_factory=dict[int, int], compare=False)

    @property
    def units(self) -> int | None:
        return self.reader.samples

    def nominal(self, size: int) -> int:
        if self.signature.sequences is None:
            return size
        if size not in self._nominal:  # of sequences an average one, as the first block has it
            blocks = iter(self.stretches(EpochRequest(minibatch=size)))
            first = next(blocks, None)
            self._nominal[size] = first.dataset.nominal(size) if first is not None else size
        return self._nominal[size]

    def stretches(self, request: EpochRequest) -> Iterator[Stretch]:
        rest = 0
        for block in self.reader.blocks(request):
            if rest:
                raise fail(
                    "input",
                    f"a block before the last requires a multiple of the minibatch "
                    f"{request.minibatch}, got {rest} too many from the reader",
                )
            dataset = read_dataset(self.signature, block, self.truncate)
            rest = dataset.units % request.minibatch
            yield Stretch(dataset, np.arange(dataset.units))

    def samples(self, request: EpochRequest) -> int:
        if self.signature.sequences is not None:
            return 0
        return request.size or self.reader.samples or 0

    def fingerprint(self) -> Mapping[str, str]:
        """The columns, and what a reader says of itself by `order` and `fingerprint()`, where it
        has them. The number of samples may show only while they are read, and so later than a
        training goes on."""
        found = {f"column {n}": str(c) for n, c in self.reader.schema.items()}
        said = {"order": getattr(self.reader, "order", ""), "reader": fingerprint_of(self.reader)}
        return found | {name: str(value) for name, value in said.items() if value}


def digests_of(dataset: Dataset) -> Mapping[str, str]:
    """What differs between different data in memory, by the inputs that they are for."""
    if isinstance(dataset, Samples):
        return {name: _digest([rows]) for name, rows in dataset.arrays.items()}
    if isinstance(dataset, Sequences):
        return {name: _digest(items) for name, items in dataset.lists.items()}
    return {}


def _digest(items: Iterable[Columns]) -> str:
    """Of lengths and shapes, and of rows at the beginning, at the end and evenly in between."""
    arrays = list(items)
    found = hashlib.sha256(np.array([len(item) for item in arrays]).tobytes())
    for item in arrays[:: max(1, len(arrays) // FINGERPRINT_ROWS)]:
        parts = (
            [item.values, item.indices, item.offsets] if isinstance(item, SparseRows) else [item]
        )
        for part in parts:
            found.update(f"{part.dtype}{part.shape}".encode())
            found.update(_some_rows(part).tobytes())
    return found.hexdigest()[:32]


def _some_rows(array: Array) -> Array:
    count = len(array)
    if count <= 4 * FINGERPRINT_ROWS:
        return array
    spread = np.linspace(0, count - 1, FINGERPRINT_ROWS).astype(np.int64)
    return np.concatenate([array[:FINGERPRINT_ROWS], array[spread], array[-FINGERPRINT_ROWS:]])
