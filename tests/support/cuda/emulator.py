"""A device that is emulated: memory between pages that nobody may touch, launches that check.

with using(emulated_platform()):
    … everything of `backend="cuda"` runs on the CPU …
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal
from weakref import WeakSet

import numpy as np

from graphc.backends.cuda.device import Device
from graphc.backends.cuda.platform import Platform
from graphc.ir.machine import GPUS, GpuMachine
from graphc.support.diagnostics import GraphcError, fail
from tests.support.cuda.building import emulated_image, engine, load_object, missing
from tests.support.guarded_memory import GuardedMemory

Array = np.ndarray
Order = Literal["forwards", "backwards", "shuffled"]
ORDERS: tuple[Order, ...] = ("forwards", "backwards", "shuffled")
ALIGNMENT = 256
_ROOM = 512
_LOCK = threading.RLock()
"""The engine runs one kernel of the process at a time."""


@dataclass(frozen=True, slots=True)
class Running:
    """How kernels run.

    order    of the threads of a block, and of blocks
    blocks   no grid is larger; one whose blocks wait for each other keeps its size
    garbage  each byte of new memory, and of shared memory when a block begins
    seed     of shuffled orders
    """

    order: Order = "forwards"
    blocks: int = 3
    garbage: int = 0xFF
    seed: int = 1


@dataclass(frozen=True)
class Launched:
    """A launch as it was.

    held  the address and content of all memory before; of the first launch alone
    """

    kernel: str
    grid: int
    threads: int
    shared: int
    arguments: Sequence[int]
    held: Sequence[tuple[int, bytes]] = ()


class EmulatedMemory:
    """An allocation on the device."""

    def __init__(self, size: int, garbage: int) -> None:
        self._pages = GuardedMemory("end", garbage)
        self._buffer = self._pages.bytes(size, ALIGNMENT)
        self.address: int = self._buffer.array.ctypes.data
        self.size = size

    def check(self) -> None:
        """GraphcError where bytes beside it were written, within its pages."""
        if self._pages.problems():
            raise _fault(f"bytes beside memory of {self.size} were written")

    def protect(self) -> None:
        """From now on writing is a fault."""
        self._buffer.protect()

    def __del__(self) -> None:
        self._pages.close()


class EmulatedCode:
    """Kernels of a shared object."""

    def __init__(self, device: EmulatedDevice, image: bytes) -> None:
        self._device = device
        self._engine = engine()
        self._library = load_object(image)
        self._calls = _calls_in(self._library)

    def launch(
        self,
        kernel: str,
        grid: int,
        threads: int,
        shared: int,
        arguments: Sequence[int],
        *,
        together: bool = False,
    ) -> None:
        """See `LoadedCode`."""
        given = [int(word) for word in arguments]
        self._device.begin(lambda: self._launch(kernel, grid, threads, shared, given, together))

    def resident_blocks(self, kernel: str, threads: int, shared: int) -> int:
        return self._device.running.blocks

    def _launch(
        self,
        kernel: str,
        grid: int,
        threads: int,
        shared: int,
        arguments: Sequence[int],
        together: bool,
    ) -> None:
        device = self._device
        assert 0 < grid < 2**31, f"{kernel}: {grid} blocks"
        assert 0 < threads <= 1024, f"{kernel}: {threads} threads"
        assert shared <= device.machine.shared, f"{kernel}: {shared} bytes of shared memory"
        running = device.running
        words = (ctypes.c_uint64 * max(len(arguments), 1))(*(w & (1 << 64) - 1 for w in arguments))
        message = ctypes.create_string_buffer(_ROOM)
        device.launches += 1
        blocks = grid if together else min(grid, running.blocks)
        device.write_down(Launched(kernel, blocks, threads, shared, arguments))
        with _LOCK:
            failed = self._engine.emulated_launch(
                ctypes.c_void_p(self._calls[kernel]),
                words,
                ctypes.c_longlong(blocks),
                threads,
                shared,
                ORDERS.index(running.order),
                running.seed + device.launches,
                running.garbage,
                message,
                _ROOM,
            )
        if failed:
            raise _fault(f"{kernel}: {device.described(message.value.decode())}")


@dataclass(eq=False)
class EmulatedDevice:
    """See `graphc.backends.cuda.device.Device`.

    running   may be changed between calls
    launches  how many there were
    written_down  these, where one asks for them
    followed  the streams of others that were waited for
    handle    of its stream
    """

    machine: GpuMachine = field(default_factory=lambda: emulated_machine("sm_90"))
    running: Running = Running()
    launches: int = 0
    written_down: list[Launched] | None = None
    followed: list[int] = field(default_factory=list[int])
    handle: int = 77

    def __post_init__(self) -> None:
        self._live: WeakSet[EmulatedMemory] = WeakSet()
        self._recorded: list[Callable[[], object]] | None = None

    def allocate(self, size: int) -> EmulatedMemory:
        memory = EmulatedMemory(size, self.running.garbage)
        self._live.add(memory)
        return memory

    def live(self) -> int:
        """How many allocations there are."""
        return len(self._live)

    def host_memory(self, size: int) -> Array:
        return np.full(size, self.running.garbage, np.uint8)

    def upload(self, address: int, array: Array) -> None:
        assert array.flags.c_contiguous
        self.begin(lambda: ctypes.memmove(address, array.ctypes.data, array.nbytes))

    def download(self, array: Array, address: int) -> None:
        assert array.flags.c_contiguous
        assert array.flags.writeable
        self.begin(lambda: ctypes.memmove(array.ctypes.data, address, array.nbytes))

    def copy(self, target: int, source: int, size: int) -> None:
        self.begin(lambda: ctypes.memmove(target, source, size))

    def load(self, image: bytes) -> EmulatedCode:
        return EmulatedCode(self, image)

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        """As of a CUDA graph nothing is done now, and addresses are those of now."""
        assert self._recorded is None, "recordings do not nest"
        self._recorded = []
        try:
            work()
            recorded = self._recorded
        finally:
            self._recorded = None

        def replay() -> None:
            for begin in recorded:
                self.begin(begin)

        return replay

    def follow(self, stream: int) -> None:
        """Work is done as it is begun, so there is nothing to wait for."""
        self.followed.append(stream)

    def misfit(self, address: int) -> str:
        is_known = any(0 <= address - m.address < m.size for m in self._live)
        return "" if is_known else "an address that is no memory of a GPU"

    def new_array(self, shape: tuple[int, ...], dtype: np.dtype) -> EmulatedArray:
        return EmulatedArray(self, np.empty(shape, dtype))

    def from_dlpack(self, value: object) -> object:
        raise NotImplementedError("the emulator has no library with DLPack")

    def wait(self) -> None:
        """All is done at once, and faults are raised where they happen."""

    def begin(self, work: Callable[[], object]) -> None:
        """Do it now, or whenever what is being recorded is replayed."""
        if self._recorded is None:
            work()
        else:
            self._recorded.append(work)

    def write_down(self, launched: Launched) -> None:
        """Keep it for whoever asked for launches."""
        if self.written_down is not None:
            first = not self.written_down
            held = [(m.address, ctypes.string_at(m.address, m.size)) for m in self._live if first]
            self.written_down.append(replace(launched, held=held))

    def described(self, problem: str) -> str:
        """The same, with an address told as its distance from the nearest memory."""
        head, word, number = problem.rpartition("address ")
        if not word:
            return problem
        address = int(number)
        near = min(self._live, key=lambda m: _distance(m, address), default=None)
        if near is None or _distance(near, address) > 1 << 20:
            return f"{head}{word}{address:#x}, which is near no memory of the device"
        return f"{head}{word}{address - near.address} of memory of {near.size} bytes"


class EmulatedArray:
    """An array of a library that computes on the device, such as CuPy's, with these numbers."""

    def __init__(self, device: EmulatedDevice, array: Array) -> None:
        self._device = device
        self._shape, self._dtype = array.shape, array.dtype
        self.memory = device.allocate(max(array.nbytes, 1))
        device.upload(self.memory.address, np.ascontiguousarray(array))

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {
            "shape": self._shape,
            "typestr": self._dtype.str,
            "data": (self.memory.address, False),
            "version": 3,
            "strides": None,
            "stream": None,
        }

    def numbers(self) -> Array:
        """A copy on the host."""
        array = np.empty(self._shape, self._dtype)
        self._device.download(array, self.memory.address)
        return array

    def __getitem__(self, index: tuple[int, int]) -> np.generic:
        return self.numbers()[index]


