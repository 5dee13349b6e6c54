"""A function that meets other members several times: stages, and what is exchanged between them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from graphc.runtime.communicators.communicator import Communicator
from graphc.runtime.communicators.rows import (
    Columns,
    counts_of,
    folded,
    gathered,
    scattered_sum,
)
from graphc.runtime.communicators.sums import Room
from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.signature import NUMPY_DTYPES, Signature, concrete_shape
from graphc.support.diagnostics import fail

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Stage:
    """What is computed between two meetings."""

    compiled: CompiledFunction
    signature: Signature


@dataclass(frozen=True, slots=True)
class Exchange:
    """One thing that is done in a meeting, with arrays by name.

    own, total   the dims of a member's samples and of all
    start, stop  the columns that are taken, with `stop` 0 all
    """

    kind: Literal["sum", "add", "maximum", "minimum", "gather", "scatter", "own"]
    gives: tuple[str, ...]
    gets: tuple[str, ...]
    own: str = ""
    total: str = ""
    start: int = 0
    stop: int = 0


class StagedFunction(CompiledFunction):
    """The function of `signature`; behind each stage but the last there is a meeting.

    parts  of arguments that are split: the rows of this member, out of an array with all
    """

    is_shared = True
    same_for_all = True  # what members exchange is of its operations

    def __init__(
        self,
        signature: Signature,
        stages: Sequence[Stage],
        meetings: Sequence[Sequence[Exchange]],
        communicator: Communicator,
        parts: Mapping[str, tuple[int, int]],
    ) -> None:
        self._signature, self._stages, self._meetings = signature, stages, meetings
        self._communicator, self._parts = communicator, parts
        every = [e for meeting in meetings for e in meeting]
        self._dims = {e.own: e.total for e in every if e.own}
        bounds = {d.name: d.bound for stage in stages for d in stage.signature.dims}
        self._bounds = {total: bounds[total] for total in self._dims.values()}
        self._rooms: dict[str, Room] = {}
        self._columns = {e.gets[0]: Columns(e.start, e.stop) for e in every if e.stop}

    def __call__(
        self, arguments: Sequence[Array], results: Sequence[Array], sizes: Mapping[str, int]
    ) -> None:
        """See `CompiledFunction`."""
        names = [a.name for a in self._signature.arguments]
        arrays = dict(zip(names, arguments, strict=True))
        for name, (start, stop) in self._parts.items():
            arrays[name] = arrays[name][start:stop]
        fresh = [r.name for r in self._signature.fresh_results]
        final = dict(zip(fresh, results, strict=True))
        counts, sizes = self._all_sizes(sizes)
        for stage, exchanges in zip(self._stages, [*self._meetings, ()], strict=True):
            made = {r.name: self._room(r.name, r.dtype, r.shape, sizes, final)
                    for r in stage.signature.fresh_results}  # fmt: skip
            given = [arrays[a.name] for a in stage.signature.arguments]
            its = {d.name: sizes[d.name] for d in stage.signature.dims}
            stage.compiled(given, list(made.values()), its)
            arrays.update(made)
            for exchange in exchanges:
                arrays.update(self._exchanged(exchange, arrays, counts))

    def _all_sizes(
        self, sizes: Mapping[str, int]
    ) -> tuple[Mapping[str, Sequence[int]], dict[str, int]]:
        """How many samples each member has, and all sizes."""
        own = list(self._dims)
        numbers = [sizes[d] for d in own] + [self._bounds[self._dims[d]] for d in own]
        table = counts_of(self._communicator, *numbers)
        counts: dict[str, Sequence[int]] = {}
        made = dict(sizes)
        for i, dim in enumerate(own):
            counts[dim] = [int(n) for n in table[:, i]]
            most = int(table[:, len(own) + i].min())
            made[self._dims[dim]] = total = sum(counts[dim])
            if total > most:
                message = f"members that split outputs have {total} samples together"
                raise fail("input", f"{message}, more than the {most} of their bounds")
        return counts, made

    def _room(
        self,
        name: str,
        dtype: str,
        shape: tuple[int | str, ...],
        sizes: Mapping[str, int],
        final: Mapping[str, Array],
    ) -> Array:
        if name in final:
            return final[name]
        room = self._rooms.setdefault(name, Room())
        return room.of(concrete_shape(shape, sizes), NUMPY_DTYPES[dtype])

    def _exchanged(
        self, exchange: Exchange, arrays: Mapping[str, Array], counts: Mapping[str, Sequence[int]]
    ) -> dict[str, Array]:
        communicator, gets = self._communicator, exchange.gets
        given = [arrays[name] for name in exchange.gives]
        if exchange.kind in ("sum", "add"):
            return dict(zip(gets, self._sums(gets[0], given), strict=True))
        first = given[0]
        if exchange.kind in ("maximum", "minimum"):
            return {gets[0]: folded(communicator, first, exchange.kind)}
        its = counts[exchange.own]
        if exchange.kind == "scatter":
            return {gets[0]: scattered_sum(communicator, first, its)}
        if exchange.kind == "own":
            start = sum(its[: communicator.rank])
            return {gets[0]: first[start : start + its[communicator.rank]]}
        if exchange.stop:
            return {gets[0]: self._columns[gets[0]].of(communicator, first, its)}
        return {gets[0]: gathered(communicator, first, its)}

    def _sums(self, name: str, given: Sequence[Array]) -> list[Array]:
        """The sums over members, side by side in one array."""
        size = sum(a.size for a in given)
        whole = self._rooms.setdefault(f"sum of {name}", Room()).of((size,), given[0].dtype)
        parts: list[Array] = []
        start = 0
        for array in given:
            part = whole[start : start + math.prod(array.shape)].reshape(array.shape)
            part[...] = array
            parts.append(part)
            start += array.size
        self._communicator.all_reduce(whole)
        return parts

    def use_threads(self, threads: int) -> None:
        """See `CompiledFunction`."""
        for stage in self._stages:
            stage.compiled.use_threads(threads)


def gather_parts(
    communicator: Communicator, arrays: Mapping[str, Array], rows: Mapping[str, int]
) -> None:
    """Put into each of the arrays, which have so many rows, the parts of all members."""
    members = range(communicator.size + 1)
    for name, count in rows.items():
        ends = [count * m // communicator.size for m in members]
        counts = [b - a for a, b in pairwise(ends)]
        rank, array = communicator.rank, arrays[name]
        array[...] = gathered(communicator, array[ends[rank] : ends[rank + 1]], counts)
