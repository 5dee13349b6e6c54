"""What is compiled for GPUs to look at its code: operations of the table, and the benchmarks."""

from __future__ import annotations

from collections.abc import Iterator

from bench.ours import FORMS, How
from bench.workloads import workload
from graphc.backends.cuda.platform import using
from graphc.backends.signature import make_signature
from graphc.driver import pipelines
from graphc.ir.core import Function, Module
from graphc.ir.machine import GpuMachine
from graphc.ops import default_context
from graphc.passes.manager import PassManager
from graphc.runtime.signature import Signature
from tests.conformance.check import module_of
from tests.support.cuda.dry import dry_platform
from tests.support.op_table import ROWS, Row

Planned = tuple[Function, Signature]


def planned(module: Module, machine: GpuMachine) -> Planned:
    """The module's only function, for a GPU."""
    PassManager(pipelines.kernels(machine)).run(module, default_context())
    (function,) = module.functions
    return function, make_signature(module, function)


def table_functions(machine: GpuMachine, every: int = 1) -> Iterator[Planned]:
    """Of each operation and element type the first case, and then every so-manieth."""
    for row in ROWS:
        yield from row_functions(row, machine, every)


def row_functions(row: Row, machine: GpuMachine, every: int = 1) -> Iterator[Planned]:
    """The same of one operation."""
    for dtype in row.dtypes:
        for case in list(row.cases(dtype))[::every]:
            yield planned(module_of(row, case), machine)


def workload_texts(name: str, machine: GpuMachine) -> list[str]:
    """All that a benchmark compiles for a call, at its real sizes."""
    texts: list[str] = []
    work = workload(name)
    with using(dry_platform(machine, texts)):
        FORMS[type(work.spec)](work, How("cuda", "f32")).run()
    return texts
