"""The text of a program of kernels: helpers, constants, each device function once, its launches.

Nothing is included from outside: the helpers are the files of `text/`, as far as they are used. All
that is not plain C++ (shuffles, asynchronous copies, tensor cores) stands in these files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files

from graphc.backends.cuda.kernel import Kernel
from graphc.ir.machine import GpuMachine
from graphc.ir.types import DType
from graphc.support.short_types import SHORT_TYPES

C_TYPES = {
    DType.F32: "float",
    DType.F64: "double",
    DType.I32: "int",
    DType.I64: "i64",
    DType.I1: "bool",
    DType.F16: "unsigned short",
    DType.BF16: "unsigned short",
    DType.I8: "signed char",
    DType.I16: "short",
    DType.U8: "unsigned char",
    DType.U16: "unsigned short",
    DType.U32: "u32",
    DType.U64: "u64",
    **{DType(name): "unsigned char" for name in SHORT_TYPES},
}

HEADERS = ("device", "words", "fold", "product", "indexed", "windows", "pooling", "depthwise")
"""The files of `text/` in the order in which they stand; `device` is always there."""

_BITS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_ROW = 12
_WIDEST = 128
"""Bytes that a thread reads at once, at most: 16 lanes of 8 bytes."""
_REMARKS = 6
"""What more launches a kernel has is counted."""


class CudaModule:
    """Collects what a program needs; `text` is all of it.

    kernels  by name, in the order in which they were first asked for
    """

    def __init__(self, machine: GpuMachine) -> None:
        self.machine = machine
        self.kernels: dict[str, Kernel] = {}
        self._made: dict[object, Kernel] = {}
        self._functions: dict[str, str] = {}
        self._named: dict[object, str] = {}
        self._data: dict[tuple[bytes, DType], str] = {}
        self._headers = {"device"}
        self._apart: set[str] = set()

    def kernel(self, key: object, prefix: str, make: Callable[[str], Kernel]) -> Kernel:
        """The kernel of this key; at first `make` writes it under the name that it is given."""
        if key not in self._made:
            made = make(f"{prefix}{len(self.kernels)}")
            self._made[key] = self.kernels[made.name] = made
        return self._made[key]

    def function(self, key: object, name: str, make: Callable[[str], str]) -> str:
        """The name of the function of values with this key; at first `make` writes it."""
        if key not in self._named:
            found = name if name not in self._functions else f"{name}_{len(self._functions)}"
            text = make(found)  # may ask for others, which come first
            self._named[key] = found
            self._functions[found] = text
        return self._named[key]

    def keep_apart(self, kernels: Iterable[Kernel]) -> None:
        """Have one function of each, which is called, however many kernels run it: copies of it
        would take long to compile, and a kernel of many of them would take many registers."""
        self._apart.update(kernel.name for kernel in kernels)

    def use(self, *headers: str) -> None:
        """Have these files of `text/` in the program."""
        self._headers.update(headers)

    def data(self, content: bytes, dtype: DType) -> str:
        """The address of constant elements, as an expression: they stand as bit patterns, because
        not every number can be written in CUDA C."""
        name = self._data.setdefault((content, dtype), f"constant{len(self._data)}")
        return f"((const {C_TYPES[dtype]} *){name})"

    def text(self) -> str:
        """Everything but launches, which are `launch_text`."""
        used = [name for name in HEADERS if name in self._headers]
        parts = [header_text(name) for name in used]
        parts += [_data_text(name, *key) for key, name in self._data.items()]
        parts += self._functions.values()
        parts += [self._kernel_text(kernel) for kernel in self.kernels.values()]
        return "\n".join(parts)

    def _kernel_text(self, kernel: Kernel) -> str:
        if kernel.name not in self._apart:
            return kernel.text
        head = f"__device__ void {kernel.name}("
        return kernel.text.replace(head, head.replace("void", "__noinline__ void"), 1)


def header_text(name: str) -> str:
    """A file of `text/`."""
    return files("graphc.backends.cuda").joinpath("text", f"{name}.cuh").read_text("utf-8")


def launch_text(kernel: Kernel, remarks: Sequence[str] = ()) -> str:
    """The kernel that runs the device function alone; `remarks`: what it is launched for."""
    given = [*(p.split()[-1].lstrip("*") for p in kernel.parameters), "grid_block()"]
    bounds = f"{kernel.threads}, {kernel.blocks}" if kernel.blocks > 1 else str(kernel.threads)
    said = [*remarks[:_REMARKS], f"and {len(remarks) - _REMARKS} more"]
    return comment(said[: len(remarks)]) + (
        f'extern "C" __global__ void __launch_bounds__({bounds}) run_{kernel.name}(\n'
        f"    {', '.join(kernel.parameters)})\n"
        f"{{\n    {kernel.name}({', '.join(given)});\n}}\n"
    )


def comment(lines: Iterable[str]) -> str:
    """Lines of text as a comment: what is not ASCII, or could go on in the next line, is named."""
    return "".join(f"// {_printable(line)}".rstrip() + "\n" for line in lines)


def _printable(line: str) -> str:
    return "".join(c if " " <= c <= "~" and c != "\\" else f"<U+{ord(c):04X}>" for c in line)


def _data_text(name: str, content: bytes, dtype: DType) -> str:
    width = dtype.itemsize
    numbers = [
        hex(int.from_bytes(content[i : i + width], "little")) for i in range(0, len(content), width)
    ]
    rows = [", ".join(numbers[i : i + _ROW]) for i in range(0, len(numbers), _ROW)] or ["0"]
    listed = ",\n    ".join(rows)
    return f"__device__ __align__({_WIDEST}) const {_BITS[width]} {name}[] = {{\n    {listed}}};\n"
