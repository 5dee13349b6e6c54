"""A member's part of a minibatch in shards, each of which it computes as another member would."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from graphc.runtime.signature import Result, Signature

Array = np.ndarray


class Shards:
    """`count` shards of what a function of `signature` is given: every so many-th sample or
    sequence.

    number  the name of the argument, if there is one, with the number of this member's first shard
    """

    def __init__(self, signature: Signature, count: int, number: str) -> None:
        self.count = count
        self._signature, self._number = signature, number

    def part(self, result: Result, shard: int) -> tuple[slice, ...]:
        """Where a shard's part of a result is, which has an axis of samples or sequences."""
        if self.count == 1:
            return ()
        return self._part(result.shape.index(self._signature.unit), shard)

    def given(
        self, shard: int, arrays: Mapping[str, Array], sizes: Mapping[str, int]
    ) -> tuple[Mapping[str, Array], Mapping[str, int]]:
        """The arguments of a shard by name, and what the sizes are with them."""
        if self.count == 1:
            return arrays, sizes
        signature, unit = self._signature, self._signature.unit
        made = dict(arrays)
        if self._number in made:
            made[self._number] = made[self._number] + shard
        for argument in signature.arguments:
            if unit in argument.shape:
                part = self._part(argument.shape.index(unit), shard)
                made[argument.name] = np.ascontiguousarray(arrays[argument.name][part])
        its = {**sizes, unit: len(range(shard, sizes[unit], self.count))}
        for dim in signature.dims:
            if dim.formula is not None:
                its[dim.name] = dim.formula.value(its)
        return made, its

    def _part(self, axis: int, shard: int) -> tuple[slice, ...]:
        return (slice(None),) * axis + (slice(shard, None, self.count),)
