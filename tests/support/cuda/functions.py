"""Functions compiled for the emulated device, many to an image: a compiler takes long to start."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.backends.cuda.runtime import CudaFunction
from graphc.backends.cuda.source import write_source
from graphc.ir.core import Function
from graphc.ir.machine import GpuMachine
from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.signature import Signature
from tests.support.cuda.building import compile_kernels
from tests.support.cuda.emulator import EmulatedDevice, Running, emulated_machine


def compile_together(
    functions: Sequence[tuple[Function, Signature]],
    machine: GpuMachine | None = None,
    running: Running | None = None,
) -> list[CompiledFunction]:
    """The functions with one device's kernels."""
    device = EmulatedDevice(machine or emulated_machine("sm_90"), running or Running())
    source = write_source(functions, device.machine)
    code = device.load(compile_kernels(source.text))
    return [
        CudaFunction(device, code, program, signature)
        for program, (_, signature) in zip(source.programs, functions, strict=True)
    ]
