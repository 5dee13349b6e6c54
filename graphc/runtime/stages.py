"""A function that meets other members several times: stages, and what is exchanged between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

import numpy as np

from graphc.runtime.communicators.communicator import Communicator
from graphc.runtime.communicators.rows import (
    Gathering,
    counts_of,
    folded,
    gathered,
    scattered_sum,
)
from graphc.runtime.communicators.sums import Room, tree_sum
from graphc.runtime.communicators.wire import adder
from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.shards import Shards
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

    own, total  the dims of a member's samples and of all
    columns     of each array whose rows are gathered: the first column that is taken and the one
                behind the last, which is 0 where all are
    dtype       of sums
    """

    kind: Literal["sum", "add", "maximum", "minimum", "gather", "scatter", "own"]
    gives: tuple[str, ...]
    gets: tuple[str, ...]
    own: str = ""
    total: str = ""
    columns: tuple[tuple[int, int], ...] = ()
    dtype: str = ""


class StagedFunction(CompiledFunction):
    """The function of `signature`; behind each stage but the last there is a meeting.

    shards  what this member computes of a minibatch: every stage but the last for each of them
    parts   of arguments that are split: the rows of this member, out of an array with all
    """

    is_shared = True
    same_for_all = True  # what members exchange is of its operations

    def __init__(
        self,
        signature: Signature,
        stages: Sequence[Stage],
        meetings: Sequence[Sequence[Exchange]],
        communicator: Communicator,
        shards: Shards,
        parts: Mapping[str, tuple[int, int]],
    ) -> None:
        self._signature, self._stages, self._meetings = signature, stages, meetings
        self._communicator, self._shards, self._parts = communicator, shards, parts
        every = [e for meeting in meetings for e in meeting]
        self._dims = {e.own: e.total for e in every if e.own}
        bounds = {d.name: d.bound for stage in stages for d in stage.signature.dims}
        self._bounds = {total: bounds[total] for total in self._dims.values()}
        self._final = {r.name: r for r in signature.fresh_results}
        self._rooms = [dict[str, Room]() for _ in range(shards.count)]
        self._sums: dict[str, _Sum] = {}
        self._gatherings = {e.gets[0]: Gathering(e.columns) for e in every if e.columns}

    def __call__(
        self, arguments: Sequence[Array], results: Sequence[Array], sizes: Mapping[str, int]
    ) -> None:
        """See `CompiledFunction`."""
        names = [a.name for a in self._signature.arguments]
        whole = dict(zip(names, arguments, strict=True))
        for name, (start, stop) in self._parts.items():
            whole[name] = whole[name][start:stop]
        final = dict(zip(self._final, results, strict=True))
        counts, sizes = self._all_sizes(sizes)
        given = [self._shards.given(i, whole, sizes) for i in range(self._shards.count)]
        found = [dict(arrays) for arrays, _ in given]
        for stage, exchanges in zip(self._stages, self._meetings, strict=False):
            for shard, (_, its) in enumerate(given):
                found[shard] |= self._run(stage, shard, found[shard], its, final)
            for exchange in exchanges:
                got = self._exchanged(exchange, found, counts)
                for arrays in found:
                    arrays |= got
        self._run(self._stages[-1], 0, {**found[0], **whole}, sizes, final, is_last=True)

    def _run(
        self,
        stage: Stage,
        shard: int,
        arrays: Mapping[str, Array],
        sizes: Mapping[str, int],
        final: Mapping[str, Array],
        *,
        is_last: bool = False,
    ) -> dict[str, Array]:
        """Compute a stage of a shard; what it gives."""
        rooms, made = self._rooms[shard], dict[str, Array]()
        is_part = self._shards.count > 1 and not is_last
        for r in stage.signature.fresh_results:
            if r.name in final and not is_part:
                made[r.name] = final[r.name]
                continue
            room, shape = rooms.setdefault(r.name, Room()), concrete_shape(r.shape, sizes)
            made[r.name] = room.of(shape, NUMPY_DTYPES[r.dtype])
        given = [arrays[a.name] for a in stage.signature.arguments]
        its = {d.name: sizes[d.name] for d in stage.signature.dims}
        stage.compiled(given, list(made.values()), its)
        for name in final.keys() & made.keys() if is_part else ():
            final[name][self._shards.part(self._final[name], shard)] = made[name]
        return made

    def _all_sizes(
        self, sizes: Mapping[str, int]
    ) -> tuple[Mapping[str, Sequence[int]], dict[str, int]]:
        """How many samples each member has, and all sizes."""
        own = list(self._dims)
        if not own:
            return {}, dict(sizes)
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

    def _exchanged(
        self,
        exchange: Exchange,
        found: Sequence[Mapping[str, Array]],
        counts: Mapping[str, Sequence[int]],
    ) -> dict[str, Array]:
        """What all get, of what each shard has; where there are several, a sum."""
        communicator, gets = self._communicator, exchange.gets
        given = [[arrays[name] for name in exchange.gives] for arrays in found]
        if exchange.kind == "sum":
            if gets[0] not in self._sums:
                self._sums[gets[0]] = _Sum(given[0], len(given), communicator)
            return dict(zip(gets, self._sums[gets[0]].of(given), strict=True))
        (arrays,) = given
        if exchange.kind == "gather":
            rows = self._gatherings[gets[0]].of(communicator, arrays, counts[exchange.own])
            return dict(zip(gets, rows, strict=True))
        (first,) = arrays
        if exchange.kind == "add":
            total = self._rooms[0].setdefault(gets[0], Room()).of(first.shape, first.dtype)
            total[...] = first
            communicator.all_reduce(total)
            return {gets[0]: total}
        if exchange.kind in ("maximum", "minimum"):
            return {gets[0]: folded(communicator, first, exchange.kind)}
        its = counts[exchange.own]
        if exchange.kind == "scatter":
            return {gets[0]: scattered_sum(communicator, first, its)}
        start = sum(its[: communicator.rank])
        return {gets[0]: first[start : start + its[communicator.rank]]}

    def use_threads(self, threads: int) -> None:
        """See `CompiledFunction`."""
        for stage in self._stages:
            stage.compiled.use_threads(threads)


class _Sum:
    """A sum over shards and members of arrays, side by side in one array."""

    def __init__(self, like: Sequence[Array], shards: int, communicator: Communicator) -> None:
        starts = [0, *accumulate(a.size for a in like)]
        self._wholes = np.zeros((shards, starts[-1]), like[0].dtype)
        self._parts = [
            [whole[i:j].reshape(a.shape) for a, (i, j) in zip(like, pairwise(starts), strict=True)]
            for whole in self._wholes
        ]
        shapes = {start: a.shape for start, a in zip(starts, like, strict=False)}
        self._add = adder(communicator, self._wholes[0], shapes)

    def of(self, given: Sequence[Sequence[Array]]) -> list[Array]:
        """The sums, until the next call."""
        for parts, arrays in zip(self._parts, given, strict=True):
            for part, array in zip(parts, arrays, strict=True):
                part[...] = array
        if len(given) > 1:
            self._wholes[0] = tree_sum(list(self._wholes))
        self._add()
        return self._parts[0]


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
