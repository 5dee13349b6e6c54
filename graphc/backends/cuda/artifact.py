"""Files of a function's kernels: the text, an image for one architecture, and PTX.

    cu      readable CUDA C++ that includes nothing; a comment lists what a call launches
    cubin   the image of one architecture
    ptx     what a driver makes code of that architecture and later ones from

They hold kernels and not the parameters; `host.py` writes a program around them.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from graphc.backends.base import EmitRequest
from graphc.backends.cuda.compiler import OPTIONS, compile_text, portable_text
from graphc.backends.cuda.kernel import THREADS
from graphc.backends.cuda.listing import program_lines
from graphc.backends.cuda.minibatches import STEP_ALONE
from graphc.backends.cuda.module import comment
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.source import Source, write_source
from graphc.backends.cuda.target import gpus_named
from graphc.ir.core import Function
from graphc.ir.machine import GpuMachine
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import fail


def emit_cu(function: Function, signature: Signature, request: EmitRequest) -> bytes:
    """The text of the kernels, written for the first GPU of the target."""
    machine = gpus_named(request.target)[0]
    with request.phases.measure("emit"):
        return cu_text(write_source([(function, signature)], machine), signature, machine).encode()


def emit_cubin(function: Function, signature: Signature, request: EmitRequest) -> bytes:
    """The image for the target. GraphcError for several."""
    machine = _only_gpu(request.target, "a cubin")
    with request.phases.measure("emit"):
        text = write_source([(function, signature)], machine).text
    return compile_text(text, machine.arch, request.phases).code


def emit_ptx(function: Function, signature: Signature, request: EmitRequest) -> bytes:
    """The PTX for the target. GraphcError for several."""
    machine = _only_gpu(request.target, "PTX")
    with request.phases.measure("emit"):
        text = write_source([(function, signature)], machine).text
    return portable_text(text, machine.arch, request.phases).encode("ascii")


def cu_text(source: Source, signature: Signature, machine: GpuMachine) -> str:
    """The text of one function's kernels below a comment that says how they are used."""
    (program,) = source.programs
    return f"{comment(_documentation(program, signature, machine))}\n{source.text}"


def _documentation(program: Program, signature: Signature, machine: GpuMachine) -> Iterator[str]:
    name, arch = signature.name, machine.arch
    yield f"{name}: the kernels of a network, written by graphc for {arch}. To compile them:"
    yield f"  nvcc -arch={arch} {' '.join(OPTIONS)} -cubin {name}.cu"
    yield ""
    yield from wrap(
        "A kernel run_K takes the arrays of K in order, then those sizes that K names, in 64 bits"
        f" each ({_sizes(signature)}). It runs in blocks of {THREADS} threads, one for each tile if"
        " the grid can have so many; fewer compute the same bits.",
        96,
    )
    if any(kernel.together for kernel in program.kernels.values()):
        yield "Blocks of which is said that they run at once wait for each other: launch them so."
    for size, what in (
        (signature.arena_bytes, "arena, for what is computed on the way"),
        (program.scratch, "scratch, for what kernels leave for the next"),
    ):
        if size:
            yield f"Memory of {size} bytes: {what}."
    yield ""
    yield "A call launches, with what is read and what is written:"
    yield from (f"  {line}" for line in program_lines(program, signature))
    if program.epoch and program.epoch == program.steps:
        alone = " and ".join(f"{size} = {number}" for size, number in STEP_ALONE.items())
        yield f"With {alone} it is a step alone, which reads neither order nor any 'all X'."


def _sizes(signature: Signature) -> str:
    sizes = (
        f"{d.name} = {d.formula}" if d.formula else f"{d.name} <= {d.bound}" for d in signature.dims
    )
    return ", ".join(sizes)


def _only_gpu(target: str, what: str) -> GpuMachine:
    first, *others = gpus_named(target)
    if others:
        message = f"{what} is of one architecture: ask for a file of each, or for `host` with all"
        raise fail("bad-option", f"{message}, got the target {target}")
    return first
