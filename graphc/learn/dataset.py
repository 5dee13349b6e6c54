"""A data set as a training or measuring loop sees it: units to choose from, and calls.

A unit is what minibatches are chosen of: a sample, or a whole sequence. The calls of a minibatch
are one, or for truncated sequences one for each stretch of steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from numbers import Integral
from typing import Protocol

import numpy as np

from graphc.learn.deal import dealt
from graphc.runtime.class_numbers import is_numbered
from graphc.runtime.executable import check_inputs, check_sequences, needed_inputs
from graphc.runtime.signature import Signature
from graphc.runtime.sparse import SparseRows
from graphc.support.arguments import table
from graphc.support.diagnostics import fail

Array = np.ndarray
Columns = Array | SparseRows


@dataclass(frozen=True)
class Share:
    """What one of `size` members takes of every minibatch: each `size`-th unit, from `rank` on; or
    for `shards` parts of each, as many units one behind the other.

    by_length  of sequences those that are about as long, see `deal.py`
    """

    rank: int = 0
    size: int = 1
    shards: int = 1
    by_length: bool = False

    @property
    def first_shard(self) -> int:
        """The number of this member's first part, of those of all members."""
        return self.rank * self.shards

    def of(self, chosen: Array) -> Array:
        places = np.arange(len(chosen)) // self.shards
        return chosen[places % self.size == self.rank]


WHOLE = Share()


@dataclass(frozen=True)
class Call:
    """The inputs of one call and its samples.

    carry  the call goes on from the one before, or from nothing if it is the `first` one
    """

    inputs: Mapping[str, object]
    samples: int
    carry: bool = False
    first: bool = True

    @property
    def given(self) -> dict[str, object]:
        """What the function is called with."""
        return {**self.inputs, "carry": True} if self.carry else dict(self.inputs)


class Dataset(Protocol):
    """`units` to choose from, `samples` in all of them."""

    @property
    def units(self) -> int: ...

    @property
    def samples(self) -> int: ...

    def nominal(self, size: int) -> int:
        """The samples of an average call with `size` units."""
        ...

    def calls(self, chosen: Array, share: Share = WHOLE) -> Iterator[Call]:
        """What computes a member's share of the units of these numbers: as many calls for each of
        the members, where it has nothing without samples."""
        ...

    def in_order(self) -> Array:
        """All units, in the order in which measuring them takes least."""
        ...


@dataclass(frozen=True)
class Samples:
    """One array (samples, rows) per input: a unit is a sample."""

    arrays: Mapping[str, Columns]
    samples: int

    @property
    def units(self) -> int:
        return self.samples

    def nominal(self, size: int) -> int:
        return size

    def calls(self, chosen: Array, share: Share = WHOLE) -> Iterator[Call]:
        mine = share.of(chosen)
        yield Call({name: array[mine] for name, array in self.arrays.items()}, len(mine))

    def in_order(self) -> Array:
        return np.arange(self.samples)


