"""What the algorithms have to know of the machine that code is made for."""

from __future__ import annotations

from dataclasses import dataclass

from graphc.ir.types import DType


@dataclass(frozen=True, slots=True)
class Machine:
    """Widths and sizes.

    vector_bits    of a register
    has_fma        a product and a sum that are rounded once are one instruction
    masks_memory   masked loads and stores of 32 and 64 bit elements are instructions
    l1, l2         bytes of a core's caches of data; results have the same bits for any
    """

    vector_bits: int
    has_fma: bool
    masks_memory: bool
    l1: int = 32768
    l2: int = 524288

    def lanes(self, dtype: DType) -> int:
        """Elements of a float or integer type in one vector register."""
        return self.vector_bits // (8 * max(dtype.itemsize, 4))
