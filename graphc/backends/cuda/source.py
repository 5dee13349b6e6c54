"""The `.cu` text of functions: helpers, kernels, and an entry for each that is launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphc.backends.cuda.minibatches import epoch_steps
from graphc.backends.cuda.module import CudaModule, launch_text
from graphc.backends.cuda.program import Program, write_program
from graphc.backends.cuda.steps import launches
from graphc.backends.cuda.ways import run_by_its_way
from graphc.ir.core import Function
from graphc.ir.machine import GpuMachine
from graphc.runtime.signature import Signature, runs_epochs


@dataclass(frozen=True)
class Source:
    """The text of some functions, and a program for each of them."""

    text: str
    programs: tuple[Program, ...]


def write_source(functions: Sequence[tuple[Function, Signature]], machine: GpuMachine) -> Source:
    """The text of planned functions, which share the kernels that they have in common."""
    module = CudaModule(machine)
    programs: list[Program] = []
    for function, signature in functions:
        program = write_program(module, function, signature, machine)
        if runs_epochs(signature):
            program = replace(program, epoch=epoch_steps(module, program, signature))
        bounds = {dim.name: dim.bound for dim in signature.dims}
        programs.append(run_by_its_way(module, program, function, bounds))
    remarks: dict[str, dict[str, None]] = {}
    steps = [step for p in programs for step in (*p.steps, *p.epoch)]
    for launch in launches(steps):
        remarks.setdefault(launch.kernel, {})[launch.remark] = None
    starts = [launch_text(module.kernels[name], list(said)) for name, said in remarks.items()]
    summaries = "".join(f"// {program.summary}\n" for program in programs)
    return Source("\n".join([summaries, module.text(), *starts]), tuple(programs))
