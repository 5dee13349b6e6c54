"""How many kernels and phases a call of each workload has, and how it would be run.

    python -m bench.gpu.phases [WORKLOAD ...] [--machine sm_90] [--compile]

Nothing is run. Times are those of the model that the way is chosen by
(`graphc/backends/cuda/ways.py`), in microseconds. With --compile NVRTC compiles the code, which
takes no GPU: how many seconds of the processor that takes, and of the kernel that needs most how
many registers a thread has and how many bytes are spilled.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from bench.gpu.planned import recorded
from bench.workloads import WORKLOADS
from graphc.backends.cuda.compiler import compile_text
from graphc.backends.cuda.module import CudaModule
from graphc.backends.cuda.nvrtc import require_nvrtc
from graphc.backends.cuda.program import write_program
from graphc.backends.cuda.source import write_source
from graphc.backends.cuda.ways import WAYS, Choice, choose
from graphc.ir.machine import GPUS, GpuMachine


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.phases", description=__doc__)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD")
    parser.add_argument("--machine", choices=GPUS, default="sm_90")
    parser.add_argument("--compile", action="store_true", help="compile the code, with NVRTC")
    given = parser.parse_args(arguments)
    machine = GPUS[given.machine]
    compiled = ("NVRTC s", "registers", "spills") if given.compile else ()
    print(line("", "kernels", "phases", *WAYS, "way", *compiled))
    for name in given.workloads or WORKLOADS:
        found = choice_for(name, machine)
        times = (f"{found.times[way]:.0f}" for way in WAYS)
        cells = [str(found.kernels), str(found.phases), *times, found.way]
        cells += _compiled(name, machine) if given.compile else ()
        print(line(name, *cells), flush=True)


def _compiled(name: str, machine: GpuMachine) -> tuple[str, str, str]:
    call = recorded(name, machine, small=False)
    source = write_source([(call.function, call.signature)], machine)
    require_nvrtc()  # what it takes to load is none of the code's
    start = time.process_time()
    image = compile_text(source.text, machine.arch)
    seconds = time.process_time() - start
    found = image.resources.values()
    registers, spills = max(r.registers for r in found), max(r.spills for r in found)
    return f"{seconds:.2f}", str(registers), str(spills)


def choice_for(name: str, machine: GpuMachine, *, small: bool = False) -> Choice:
    """Of a call at the sizes of the workload."""
    call = recorded(name, machine, small=small)
    module = CudaModule(machine)
    program = write_program(module, call.function, call.signature, machine)
    return choose(module, program, call.sizes)


def line(name: str, *cells: str) -> str:
    return f"{name:12}" + "".join(f"{cell:>10}" for cell in cells)


if __name__ == "__main__":
    main()
