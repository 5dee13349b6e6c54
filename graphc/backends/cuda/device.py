"""What running a program asks of a GPU: memory, copies, launches, recorded work.

The runtime knows nothing else, so an emulated device can stand in for a real one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from graphc.ir.machine import GpuMachine


class Memory(Protocol):
    """Bytes on the device; they are free again when nothing refers to this."""

    @property
    def address(self) -> int:
        """A multiple of 256."""
        ...


class LoadedCode(Protocol):
    """Compiled kernels on the device."""

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
        """Begin `kernel` on `grid` blocks. All arguments are words of 64 bits: addresses, sizes.

        together  its blocks wait for each other
        """
        ...

    def resident_blocks(self, kernel: str, threads: int, shared: int) -> int:
        """How many blocks of `kernel` the device can run at once."""
        ...


class Device(Protocol):
    """A GPU, with one stream of work: what is begun later sees what was begun earlier."""

    machine: GpuMachine

    @property
    def handle(self) -> int:
        """Of the stream, by which other libraries of CUDA know it."""
        ...

    def allocate(self, size: int) -> Memory:
        """Raises MemoryError where there is not as much."""
        ...

    def host_memory(self, size: int) -> np.ndarray:
        """Bytes u8[size] of this process that copies are fastest from and to."""
        ...

    def upload(self, address: int, array: np.ndarray) -> None:
        """Begin to copy a contiguous array to the device. One in `host_memory` has to stay as it
        is until `wait`, others may change at once."""
        ...

    def download(self, array: np.ndarray, address: int) -> None:
        """Copy into a contiguous array, after all work before."""
        ...

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy bytes within the device."""
        ...

    def load(self, image: bytes) -> LoadedCode: ...

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        """What `work` launches and copies, as something that begins it anew: a CUDA graph."""
        ...

    def follow(self, stream: int) -> None:
        """Begin nothing more before what another stream of CUDA, by its handle, has begun."""
        ...

    def misfit(self, address: int) -> str:
        """Why memory of another library cannot be used, for people; "" if it can."""
        ...

    def new_array(self, shape: tuple[int, ...], dtype: np.dtype) -> object:
        """An array of the device's own library, with `__cuda_array_interface__`. Raises MemoryError
        where there is no room."""
        ...

    def from_dlpack(self, value: object) -> object:
        """The array of another library as one of the device's own, where it lies."""
        ...

    def wait(self) -> None:
        """Until all work is done. Raises GraphcError for a fault in it."""
        ...
