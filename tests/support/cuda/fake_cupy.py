"""What the backend uses of CuPy, over this process's memory: it notes launches and runs none.

Only names are judged by it, and the order of calls: that CuPy has these names is checked where it
is installed (`NAMES`).
"""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np

NAMES = (
    *("cuda.Device", "cuda.Stream", "cuda.Event", "cuda.alloc", "cuda.alloc_pinned_memory"),
    *(
        "cuda.get_current_stream",
        "cuda.function.Module",
        "cuda.memory.OutOfMemoryError",
        "empty",
        "from_dlpack",
    ),
    *("cuda.runtime.CUDARuntimeError", "cuda.runtime.memcpyAsync", "cuda.runtime.eventRecord"),
    *("cuda.runtime.pointerGetAttributes", "cuda.runtime.runtimeGetVersion"),
    *("cuda.runtime.streamCaptureModeRelaxed", "cuda.driver.CUDADriverError"),
    *("cuda.runtime.setDevice", "cuda.runtime.deviceSynchronize"),
    *("cuda.driver.funcSetAttribute", "cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor"),
    *("cuda.Stream.begin_capture", "cuda.Stream.end_capture", "cuda.Stream.synchronize"),
    *("cuda.Stream.wait_event", "cuda.function.Module.load", "cuda.function.Module.get_function"),
)


class RuntimeProblem(RuntimeError):
    """CUDARuntimeError."""


class DriverProblem(RuntimeError):
    """CUDADriverError."""


class OutOfMemory(MemoryError):
    """OutOfMemoryError."""


class Pointer:
    """Memory, by `ptr`."""

    def __init__(self, size: int) -> None:
        self.bytes = (ctypes.c_char * size)()
        self.ptr = ctypes.addressof(self.bytes)


class FakeCupy:
    """The module.

    done      what was begun, in order; what is captured, when it is launched
    fails     raised by the next thing that is asked of the device
    stays     whether `fails` is raised by everything from then on
    attributes  of pointers: kind of memory and device
    threads   that have said which GPU they use
    """

    def __init__(self) -> None:
        self.done: list[tuple[object, ...]] = []
        self.captured: list[Callable[[], None]] | None = None
        self.collected_in_capture = False
        self.fails: Exception | None = None
        self.stays = False
        self.threads: set[int] = set()
        self.attributes = SimpleNamespace(type=2, device=0)
        self.limit = self.host_limit = 1 << 20
        runtime = SimpleNamespace(
            CUDARuntimeError=RuntimeProblem,
            memcpyAsync=self._copy,
            eventRecord=lambda event, stream: self.begin("event", stream),
            pointerGetAttributes=lambda address: self.attributes,
            runtimeGetVersion=lambda: 13020,
            streamCaptureModeRelaxed=2,
            setDevice=self._enter_thread,
            deviceSynchronize=self.check,
        )
        driver = SimpleNamespace(
            CUDADriverError=DriverProblem,
            funcSetAttribute=lambda *given: self.begin("attribute", *given),
            occupancyMaxActiveBlocksPerMultiprocessor=lambda function, threads, shared: 4,
        )
        self.cuda = SimpleNamespace(
            runtime=runtime,
            driver=driver,
            Device=_Device,
            Stream=lambda non_blocking: Stream(self),
            Event=lambda disable_timing: SimpleNamespace(ptr=5),
            get_current_stream=lambda: SimpleNamespace(ptr=3),
            alloc=self._alloc,
            alloc_pinned_memory=self._alloc_pinned,
            memory=SimpleNamespace(OutOfMemoryError=OutOfMemory),
            function=SimpleNamespace(Module=lambda: Module(self)),
        )

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> object:
        return np.empty(shape, dtype)

    def from_dlpack(self, value: object) -> object:
        return value

    def begin(self, *what: object) -> None:
        def work() -> None:
            self.done.append(what)

        self.check()
        if self.captured is None:
            work()
        else:
            self.collected_in_capture |= gc.isenabled()
            self.captured.append(work)

    def _enter_thread(self, number: int) -> None:
        assert number == 0
        self.threads.add(threading.get_ident())

    def check(self) -> None:
        assert threading.get_ident() in self.threads
        if self.fails is not None:
            failed, self.fails = self.fails, self.fails if self.stays else None
            raise failed

    def _alloc(self, size: int) -> Pointer:
        if size > self.limit:
            raise OutOfMemory(f"out of memory allocating {size} bytes")
        return Pointer(size)

    def _alloc_pinned(self, size: int) -> ctypes.Array[ctypes.c_char]:
        if size > self.host_limit:
            raise RuntimeProblem("cudaErrorMemoryAllocation: out of memory")
        return (ctypes.c_char * size)()

    def _copy(self, target: int, source: int, size: int, kind: int, stream: int) -> None:
        self.begin("copy", size, kind, stream)
        ctypes.memmove(target, source, size)


class _Device:
    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> _Device:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Stream:
    """A stream, which waits for itself."""

    ptr = 7

    def __init__(self, cupy: FakeCupy) -> None:
        self._cupy = cupy

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin_capture(self, mode: int) -> None:
        assert self._cupy.captured is None
        assert mode == self._cupy.cuda.runtime.streamCaptureModeRelaxed
        self._cupy.captured = []

    def end_capture(self) -> SimpleNamespace:
        work, self._cupy.captured = self._cupy.captured, None
        assert work is not None

        def launch(stream: Stream) -> None:
            self._cupy.check()
            for item in work:
                item()

        return SimpleNamespace(launch=launch)

    def synchronize(self) -> None:
        self._cupy.check()
        self._cupy.done.append(("synchronize",))

    def wait_event(self, event: SimpleNamespace) -> None:
        self._cupy.begin("wait", event.ptr)


class Module:
    """Loaded code."""

    def __init__(self, cupy: FakeCupy) -> None:
        self._cupy = cupy

    def load(self, image: bytes) -> None:
        self._cupy.begin("load", image)

    def get_function(self, name: str) -> Function:
        return Function(self._cupy, name)


class Function:
    """A kernel."""

    ptr = 11

    def __init__(self, cupy: FakeCupy, name: str) -> None:
        self._cupy = cupy
        self._name = name

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: tuple[int, ...],
        shared_mem: int,
        stream: Stream,
        *,
        enable_cooperative_groups: bool,
    ) -> None:
        together = enable_cooperative_groups
        self._cupy.begin(self._name, grid, block, args, shared_mem, stream.ptr, together)
