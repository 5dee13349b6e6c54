"""A GPU through CuPy: memory, copies, launches, graphs. The only file that imports CuPy."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from graphc.backends.cuda.device import Device, LoadedCode, Memory
from graphc.backends.cuda.target import device_machine, driver_version
from graphc.support.diagnostics import BackendUnavailable, GraphcError, Note, Severity, fail, make

_TO_DEVICE, _TO_HOST, _ON_DEVICE = 1, 2, 3
_DEVICE_MEMORY = 2, 3
"""CUDA's numbers of memory of a device, and of memory that moves by itself."""
_DYNAMIC_SHARED = 8
"""The driver's number of a function's attribute: the most shared memory that a launch may ask for.
Above 48 KB it has to be set."""
_SHARED_WITHOUT_ASKING = 49152

_RESTART = (
    Note("CUDA gives up all memory of this process after that: restart the process"),
    Note("with CUDA_LAUNCH_BLOCKING=1 the error names the operation that failed"),
)

EXTRAS = "pip install 'graphc[cuda13]' (for drivers below 580 'graphc[cuda12]') brings it"


def what_is_missing() -> str:
    """What there is not of what running on a GPU takes; "" if nothing."""
    version = driver_version()
    if version is None:
        return "NVIDIA's driver was not found (libcuda.so.1)"
    machine = device_machine()
    if machine is None:
        return "NVIDIA's driver finds no GPU (CUDA_VISIBLE_DEVICES may hide it)"
    if what := machine.misfit():
        return f"the GPU requires {what}"
    if find_spec("cupy") is None:
        return f"CuPy is not installed: {EXTRAS}"
    needed = _cupy().cuda.runtime.runtimeGetVersion() // 1000
    if version[0] < needed:
        got = ".".join(map(str, version))
        return (
            f"NVIDIA's driver is too old: it is of CUDA {got}, the installed CuPy needs {needed}.0 "
            "(pip install 'graphc[cuda12]' instead)"
        )
    return ""


@cache
def first_device() -> Device:
    """The first GPU of this process. BackendUnavailable without one."""
    if what := what_is_missing():
        message = f"no GPU can be used: {what}"
        raise BackendUnavailable([make(Severity.ERROR, "backend", message, None, "", ())])
    return CupyDevice()


def _cupy() -> Any:  # its modules have no types
    return import_module("cupy")  # an `import` is an error of the type checker where it is not


class CupyMemory:
    """Memory of CuPy's pool, which takes it back when nothing refers to this."""

    def __init__(self, pointer: Any) -> None:
        self._pointer = pointer

    @property
    def address(self) -> int:
        return self._pointer.ptr


