"""Calls of programs on a device: memory, launches, and the graphs that they are recorded as.

A function has memory of its own on the device, which is there from its first call on: the arena,
scratch memory, and staging, where inputs are put and results are fetched from. So the addresses of
a call follow from its sizes, and what it launches is recorded once for each.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from math import prod

import numpy as np

from graphc.backends.cuda.device import Device, LoadedCode, Memory
from graphc.backends.cuda.interop import new_array, taken
from graphc.backends.cuda.kernel import Kernel
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.residency import residents_of
from graphc.backends.cuda.steps import Launch, Place, Step, address_of, launches, run_order
from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.device_arrays import DeviceArray
from graphc.runtime.signature import NUMPY_DTYPES, ROLES_OF_MODEL, Argument, Result, Signature
from graphc.support.diagnostics import GraphcError, Note, fail

MOST_BLOCKS = 2**31 - 1
"""Of a grid."""

KEPT_GRAPHS = 8
MOST_RECORDED = 1 << 16
"""Launches of a graph: recording takes memory for each."""

ALIGNMENT = 256
"""Of arrays in staging."""

BLOCKING = "CUDA_LAUNCH_BLOCKING"
"""The variable by which people ask that each launch is waited for, to see which one fails."""

_BLAMED = 8
"""Operations that an error names."""

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Call:
    """What decides the launches of a call.

    sizes    of every dim
    buffers  addresses of arguments, fresh results and whatever the steps name behind them
    """

    steps: Sequence[Step]
    sizes: Mapping[str, int]
    buffers: Sequence[int]

    @property
    def key(self) -> tuple[int, ...]:
        return (*self.sizes.values(), *self.buffers)


@dataclass(frozen=True, slots=True)
class Layout:
    """Arrays one behind the other: where each starts, and behind them where the next would.

    In staging these are the arguments that are not held, then the fresh results.
    """

    starts: tuple[int, ...]

    @staticmethod
    def of(sizes: Sequence[int]) -> Layout:
        """For arrays of so many bytes."""
        rounded = (-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)
        return Layout(tuple(accumulate(rounded, initial=0)))

    @property
    def size(self) -> int:
        return self.starts[-1]


@dataclass(frozen=True, slots=True)
class _Memory:
    """What a function has on the device."""

    arena: Memory
    scratch: Memory
    staging: Memory


class CudaFunction(CompiledFunction):
    """A program whose kernels are loaded; calls of one device come one after the other."""

    keeps_arrays = True

    def __init__(
        self, device: Device, code: LoadedCode, program: Program, signature: Signature
    ) -> None:
        self.program = program
        self.signature = signature
        self.device = device
        self.residents = residents_of(device)
        self._code = code
        held = (*ROLES_OF_MODEL, "state")
        arguments = signature.arguments
        updated = {r.updates for r in signature.results}
        self.held = [i for i, a in enumerate(arguments) if a.role in held]
        self.given = [i for i, a in enumerate(arguments) if a.role not in held]
        self._updated = frozenset(i for i, a in enumerate(arguments) if a.name in updated)
        self._kept_memory: _Memory | None = None
        self._host = np.empty(0, np.uint8)
        self._graphs: OrderedDict[tuple[int, ...], Callable[[], None] | None] = OrderedDict()

    def __call__(
        self, arguments: Sequence[Array], results: Sequence[Array], sizes: Mapping[str, int]
    ) -> None:
        """See `CompiledFunction`."""
        with self.residents.lock:
            for array in arguments:
                if isinstance(array, DeviceArray) and array.stream is not None:
                    self.device.follow(array.stream)
            inputs = [arguments[i] for i in self.given]
            layout = Layout.of([a.nbytes for a in (*inputs, *results)])
            places = [self.memory.staging.address + start for start in layout.starts]
            self._stage(inputs, layout)
            for k, array in enumerate(inputs):
                if isinstance(array, DeviceArray):
                    places[k] = array.address
            buffers = self.buffers(arguments, places)
            self.run(Call(self.program.steps, sizes, buffers))
            self._fetch(results, layout, len(inputs))
            for i in self._updated.intersection(self.given):
                self.device.download(arguments[i], buffers[i])

    def taken(self, value: object) -> object:
        return taken(self.device, value)

    def new_array(self, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
        return new_array(self.device, shape, dtype)

    # --- staging

    def _stage(self, inputs: Sequence[Array], layout: Layout) -> None:
        """Put the inputs of this process on the device, in one copy."""
        if all(isinstance(array, DeviceArray) for array in inputs):
            return
        end = layout.starts[len(inputs)]
        host = self._host_memory(layout.size)
        for start, array in zip(layout.starts, inputs, strict=False):
            if not isinstance(array, DeviceArray):
                host[start : start + array.nbytes] = _bytes_of(array)
        self.device.upload(self.memory.staging.address, host[:end])

    def _fetch(self, results: Sequence[Array], layout: Layout, first: int) -> None:
        """Fetch the results, of which the first has this place in the layout, and wait."""
        staging, begin = self.memory.staging.address, layout.starts[first]
        host = self._host_memory(layout.size)
        if not all(isinstance(array, DeviceArray) for array in results):
            self.download(host[begin : layout.size], staging + begin)
        for start, array in zip(layout.starts[first:], results, strict=False):
            if isinstance(array, DeviceArray):
                self.device.copy(array.address, staging + start, array.nbytes)
            else:
                _bytes_of(array)[:] = host[start : start + array.nbytes]
        self.wait()

    # --- memory

    @property
    def memory(self) -> _Memory:
        """Allocated for calls up to the bounds. GraphcError `limit` where there is not as much."""
        if self._kept_memory is None:
            self._kept_memory = self._allocated()
        return self._kept_memory

    def _allocated(self) -> _Memory:
        signature = self.signature
        staged = [signature.arguments[i] for i in self.given]
        specs: list[Argument | Result] = [*staged, *signature.fresh_results]
        staging = Layout.of([bound_bytes(spec, signature) for spec in specs]).size
        sizes = signature.arena_bytes, self.program.scratch, staging
        try:
            return _Memory(*map(self.device.allocate, sizes))
        except MemoryError:
            bounds = ", ".join(f"{d.name} up to {d.bound}" for d in signature.dims)
            raise fail(
                "limit",
                f"{sum(sizes)} bytes of the GPU's memory are required"
                f"{bounds and ' for '}{bounds}, besides parameters; it does not give them: "
                "compile for a smaller bound",
            ) from None

    def buffers(self, arguments: Sequence[Array], staged: Sequence[int]) -> list[int]:
        """The addresses of all arguments and fresh results, held ones with their content as it is
        now; those that are updated are newer on the device from here on."""
        found = dict(zip(self.given, staged, strict=False))
        for i in self.held:
            resident = self.residents.place(arguments[i])
            resident.is_newer |= i in self._updated
            found[i] = resident.memory.address
        results = staged[len(self.given) : len(self.given) + len(self.signature.fresh_results)]
        return [*(found[i] for i in range(len(arguments))), *results]

    def _host_memory(self, size: int) -> Array:
        if len(self._host) < size:
            self._host = self.device.host_memory(size)
        return self._host

    # --- launches

    def run(self, call: Call) -> None:
        """Launch all: one by one the first time, as a graph from the second call alike on."""
        graphs, key = self._graphs, call.key
        if key not in graphs:
            self._launch(call)
            graphs[key] = None
            if len(graphs) > KEPT_GRAPHS:
                graphs.popitem(last=False)
            return
        graphs.move_to_end(key)
        graph = graphs[key]
        if graph is None:
            graph = graphs[key] = self._recorded(call)
        graph()

    def _recorded(self, call: Call) -> Callable[[], None]:
        count = sum(1 for _ in run_order(call.steps, call.sizes))
        if count > MOST_RECORDED or os.environ.get(BLOCKING) == "1":
            return lambda: self._launch(call)
        return self.device.record(lambda: self._launch(call))

    def _launch(self, call: Call) -> None:
        for launch, pointers in self._launches(call):
            kernel = self.program.kernels[launch.kernel]
            blocks = self._blocks(kernel, call.sizes)
            if blocks:
                given = (*pointers, *(call.sizes[symbol] for symbol in kernel.symbols))
                try:
                    self._code.launch(
                        f"run_{kernel.name}",
                        blocks,
                        kernel.threads,
                        kernel.shared,
                        given,
                        together=kernel.together,
                    )
                except GraphcError as problem:
                    raise _blamed(problem, [launch.remark]) from None

    def _blocks(self, kernel: Kernel, sizes: Mapping[str, int]) -> int:
        """Of the grid; 0 where there is nothing to do."""
        blocks = min(kernel.tiles.count(sizes), MOST_BLOCKS)
        if not kernel.together:
            return blocks
        resident = self._code.resident_blocks(f"run_{kernel.name}", kernel.threads, kernel.shared)
        return min(blocks, resident)

    def _launches(self, call: Call) -> Iterator[tuple[Launch, list[int]]]:
        """Every launch with the addresses that it is given."""
        starts = {"arena": self.memory.arena.address, "scratch": self.memory.scratch.address}

        def address(place: Place) -> int:
            if place.base == "buffer":
                return call.buffers[place.index]
            return starts[place.base] + place.index

        for launch, turns in run_order(call.steps, call.sizes):
            yield launch, [address_of(w, address, call.sizes, turns) for w in launch.pointers]

    def download(self, array: Array, address: int) -> None:
        """Fetch what was computed."""
        with self._blaming():
            self.device.download(array, address)

    def wait(self) -> None:
        with self._blaming():
            self.device.wait()

    @contextmanager
    def _blaming(self) -> Generator[None]:
        """A fault in a kernel shows when it is waited for: any operation may have caused it."""
        try:
            yield
        except GraphcError as problem:
            remarks = [launch.remark for launch in launches(self.program.steps)]
            raise _blamed(problem, list(dict.fromkeys(remarks))) from None


def bound_bytes(spec: Argument | Result, signature: Signature) -> int:
    """The bytes of an array with every dim at its bound."""
    bounds = {d.name: d.bound for d in signature.dims}
    elements = prod(bounds[d] if isinstance(d, str) else d for d in spec.shape)
    return elements * NUMPY_DTYPES[spec.dtype].itemsize


def _bytes_of(array: Array) -> Array:
    """The array's memory."""
    return array.reshape(-1).view(np.uint8)


def _blamed(problem: GraphcError, remarks: Sequence[str]) -> GraphcError:
    """The error, with the operations that may have caused it."""
    first, *others = problem.diagnostics
    listed = "; ".join(remarks[:_BLAMED])
    more = f" and {len(remarks) - _BLAMED} more" if len(remarks) > _BLAMED else ""
    note = Note(f"it computed {listed}{more}")
    return GraphcError([replace(first, notes=(*first.notes, note)), *others])
