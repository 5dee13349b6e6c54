"""Matrix products whose operands lie in guarded memory.

Run as a program: a product that reads or writes outside its matrices ends it with SIGSEGV.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from graphc.backends.llvm.target import TARGETS, Target, host_target
from graphc.ir.types import DType
from tests.support.guarded_memory import SIDES, GuardedMemory
from tests.support.products import CompiledProduct, compile_product, operands, product_of

SHAPES = [
    (1, 1, 1),
    (1, 70, 9),
    (1, 200, 33),
    (2, 45, 11),
    (3, 5, 0),
    (3, 40, 20),
    (3, 70, 1024),
    (4, 29, 8),
    (5, 2, 17),
    (6, 16, 16),
    (7, 9, 5),
    (7, 17, 3),
    (13, 7, 31),
    (13, 33, 70),
    (29, 130, 19),
    (31, 15, 300),
    (37, 65, 400),
    (40, 1, 33),
    (130, 200, 400),
]
EXTENTS = (0, 1, 3, 8, 17, 37)
LAYOUTS = tuple(itertools.product((False, True), (False, True)))


def check(
    compiled: CompiledProduct, dims: tuple[int, int, int], sizes: Mapping[str, int] | None = None
) -> None:
    """One product, its matrices first after and then before such pages."""
    product = compiled.product
    layout = (product.transpose_a, product.transpose_b)
    dtype = product.dtype.numpy
    a, b = operands(dims, layout, dtype.type)
    expected = (a.T if layout[0] else a) @ (b.T if layout[1] else b)
    for side in SIDES:
        memory = GuardedMemory(side)
        given = (a, b, np.full(dims[:2], np.nan, dtype))
        parts = [memory.like(values)[1] for values in given]
        for part, values in zip(parts, given, strict=True):
            part[...] = values
        first, second, third = (part.ctypes.data for part in parts)
        compiled.run(first, second, third, sizes)
        tolerance = 1e-3 if dtype == np.float32 else 1e-10
        np.testing.assert_allclose(parts[2], expected, rtol=0, atol=tolerance)
        assert memory.problems() == []
        memory.close()


def check_all(target: Target, dtype: DType) -> None:
    """Every shape and layout, and extents that are decided at the call."""
    for layout in LAYOUTS:
        for dims in SHAPES:
            check(compile_product(product_of(dims, layout, dtype), target), dims)
        compiled = compile_product(product_of(("M", "N", "K"), layout, dtype), target)
        for m, n, k in itertools.product(EXTENTS, EXTENTS, EXTENTS):
            check(compiled, (m, n, k), {"M": m, "N": n, "K": k})
        most_k = max(EXTENTS)
        for n, most in ((21, 37), (70, 37), (21, 4), (70, 10)):
            bounded = replace(product_of(("M", n, "K"), layout, dtype), most_m=most, most_k=most_k)
            compiled = compile_product(bounded, target)
            rows = [m for m in (*EXTENTS, most) if m <= most]
            for m, k in itertools.product(rows, EXTENTS):
                check(compiled, (m, n, k), {"M": m, "K": k})


def main(isa: str, dtype: str) -> None:
    check_all(TARGETS[isa] if isa in TARGETS else host_target(), DType(dtype))


if __name__ == "__main__":
    main(*sys.argv[1:])
