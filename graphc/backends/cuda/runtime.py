"""Calls of programs on a device: memory, launches, and the graphs that they are recorded as.

A function has memory of its own on the device, which is there from its first call on: the arena,
scratch memory, and staging, where inputs are put and results are fetched from. So the addresses of
a call follow from its sizes, and what it launches is recorded once for each.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from graphc.backends.cuda.device import Device, LoadedCode, Memory
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.residency import residents_of
from graphc.backends.cuda.steps import Launch, Place, address_of, run_order
from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.signature import (
    NUMPY_DTYPES,
    ROLES_OF_MODEL,
    Argument,
    Result,
    Signature,
)
from graphc.support.diagnostics import fail

MOST_BLOCKS = 2**31 - 1
"""Of a grid."""

KEPT_GRAPHS = 8
MOST_RECORDED = 1 << 16
"""Launches of a graph: recording takes memory for each."""

ALIGNMENT = 256
"""Of arrays in staging."""

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Call:
    """What decides the launches of a call.

    sizes    of every dim
    buffers  addresses of arguments and fresh results
    """

    sizes: Mapping[str, int]
    buffers: tuple[int, ...]

    @property
    def key(self) -> tuple[int, ...]:
        return (*self.sizes.values(), *self.buffers)


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
        self._device = device
        self._code = code
        self._residents = residents_of(device)
        arguments = signature.arguments
        held = (*ROLES_OF_MODEL, "state")
        updated = {r.updates for r in signature.results}
        self._held = [i for i, a in enumerate(arguments) if a.role in held]
        self._given = [i for i, a in enumerate(arguments) if a.role not in held]
        self._updated = frozenset(i for i, a in enumerate(arguments) if a.name in updated)
        self._memory: _Memory | None = None
        self._graphs: OrderedDict[tuple[int, ...], Callable[[], None] | None] = OrderedDict()

    def __call__(
        self, arguments: Sequence[Array], results: Sequence[Array], sizes: Mapping[str, int]
    ) -> None:
        """See `CompiledFunction`."""
        with self._residents.lock:
            memory = self._memory = self._memory or self._allocate()
            residents = [self._residents.place(arguments[i]) for i in self._held]
            addresses = dict(zip(self._held, (r.memory.address for r in residents), strict=True))
            at = memory.staging.address
            for i in self._given:
                self._device.upload(at, arguments[i])
                addresses[i] = at
                at += _rounded(arguments[i].nbytes)
            for i, array in enumerate(results, start=len(arguments)):
                addresses[i] = at
                at += _rounded(array.nbytes)
            call = Call(sizes, tuple(addresses[i] for i in range(len(addresses))))
            for i, resident in zip(self._held, residents, strict=True):
                resident.is_newer |= i in self._updated
            self._run(call)
            wanted = dict(enumerate(results, start=len(arguments)))
            wanted |= {i: arguments[i] for i in self._given if i in self._updated}
            for i, array in wanted.items():
                self._device.download(array, addresses[i])
            self._device.wait()

    # --- memory

    def _allocate(self) -> _Memory:
        """Memory for calls up to the bounds. GraphcError `limit` where there is not as much."""
        signature = self.signature
        staged = [signature.arguments[i] for i in self._given]
        sizes = (
            signature.arena_bytes,
            self.program.scratch,
            sum(_rounded(bound_bytes(spec, signature)) for spec in _specs(staged, signature)),
        )
        try:
            return _Memory(*map(self._device.allocate, sizes))
        except MemoryError:
            bounds = ", ".join(f"{d.name} up to {d.bound}" for d in signature.dims)
            raise fail(
                "limit",
                f"{sum(sizes)} bytes of the GPU's memory are required"
                f"{bounds and ' for '}{bounds}, besides parameters; it does not give them: "
                "compile for a smaller bound",
            ) from None

    # --- launches

    def _run(self, call: Call) -> None:
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
        count = sum(1 for _ in run_order(self.program.steps, call.sizes))
        if count > MOST_RECORDED:
            return lambda: self._launch(call)
        return self._device.record(lambda: self._launch(call))

    def _launch(self, call: Call) -> None:
        kernels = self.program.kernels
        for launch, pointers in self._launches(call):
            kernel = kernels[launch.kernel]
            tiles = kernel.tiles.count(call.sizes)
            if tiles:
                given = (*pointers, *(call.sizes[symbol] for symbol in kernel.symbols))
                self._code.launch(
                    f"run_{kernel.name}",
                    min(tiles, MOST_BLOCKS),
                    kernel.threads,
                    kernel.shared,
                    given,
                )

    def _launches(self, call: Call) -> Iterator[tuple[Launch, list[int]]]:
        """Every launch with the addresses that it is given."""
        memory = self._memory
        assert memory is not None
        starts = {"arena": memory.arena.address, "scratch": memory.scratch.address}

        def address(place: Place) -> int:
            if place.base == "buffer":
                return call.buffers[place.index]
            return starts[place.base] + place.index

        for launch, turns in run_order(self.program.steps, call.sizes):
            yield launch, [address_of(w, address, call.sizes, turns) for w in launch.pointers]


def bound_bytes(spec: Argument | Result, signature: Signature) -> int:
    """The bytes of an array with every dim at its bound."""
    bounds = {d.name: d.bound for d in signature.dims}
    elements = prod(bounds[d] if isinstance(d, str) else d for d in spec.shape)
    return elements * NUMPY_DTYPES[spec.dtype].itemsize


def _specs(staged: Sequence[Argument], signature: Signature) -> Sequence[Argument | Result]:
    return [*staged, *signature.fresh_results]


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
