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
from operator import is_

import numpy as np

from graphc.backends.cuda.device import Device, LoadedCode
from graphc.backends.cuda.interop import new_array, taken
from graphc.backends.cuda.kernel import Kernel
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.residency import residents_of
from graphc.backends.cuda.staging import Frame, FunctionMemory, Layout, bound_bytes
from graphc.backends.cuda.steps import Launch, Place, Step, address_of, launches, run_order
from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.device_arrays import DeviceArray
from graphc.runtime.residency import homecomings
from graphc.runtime.signature import ROLES_OF_MODEL, Argument, Result, Signature
from graphc.support.diagnostics import GraphcError, Note, fail

MOST_BLOCKS = 2**31 - 1
"""Of a grid."""

KEPT_GRAPHS = 8
KEPT_FRAMES = 64
"""Sizes whose staging is kept."""

MOST_RECORDED = 1 << 16
"""Launches of a graph: recording takes memory for each."""

BLOCKING = "CUDA_LAUNCH_BLOCKING"
"""The variable by which people ask that each launch is waited for, to see which one fails."""

_BLAMED = 8
"""Operations that an error names."""

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Call:
    """What decides the launches of a call.

    sizes    of every dim, always in the same order
    buffers  addresses of arguments, fresh results and whatever the steps name behind them
    """

    steps: Sequence[Step]
    sizes: Mapping[str, int]
    buffers: Sequence[int]

    @property
    def key(self) -> tuple[int, ...]:
        return (*self.sizes.values(), *self.buffers)


@dataclass(frozen=True, slots=True)
class _Placed:
    """The held arrays of the last call, which have not come home since; none before the first."""

    arrays: tuple[Array, ...]
    addresses: tuple[int, ...]
    homecomings: int


