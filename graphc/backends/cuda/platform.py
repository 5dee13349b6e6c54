"""How kernels are compiled and which device runs them: NVIDIA's tools, or what stands in for them.

`platform` is what everything else asks, so tests replace it in one place to run without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from graphc.backends.cuda.compiler import Image, compile_text, compiler_version
from graphc.backends.cuda.device import Device
from graphc.backends.cuda.nvrtc import MAJORS
from graphc.backends.cuda.target import device_machine, driver_version
from graphc.ir.machine import GpuMachine
from graphc.support.phases import Phases


@dataclass(frozen=True)
class Platform:
    """What is needed to run functions.

    missing   what of it there is not, for people; "" if nothing
    machine   the GPU, None without one
    device    the same to work with; BackendUnavailable without one
    compile   text of kernels, architecture -> image
    versions  what decides an image besides
    """

    missing: Callable[[], str]
    machine: Callable[[], GpuMachine | None]
    device: Callable[[], Device]
    compile: Callable[[str, str, Phases], Image]
    versions: Callable[[], str]


def _missing() -> str:
    from graphc.backends.cuda.cupy_device import what_is_missing

    return what_is_missing()


def _device() -> Device:
    from graphc.backends.cuda.cupy_device import first_device

    return first_device()


def _compile(text: str, arch: str, phases: Phases) -> Image:
    version = driver_version()
    return compile_text(text, arch, phases, version[0] if version else MAJORS[0])


NVIDIA = Platform(_missing, device_machine, _device, _compile, compiler_version)

_used = [NVIDIA]


def platform() -> Platform:
    """The one in use."""
    return _used[-1]


@contextmanager
def using(other: Platform) -> Generator[None]:
    """Another platform, for tests."""
    _used.append(other)
    try:
        yield
    finally:
        _used.remove(other)
