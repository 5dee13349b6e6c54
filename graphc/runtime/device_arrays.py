"""Arrays of other libraries in a device's memory, as functions take them where they lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np

ANY_STREAM = 1
"""CUDA's number of the stream that older libraries work on, if they say nothing."""


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """Elements on a device, without gaps, in memory order.

    stream  of work that has to be done before they are read; None: there is none
    owner   the array of the other library, which keeps the memory
    """

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype
    stream: int | None
    owner: Any

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize


def device_array(owner: object) -> DeviceArray | str | None:
    """What an object says by `__cuda_array_interface__`; why it cannot be taken; None if it says
    nothing."""
    try:
        found: object = getattr(owner, "__cuda_array_interface__", None)
    except RuntimeError:  # PyTorch's answer for tensors with gradients
        return None
    if not isinstance(found, Mapping):
        return None
    said = cast("Mapping[str, object]", found)  # its keys are fixed by the protocol
    try:
        shape = tuple(int(size) for size in cast("Sequence[int]", said["shape"]))
        dtype = np.dtype(cast("str", said["typestr"]))
        address = int(cast("tuple[int, bool]", said["data"])[0] or 0)
        strides = cast("Sequence[int] | None", said.get("strides"))
        stream = cast("int | None", said.get("stream"))
        version = cast("int", said.get("version", 0))
    except (KeyError, TypeError, ValueError, IndexError) as problem:
        return f"a __cuda_array_interface__ that is damaged: {problem!r}"
    if said.get("mask") is not None:
        return "an array with a mask"
    if strides is not None and not _are_dense(shape, strides, dtype.itemsize):
        return "an array with gaps or of another order: make it contiguous"
    if version < 3:
        stream = ANY_STREAM
    return DeviceArray(address, shape, dtype, stream, owner)


def _are_dense(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Whether steps of so many bytes lead through the elements without gaps."""
    wanted = [prod(shape[i + 1 :]) * itemsize for i in range(len(shape))]
    steps = zip(shape, strides, wanted, strict=False)
    return len(strides) == len(shape) and (
        not prod(shape) or all(size == 1 or stride == step for size, stride, step in steps)
    )