class CudaFunction(CompiledFunction):
    """A program whose kernels are loaded; calls of one device come one after the other."""

    keeps_arrays = True

    def __init__(
        self, device: Device, code: LoadedCode, program: Program, signature: Signature
    ) -> None:
        self.program = program
        self.signature = signature
        self.device = device
        self.stream = device.handle
        self.residents = residents_of(device)
        self._code = code
        held = (*ROLES_OF_MODEL, "state")
        arguments = signature.arguments
        updated = {r.updates for r in signature.results}
        self.held = [i for i, a in enumerate(arguments) if a.role in held]
        self.given = [i for i, a in enumerate(arguments) if a.role not in held]
        self._updated = frozenset(i for i, a in enumerate(arguments) if a.name in updated)
        self._dims = tuple(dim.name for dim in signature.dims)
        self._results = len(signature.fresh_results)
        self._kept_memory: FunctionMemory | None = None
        self._frames: dict[tuple[int, ...], Frame] = {}
        self._placed = _Placed((), (), -1)
        self._graphs: OrderedDict[tuple[int, ...], Callable[[], None] | None] = OrderedDict()

    def __call__(
        self, arguments: Sequence[Array], results: Sequence[Array], sizes: Mapping[str, int]
    ) -> None:
        """See `CompiledFunction`."""
        with self.residents.lock:
            sizes = {name: sizes[name] for name in self._dims}  # in one order: they are keys
            inputs = [arguments[i] for i in self.given]
            frame = self._frame(inputs, results, sizes)
            places = frame.places
            if DeviceArray in map(type, inputs):
                places = self._where_they_lie(inputs, places)
            for view, array in zip(frame.inputs, inputs, strict=True):
                if not isinstance(array, DeviceArray):
                    view[...] = array
            self.device.upload(self.memory.staging.address, frame.given)
            buffers = self.buffers(arguments, places)
            self.run(self.call(sizes, buffers))
            self._fetch(results, frame)
            for i in self._updated.intersection(self.given):
                self.device.download(arguments[i], buffers[i])

    def taken(self, value: object) -> object:
        return taken(self.device, value)

    def new_array(self, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
        return new_array(self.device, shape, dtype)

    def call(self, sizes: Mapping[str, int], buffers: Sequence[int]) -> Call:
        """Of the function alone."""
        return Call(self.program.steps, sizes, buffers)

    # --- staging

    def _frame(
        self, inputs: Sequence[Array], results: Sequence[Array], sizes: Mapping[str, int]
    ) -> Frame:
        """Of calls of these sizes, from which the shapes of all arrays follow."""
        key = tuple(sizes.values())
        frame = self._frames.get(key)
        if frame is None:
            if len(self._frames) >= KEPT_FRAMES:
                self._frames.clear()
            frame = self._frames[key] = Frame.of(self.memory, inputs, results)
        return frame

    def _where_they_lie(self, inputs: Sequence[Array], places: Sequence[int]) -> list[int]:
        """The places with those of inputs that are on the device already, once they are made."""
        found = list(places)
        for k, array in enumerate(inputs):
            if isinstance(array, DeviceArray):
                found[k] = array.address
                if array.stream is not None:
                    self.device.follow(array.stream)
        return found

    def _fetch(self, results: Sequence[Array], frame: Frame) -> None:
        """Hand over the results, and wait for them."""
        starts = frame.places[len(frame.inputs) :]
        if DeviceArray in map(type, results):
            for start, array in zip(starts, results, strict=True):
                if isinstance(array, DeviceArray):
                    self.device.copy(array.address, start, array.nbytes)
            self.wait()
        elif results:
            self.download(frame.made, starts[0])
            for view, array in zip(frame.results, results, strict=True):
                array[...] = view
        else:
            self.wait()

    # --- memory

    @property
    def memory(self) -> FunctionMemory:
        """Allocated for calls up to the bounds. GraphcError `limit` where there is not as much."""
        if self._kept_memory is None:
            self._kept_memory = self._allocated()
        return self._kept_memory

    def _allocated(self) -> FunctionMemory:
        signature = self.signature
        given = [signature.arguments[i] for i in self.given]
        specs: list[Argument | Result] = [*given, *signature.fresh_results]
        staging = Layout.of([bound_bytes(spec, signature) for spec in specs]).size
        sizes = signature.arena_bytes, self.program.scratch, staging
        try:
            arena, scratch, staged = map(self.device.allocate, sizes)
            return FunctionMemory(arena, scratch, staged, self.device.host_memory(staging))
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
        held = [arguments[i] for i in self.held]
        placed = self._placed
        if placed.homecomings != homecomings() or not all(map(is_, held, placed.arrays)):
            residents = [self.residents.place(array) for array in held]
            for i, resident in zip(self.held, residents, strict=True):
                resident.is_newer |= i in self._updated
            addresses = tuple(r.memory.address for r in residents)
            placed = self._placed = _Placed(tuple(held), addresses, homecomings())
        count = len(arguments)
        found = [0] * count + list(staged[len(self.given) : len(self.given) + self._results])
        for i, address in zip(self.given, staged, strict=False):
            found[i] = address
        for i, address in zip(self.held, placed.addresses, strict=True):
            found[i] = address
        return found

    # --- launches

    def run(self, call: Call, times: int = 1) -> None:
        """Launch all: one by one the first time, as a graph from the second call alike on."""
        graphs, key = self._graphs, call.key
        if key not in graphs:
            self._launch(call)
            times -= 1
            graphs[key] = None
            if len(graphs) > KEPT_GRAPHS:
                graphs.popitem(last=False)
        if times:
            graphs.move_to_end(key)
            graph = graphs[key]
            if graph is None:
                graph = graphs[key] = self._recorded(call)
            for _ in range(times):
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
        if resident < 1:
            raise fail(
                "limit",
                f"a block of {kernel.name} requires {kernel.threads} threads and {kernel.shared} "
                'bytes of shared memory, the GPU has not as much: compile with launch="graph"',
            )
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


def _blamed(problem: GraphcError, remarks: Sequence[str]) -> GraphcError:
    """The error, with the operations that may have caused it."""
    first, *others = problem.diagnostics
    listed = "; ".join(remarks[:_BLAMED])
    more = f" and {len(remarks) - _BLAMED} more" if len(remarks) > _BLAMED else ""
    note = Note(f"it computed {listed}{more}")
    return GraphcError([replace(first, notes=(*first.notes, note)), *others])
