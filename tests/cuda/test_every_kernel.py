"""Every kernel that the tests know, for every GPU: NVRTC takes it, and it keeps within limits."""

from __future__ import annotations

import pytest

from bench.workloads import WORKLOADS
from graphc.backends.cuda.compiler import compile_text
from graphc.backends.cuda.source import write_source
from graphc.ir.machine import GPUS
from tests.support.cuda.limits import check_limits
from tests.support.cuda.sample import row_functions, workload_texts
from tests.support.cuda.tools import needs_nvrtc
from tests.support.op_table import ROWS, Row

pytestmark = needs_nvrtc


@pytest.mark.parametrize("arch", GPUS)
@pytest.mark.parametrize("row", ROWS, ids=[row.op.name for row in ROWS])
def test_kernels_of_an_operation(row: Row, arch: str) -> None:
    text = write_source(list(row_functions(row, GPUS[arch])), GPUS[arch]).text
    check_limits(text, compile_text(text, arch))


@pytest.mark.parametrize("arch", GPUS)
@pytest.mark.parametrize("name", WORKLOADS)
def test_kernels_of_a_network(name: str, arch: str) -> None:
    for text in workload_texts(name, GPUS[arch]):
        check_limits(text, compile_text(text, arch))