def emulated_machine(name: str) -> GpuMachine:
    """A GPU with so few multiprocessors that grids of all of them are quick to emulate."""
    return replace(GPUS[name], multiprocessors=3)


def emulated_platform(device: Device | None = None) -> Platform:
    """What `graphc.backends.cuda.platform.using` takes."""
    used = device or EmulatedDevice()
    return Platform(missing, lambda: used.machine, lambda: used, emulated_image, lambda: "emulator")


def _fault(problem: str) -> GraphcError:
    """What a device says of kernels that went wrong."""
    return fail("backend", f"the emulated GPU failed: {problem}")


class _Kernel(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("call", ctypes.c_void_p))


def _calls_in(library: ctypes.CDLL) -> dict[str, int]:
    """The address of each kernel's entry."""
    listed = ctypes.pointer(_Kernel.in_dll(library, "emulated_kernels"))
    calls: dict[str, int] = {}
    while name := listed[len(calls)].name:
        calls[name.decode()] = listed[len(calls)].call
    return calls


def _distance(memory: EmulatedMemory, address: int) -> int:
    """0 on the pages of the memory's last byte, where reads behind it are told as such."""
    if address < memory.address:
        return memory.address - address
    return max(address - memory.address - memory.size - mmap.PAGESIZE, 0)
