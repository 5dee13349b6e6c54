"""Kernels of all operations and of some networks keep within limits, by NVRTC."""

from __future__ import annotations

from functools import cache

import pytest

from graphc.backends.cuda.compiler import compile_text
from graphc.backends.cuda.source import write_source
from graphc.ir.machine import GPUS
from tests.support.cuda.limits import check_limits
from tests.support.cuda.sample import table_functions, workload_texts
from tests.support.cuda.tools import needs_nvrtc

pytestmark = needs_nvrtc

MACHINE = GPUS["sm_90"]


@cache
def table_text(every: int) -> str:
    """The kernels of all operations in all element types, of some every so-manieth."""
    functions = list(table_functions(MACHINE, every=60))[::every]
    return write_source(functions, MACHINE).text


@pytest.mark.parametrize(("arch", "every"), [("sm_90", 1), ("sm_80", 5), ("sm_120", 5)])
def test_kernels_of_every_operation(arch: str, every: int) -> None:
    text = table_text(every)
    check_limits(text, compile_text(text, arch))


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("W1", "sm_80"),
        ("W1", "sm_120"),
        ("W2b", "sm_90"),
        ("W8norm", "sm_90"),
        ("W9encoder1", "sm_90"),
    ],
)
def test_kernels_of_a_network(name: str, arch: str) -> None:
    texts = workload_texts(name, GPUS[arch])
    assert texts
    for text in texts:
        check_limits(text, compile_text(text, arch))
