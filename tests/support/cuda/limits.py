"""What kernels may take of a multiprocessor.

Nothing is in memory of a thread's own: no array that is indexed, no value that found no register.
Two blocks of 256 threads fit side by side, which is 128 registers a thread. Products hold so many
sums that one block has to be enough, and so it is for kernels that run products among others.
Functions that are called, as those of such a kernel are, keep registers of their caller: a few
bytes at each call.
"""

from __future__ import annotations

import re

from graphc.backends.cuda.compiler import Image

MOST_REGISTERS = 128
MOST_REGISTERS_OF_PRODUCTS = 255
MOST_KEPT = 256
"""Bytes that a function which is called keeps of its caller's registers."""

_WITH_PRODUCTS = re.compile(r"run_(product|fused|conv|whole|beside)")
"""Kernels that are products or may run some, and call functions."""


def check_limits(text: str, image: Image) -> None:
    """No kernel is beyond the limits."""
    assert len(image.resources) == text.count("__global__ void")
    for name, taken in image.resources.items():
        has_products = _WITH_PRODUCTS.match(name) is not None
        most = MOST_REGISTERS_OF_PRODUCTS if has_products else MOST_REGISTERS
        assert taken.registers <= most, f"{name}: {taken}"
        assert taken.stack <= MOST_KEPT * has_products, f"{name}: {taken}"
        assert has_products or not taken.spills, f"{name}: {taken}"
