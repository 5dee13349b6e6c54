"""How many kernels and phases a call of each workload has, and how it would be run.

    python -m bench.gpu.phases [WORKLOAD ...] [--machine sm_90]

Nothing is compiled or measured. Times are those of the model that the way is chosen by
(`graphc/backends/cuda/ways.py`), in microseconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from bench.gpu.planned import recorded
from bench.workloads import WORKLOADS
from graphc.backends.cuda.module import CudaModule
from graphc.backends.cuda.program import write_program
from graphc.backends.cuda.ways import WAYS, Choice, choose
from graphc.ir.machine import GPUS, GpuMachine


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.phases", description=__doc__)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD")
    parser.add_argument("--machine", choices=GPUS, default="sm_90")
    given = parser.parse_args(arguments)
    print(line("", "kernels", "phases", *WAYS, "way"))
    for name in given.workloads or WORKLOADS:
        found = choice_for(name, GPUS[given.machine])
        times = (f"{found.times[way]:.0f}" for way in WAYS)
        print(line(name, str(found.kernels), str(found.phases), *times, found.way), flush=True)


def choice_for(name: str, machine: GpuMachine, *, small: bool = False) -> Choice:
    """Of a call at the sizes of the workload."""
    call = recorded(name, machine, small=small)
    module = CudaModule(machine)
    program = write_program(module, call.function, call.signature, machine)
    return choose(module, program, call.sizes)


def line(name: str, *cells: str) -> str:
    return f"{name:12}" + "".join(f"{cell:>9}" for cell in cells)


if __name__ == "__main__":
    main()
