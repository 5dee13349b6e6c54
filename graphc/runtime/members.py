"""A function that waits for other members in its middle: two functions, and a sum between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphc.runtime.communicators.communicator import Communicator, DeviceCommunicator
from graphc.runtime.communicators.sums import tree_sum
from graphc.runtime.communicators.wire import adder
from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.shards import Shards
from graphc.runtime.shared_sums import SumLayout
from graphc.runtime.signature import Result, Signature
from graphc.runtime.stages import Stage
from graphc.support.diagnostics import fail

Array = np.ndarray


class MemberFunction(CompiledFunction):
    """The function of `signature`: `before` gives what is added, in one array so that members meet
    once, and `after` takes the sums as further arguments of these names. Results that `before` has
    by the names of the signature are the member's own.

    A member that has several shards computes `before` of each, and adds them as members are."""

    is_shared = True

    def __init__(
        self,
        signature: Signature,
        before: Stage,
        after: Stage,
        communicator: Communicator,
        shards: Shards,
    ) -> None:
        self.keeps_arrays = before.compiled.keeps_arrays and after.compiled.keeps_arrays
        self._names = [a.name for a in signature.arguments]
        self._before, self._after = before, after
        self._shards, count = shards, shards.count
        self._results = {r.name: r for r in signature.fresh_results}
        self._own = [r.name for r in before.signature.fresh_results if r.name in self._results]
        made = [r for r in before.signature.fresh_results if r.name not in self._results]
        stream = before.compiled.stream
        if stream is None:
            self._sum = _sum_here(made, communicator, count)
        elif count > 1:
            raise fail("not-supported", "shards of a minibatch are computed on CPUs, got a GPU")
        elif isinstance(communicator, DeviceCommunicator):
            self._sum = _sum_there(made, before.compiled, communicator, stream)
        else:
            self._sum = _sum_here(made, communicator, 1)

    def __call__(
        self, arguments: Sequence[Array], results: Sequence[Array], sizes: Mapping[str, int]
    ) -> None:
        """See `CompiledFunction`."""
        given = dict(zip(self._names, arguments, strict=True))
        made = dict(zip(self._results, results, strict=True))
        before, after = self._before, self._after
        for shard, summands in enumerate(self._sum.shards):
            arrays, its_sizes = self._shards.given(shard, given, sizes)
            parts = {n: self._shards.part(self._results[n], shard) for n in self._own}
            own = [made[n] for n in self._own]
            if self._shards.count > 1:
                own = [np.empty_like(made[n][part], order="C") for n, part in parts.items()]
            before.compiled(
                [arrays[a.name] for a in before.signature.arguments],
                [*summands.values(), *own],
                its_sizes,
            )
            if self._shards.count > 1:
                for name, array in zip(self._own, own, strict=True):
                    made[name][parts[name]] = array
        self._sum.add()
        arrays = {**given, **self._sum.shards[0]}
        after.compiled(
            [arrays[a.name] for a in after.signature.arguments],
            [made[r.name] for r in after.signature.fresh_results],
            sizes,
        )

    def use_threads(self, threads: int) -> None:
        """See `CompiledFunction`."""
        self._before.compiled.use_threads(threads)
        self._after.compiled.use_threads(threads)


@dataclass(frozen=True)
class _Sum:
    """What members add: parts of one array by name, for each shard, and how they are added over all
    members, into the first shard's."""

    shards: Sequence[Mapping[str, Any]]  # a DeviceArray stands for an array
    add: Callable[[], None]


def _sum_here(results: Sequence[Result], communicator: Communicator, shards: int) -> _Sum:
    layout = SumLayout.of(results)
    wholes = np.zeros((shards, layout.size), layout.dtype)
    parts = [
        {
            name: whole[start : start + math.prod(shape)].reshape(shape)
            for name, (start, shape) in layout.parts.items()
        }
        for whole in wholes
    ]

    add_all = adder(communicator, wholes[0], dict(layout.parts.values()))

    def add() -> None:
        if shards > 1:
            wholes[0] = tree_sum(list(wholes))
        add_all()

    return _Sum(parts, add)


def _sum_there(
    results: Sequence[Result],
    compiled: CompiledFunction,
    communicator: DeviceCommunicator,
    stream: int,
) -> _Sum:
    """On the GPU of a function, in the order of its stream."""
    layout = SumLayout.of(results)
    whole = compiled.new_array((layout.size,), layout.dtype)
    parts = {
        name: replace(
            whole, address=whole.address + start * whole.dtype.itemsize, shape=shape, stream=None
        )
        for name, (start, shape) in layout.parts.items()
    }
    return _Sum([parts], lambda: communicator.all_reduce_there(whole, stream))
