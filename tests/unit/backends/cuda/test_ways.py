"""A program gives the same bits as a graph, as a grid and as one block, in any order of threads."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache

import pytest

from graphc.backends.cuda.kernel import Kernel
from graphc.backends.cuda.module import CudaModule, launch_text
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.steps import Launch
from graphc.backends.cuda.ways import WAYS, Way, run_by_its_way
from graphc.ir.core import Function, LaunchMode, RegionKind
from graphc.ir.machine import GPUS
from tests.support.cuda.building import compile_kernels, missing
from tests.support.cuda.emulator import ORDERS, EmulatedDevice, Order, Running
from tests.support.cuda.mixing import SIZES, chained_program, expected, mixing_program, run

needs_emulator = pytest.mark.skipif(missing() != "", reason=missing() or "it is there")
PROGRAMS = range(10)


@dataclass(frozen=True)
class Mixed:
    """Random programs: in order, and in each way, with the text of all their kernels."""

    plain: list[Program]
    ways: dict[Way, list[Program]]
    text: str


@cache
def mixed() -> Mixed:
    module = CudaModule(GPUS["sm_90"])
    plain = [mixing_program(module, seed) for seed in PROGRAMS]
    ways: dict[Way, list[Program]] = {}
    for way in WAYS:
        function = Function("mixed", RegionKind.SSA, launch=way)
        ways[way] = [run_by_its_way(module, program, function, SIZES) for program in plain]
    launched = {n: k for programs in ways.values() for p in programs for n, k in p.kernels.items()}
    text = "\n".join([module.text(), *map(launch_text, launched.values())])
    return Mixed(plain, ways, text)


@cache
def image() -> bytes:
    return compile_kernels(mixed().text)


@needs_emulator
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_what_launches_in_order_give(way: Way, order: Order) -> None:
    device = EmulatedDevice(running=Running(order))
    code = device.load(image())
    for plain, program in zip(mixed().plain, mixed().ways[way], strict=True):
        assert run(program, device, code) == expected(plain)


def test_a_way_is_as_many_launches_as_it_says() -> None:
    for way in ("grid", "block"):
        for program in mixed().ways[way]:
            assert len(program.steps) == 1
    assert any(len(program.kernels) > 1 for program in mixed().ways["graph"])


@needs_emulator
@pytest.mark.parametrize("way", ["grid", "block"])
def test_a_missing_barrier_is_noticed(way: LaunchMode) -> None:
    """Each of them, in one of the orders: blocks, or threads, run as far ahead as they can."""
    module = CudaModule(GPUS["sm_90"])
    plain = chained_program(module)
    function = Function("chained", RegionKind.SSA, launch=way)
    program = run_by_its_way(module, plain, function, SIZES)
    ((name, kernel),) = program.kernels.items()
    damaged = [
        replace(kernel, name=f"{name}_{i}", text=text)
        for i, text in enumerate(_with_one_barrier_less(kernel.text))
    ]
    assert len(damaged) == 4
    renamed = [replace(k, text=k.text.replace(name, k.name)) for k in damaged]
    texts = [module.text(), *(k.text for k in renamed), *map(launch_text, [kernel, *renamed])]
    code = compile_kernels("\n".join(texts))
    assert _is_right(code, plain, program, kernel)
    assert [k.name for k in renamed if _is_right(code, plain, program, k)] == []


def _with_one_barrier_less(text: str) -> list[str]:
    meeting = re.compile(r"^ +(meet_all\(block, &\w+\)|meet\(\));$", re.MULTILINE)
    return [text[: found.start()] + text[found.end() :] for found in meeting.finditer(text)]


def _is_right(code: bytes, plain: Program, program: Program, kernel: Kernel) -> bool:
    """Whether it does what the plain program does, in every order."""
    (launch,) = program.steps
    assert isinstance(launch, Launch)
    other = Program({kernel.name: kernel}, (replace(launch, kernel=kernel.name),))
    for order in ORDERS:
        device = EmulatedDevice(running=Running(order))
        if run(other, device, device.load(code)) != expected(plain):
            return False
    return True
