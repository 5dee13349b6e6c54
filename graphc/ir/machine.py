"""The machine that code is made for, as far as schedules depend on it; and machines by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphc.ir.params import Params
from graphc.ir.types import DType


@dataclass(frozen=True)
class Machine(Params):
    """Widths and sizes.

    vector_bits    of a register: 128, 256 or 512
    has_fma        a product and a sum that are rounded once are one instruction
    masks_memory   masked loads and stores of 32 and 64 bit elements are instructions
    registers      vector registers
    l1, l2         bytes of a core's caches of data
    slow_denormals  instructions that take or give denormals take many cycles more
    dots_bf16      products of two pairs of bf16 are added to a sum of f32 by one instruction
    has_scalef     a vector times powers of two, rounded once, is one instruction
    has_amx        registers of 16 x 16 sums, and products of pairs of bf16 for them
    """

    vector_bits: int
    has_fma: bool
    masks_memory: bool
    registers: int = 16
    l1: int = 32768
    l2: int = 524288
    slow_denormals: bool = True
    dots_bf16: bool = False
    has_scalef: bool = False
    has_amx: bool = False

    def lanes(self, dtype: DType) -> int:
        """Elements of a float or integer type in one vector register."""
        return self.vector_bits // (8 * max(dtype.itemsize, 4))

    def misfit(self) -> str:
        """What is required of a machine that people describe, and what came; "" if nothing."""
        if self.vector_bits not in (128, 256, 512):
            return f"vector_bits of 128, 256 or 512, got {self.vector_bits}"
        if self.dots_bf16 and not self.masks_memory:
            return "masks_memory of a machine that dots_bf16"
        if self.has_amx and not (self.dots_bf16 and self.vector_bits == 512):
            return "dots_bf16 and vector_bits of 512 of a machine that has_amx"
        if not 8 <= self.registers <= 128:
            return f"8 to 128 registers, got {self.registers}"
        if not 4096 <= self.l1 <= self.l2 <= 1 << 32:
            return (
                f"caches of 4096 bytes or more, l1 no larger than l2, got {self.l1} and {self.l2}"
            )
        return ""

    @property
    def tile_rows(self) -> int:
        """Rows of the largest tile of a product: with two vectors each it leaves registers for what
        is multiplied. Vectors of 128 bits were measured with 4 rows only."""
        return 4 if self.vector_bits == 128 else self.registers * 3 // 8


@dataclass(frozen=True)
class GpuMachine(Params):
    """A GPU.

    capability       its instruction set: 80, 90 or 120 for sm_80, sm_90, sm_120
    multiprocessors  how many there are
    shared           bytes of shared memory that one block can have
    threads          that can be resident on a multiprocessor
    l2               bytes of the cache that all share
    bandwidth        of memory, in GB a second
    gflops           of products of f32, a second
    """

    capability: int
    multiprocessors: int
    shared: int
    threads: int = 2048
    l2: int = 41943040
    bandwidth: int = 1000
    gflops: int = 20000

    @property
    def arch(self) -> str:
        """`sm_90`"""
        return f"sm_{self.capability}"

    def resident_blocks(self, shared: int, threads: int) -> int:
        """Blocks of so many threads that run at once, with so many bytes of shared memory each."""
        kept = 1024  # bytes that each block takes besides
        by_memory = (self.shared + kept) // (shared + kept)
        return self.multiprocessors * min(by_memory, self.threads // threads)

    def misfit(self) -> str:
        """What is required of a GPU that people describe, and what came; "" if nothing."""
        if self.capability < 80:  # copies ahead and tensor cores for f32 came with it
            return f"a compute capability of 80 or more, got {self.capability}"
        if self.multiprocessors < 1:
            return f"1 multiprocessor or more, got {self.multiprocessors}"
        if not 16384 <= self.shared <= 1 << 20:
            return f"16384 bytes of shared memory or more, got {self.shared}"
        return ""


AnyMachine = Machine | GpuMachine

_X86 = Machine(128, has_fma=False, masks_memory=False)

MACHINES: Mapping[str, Machine] = {
    "x86-64": _X86,
    "x86-64-v2": _X86,
    "x86-64-v3": Machine(256, has_fma=True, masks_memory=True),
    "x86-64-v4": Machine(512, has_fma=True, masks_memory=True, registers=32, has_scalef=True),
    "sapphirerapids": Machine(
        512,
        has_fma=True,
        masks_memory=True,
        registers=32,
        l1=49152,
        l2=2097152,
        dots_bf16=True,
        has_scalef=True,
        has_amx=True,
    ),
    "aarch64": Machine(128, has_fma=True, masks_memory=False, registers=32, slow_denormals=False),
}
"""By the name of the instruction set, with the caches that most of them have at least."""


GPUS: Mapping[str, GpuMachine] = {
    "sm_80": GpuMachine(80, 108, 166912, 2048, 41943040, 1555, 19500),
    "sm_86": GpuMachine(86, 82, 101376, 1536, 6291456, 936, 35600),
    "sm_89": GpuMachine(89, 128, 101376, 1536, 75497472, 1008, 82600),
    "sm_90": GpuMachine(90, 132, 232448, 2048, 52428800, 4300, 59000),
    "sm_100": GpuMachine(100, 148, 232448, 2048, 132644864, 8000, 75000),
    "sm_120": GpuMachine(120, 170, 101376, 1536, 100663296, 1792, 104800),
}
"""By the name of the instruction set: A100, RTX 3090, RTX 4090, H100 and H200, B200, RTX 5090."""
