"""Functions compiled for the emulated device, many to an image: a compiler takes long to start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from graphc.backends.cuda.device import Device
from graphc.backends.cuda.loading import function_on
from graphc.backends.cuda.platform import platform
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.runtime import CudaFunction
from graphc.backends.cuda.source import write_source
from graphc.ir.core import Function
from graphc.ir.machine import GpuMachine
from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.residency import come_home
from graphc.runtime.signature import Signature
from graphc.support.phases import Phases
from tests.support.cuda.building import compile_kernels
from tests.support.cuda.emulator import EmulatedDevice, Running, emulated_machine

Array = np.ndarray

STRICTLY = (
    Running("forwards", 3, 0xFF),
    Running("backwards", 1, 0xC1),
    Running("shuffled", 7, 0xFF, seed=7),
    Running("backwards", 7, 0xC1),
    Running("forwards", 1, 0xFF),
    Running("shuffled", 3, 0xC1, seed=8),
)
"""How checked functions run, call after call."""


class CheckedFunction(CompiledFunction):
    """A function that runs each call twice, which has to give the same bits.

    Once with all arguments and results between pages that nobody may touch, arguments read-only
    where nothing updates them, in one of several orders; then as the runtime runs it.
    """

    def __init__(
        self,
        plain: CudaFunction,
        strict: CudaFunction,
        device: EmulatedDevice,
        runnings: Sequence[Running] = STRICTLY,
    ) -> None:
        self.signature = plain.signature
        self._plain = plain
        self._strict = strict
        self._device = device
        self._runnings = runnings
        self._calls = 0

    def __call__(
        self, arguments: Sequence[Array], results: Sequence[Array], sizes: Mapping[str, int]
    ) -> None:
        running = self._runnings[self._calls % len(self._runnings)]
        self._calls += 1
        self._device.running = running
        strictly = self._outcome(arguments, results, sizes)
        self._plain(arguments, results, sizes)
        come_home(arguments)
        names = [r.name for r in self.signature.fresh_results]
        names = [*(a.name for a in self.signature.arguments), *names]
        for name, a, b in zip(names, strictly, (*arguments, *results), strict=True):
            same = a.tobytes() == b.tobytes()
            assert same, f"`{name}` is {a} ({running}) or {b} ({Running()})"

    def _outcome(
        self, arguments: Sequence[Array], results: Sequence[Array], sizes: Mapping[str, int]
    ) -> list[Array]:
        """What arguments and results hold afterwards."""
        device = self._device
        arrays = (*arguments, *results)
        memories = [device.allocate(array.nbytes) for array in arrays]
        updated = {r.updates for r in self.signature.results}
        for argument, memory, array in zip(
            self.signature.arguments, memories, arguments, strict=False
        ):
            device.upload(memory.address, array)
            if argument.name not in updated:
                memory.protect()
        buffers = [memory.address for memory in memories]
        self._strict.run(self._strict.call(sizes, buffers))
        held = [np.empty_like(array) for array in arrays]
        for array, memory in zip(held, memories, strict=True):
            device.download(array, memory.address)
            memory.check()
        return held


def compile_together(
    functions: Sequence[tuple[Function, Signature]],
    machine: GpuMachine | None = None,
    running: Running | None = None,
) -> list[CheckedFunction]:
    """The functions on emulated devices, each call checked; their kernels are in one image.

    running  how checked calls run, if not now in this way, now in that
    """
    machine = machine or emulated_machine("sm_90")
    source = write_source(functions, machine)
    image = compile_kernels(source.text)
    devices = EmulatedDevice(machine), EmulatedDevice(machine)
    plain, strict = (_loaded(device, image, source.programs, functions) for device in devices)
    runnings = STRICTLY if running is None else (running,)
    return [CheckedFunction(*p, devices[1], runnings) for p in zip(plain, strict, strict=True)]


def compile_for_gpu(
    functions: Sequence[tuple[Function, Signature]],
) -> Sequence[CheckedFunction | CudaFunction]:
    """The functions on the GPU in use; where it is emulated, each call is checked."""
    used = platform()
    device = used.device()
    if isinstance(device, EmulatedDevice):
        return compile_together(functions, device.machine)
    source = write_source(functions, device.machine)
    image = used.compile(source.text, device.machine.arch, Phases())
    return _loaded(device, image.code, source.programs, functions)


def _loaded(
    device: Device,
    image: bytes,
    programs: Sequence[Program],
    functions: Sequence[tuple[Function, Signature]],
) -> list[CudaFunction]:
    code = device.load(image)
    return [
        function_on(device, code, program, signature)
        for program, (_, signature) in zip(programs, functions, strict=True)
    ]