@dataclass(frozen=True)
class Sequences:
    """One list of arrays (steps, rows) per input: a unit is a sequence, a sample a step.

    truncate  steps of a call; 0: a call computes whole sequences
    """

    lists: Mapping[str, Sequence[Columns]]
    lengths: Array
    truncate: int = 0

    @property
    def units(self) -> int:
        return len(self.lengths)

    @property
    def samples(self) -> int:
        return int(self.lengths.sum())

    def nominal(self, size: int) -> int:
        stretches = np.ceil(self.lengths / (self.truncate or self.lengths)).sum()
        return max(1, round(size * self.samples / max(1, stretches)))

    def calls(self, chosen: Array, share: Share = WHOLE) -> Iterator[Call]:
        longest = int(self.lengths[chosen].max(initial=0))  # of all members, who wait for it
        if share.by_length and not self.truncate:
            mine = chosen[dealt(self.lengths[chosen], share.size)[share.rank]]
        else:
            mine = share.of(chosen)
        stretch = self.truncate or max(longest, 1)
        for start in range(0, longest, stretch):
            part = slice(start, start + stretch)
            inputs = {n: [items[i][part] for i in mine] for n, items in self.lists.items()}
            steps = int(np.clip(self.lengths[mine] - start, 0, stretch).sum())
            yield Call(inputs, steps, bool(self.truncate), start == 0)

    def call_count(self, chosen: Array) -> int:
        """How many calls compute the sequences of these numbers."""
        longest = int(self.lengths[chosen].max(initial=0))
        return -(-longest // (self.truncate or max(longest, 1)))

    def in_order(self) -> Array:
        """Those of equal length together, so that few columns are gaps."""
        return np.argsort(self.lengths, kind="stable")


@dataclass(frozen=True)
class Minibatch:
    """One minibatch of sequences as a unit: its calls, without the first `skip`."""

    sequences: Sequences
    chosen: Array
    skip: int = 0

    @property
    def units(self) -> int:
        return 1

    @property
    def samples(self) -> int:
        return int(self.sequences.lengths[self.chosen].sum())

    def nominal(self, size: int) -> int:
        return self.sequences.nominal(size * len(self.chosen))

    def calls(self, chosen: Array, share: Share = WHOLE) -> Iterator[Call]:
        return islice(self.sequences.calls(self.chosen, share), self.skip, None)

    def in_order(self) -> Array:
        return np.arange(1)


def check_data(what: str, data: object) -> None:
    """For callers without a type checker: GraphcError `argument-type` unless it is arrays by name.

    what  the function, for the message
    """
    table(data, what, "arrays")


def read_dataset(signature: Signature, data: Mapping[str, object], truncate: int = 0) -> Dataset:
    """The data that a function takes; GraphcError `input` where they do not fit."""
    needed = needed_inputs(signature, data)
    if signature.sequences is None:
        return Samples(*check_inputs(signature, needed))
    lists, lengths = check_sequences(signature, needed)
    return Sequences(lists, lengths, truncate)


def numbered_in(
    labels: Collection[str], data: Mapping[str, object], *, of_sequences: bool
) -> tuple[str, ...]:
    """Those inputs of labels that data give as class numbers."""
    given = {name.lower(): value for name, value in data.items()}
    return tuple(
        name for name in labels if is_numbered(given.get(name.lower()), of_sequences=of_sequences)
    )


def place_of_non_finite(dataset: Dataset) -> str:
    """Where the data hold nan or infinity first, such as "`x` is nan in sample 17"; or ''."""
    for name, place, columns in _columns(dataset):
        values = columns.values if isinstance(columns, SparseRows) else columns
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            got, row = values.flat[bad[0]], _row_of(columns, int(bad[0]))
            return f"`{name}` is {got} in {place} {row} (counted from 0)"
    return ""


def _row_of(columns: Columns, entry: int) -> int:
    if isinstance(columns, SparseRows):
        return int(np.searchsorted(columns.offsets, entry, side="right")) - 1
    return entry // (columns.size // len(columns))


def _columns(dataset: Dataset) -> Iterator[tuple[str, str, Columns]]:
    """Name, what a row is called, and rows of every array."""
    if isinstance(dataset, Samples):
        yield from ((name, "sample", array) for name, array in dataset.arrays.items())
    elif isinstance(dataset, Sequences):
        for name, items in dataset.lists.items():
            yield from ((name, f"sequence {i}, step", item) for i, item in enumerate(items))


def check_truncate(truncate: object) -> None:
    """GraphcError `bad-value` unless it is a whole number of steps."""
    is_whole = not isinstance(truncate, bool) and isinstance(truncate, Integral)
    if not is_whole or truncate < 0:  # type: ignore[operator]
        message = f"truncate requires a whole number of steps, at least 0, got {truncate!r}"
        raise fail("bad-value", message)


@dataclass(frozen=True)
class Extent:
    """The size of a data set of sequences, as far as it can be told without checking it."""

    longest: int
    sequences: int

    def time(self, least: int, truncate: int) -> int:
        """The bound on the steps of a call: `least` where nothing else decides it."""
        return min(int(truncate), self.longest) if truncate else max(least, self.longest)


def extent_of(data: Mapping[str, object]) -> Extent:
    """Of the longest list; 1 sequence of 1 step at least."""
    lists = [value for value in data.values() if isinstance(value, list | tuple)]
    lengths = [_steps(item) for items in lists for item in items]
    return Extent(max([1, *lengths]), max([1, *map(len, lists)]))


def _steps(item: object) -> int:
    if isinstance(item, tuple) and len(item) > 1:  # a sparse sequence: indices, offsets, values
        item = item[1]
        return max(0, _steps(item) - 1)
    if isinstance(item, SparseRows):
        return len(item)
    shape = getattr(item, "shape", None)
    if isinstance(shape, tuple) and shape:
        return int(shape[0])
    return len(item) if isinstance(item, list) else 0


__all__: Sequence[str] = (
    "WHOLE",
    "Call",
    "Dataset",
    "Extent",
    "Minibatch",
    "Samples",
    "Sequences",
    "Share",
    "check_truncate",
    "extent_of",
    "numbered_in",
    "place_of_non_finite",
    "read_dataset",
)
