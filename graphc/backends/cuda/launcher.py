"""What a file of kernels is given to write an operation with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from graphc.backends.cuda.kernel import Kernel
from graphc.backends.cuda.module import CudaModule
from graphc.backends.cuda.steps import Where
from graphc.ir.core import Operation, Value
from graphc.ir.machine import GpuMachine


class Launcher(Protocol):
    """The program that is being written, as the kernels of an operation see it.

    where        the arrays of values
    contraction  "off": a product and a sum are rounded each by itself
    """

    module: CudaModule
    machine: GpuMachine
    where: dict[Value, Where]
    contraction: str

    def launch(self, kernel: Kernel, pointers: Sequence[Where], writes: Sequence[int]) -> None:
        """Run a kernel; `writes` are the places among its pointers that it writes."""
        ...

    def scratch(self, size: int) -> Where:
        """Memory of so many bytes for the operation that is being written."""
        ...

    def workspace(self, op: Operation) -> list[Where]: ...

    def constants(self, op: Operation) -> dict[int, str]:
        """The addresses of the constants in a body, as expressions of C."""
        ...
