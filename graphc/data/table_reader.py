"""A reader over a table: an epoch's samples in the order asked for, as blocks of whole minibatches.

Labels are kept as class numbers and become one-hot rows in the blocks alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from graphc.data.order import LastWindow, Order, visits
from graphc.data.reader import Block, Column, EpochRequest
from graphc.data.tables import Stream, Table
from graphc.support.diagnostics import fail

BLOCK_BYTES = 1 << 25
"""About what a block takes: large enough that what is done once a block does not count."""

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class TableReader:
    """The rows of a table as samples.

    classes      of columns that hold class numbers: the width of their one-hot rows
    dtype        of these rows
    block_bytes  about what a block takes; more where a minibatch does
    origin       what the samples are of, for `fingerprint`

    GraphcError `not-supported` for samples that are exchanged over the whole data where they only
    pass by.
    """

    table: Table
    schema: Mapping[str, Column]
    order: Order = field(default_factory=Order)
    classes: Mapping[str, int] = field(default_factory=dict[str, int])
    dtype: np.dtype = field(default_factory=lambda: np.dtype(np.float32))
    block_bytes: int = BLOCK_BYTES
    origin: Callable[[], str] = str
    _last: LastWindow = field(default_factory=LastWindow, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.order.randomize == "auto" and isinstance(self.table, Stream):
            message = "samples that are not kept can be exchanged within a number of them alone"
            raise fail("not-supported", f"{message}: randomize requires that, or None")

    @property
    def samples(self) -> int | None:
        return self.table.samples

    @property
    def fingerprint(self) -> str:
        """What differs between readers of other samples, or in another order. A training that goes
        on from a checkpoint has to find what it had."""
        return f"{self.order} {self.origin()}".strip()

    def blocks(self, request: EpochRequest) -> Iterator[Block]:
        size = self._block_rows(request.minibatch)
        parts, filled = list[Arrays](), 0
        for visited in visits(self.order, request, self.table, size, self._last):
            rows = visited
            while len(rows):
                taken, rows = rows[: size - filled], rows[size - filled :]
                parts.append(self.table.take(taken))
                filled += len(taken)
                if filled == size:
                    yield self._joined(parts, filled)
                    parts, filled = [], 0
        if self.order.minibatch_mode == "full":
            filled -= filled % request.minibatch
        if filled:
            yield self._joined(parts, filled)

    def _block_rows(self, minibatch: int) -> int:
        """Samples of a block: a multiple of the minibatch."""
        width = sum(column.width for column in self.schema.values())
        fitting = self.block_bytes // max(1, width * self.dtype.itemsize)
        return max(1, fitting // minibatch) * minibatch

    def _joined(self, parts: list[Arrays], rows: int) -> Block:
        block = parts[0]
        if len(parts) > 1:
            block = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return {name: self._given(name, array[:rows]) for name, array in block.items()}

    def _given(self, name: str, array: np.ndarray) -> np.ndarray:
        if name not in self.classes:
            return array
        classes, numbers = self.classes[name], array[:, 0].astype(np.intp)
        outside = (numbers < 0) | (numbers >= classes)
        if outside.any():
            wanted = f"class numbers from 0 to {classes - 1} are required"
            raise fail("label", f"{wanted}, `{name}` has {numbers[outside][0]}")
        one_hot = np.zeros((len(numbers), classes), self.dtype)
        one_hot[np.arange(len(numbers)), numbers] = 1
        return one_hot
