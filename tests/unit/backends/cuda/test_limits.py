"""What kernels of all operations and of whole networks take of a multiprocessor, by NVRTC.

Nothing is in memory of a thread's own: no array that is indexed, no value that found no register.
Two blocks of 256 threads fit side by side, which is 128 registers a thread; products in f64 hold so
many sums that one has to be enough. In a kernel that runs a whole function those that it calls keep
registers of their caller, a few bytes at each call.
"""

from __future__ import annotations

import re
from functools import cache

import pytest

from graphc.backends.cuda.compiler import Image, compile_text
from graphc.backends.cuda.source import write_source
from graphc.ir.machine import GPUS
from tests.support.cuda.sample import table_functions, workload_texts
from tests.support.cuda.tools import needs_nvrtc

pytestmark = needs_nvrtc

MACHINE = GPUS["sm_90"]
MOST_REGISTERS = 128
MOST_REGISTERS_OF_LONG_PRODUCTS = 192
MOST_KEPT = 256
"""Bytes that a function keeps of its caller's registers."""

_LONG_PRODUCT = re.compile(r"__device__ void (product\w*)\([^)]*double")


def check(text: str, image: Image) -> None:
    """What is beyond the limits, with the kernels' names."""
    long_products = {f"run_{name}" for name in _LONG_PRODUCT.findall(text)}
    beyond = {
        name: taken
        for name, taken in image.resources.items()
        if taken.stack
        or taken.spills
        or taken.registers
        > (MOST_REGISTERS_OF_LONG_PRODUCTS if name in long_products else MOST_REGISTERS)
    }
    assert beyond == {}
    assert len(image.resources) == text.count("__global__ void")


@cache
def table_text(every: int) -> str:
    """The kernels of all operations in all element types, of some every so-manieth."""
    functions = list(table_functions(MACHINE, every=60))[::every]
    return write_source(functions, MACHINE).text


@pytest.mark.parametrize(("arch", "every"), [("sm_90", 1), ("sm_80", 5), ("sm_120", 5)])
def test_kernels_of_every_operation(arch: str, every: int) -> None:
    text = table_text(every)
    check(text, compile_text(text, arch))


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("W1", "sm_80"),
        ("W1", "sm_120"),
        ("W2b", "sm_90"),
        ("W4", "sm_90"),
        ("W8norm", "sm_90"),
        ("W9encoder1", "sm_90"),
    ],
)
def test_kernels_of_a_network(name: str, arch: str) -> None:
    texts = workload_texts(name, GPUS[arch])
    assert texts
    for text in texts:
        for kernel, taken in compile_text(text, arch).resources.items():
            assert taken.registers <= MOST_REGISTERS, kernel
            assert taken.stack <= MOST_KEPT, kernel
