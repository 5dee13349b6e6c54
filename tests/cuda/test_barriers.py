"""Training steps as grids: none of their barriers is idle, and what they read is never stale."""

from __future__ import annotations

import pytest

from bench.gpu.planned import Recorded, recorded
from graphc.backends.cuda.compiler import compile_text
from graphc.backends.cuda.loading import function_on
from graphc.backends.cuda.module import launch_text
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.source import write_source
from graphc.backends.cuda.steps import launches
from graphc.ir.clone import clone_function
from graphc.ir.machine import GPUS
from tests.support.cuda.barriers import run_by, with_one_barrier_less
from tests.support.cuda.building import compile_kernels, missing
from tests.support.cuda.emulator import ORDERS, EmulatedDevice, Running, emulated_machine
from tests.support.cuda.tools import machine_code, needs_nvdisasm


@needs_nvdisasm
@pytest.mark.parametrize("name", ["W1", "W4", "W7a"])
def test_nothing_is_read_through_the_cache_of_constants(name: str) -> None:
    """It does not see what other blocks write while the kernel runs."""
    machine = GPUS["sm_90"]
    call = recorded(name, machine, small=True)
    function = clone_function(call.function)
    function.launch = "grid"
    source = write_source([(function, call.signature)], machine)
    code = machine_code(compile_text(source.text, machine.arch))
    words = [word for instructions in code.values() for word in instructions]
    assert any("LDG" in word for word in words)
    assert [word for word in words if "LDG" in word and "CONSTANT" in word] == []


@pytest.mark.skipif(missing() != "", reason=missing() or "it is there")
def test_every_barrier_of_a_grid_is_missed() -> None:
    machine = emulated_machine("sm_90")
    call = recorded("W1", machine, small=True)
    function = clone_function(call.function)
    function.launch = "grid"
    source = write_source([(function, call.signature)], machine)
    (program,) = source.programs
    (launched,) = (program.kernels[step.kernel] for step in launches(program.steps))
    damaged = with_one_barrier_less(launched)
    added = [text for kernel in damaged for text in (kernel.text, launch_text(kernel))]
    code = compile_kernels("\n".join([source.text, *added]))
    right = outcomes(run_by(program, launched), code, call)
    assert len(set(map(tuple, right))) == 1
    assert len(damaged) > 8
    # The first and the last two stand around a minibatch's rows and results, which a step alone
    # does not have.
    for kernel in damaged[1:-2]:
        found = outcomes(run_by(program, kernel), code, call)
        assert any(other != right[0] for other in found), kernel.name


def outcomes(program: Program, code: bytes, call: Recorded) -> list[list[bytes]]:
    """In every order of threads."""
    found: list[list[bytes]] = []
    for order in ORDERS:
        device = EmulatedDevice(emulated_machine("sm_90"), Running(order))
        compiled = function_on(device, device.load(code), program, call.signature)
        found.append(call.call(compiled))
    return found
