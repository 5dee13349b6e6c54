"""A program gives the same bits as a graph, as a grid and as one block, in any order of threads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import pytest

import graphc as gc
from graphc.backends.cuda.kernel import Tiles
from graphc.backends.cuda.module import CudaModule, launch_text
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.steps import Launch, Place, launches
from graphc.backends.cuda.ways import WAYS, Way, choose, run_by_its_way
from graphc.driver.compile import evaluation_passes, lower
from graphc.driver.options import CompileOptions
from graphc.ir.clone import clone_module
from graphc.ir.core import Function, LaunchMode, RegionKind
from graphc.ir.equivalence import modules_equal
from graphc.ir.machine import GPUS
from graphc.ir.printer import print_module
from graphc.passes.analysis.loopnest import Size
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import parse
from tests.support.cuda.barriers import run_by, with_one_barrier_less
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
    (kernel,) = program.kernels.values()
    damaged = with_one_barrier_less(kernel)
    assert len(damaged) == 4
    texts = [module.text(), *(k.text for k in damaged), *map(launch_text, [kernel, *damaged])]
    code = compile_kernels("\n".join(texts))
    assert _is_right(code, plain, run_by(program, kernel))
    assert [k.name for k in damaged if _is_right(code, plain, run_by(program, k))] == []


def _is_right(code: bytes, plain: Program, program: Program) -> bool:
    """Whether it does what the plain program does, in every order."""
    for order in ORDERS:
        device = EmulatedDevice(running=Running(order))
        if run(program, device, device.load(code)) != expected(plain):
            return False
    return True


# --- the choice


def wide_program(module: CudaModule, buffers: int) -> Program:
    """Launches of two buffers each, each of another pair."""
    made = chained_program(module)
    launch = made.steps[0]
    assert isinstance(launch, Launch)
    pairs = [(Place("buffer", i, 320), Place("buffer", i + 1, 320)) for i in range(0, buffers, 2)]
    steps = tuple(replace(launch, pointers=pair, remark=str(pair)) for pair in pairs)
    return replace(made, steps=steps)


def launched(buffers: int, launch: LaunchMode) -> Program:
    module = CudaModule(GPUS["sm_90"])
    function = Function("wide", RegionKind.SSA, launch=launch)
    return run_by_its_way(module, wide_program(module, buffers), function, SIZES)


def test_a_single_phase_is_a_graph() -> None:
    """There is no waiting that another way would make shorter."""
    module = CudaModule(GPUS["sm_90"])
    assert choose(module, wide_program(module, 6), SIZES).way == "graph"
    (name,) = launched(6, "auto").kernels
    assert name.startswith("beside")


def test_a_small_program_is_a_block_and_a_large_one_is_not() -> None:
    module = CudaModule(GPUS["sm_90"])
    program = chained_program(module)
    assert choose(module, program, SIZES).way == "block"
    large = [replace(step, flops=10**9) for step in launches(program.steps)]
    assert choose(module, replace(program, steps=tuple(large)), SIZES).way != "block"


def test_what_a_kernel_cannot_be_given_is_a_graph() -> None:
    """Its parameters have so many bytes."""
    assert len(launched(600, "auto").steps) > 1
    assert len(launched(400, "grid").steps) == 1
    with pytest.raises(GraphcError, match="too many arguments") as caught:
        launched(600, "grid")
    assert caught.value.diagnostics[0].slug == "not-supported"


def test_what_runs_side_by_side_keeps_its_room() -> None:
    """A kernel of many tiles does not go beside one that takes much shared memory."""
    module = CudaModule(GPUS["sm_90"])
    program = wide_program(module, 4)
    (kernel,) = program.kernels.values()
    hungry = replace(kernel, name="hungry", shared=100_000)
    large = replace(kernel, name="large", tiles=Tiles(((Size(1 << 20), 1),)))
    module.kernels |= {"hungry": hungry, "large": large}
    first, second = (s for s in program.steps if isinstance(s, Launch))
    steps = (replace(first, kernel="hungry"), replace(second, kernel="large"))
    function = Function("apart", RegionKind.SSA, launch="graph")
    found = run_by_its_way(module, replace(program, steps=steps), function, SIZES)
    assert set(found.kernels) == {"hungry", "large"}


TEXT = """func @f(%x: tensor<4xf32> input) -> (y: tensor<4xf32>){mode} {{
  %y = exp %x : tensor<4xf32>
  return %y
}}
"""


def test_the_way_is_a_part_of_the_text_of_a_function() -> None:
    module = parse(TEXT.format(mode=" launch grid"))
    assert module.functions[0].launch == "grid"
    assert " launch grid {" in print_module(module)
    assert modules_equal(module, clone_module(module))
    assert not modules_equal(module, parse(TEXT.format(mode="")))
    assert "launch" not in print_module(parse(TEXT.format(mode=" launch auto")))


def test_an_unknown_way_is_an_error() -> None:
    with pytest.raises(GraphcError, match="launch is one of auto, graph, grid, block, got `warp`"):
        parse(TEXT.format(mode=" launch warp"))
    with pytest.raises(GraphcError, match="launch is one of auto, graph, grid, block, got 'warp'"):
        CompileOptions(launch="warp")  # type: ignore[arg-type]


def test_an_option_decides_the_way() -> None:
    options = CompileOptions(backend="reference", launch="block")
    network = gc.loads("x = Input(2)\ny = Exp(x, tag=output)")
    assert isinstance(network, gc.Network)
    passes = evaluation_passes(network.model, (), (), options)
    assert lower(network.model, passes, options).function.launch == "block"
