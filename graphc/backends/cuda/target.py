"""The GPUs that code is made for, as people name them: `native`, `sm_90`, for files several."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import cache

from graphc.ir.machine import GPUS, GpuMachine
from graphc.support.diagnostics import fail, suggestion

NATIVE = "native"
DEFAULT = "sm_90"
"""What `native` is where there is no GPU."""

_MAJOR, _MINOR, _MULTIPROCESSORS, _SHARED, _THREADS, _L2 = 75, 76, 16, 97, 39, 38
"""Numbers of the driver's attributes of a device."""


def gpus_named(text: str) -> tuple[GpuMachine, ...]:
    """Those of a list such as `sm_80,sm_90`, each once. GraphcError for an unknown name.

    Kernels are written for the first, and compiled for all.
    """
    names = dict.fromkeys(name.strip() for name in text.split(","))
    return tuple(_named(name) for name in names)


def _named(name: str) -> GpuMachine:
    if name == NATIVE:
        machine = device_machine() or GPUS[DEFAULT]
        if what := machine.misfit():
            raise fail("not-supported", f"the GPU of this machine is too old: {what}")
        return machine
    if name in GPUS:
        return GPUS[name]
    known = (*GPUS, NATIVE)
    near = suggestion(name, known)
    raise fail("bad-option", f"a GPU is one of {', '.join(known)}, got {name}{near}")


@cache
def device_machine() -> GpuMachine | None:
    """The first GPU of this process, as its driver describes it; None without one."""
    driver = _driver()
    device = ctypes.c_int()
    if driver is None or driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0):
        return None

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        return value.value

    capability = 10 * attribute(_MAJOR) + attribute(_MINOR)
    sizes = {
        "multiprocessors": attribute(_MULTIPROCESSORS),
        "shared": attribute(_SHARED),
        "threads": attribute(_THREADS),
        "l2": attribute(_L2),
    }
    known = GPUS.get(f"sm_{capability}")
    return replace(known, **sizes) if known is not None else GpuMachine(capability, **sizes)


@cache
def driver_version() -> tuple[int, int] | None:
    """The release of CUDA that the driver is of, (13, 0), say; None without a driver."""
    driver, version = _driver(), ctypes.c_int()
    if driver is None or driver.cuDriverGetVersion(ctypes.byref(version)):
        return None
    return version.value // 1000, version.value % 1000 // 10


def _driver() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
