"""The `.cu` text of functions: helpers, kernels, and a launch for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphc.backends.cuda.module import CudaModule, launch_text
from graphc.backends.cuda.program import Program, write_program
from graphc.backends.cuda.steps import launches
from graphc.ir.core import Function
from graphc.ir.machine import GpuMachine
from graphc.runtime.signature import Signature


@dataclass(frozen=True)
class Source:
    """The text of some functions, and a program for each of them."""

    text: str
    programs: tuple[Program, ...]


def write_source(functions: Sequence[tuple[Function, Signature]], machine: GpuMachine) -> Source:
    """The text of planned functions, which share the kernels that they have in common."""
    module = CudaModule(machine)
    programs = [write_program(module, f, signature, machine) for f, signature in functions]
    remarks: dict[str, dict[str, None]] = {name: {} for name in module.kernels}
    for launch in (found for program in programs for found in launches(program.steps)):
        remarks[launch.kernel][launch.remark] = None
    starts = [launch_text(k, list(remarks[name])) for name, k in module.kernels.items()]
    return Source("\n".join([module.text(), *starts]), tuple(programs))
