"""Kernels of whole functions from which a barrier is missing."""

from __future__ import annotations

import re
from dataclasses import replace

from graphc.backends.cuda.kernel import Kernel
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.steps import Launch

_MEETING = re.compile(r"^ +(meet_all\(block, &\w+\)|meet\(\));$", re.MULTILINE)


def with_one_barrier_less(kernel: Kernel) -> list[Kernel]:
    """The kernel as often as it has barriers, each time without another one, by other names."""
    made: list[Kernel] = []
    for i, found in enumerate(_MEETING.finditer(kernel.text)):
        text = kernel.text[: found.start()] + kernel.text[found.end() :]
        name = f"{kernel.name}_{i}"
        made.append(replace(kernel, name=name, text=text.replace(kernel.name, name)))
    return made


def run_by(program: Program, kernel: Kernel) -> Program:
    """A program of one launch, by another kernel."""
    (launch,) = program.steps
    assert isinstance(launch, Launch)
    steps = (replace(launch, kernel=kernel.name),)
    epoch = steps if program.epoch else ()
    return replace(program, kernels={kernel.name: kernel}, steps=steps, epoch=epoch)
