"""Inputs and results in the device's memory, shared with CuPy, PyTorch, JAX and others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphc.backends.cuda.device import Device
from graphc.runtime.device_arrays import DeviceArray, device_array
from graphc.support.diagnostics import GraphcError, fail

ALIGNMENT = 16
"""Bytes that kernels read at once."""

_CUDA = 2
"""DLPack's number of this kind of device."""


def taken(device: Device, value: object) -> object:
    """An input as a function on the device takes it: an array of its memory as a `DeviceArray`,
    anything else as it is. GraphcError `input` for memory that cannot be used."""
    if type(value) is np.ndarray:
        return value
    found = device_array(value)
    if found is None and _is_of_cuda(value):
        found = _by_dlpack(device, value)
    if found is None:
        return value
    if isinstance(found, str):
        raise _refused(found)
    if found.address % ALIGNMENT and found.nbytes:
        raise _refused(
            f"one that begins at address {found.address:#x}, which is no multiple of {ALIGNMENT}: "
            "give a copy of it"
        )
    if found.nbytes and (problem := device.misfit(found.address)):
        raise _refused(problem)
    return found


def _by_dlpack(device: Device, value: object) -> DeviceArray | str | None:
    try:
        return device_array(device.from_dlpack(value))
    except (BufferError, RuntimeError, TypeError, ValueError) as problem:
        return f"one that its library does not hand out: {problem}"


def new_array(device: Device, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
    """Memory for a result."""
    try:
        found = device_array(device.new_array(shape, dtype))
    except MemoryError as problem:
        message = f"a result of shape {shape} of {dtype} requires memory of the GPU"
        raise fail("limit", f"{message}: {problem}") from None
    assert isinstance(found, DeviceArray)
    return found


def _is_of_cuda(value: object) -> bool:
    """Whether it is an array of a GPU, by DLPack."""
    place: Callable[[], tuple[int, int]] | None = getattr(value, "__dlpack_device__", None)
    return place is not None and place()[0] == _CUDA


def _refused(got: str) -> GraphcError:
    return fail("input", f"an array on the GPU requires elements side by side there, got {got}")
