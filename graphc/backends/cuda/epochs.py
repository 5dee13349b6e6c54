"""Training steps that go through a data set by themselves: data and order are on the device, and
each minibatch is one graph that is begun anew (`minibatches.py` has the launches around a step)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from weakref import ref

import numpy as np

from graphc.backends.cuda.device import Device, LoadedCode, Memory
from graphc.backends.cuda.minibatches import MINIBATCH, MINIBATCHES, STEP_ALONE
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.runtime import Array, Call, CudaFunction
from graphc.backends.cuda.staging import Layout
from graphc.backends.cuda.steps import Launch
from graphc.backends.native import row_bytes
from graphc.runtime.signature import NUMPY_DTYPES, Signature

TOGETHER = 256
"""Minibatches of a launch, at most: until it is over nothing can stop it."""

WORD = 8
"""Bytes of an element of the order, of a count, and at most of a number."""


@dataclass(frozen=True, slots=True)
class _Tables:
    """Memory for what belongs to all minibatches but the data.

    samples, minibatches  that it is for
    """

    samples: int
    minibatches: int
    memory: Memory
    layout: Layout

    @property
    def addresses(self) -> list[int]:
        """Of the order, the minibatch's number, then the numbers and results of all."""
        return [self.memory.address + start for start in self.layout.starts]


class EpochFunction(CudaFunction):
    """See `graphc.runtime.compiled.RunMinibatches`."""

    def __init__(
        self, device: Device, code: LoadedCode, program: Program, signature: Signature
    ) -> None:
        super().__init__(device, code, program, signature)
        roles = [a.role for a in signature.arguments]
        self._inputs = [i for i, role in enumerate(roles) if role == "input"]
        self._numbers = [i for i, role in enumerate(roles) if role == "hyperparameter"]
        self._data: dict[int, tuple[ref[Array], Memory]] = {}
        self._tables: _Tables | None = None
        self.run_minibatches = self._run_minibatches

    def forget_data(self) -> None:
        self._data.clear()

    def call(self, sizes: Mapping[str, int], buffers: Sequence[int]) -> Call:
        if self._is_one_kernel:
            unread = [0] * (2 + len(buffers))  # the order, the minibatch's number, and all data
            return Call(self.program.epoch, {**sizes, **STEP_ALONE}, (*buffers, *unread))
        return super().call(sizes, buffers)

    @property
    def _is_one_kernel(self) -> bool:
        return isinstance(self.program.epoch[0], Launch)

    def _run_minibatches(
        self,
        arguments: Sequence[Array],
        results: Sequence[Array],
        order: Array,
        size: int,
        done: Array,
    ) -> None:
        size = max(min(size, len(order)), 1)
        with self.residents.lock:
            try:
                data = {i: self._on_device(i, arguments[i]).address for i in self._inputs}
                tables = self._tables_for(len(order), -(-len(order) // size))
            except MemoryError:
                self._data.clear()
                self._run_one_by_one(arguments, results, order, size, done)
                return
            self._run_on_device(arguments, results, order, size, done, data, tables)

    def _run_on_device(
        self,
        arguments: Sequence[Array],
        results: Sequence[Array],
        order: Array,
        size: int,
        done: Array,
        data: dict[int, int],
        tables: _Tables,
    ) -> None:
        ordered, turn, *rest = tables.addresses
        whole = data | dict(zip(self._numbers, rest, strict=False))
        whole |= dict(enumerate(rest[len(self._numbers) : -1], start=len(arguments)))
        staged = [self.memory.staging.address + s for s in self._staged(size).starts]
        own = self.buffers(arguments, staged)
        for i in self._numbers:
            numbers = arguments[i]
            self.device.upload(whole[i], numbers)
            self.device.upload(own[i], numbers[:1])
        self.device.upload(ordered, order)
        self.device.upload(turn, np.zeros(1, np.int64))
        buffers = (*own, ordered, turn, *(whole.get(i, 0) for i in range(len(own))))
        (dim,) = self.signature.dims
        try:
            for rows, count, times in self._stretches(len(order), size):
                sizes = {dim.name: rows, MINIBATCH: size, MINIBATCHES: count}
                self.run(Call(self.program.epoch, sizes, buffers), times)
        finally:
            self.download(done, turn)
            for i, array in enumerate(results, start=len(arguments)):
                self.download(array, whole[i])

    def _stretches(self, samples: int, size: int) -> Iterator[tuple[int, int, int]]:
        """The rows of minibatches, how many of them are one call, and how many such calls there
        are. A graph has one, because a graph of many would take long to record; a kernel goes
        through many."""
        most = TOGETHER if self._is_one_kernel else 1
        whole, rest = divmod(samples, size)
        calls, left = divmod(whole, most)
        if calls:
            yield size, most, calls
        if left:
            yield size, left, 1
        if rest:
            yield rest, 1, 1

    def _run_one_by_one(
        self,
        arguments: Sequence[Array],
        results: Sequence[Array],
        order: Array,
        size: int,
        done: Array,
    ) -> None:
        """With the rows gathered here, for data that have no room on the device."""
        (dim,) = self.signature.dims
        for turn, start in enumerate(range(0, len(order), size)):
            rows = order[start : start + size]
            given = list(arguments)
            for i in self._inputs:
                given[i] = arguments[i][rows]
            for i in self._numbers:
                given[i] = arguments[i][turn : turn + 1].reshape(1, 1)
            made = [array[turn : turn + 1].reshape(1, 1) for array in results]
            self(given, made, {dim.name: len(rows)})
            done[0] += 1

    def _staged(self, size: int) -> Layout:
        """Where in staging the arrays of a whole minibatch are; those of a shorter one too."""
        arguments = self.signature.arguments
        inputs = [size * row_bytes(arguments[i]) if i in self._inputs else WORD for i in self.given]
        return Layout.of([*inputs, *[WORD] * len(self.signature.fresh_results)])

    def _on_device(self, place: int, array: Array) -> Memory:
        """All data of an input. They stay until `forget_data`."""
        known, memory = self._data.get(place, (None, None))
        if known is None or memory is None or known() is not array:
            self._data.pop(place, None)
            memory = self.device.allocate(array.nbytes)
            self.device.upload(memory.address, array)
            self._data[place] = ref(array), memory
        return memory

    def _tables_for(self, samples: int, minibatches: int) -> _Tables:
        """Those that there are, where they are large enough: graphs know their addresses."""
        tables = self._tables
        if tables is None or tables.samples < samples or tables.minibatches < minibatches:
            samples, minibatches = (1 << (n - 1).bit_length() for n in (samples, minibatches))
            specs = [self.signature.arguments[i] for i in self._numbers]
            widths = [
                NUMPY_DTYPES[s.dtype].itemsize for s in (*specs, *self.signature.fresh_results)
            ]
            # Behind the last minibatch the next one's numbers are read, too.
            sizes = [WORD * samples, WORD, *(w * (minibatches + 1) for w in widths)]
            layout = Layout.of(sizes)
            memory = self.device.allocate(layout.size)
            tables = self._tables = _Tables(samples, minibatches, memory, layout)
        return tables
