"""What kernels may take of a multiprocessor.

Nothing is in memory of a thread's own: no array that is indexed, no value that found no register.
Two blocks of 256 threads fit side by side, which is 128 registers a thread; products in f64 hold so
many sums that one has to be enough. Functions that are called, as those of a kernel that runs a
whole function are, keep registers of their caller: a few bytes at each call.
"""

from __future__ import annotations

import re

from graphc.backends.cuda.compiler import Image

MOST_REGISTERS = 128
MOST_REGISTERS_OF_LONG_PRODUCTS = 255
MOST_KEPT = 256
"""Bytes that a function which is called keeps of its caller's registers."""

_LONG_PRODUCT = re.compile(r"__device__ void ((?:product|fused)\w*)\([^)]*double")
_CALLS = re.compile(r"product|fused|whole|beside")
"""Kernels that call functions."""


def check_limits(text: str, image: Image) -> None:
    """No kernel is beyond the limits."""
    assert len(image.resources) == text.count("__global__ void")
    long_products = {f"run_{name}" for name in _LONG_PRODUCT.findall(text)}
    for name, taken in image.resources.items():
        is_long = name in long_products
        registers = MOST_REGISTERS_OF_LONG_PRODUCTS if is_long else MOST_REGISTERS
        kept = MOST_KEPT if _CALLS.search(name) else 0
        assert taken.registers <= registers, f"{name}: {taken}"
        assert taken.stack <= kept, f"{name}: {taken}"
        assert kept or not taken.spills, f"{name}: {taken}"
