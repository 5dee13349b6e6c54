"""From a planned function to one that can be called: code as bytes, and what is loaded of it."""

from __future__ import annotations

from graphc.backends.cuda.compiler import Image
from graphc.backends.cuda.container import CudaCode, code_bytes, read_code
from graphc.backends.cuda.device import Device, LoadedCode
from graphc.backends.cuda.epochs import EpochFunction
from graphc.backends.cuda.platform import platform
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.runtime import CudaFunction
from graphc.backends.cuda.source import write_source
from graphc.ir.core import Function
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import fail
from graphc.support.phases import Phases


def make_code(function: Function, signature: Signature, phases: Phases) -> bytes:
    """Programs and image for the GPU that there is."""
    used = platform()
    machine = used.device().machine
    with phases.measure("emit"):
        source = write_source([(function, signature)], machine)
    image = used.compile(source.text, machine.arch, phases)
    return code_bytes(CudaCode(source.programs, (image,)))


def load_function(code: bytes, signature: Signature) -> CudaFunction:
    """The function, on the GPU that there is. GraphcError for code of other GPUs."""
    device = platform().device()
    found = read_code(code)
    (program,) = found.programs
    capability = device.machine.capability
    fitting = [image for image in found.images if runs_on(image, capability)]
    if not fitting:
        held = ", ".join(image.arch for image in found.images) or "none"
        message = f"the GPU requires code for {device.machine.arch}, got code for {held}"
        raise fail("not-supported", message)
    image = max(fitting, key=lambda image: image.capability)
    return function_on(device, device.load(image.code), program, signature)


def function_on(
    device: Device, code: LoadedCode, program: Program, signature: Signature
) -> CudaFunction:
    """A program whose kernels are loaded."""
    kind = EpochFunction if program.epoch else CudaFunction
    return kind(device, code, program, signature)


def runs_on(image: Image, capability: int) -> bool:
    """Code runs on GPUs of its capability, and of later ones of its series."""
    series = capability // 10
    return image.capability // 10 == series and image.capability <= capability