class CupyDevice:
    """The first GPU, with a stream of its own.

    After a fault in a kernel CUDA refuses everything in this process; so does this.
    """

    def __init__(self) -> None:
        machine = device_machine()
        assert machine is not None
        self.machine = machine
        self._cuda = _cupy().cuda
        self._device = self._cuda.Device(0)
        self.driver = self._cuda.driver
        self._errors = self._cuda.runtime.CUDARuntimeError, self.driver.CUDADriverError
        self._lost = ""
        self._is_recording = False
        self._threads = threading.local()
        with self._device:
            self.stream = self._cuda.Stream(non_blocking=True)

    @property
    def handle(self) -> int:
        return self.stream.ptr

    def allocate(self, size: int) -> Memory:
        # CuPy gives memory that its stream has done with, which is this one then.
        with self.checked(), self._device, self.stream:
            try:
                return CupyMemory(self._cuda.alloc(max(size, 1)))
            except self._cuda.memory.OutOfMemoryError as problem:
                raise MemoryError(str(problem)) from None

    def host_memory(self, size: int) -> np.ndarray:
        with self.checked(), self._device:
            try:
                pinned = self._cuda.alloc_pinned_memory(max(size, 1))
            except self._errors:  # the system lends no more of such memory: slower copies then
                return np.empty(size, np.uint8)
        return np.frombuffer(pinned, np.uint8, size)

    def upload(self, address: int, array: np.ndarray) -> None:
        self._copy(address, array.ctypes.data, array.nbytes, _TO_DEVICE)

    def download(self, array: np.ndarray, address: int) -> None:
        self._copy(array.ctypes.data, address, array.nbytes, _TO_HOST)
        self.wait()

    def copy(self, target: int, source: int, size: int) -> None:
        self._copy(target, source, size, _ON_DEVICE)

    def load(self, image: bytes) -> LoadedCode:
        with self.checked(), self._device:
            module = self._cuda.function.Module()
            module.load(image)
        return CupyCode(self, module)

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        with self.checked(), self._device, _no_collection():
            self.stream.begin_capture(self._cuda.runtime.streamCaptureModeRelaxed)
            self._is_recording = True
            try:
                work()
                graph = self.stream.end_capture()
            except BaseException as problem:
                with suppress(*self._errors):  # a stream that captures is of no other use
                    self.stream.end_capture()
                if isinstance(problem, self._errors):
                    return work  # what cannot be recorded is begun anew each time
                raise
            finally:
                self._is_recording = False

        def replay() -> None:
            with self.checked():
                graph.launch(self.stream)

        return replay

    def wait(self) -> None:
        with self.checked():
            self.stream.synchronize()

    def follow(self, stream: int) -> None:
        with self.checked(), self._device:
            event = self._cuda.Event(disable_timing=True)
            self._cuda.runtime.eventRecord(event.ptr, stream)
            self.stream.wait_event(event)

    def misfit(self, address: int) -> str:
        try:
            found = self._cuda.runtime.pointerGetAttributes(address)
        except self._errors as problem:
            return f"an address that CUDA does not know: {problem}"
        if found.type not in _DEVICE_MEMORY:
            return "an address that is no memory of a GPU"
        return "" if found.device == 0 else f"memory of GPU {found.device}, GPU 0 is used"

    def new_array(self, shape: tuple[int, ...], dtype: np.dtype) -> object:
        with self.checked(), self._device:
            try:
                made: object = _cupy().empty(shape, dtype)
            except self._cuda.memory.OutOfMemoryError as problem:
                raise MemoryError(str(problem)) from None
            self.follow(self._cuda.get_current_stream().ptr)
        return made

    def from_dlpack(self, value: object) -> object:
        with self.checked(), self._device:
            return _cupy().from_dlpack(value)

    def _copy(self, target: int, source: int, size: int, kind: int) -> None:
        if size:
            with self.checked():
                self._cuda.runtime.memcpyAsync(target, source, size, kind, self.stream.ptr)

    @contextmanager
    def checked(self) -> Generator[None]:
        """CUDA's errors as ours. After a fault in a kernel none of its functions is of use."""
        if self._lost:
            raise _refusal(self._lost, _RESTART)
        try:
            self._enter_thread()
            yield
        except self._errors as problem:
            if self._is_recording:  # of the recording, which tells
                raise
            if self._is_faulty():
                self._lost = str(problem)
                raise _refusal(self._lost, _RESTART) from problem
            raise _refusal(str(problem)) from problem

    def _is_faulty(self) -> bool:
        """Whether the error stays: a fault does, a request that was refused does not."""
        try:
            self._cuda.runtime.deviceSynchronize()
        except self._errors:
            return True
        return False

    def _enter_thread(self) -> None:
        """Have the driver know the GPU in this thread: its launches do not ask for that."""
        if not getattr(self._threads, "is_known", False):
            self._cuda.runtime.setDevice(0)
            self._threads.is_known = True


class CupyCode:
    """A module of kernels on the device."""

    def __init__(self, device: CupyDevice, module: Any) -> None:
        self._device = device
        self._module = module
        self._functions: dict[str, Any] = {}
        self._resident: dict[tuple[str, int, int], int] = {}

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
        with self._device.checked():
            self._function(kernel, shared)(
                (grid,),
                (threads,),
                tuple(map(int, arguments)),  # a number of numpy's has a width of its own
                shared_mem=shared,
                stream=self._device.stream,
                enable_cooperative_groups=together,
            )

    def resident_blocks(self, kernel: str, threads: int, shared: int) -> int:
        key = kernel, threads, shared
        if key not in self._resident:
            with self._device.checked():
                each = self._device.driver.occupancyMaxActiveBlocksPerMultiprocessor(
                    self._function(kernel, shared).ptr, threads, shared
                )
            self._resident[key] = each * self._device.machine.multiprocessors
        return self._resident[key]

    def _function(self, kernel: str, shared: int) -> Any:
        function = self._functions.get(kernel)
        if function is None:
            function = self._functions[kernel] = self._module.get_function(kernel)
            if shared > _SHARED_WITHOUT_ASKING:
                self._device.driver.funcSetAttribute(function.ptr, _DYNAMIC_SHARED, shared)
        return function


def _refusal(what: str, notes: Sequence[Note] = ()) -> GraphcError:
    return fail("backend", f"the GPU failed: {what}", notes=list(notes))


@contextmanager
def _no_collection() -> Generator[None]:
    """What the collector of garbage frees would be recorded, or refused."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
